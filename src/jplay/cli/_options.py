"""Options and checks of arguments that several commands share: one name, one meaning."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

TABLE_PANEL = "Tables"
SCENE_PANEL = "Images"


class Scale(StrEnum):
    """How samples are scaled."""

    AUTO = "auto"
    COLUMNS = "columns"
    MAX = "max"
    L1 = "l1"
    L2 = "l2"


class Impute(StrEnum):
    """What a missing value is replaced by."""

    MEDIAN = "median"
    MEAN = "mean"


TableFile = Annotated[Path, typer.Argument(help="Table (CSV, TSV, Parquet, Excel, NPZ, MAT).")]
SamplesFile = Annotated[
    Path,
    typer.Argument(
        help="Table (CSV, TSV, Parquet, Excel, NPZ, MAT) or image (ENVI, GeoTIFF, ...)."
    ),
]


def _check_model_path(path: Path):
    if path.suffix.lower() not in (".skops", ""):
        raise ValueError(f"'{path}' should end in .skops, the format of models.")
    return path


ModelOutput = Annotated[
    Path,
    typer.Option(
        "--output", "-o", help="Model file to write (.skops).", callback=_check_model_path
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        help="Column (or array) with the class; repeat it for 0/1 columns of several labels.",
        rich_help_panel=TABLE_PANEL,
    ),
]
SamplesArray = Annotated[
    str | None,
    typer.Option(
        help="Array with the samples, in an NPZ or MAT file; X by default.",
        rich_help_panel=TABLE_PANEL,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column that tells which samples belong together (a person, a field, a day); they "
        "are left out together when the accuracy is estimated.",
        rich_help_panel=TABLE_PANEL,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column to leave out; repeatable.", rich_help_panel=TABLE_PANEL),
]
Id = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        help="Column that names the samples, no feature; predictions carry it. Repeatable.",
        rich_help_panel=TABLE_PANEL,
    ),
]
Encode = Annotated[
    list[str] | None,
    typer.Option(
        help="Column whose values become 0/1 columns, such as text; repeatable.",
        rich_help_panel=TABLE_PANEL,
    ),
]
ImputeOption = Annotated[
    Impute | None,
    typer.Option(
        help="Fill missing values with the median or mean of their column.",
        rich_help_panel=TABLE_PANEL,
    ),
]
ScaleOption = Annotated[
    Scale,
    typer.Option(
        "--scaling",
        help="Each column by itself, or each sample divided by a norm first, which suits spectra; "
        "auto chooses from the data and says so.",
    ),
]
LabelsFile = Annotated[
    Path | None,
    typer.Option(
        help="Labels of an image: a raster, polygons or points (GPKG, GeoJSON, SHP), or a CSV "
        "table of pixels.",
        rich_help_panel=SCENE_PANEL,
    ),
]
Field = Annotated[
    str | None,
    typer.Option(help="Attribute of the polygons with the class.", rich_help_panel=SCENE_PANEL),
]
ClassNames = Annotated[
    str | None,
    typer.Option(help="Names of classes 1, 2, ..., by commas.", rich_help_panel=SCENE_PANEL),
]
BadBands = Annotated[
    str | None,
    typer.Option(
        help="Bands to leave out, from 0, as in 103-107,149-162.", rich_help_panel=SCENE_PANEL
    ),
]
Variable = Annotated[
    str | None,
    typer.Option(
        help="Image in a NetCDF, Zarr or MAT file with several.", rich_help_panel=SCENE_PANEL
    ),
]
MaxPerClass = Annotated[
    int | None,
    typer.Option(
        min=1, help="Maximum number of training pixels of a class.", rich_help_panel=SCENE_PANEL
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything that is random.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes.")]


def check_exists(path, what):
    """Raise an error if a file that a command needs is not there."""
    if not path.exists():
        raise FileNotFoundError(f"The {what} '{path}' does not exist. Check the name.")


def parse_bands(text):
    """Turn ``"103-107,149"`` into numbers, or None into None."""
    if text is None:
        return None
    bands = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(
                f"--bad-bands should be numbers and ranges such as 103-107,149, got {text!r}."
            )
        bands.extend(range(int(first), int(last if dash else first) + 1))
    return bands
