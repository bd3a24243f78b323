import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables are read with pandas")

import pandas
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from jplay import JPlayBandSelector
from jplay.cli._app import app
from raster_files import make_image, write_cube, write_labels


@pytest.fixture
def wine(tmp_path):
    frame = load_wine(as_frame=True).frame
    frame.to_csv(tmp_path / "wine.csv", index=False)
    return tmp_path / "wine.csv"


def bands(*arguments):
    return CliRunner().invoke(app, ["bands", *map(str, arguments)])


def test_table_and_figure_tell_the_selector_s_choice(wine, tmp_path):
    pytest.importorskip("matplotlib")
    output, figure = tmp_path / "bands.csv", tmp_path / "bands.svg"
    options = ("-n", 3, "--resamples", 1, "-o", output, "--figure", figure)
    result = bands(wine, "--target", "target", *options)
    assert result.exit_code == 0, result.output
    frame = pandas.read_csv(wine)
    X, y = frame.drop(columns="target"), frame["target"]
    expected = JPlayBandSelector(3, n_resamples=1, random_state=0).fit(X, y)
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == expected.get_feature_names_out().tolist()
    chosen = expected.get_support(indices=True)
    assert [int(row["band"]) for row in rows] == chosen.tolist()
    np.testing.assert_allclose(
        [float(row["stability"]) for row in rows], expected.stability_[chosen]
    )
    assert figure.read_text().lstrip().startswith("<?xml")
    for row in rows:
        assert row["name"] in result.output


def test_json_holds_the_bands(wine):
    result = bands(wine, "--target", "target", "-n", 2, "--min-distance", 3, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["bands"]
    assert np.diff(found["band"]) >= 3
    assert found.keys() == {"band", "name", "loss"}


def test_groups_and_costs_are_those_of_the_selector(wine, tmp_path):
    costs, groups = tmp_path / "costs.txt", tmp_path / "groups.txt"
    prices, names = [1.0 + band % 3 for band in range(13)], [f"g{band // 3}" for band in range(13)]
    costs.write_text("\n".join(map(str, prices)) + "\n")
    groups.write_text("\n".join(names))
    frame = pandas.read_csv(wine)
    X, y = frame.drop(columns="target"), frame["target"]
    for option, expected in [(groups, names), (4, [band * 4 // 13 for band in range(13)])]:
        result = bands(
            *(wine, "--target", "target", "-n", 4, "--json"),
            *("--groups", option, "--costs", costs, "--max-cost", 6),
        )
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)["bands"]
        selector = JPlayBandSelector(
            4, feature_groups=expected, feature_costs=prices, max_cost=6, random_state=0
        ).fit(X, y)
        assert found["band"] == selector.get_support(indices=True).tolist()
        assert found["cost"] == [prices[band] for band in found["band"]]
        assert sum(found["cost"]) <= 6
        chosen = [expected[band] for band in found["band"]]
        assert len(set(chosen)) == len(chosen)


def test_fewer_bands_than_asked_for_are_told(wine):
    result = bands(wine, "--target", "target", "-n", 4, "--groups", 2)
    assert result.exit_code == 0, result.output
    assert "No more than 2 bands keep to" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "option", "message"),
    [
        ("1\n2\n", "--costs", "should have 13 lines, one per band, got 2"),
        ("1\n2\n", "--groups", "should have 13 lines, one per band, got 2"),
        ("1\ncheap\n" + "1\n" * 11, "--costs", "one number per line, got 'cheap' for band 2"),
        ("1\n0\n" + "1\n" * 11, "--costs", "should be positive numbers"),
    ],
)
def test_mistakes_in_files_are_told_in_one_line(wine, tmp_path, text, option, message):
    path = tmp_path / "values.txt"
    path.write_text(text)
    result = bands(wine, "--target", "target", "-n", 2, option, path)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-n", 14), "--number should be at most 13"),
        (("--figure", "bands.txt"), "should end in .png, .svg or .pdf"),
        (("-o", "bands.docx"), "should end in .csv"),
        (("--target", "alcohol", "-n", 2), "--target should be one column"),
        (("--costs", "none.txt"), "The file 'none.txt' does not exist"),
        (("--groups", "none.txt"), "The file 'none.txt' does not exist"),
        (("--groups", 14), "--groups should be between 1 and 13"),
        (("--groups", 0), "--groups should be between 1 and 13"),
        (("--max-cost", 0), "--max-cost should be above 0"),
    ],
)
def test_mistakes_are_told_in_one_line(wine, options, message):
    result = bands(wine, "--target", "target", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_files_are_replaced_with_force_only(wine, tmp_path):
    output = tmp_path / "bands.csv"
    output.write_text("mine")
    assert bands(wine, "--target", "target", "-o", output).exit_code == 2
    assert output.read_text() == "mine"


def test_scene_gives_wavelengths_and_numbers_of_its_bands(tmp_path):
    pytest.importorskip("rasterio")
    image = make_image(height=24, width=20)
    cube = write_cube(tmp_path / "scene.tif", image)
    labels = write_labels(tmp_path / "labels.tif", image)
    costs = tmp_path / "costs.txt"
    costs.write_text("".join(f"{1 + band % 2}\n" for band in range(len(image.wavelengths))))
    options = ("-n", 2, "--max-per-class", 20, "--bad-bands", "0", "--costs", costs, "--json")
    result = bands(cube, "--labels", labels, *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["bands"]
    assert 0 not in found["band"]
    assert found["cost"] == [1 + band % 2 for band in found["band"]]
    expected = np.asarray(image.wavelengths)[found["band"]]
    np.testing.assert_allclose(found["wavelength_nm"], expected, rtol=1e-6)
