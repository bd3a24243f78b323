"""``--report`` of every command that takes it."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("jinja2", reason="the report needs Jinja2")
pytest.importorskip("skops", reason="models are saved with skops")
pytest.importorskip("pandas", reason="tables are read with pandas")

from sklearn.datasets import load_iris
from typer.testing import CliRunner

from jplay.cli import _reports
from jplay.cli._app import app
from jplay.persistence import load_model
from jplay.report import Share


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A table, and a model fitted to it with a report."""
    folder = tmp_path_factory.mktemp("iris")
    data = load_iris(as_frame=True)
    data.data.assign(species=data.target_names[data.target]).to_csv(
        folder / "iris.csv", index=False
    )
    fit = ("fit", folder / "iris.csv", "--target", "species", "-o", folder / "model.skops")
    run(*fit, "--cv", 3, "--report", folder / "fit.html")
    return folder, load_model(folder / "model.skops")


def headlines(page):
    return re.findall(r'class="number">(.*?)</span>', page)


def test_report_of_a_fit_has_the_estimated_accuracy_not_that_of_training(iris):
    folder, model = iris
    page = (folder / "fit.html").read_text()
    own = model.metadata.accuracy
    share = Share(own["overall_accuracy"], own["low"], own["high"])
    assert headlines(page)[0] == f"{share.text} %"
    assert share.interval in page
    assert "JPlay on iris.csv" in page
    for text in ("Shrinkage LDA", "Random forest", *own["notes"], "Subspaces", "virginica"):
        assert text.replace("'", "&#39;") in page
    assert np.sum(own["confusion"]) == 150
    assert np.trace(own["confusion"]) / 150 == pytest.approx(own["overall_accuracy"])


def test_report_of_settings_ranks_them_and_says_that_the_best_is_too_good(iris):
    folder, _ = iris
    tune = ("tune", folder / "iris.csv", "--target", "species", "-o", folder / "tuned.skops")
    grid = ("--grid", "alpha=1,10", "--grid", "n_layers=1", "--cv", 3)
    told = json.loads(run(*tune, *grid, "--report", folder / "tune.html", "--json").stdout)
    page = (folder / "tune.html").read_text()
    scores = [row["score"] for row in told["settings"]]
    assert headlines(page)[:2] == [f"{100 * score:.1f} %" for score in scores]
    # The t quantile of two degrees of freedom is 4.303.
    half = 4.3027 * told["settings"][0]["deviation"] / np.sqrt(2)
    assert f"{100 * (scores[0] - half):.1f}–" in page
    assert "best of 2 on these samples" in page


@pytest.mark.parametrize("known", [False, True])
def test_report_of_predictions_counts_classes_and_judges_them_if_it_can(iris, known):
    folder, _ = iris
    page = folder / f"new{known}.html"
    predict = ("predict", folder / "model.skops", folder / "iris.csv", "--force", "--report", page)
    output = folder / "found.csv"
    told = run(*predict, "-o", output, "--json", *(["--target", "species"] if known else []))
    page, told = page.read_text(), json.loads(told.stdout)
    assert "Probability of the predicted class" in page
    assert f">{output.read_text().count('setosa')}</td>" in page
    assert ("Confusion matrix" in page) is known
    assert ("The true classes are not known" in page) is not known
    if known:
        assert headlines(page)[0] == f"{100 * told['accuracy']['overall_accuracy']:.1f} %"


@pytest.fixture(scope="module")
def scene_files(tmp_path_factory):
    rasterio = pytest.importorskip("rasterio", reason="maps need rasterio")
    from jplay.datasets import make_hyperspectral_scene

    folder = tmp_path_factory.mktemp("scene")
    image = make_hyperspectral_scene(40, 30, n_bands=30, n_classes=3, random_state=0)
    transform = rasterio.transform.from_origin(500_000, 5_400_000, 30, 30)
    place = {"height": 40, "width": 30, "crs": "EPSG:32632", "transform": transform}
    counts = (10_000 * image.cube).clip(1).astype("uint16")
    with rasterio.open(
        folder / "scene.tif", "w", driver="GTiff", count=30, dtype="uint16", **place
    ) as file:
        file.write(counts.transpose(2, 0, 1))
    with rasterio.open(
        folder / "labels.tif", "w", driver="GTiff", count=1, dtype="uint8", **place
    ) as file:
        file.write(image.ground_truth.astype("uint8"), 1)
    names = "one,two,three"
    fit = ("fit", folder / "scene.tif", "--labels", folder / "labels.tif")
    options = ("--class-names", names, "-o", folder / "model.skops", "--max-per-class", 40)
    run(*fit, *options, "--cv", 2, "--no-peers", "--report", folder / "fit.html")
    return folder, image


def map_data(page):
    return json.loads(re.search(r'id="map-data">(.*?)</script>', page).group(1))


def test_report_of_a_map_shows_the_image_and_the_area_of_every_class(scene_files, monkeypatch):
    folder, _ = scene_files
    monkeypatch.setattr(_reports, "MAX_PIXELS", 300)
    mapping = ("map", folder / "scene.tif", "--model", folder / "model.skops")
    result = run(*mapping, "-o", folder / "map.tif", "--report", folder / "map.html")
    assert "Report:" in result.stdout
    page = (folder / "map.html").read_text()
    data = map_data(page)
    assert (data["height"], data["width"], data["pixelStep"]) == (20, 15, 2)
    assert data["classes"] == ["one", "two", "three"]
    import rasterio

    with rasterio.open(folder / "map.tif") as file:
        counts = np.bincount(file.read(1).ravel(), minlength=4)
    cells = re.findall(r'scope="row" class="named">.*?</span>(\w+)</th>\s*<td[^>]*>(\d+)', page)
    assert cells == [(n, str(c)) for n, c in zip(("one", "two", "three"), counts[1:], strict=True)]
    # A pixel is 30 m wide.
    assert f"{counts[1] * 0.09:.2f}" in page


def test_report_of_a_fitted_scene_shows_its_labels_and_its_map(scene_files):
    folder, _ = scene_files
    page = (folder / "fit.html").read_text()
    data = map_data(page)
    assert (data["height"], data["width"]) == (40, 30)
    assert 'data-layer="truth"' in page
    assert "95 % interval over" in page


def test_report_that_exists_is_refused_before_the_work(scene_files):
    folder, _ = scene_files
    (folder / "there.html").write_text("mine")
    mapping = ("map", folder / "scene.tif", "--model", folder / "model.skops")
    arguments = [*mapping, "-o", folder / "other.tif", "--report", folder / "there.html"]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 2
    assert "there.html' exists" in result.stderr
    assert (folder / "there.html").read_text() == "mine"
    assert not (folder / "other.tif").exists()
