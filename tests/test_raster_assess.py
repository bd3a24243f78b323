"""Accuracy of a map by the names of its classes, and what is refused."""

import csv
import io
import json

import numpy as np
import pytest

rasterio = pytest.importorskip("rasterio", reason="maps need the extra raster")
geopandas = pytest.importorskip("geopandas", reason="points and polygons need the extra raster")
typer = pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner  # noqa: E402

from jplay.cli._app import app  # noqa: E402
from jplay.raster import assess_map, assessment_csv, fit_scene  # noqa: E402
from raster_files import EPSG, make_image, transform, write_cube, write_tiff  # noqa: E402

NAMES = {1: "water", 2: "wood", 3: "field", 4: "town"}


@pytest.fixture(scope="module")
def truth():
    """Codes of four classes, 0 on a border."""
    codes = np.random.default_rng(0).integers(1, 5, (30, 40)).astype(np.uint8)
    codes[0] = 0
    return codes


def write_map(path, codes, names, **profile):
    tags = {} if names is None else {"class_names": json.dumps(names)}
    return write_tiff(path, codes.astype(np.uint8)[np.newaxis], tags=tags, **profile)


@pytest.fixture
def class_map(truth, tmp_path):
    """A map with one wood in four called field."""
    wrong = truth.copy()
    wood = np.argwhere(truth == 2)[::4]
    wrong[tuple(wood.T)] = 3
    return write_map(tmp_path / "map.tif", wrong, NAMES)


def recoded(codes, new_codes):
    lookup = np.zeros(256, dtype=np.uint8)
    for code, new in new_codes.items():
        lookup[code] = new
    return lookup[codes]


def test_classes_in_another_order_are_matched_by_name(truth, class_map, tmp_path):
    """Polygons number names alphabetically: field, town, water, wood."""
    same = assess_map(class_map, write_map(tmp_path / "same.tif", truth, NAMES))
    other = write_map(
        tmp_path / "other.tif",
        recoded(truth, {3: 1, 4: 2, 1: 3, 2: 4}),
        {1: "field", 2: "Town", 3: " water", 4: "wood"},
    )
    assessed = assess_map(class_map, other)
    assert assessed.class_names == list(NAMES.values())
    assert assessed.matched_by == "name"
    np.testing.assert_array_equal(assessed.report.confusion, same.report.confusion)
    assert 0.9 < assessed.report.overall_accuracy < 1.0


def test_codes_that_mean_other_classes_are_refused_not_compared(truth, class_map, tmp_path):
    codes = recoded(truth, {3: 1, 4: 2, 1: 3, 2: 4})
    with pytest.raises(ValueError, match=r"has no class names.*class_names, --class-names"):
        assess_map(class_map, codes)
    named = write_map(tmp_path / "named.tif", codes, {1: "field", 2: "town", 3: "water", 4: "wood"})
    with pytest.raises(ValueError, match="codes do not mean the same"):
        assess_map(class_map, named, by_code=True)
    assert assess_map(class_map, truth, by_code=True).report.overall_accuracy > 0.9
    assert assess_map(class_map, truth, by_code=True).matched_by == "code"


def test_names_of_the_reference_must_be_complete(truth, class_map):
    assert assess_map(class_map, truth, class_names=NAMES).report.overall_accuracy > 0.9
    with pytest.raises(ValueError, match="Class 4 of 'labels' has no name"):
        assess_map(class_map, truth, class_names={1: "water", 2: "wood", 3: "field"})
    with pytest.raises(ValueError, match="two classes called 'Wood'"):
        assess_map(class_map, truth, class_names=NAMES | {3: "Wood"})


def test_other_names_are_refused_or_matched_by_hand(truth, class_map):
    forest = NAMES | {2: "forest"}
    with pytest.raises(ValueError, match=r"no class 'forest'.*--match \"forest=...\""):
        assess_map(class_map, truth, class_names=forest)
    told = assess_map(class_map, truth, class_names=forest, match={"forest": "wood"})
    assert told.class_names == list(NAMES.values())
    absent = assess_map(class_map, truth, class_names=forest, match={"forest": None})
    assert absent.class_names == ["water", "wood", "field", "town", "forest"]
    assert absent.report.producers_accuracy[4] == 0
    with pytest.raises(ValueError, match=r"`match` should name classes of the reference"):
        assess_map(class_map, truth, class_names=NAMES, match={"maize": "wood"})


def test_subset_of_classes(truth, class_map, tmp_path):
    some = np.where(np.isin(truth, (2, 4)), truth, 0)
    reference = write_map(
        tmp_path / "some.tif", recoded(some, {2: 1, 4: 2}), {1: "wood", 2: "town"}
    )
    assessed = assess_map(class_map, reference)
    assert assessed.n_compared == (some > 0).sum()
    assert assessed.class_names == ["wood", "field", "town"]
    wood = (truth == 2).sum()
    assert assessed.report.confusion.tolist()[0] == [wood - -(-wood // 4), -(-wood // 4), 0]
    # Names of classes that no reference pixel has do not matter.
    unused = write_map(
        tmp_path / "unused.tif",
        recoded(some, {2: 1, 4: 2}),
        {1: "wood", 2: "town", 3: "glacier"},
    )
    assert assess_map(class_map, unused).class_names == assessed.class_names


def test_reference_with_names_against_a_map_without(truth, class_map, tmp_path):
    bare = write_map(tmp_path / "bare.tif", truth, None)
    reference = write_map(tmp_path / "reference.tif", truth, NAMES)
    with pytest.raises(ValueError, match=r"bare\.tif' has no class names.*--map-names"):
        assess_map(bare, reference)
    assert assess_map(bare, reference, map_names=NAMES).report.overall_accuracy == 1.0
    assert assess_map(bare, truth).matched_by == "code"
    with pytest.raises(ValueError, match=r"Class 4 of the map .* has no name"):
        assess_map(bare, reference, map_names={1: "water", 2: "wood", 3: "field"})


def test_names_from_polygons_have_no_codes(truth, class_map):
    square = geopandas.points_from_xy([500_015.0], [5_399_955.0]).buffer(45)
    frame = geopandas.GeoDataFrame({"kind": ["wood"]}, geometry=square, crs=EPSG)
    with pytest.raises(ValueError, match="cannot be compared by code"):
        assess_map(class_map, frame, by_code=True)
    assert assess_map(class_map, frame).n_compared > 0


def test_category_names_beside_a_raster_count_as_names(truth, class_map, tmp_path):
    reference = write_map(
        tmp_path / "reference.tif", recoded(truth, {1: 2, 2: 1, 3: 3, 4: 4}), None
    )
    categories = "".join(f"<Category>{name}</Category>" for name in ("", "wood", "water", "field"))
    (tmp_path / "reference.tif.aux.xml").write_text(
        "<PAMDataset><PAMRasterBand band='1'><CategoryNames>"
        f"{categories}<Category>town</Category></CategoryNames></PAMRasterBand></PAMDataset>"
    )
    assert assess_map(class_map, reference).report.overall_accuracy > 0.9


def test_single_pixels_from_tables_and_points(truth, class_map, tmp_path):
    """The same pixels by row and column, by coordinates, and as points in degrees."""
    rng = np.random.default_rng(1)
    rows, columns = np.unravel_index(rng.choice(truth.size, 200, replace=False), truth.shape)
    names = [NAMES.get(code, "") for code in truth[rows, columns].tolist()]
    x, y = transform() @ np.stack([columns + 0.5, rows + 0.5])
    by_row = tmp_path / "rows.csv"
    lines = [f"{r},{c},{n}" for r, c, n in zip(rows, columns, names, strict=True)]
    by_row.write_text("\n".join(["row,column,class", *lines]) + "\n")
    by_place = tmp_path / "places.csv"
    lines = [f"{a},{b},{n}" for a, b, n in zip(x, y, names, strict=True)]
    by_place.write_text("\n".join(["x,y,class", *lines]) + "\n")
    frame = geopandas.GeoDataFrame(
        {"id": range(200), "class": names}, geometry=geopandas.points_from_xy(x, y), crs=EPSG
    )
    points = tmp_path / "points.gpkg"
    frame.to_crs(4326).to_file(points, engine="pyogrio")
    results = [assess_map(class_map, source) for source in (by_row, by_place, points)]
    assert results[0].n_compared == sum(map(bool, names))
    for result in results[1:]:
        np.testing.assert_array_equal(result.report.confusion, results[0].report.confusion)
    by_row.write_text("row,column,class\n3,3,wood\n3,3,town\n")
    with pytest.raises(ValueError, match="two classes to one pixel"):
        assess_map(class_map, by_row)
    by_row.write_text("line,class\n3,wood\n")
    with pytest.raises(ValueError, match="columns row and column"):
        assess_map(class_map, by_row, field="class")


def sample_pixels(codes, per_class, seed):
    rng = np.random.default_rng(seed)
    chosen = np.zeros(codes.shape, dtype=bool)
    for code in np.unique(codes[codes > 0]):
        places = np.argwhere(codes == code)
        chosen[tuple(rng.permutation(places)[:per_class].T)] = True
    return chosen


def test_areas_from_a_stratified_sample_of_the_map(truth, class_map, tmp_path):
    with rasterio.open(class_map) as dataset:
        mapped = dataset.read(1)
    drawn = np.where(sample_pixels(mapped, 60, 0), truth, 0)
    assessed = assess_map(class_map, drawn, class_names=NAMES, areas=True)
    areas = assessed.areas
    assert areas.classes == list(NAMES.values())
    assert areas.unit == "ha"
    np.testing.assert_allclose(
        areas.mapped_area, [(mapped == code).sum() * 0.09 for code in NAMES], rtol=1e-12
    )
    real = np.array([(truth == code).sum() * 0.09 for code in NAMES])
    assert areas.area.sum() == pytest.approx(areas.mapped_area.sum())
    gap = np.abs(areas.area - real)
    # The map calls a quarter of the wood field; the sample notices.
    assert gap[1] < 0.5 * np.abs(areas.mapped_area - real)[1]
    assert (gap <= 1.5 * areas.area_half_width + 1e-9).all()
    with pytest.raises(ValueError, match=r"at least two reference pixels .* 'town'"):
        assess_map(class_map, np.where(mapped == 4, 0, drawn), class_names=NAMES, areas=True)


def test_unclassified_pixels_are_a_stratum_and_never_right(truth, tmp_path):
    mapped = truth.copy()
    mapped[10:13] = 5
    path = write_map(tmp_path / "open.tif", mapped, NAMES | {5: "unclassified"})
    drawn = np.where(sample_pixels(mapped, 30, 0), truth, 0)
    assessed = assess_map(path, drawn, class_names=NAMES, areas=True)
    assert assessed.n_unclassified == 30
    assert assessed.report.overall_accuracy == 1.0
    share = (mapped == 5).sum() / (mapped > 0).sum()
    assert assessed.areas.overall_accuracy == pytest.approx(1 - share)
    assert assessed.areas.area.sum() == pytest.approx(0.09 * (mapped > 0).sum())


def test_areas_in_degrees_are_counted_in_pixels(truth, tmp_path):
    path = write_map(tmp_path / "degrees.tif", truth, NAMES, crs="EPSG:4326")
    assert assess_map(path, truth, class_names=NAMES, areas=True).areas.unit == "pixels"


def test_csv_holds_counts_and_intervals(truth, class_map):
    assessed = assess_map(class_map, truth, class_names=NAMES)
    rows = list(csv.reader(io.StringIO(assessment_csv(assessed))))
    assert rows[0][1:5] == list(NAMES.values())
    np.testing.assert_array_equal(
        np.array([row[1:5] for row in rows[1:5]], dtype=int), assessed.report.confusion
    )
    low, high = assessed.intervals()["producers_accuracy"]
    assert [float(value) for value in rows[2][6:9]] == pytest.approx(
        [assessed.report.producers_accuracy[1], low[1], high[1]], rel=1e-5
    )


def test_names_in_files_are_inert(truth, tmp_path):
    names = {1: "=1+1", 2: "<script>alert(1)</script>", 3: "field", 4: "town"}
    path = write_map(tmp_path / "map.tif", truth, names)
    assessed = assess_map(path, truth, class_names=names)
    assert "\n'=1+1," in assessment_csv(assessed)


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="jplay")


def test_command_prints_writes_and_does_not_overwrite(truth, class_map, tmp_path):
    reference = write_map(tmp_path / "reference.tif", truth, NAMES | {2: "forest"})
    arguments = ("assess", class_map, "--reference", reference, "--areas")
    assert "--match" in run(*arguments).stderr
    arguments += ("--match", "forest=wood")
    result = run(*arguments, "--csv", tmp_path / "a.csv", "--report", tmp_path / "a.html")
    assert result.exit_code == 0, result.output
    for text in ("Confusion matrix", "Producer's", "User's", "Overall accuracy", "Area ha"):
        assert text in result.stdout
    assert "estimated ha" in (tmp_path / "a.csv").read_text()
    page = (tmp_path / "a.html").read_text()
    assert "Estimated for the whole map" in page
    refused = run(*arguments, "--csv", tmp_path / "a.csv")
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    told = run(*arguments, "--csv", tmp_path / "a.csv", "--force", "--json", "--confidence", 90)
    told = json.loads(told.stdout)
    assert told["confidence"] == 0.9
    low, high = told["intervals"]["overall_accuracy"]
    assert low < told["overall_accuracy"] < high
    assert told["areas"]["unit"] == "ha"


@pytest.mark.parametrize("text", ["a=b", "1=", "wood,,town"])
def test_command_refuses_unclear_names(class_map, text):
    result = run("assess", class_map, "--reference", class_map, "--class-names", text)
    assert result.exit_code == 2
    assert "name" in result.stderr.lower()


def test_fit_refuses_too_few_names(tmp_path):
    image = make_image()
    scene = write_cube(tmp_path / "scene.tif", image)
    with pytest.raises(ValueError, match="got none for 4"):
        fit_scene(scene, image.ground_truth, class_names={1: "a", 2: "b", 3: "c"})
