"""From a map to a sample of reference pixels, and from it to areas."""

import json

import numpy as np
import pytest

rasterio = pytest.importorskip("rasterio", reason="maps need the extra raster")
geopandas = pytest.importorskip("geopandas", reason="points need the extra raster")
pandas = pytest.importorskip("pandas", reason="tables need pandas")
typer = pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner  # noqa: E402

from jplay.cli._app import app  # noqa: E402
from jplay.raster import draw_sample  # noqa: E402
from raster_files import EPSG, write_tiff  # noqa: E402

NAMES = {1: "water", 2: "wood", 3: "field"}


@pytest.fixture(scope="module")
def truth():
    codes = np.random.default_rng(0).choice([1, 2, 3], (200, 300), p=[0.02, 0.3, 0.68])
    codes[:20, :30] = 0
    return codes.astype(np.uint8)


@pytest.fixture
def class_map(truth, tmp_path):
    """A tenth of the wood is called field."""
    mapped = truth.copy()
    mapped[tuple(np.argwhere(truth == 2)[::10].T)] = 3
    tags = {"class_names": json.dumps(NAMES)}
    return write_tiff(tmp_path / "map.tif", mapped[np.newaxis], tags=tags)


def codes_of(path):
    with rasterio.open(path) as dataset:
        return dataset.read(1)


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="jplay")


def test_sample_has_the_planned_pixels_of_each_class(class_map):
    sample = draw_sample(class_map, half_width=0.03, minimum=40)
    codes = codes_of(class_map)
    found = codes[sample.rows, sample.columns]
    assert [int((found == code).sum()) for code in NAMES] == sample.plan.n_pixels.tolist()
    assert sample.plan.classes == list(NAMES.values())
    assert sample.plan.mapped_pixels.tolist() == [int((codes == code).sum()) for code in NAMES]
    assert len({*zip(sample.rows.tolist(), sample.columns.tolist(), strict=True)}) == len(found)
    # In random order: the first pixels are not all of one class.
    assert len(set(found[:20].tolist())) > 1
    with rasterio.open(class_map) as dataset:
        rows, columns = rasterio.transform.rowcol(dataset.transform, sample.x, sample.y)
    np.testing.assert_array_equal(rows, sample.rows)
    np.testing.assert_array_equal(columns, sample.columns)


def test_every_pixel_of_a_class_is_as_likely():
    xarray = pytest.importorskip("xarray", reason="image files need the extra raster")
    codes = np.tile(np.repeat([1, 2], 10), (5, 1))
    drawn = np.zeros(codes.shape)
    for seed in range(100):
        sample = draw_sample(
            xarray.DataArray(codes, dims=("y", "x")), n_pixels=10, random_state=seed
        )
        drawn[sample.rows, sample.columns] += 1
    # Each of 50 pixels is one of 10 in a fifth of the draws: 20 of 100, deviation 4.
    assert np.abs(drawn - 20).max() < 4 * 4


def test_same_seed_same_pixels_and_blocks_do_not_matter(class_map, truth, monkeypatch):
    from jplay.raster import Scene

    first = draw_sample(class_map, random_state=3)
    whole = Scene.blocks
    monkeypatch.setattr(Scene, "blocks", lambda self: whole(self, 4 * 300 * 7))
    again = draw_sample(class_map, random_state=3)
    assert {*zip(first.rows, first.columns, strict=True)} == {
        *zip(again.rows, again.columns, strict=True)
    }
    other = draw_sample(class_map, random_state=4)
    assert first.rows.tolist() != other.rows.tolist()


def test_training_pixels_are_not_drawn(class_map, truth):
    training = np.zeros_like(truth)
    training[:, ::2] = truth[:, ::2]
    sample = draw_sample(class_map, n_pixels=50, exclude=training)
    assert (sample.columns % 2 == 1).all()
    assert len(sample.rows) == 150
    # A class has no more pixels than are left of it.
    few = np.where(truth == 1, truth, 0)
    few[tuple(np.argwhere(codes_of(class_map) == 1)[:7].T)] = 0
    sample = draw_sample(class_map, n_pixels=50, exclude=few)
    assert sample.plan.n_pixels.tolist() == [7, 50, 50]


@pytest.mark.parametrize("suffix", ["csv", "gpkg", "geojson"])
def test_from_the_map_to_areas_on_the_command_line(class_map, truth, tmp_path, suffix):
    path = tmp_path / f"sample.{suffix}"
    told = run("sample", class_map, "-o", path, "--precision", 3, "--json")
    assert told.exit_code == 0, told.output
    plan = json.loads(told.stdout)
    assert plan["n_total"] == sum(plan["n_pixels"])
    # Somebody looks at every place and writes down what is there.
    if suffix == "csv":
        table = pandas.read_csv(path)
        assert table["class"].isna().all()
        table["class"] = [NAMES[code] for code in truth[table["row"], table["column"]]]
        table.to_csv(path, index=False)
    else:
        points = geopandas.read_file(path, engine="pyogrio")
        assert points.crs.to_epsg() == EPSG
        points["class"] = [NAMES[code] for code in truth[points["row"], points["column"]]]
        points.to_file(path, engine="pyogrio")
    told = run("assess", class_map, "--reference", path, "--areas", "--json")
    assert told.exit_code == 0, told.output
    areas = json.loads(told.stdout)["areas"]
    real = [(truth == code).sum() * 0.09 for code in NAMES]
    for place in (1, 2):
        mapped = abs(areas["mapped_area"][place] - real[place])
        assert abs(areas["area"][place] - real[place]) < areas["area_half_width"][place] * 1.5
        assert mapped > 0.05 * real[1]


def test_expectations_and_mistakes_on_the_command_line(class_map, tmp_path):
    path = tmp_path / "sample.csv"
    told = run("sample", class_map, "-o", path, "--expect", "70", "--expect", "wood=95")
    assert told.exit_code == 0, told.output
    assert "reference pixels" in told.stdout
    assert "percentage points" in told.stdout
    for arguments, text in (
        (("-o", path), "--force"),
        (("-o", path, "--force", "--expect", "maize=90"), "maize"),
        (("-o", path, "--force", "--expect", "120"), "--expect"),
        (("-o", tmp_path / "sample.txt"), ".gpkg"),
        (("-o", class_map, "--force"), "read by this command"),
    ):
        refused = run("sample", class_map, *arguments)
        assert refused.exit_code == 2
        assert text in refused.stderr


def test_map_without_place_gives_a_table_only(truth, tmp_path):
    xarray = pytest.importorskip("xarray", reason="image files need the extra raster")
    sample = draw_sample(xarray.DataArray(truth, dims=("y", "x")), n_pixels=20)
    assert sample.x is None
    with pytest.raises(ValueError, match="CSV"):
        sample.save(tmp_path / "sample.gpkg")
    sample.save(tmp_path / "sample.csv")
    assert list(pandas.read_csv(tmp_path / "sample.csv")) == ["id", "row", "column", "class"]
    with pytest.raises(ValueError, match="no pixel with a class"):
        draw_sample(xarray.DataArray(np.zeros((3, 4), dtype=int), dims=("y", "x")))
