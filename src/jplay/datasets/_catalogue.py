"""Every data set by name: what it is, how it is loaded, and which files that takes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from jplay.datasets._embedded import load_digits, load_wine
from jplay.datasets._faces import FORMATS as _FACE_FORMATS
from jplay.datasets._faces import YALE_B_STEMS, fetch_ar, fetch_extended_yale_b
from jplay.datasets._folder import get_data_home, local_file
from jplay.datasets._multilabel import fetch_multilabel
from jplay.datasets._registry import (
    AR,
    EXTENDED_YALE_B,
    HOUSTON2013,
    INDIAN_PINES,
    MULTILABEL,
    DatasetInfo,
)
from jplay.datasets._scenes import (
    HOUSTON_CUBES,
    HOUSTON_TEST_MAPS,
    HOUSTON_TRAIN_MAPS,
    IMAGE_FORMATS,
    fetch_houston2013,
    fetch_indian_pines,
)


@dataclass(frozen=True)
class NeededFile:
    """A file by the names and formats under which it is accepted, the customary ones first."""

    stems: tuple[str, ...]
    suffixes: tuple[str, ...]

    @property
    def name(self):
        return f"{self.stems[0]}{self.suffixes[0]}"


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set that can be loaded by name.

    ``layouts`` are the sets of files any one of which is enough; ``package`` is an installed
    package that holds the data, where one does.
    """

    name: str
    info: DatasetInfo
    load: Callable
    layouts: tuple[tuple[NeededFile, ...], ...] = ()
    package: str | None = None

    @property
    def is_packaged(self):
        return self.package is not None and find_spec(self.package) is not None

    def found_files(self, data_home=None):
        """Return the files of the first complete layout in the data folder, or None."""
        for layout in self.layouts:
            paths = [local_file(self.info, f.stems, f.suffixes, data_home) for f in layout]
            if None not in paths:
                return paths
        return None

    def missing_files(self, data_home=None):
        """Return where to put the files that the customary layout lacks."""
        folder = get_data_home(data_home) / self.info.folder
        return [
            folder / needed.name
            for needed in self.layouts[0]
            if local_file(self.info, needed.stems, needed.suffixes, data_home) is None
        ]


def _with_scikit_learn(name, title, load):
    loaded = "UCI Machine Learning Repository, as shipped with scikit-learn"
    licence = "Creative Commons Attribution 4.0 International (CC BY 4.0)"
    info = DatasetInfo(name, title, loaded, licence, request="It comes with scikit-learn")
    return CatalogueEntry(name, info, load, package="sklearn")


def _image(*stems):
    return NeededFile(stems, IMAGE_FORMATS)


def _multilabel(name, info):
    parts = tuple(NeededFile((f"{name}-{part}",), (".arff",)) for part in ("train", "test"))
    layouts = ((NeededFile((name,), (".npz", ".mat")),), parts)
    return CatalogueEntry(name, info, partial(fetch_multilabel, name), layouts)


_HOUSTON_LABELS = (_image(*HOUSTON_TRAIN_MAPS), _image(*HOUSTON_TEST_MAPS))

CATALOGUE = {
    entry.name: entry
    for entry in (
        _with_scikit_learn("digits", "Handwritten digits, 8 x 8 pixels", load_digits),
        _with_scikit_learn("wine", "Wines of three cultivars", load_wine),
        CatalogueEntry(
            "indian_pines",
            INDIAN_PINES,
            partial(fetch_indian_pines, split=None),
            ((_image("Indian_pines_corrected"), _image("Indian_pines_gt")),),
            package="tensorly",
        ),
        CatalogueEntry(
            "houston2013",
            HOUSTON2013,
            fetch_houston2013,
            (
                (_image(*HOUSTON_CUBES), *_HOUSTON_LABELS),
                (_image("HSI_TrSet"), *_HOUSTON_LABELS),
            ),
        ),
        CatalogueEntry("ar", AR, fetch_ar, ((NeededFile(("AR_DAT",), _FACE_FORMATS),),)),
        CatalogueEntry(
            "extended_yale_b",
            EXTENDED_YALE_B,
            fetch_extended_yale_b,
            ((NeededFile(YALE_B_STEMS, _FACE_FORMATS),),),
        ),
        *(_multilabel(name, info) for name, info in MULTILABEL.items()),
    )
}
"""The data sets in the order in which they are listed."""
