import json
import re
import sys
import zlib
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="the report needs Jinja2")
pytest.importorskip("matplotlib", reason="the report takes its colours from matplotlib")

from matplotlib.image import imread
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.neighbors import KNeighborsClassifier

from jplay import JPlay
from jplay.datasets import make_hyperspectral_scene
from jplay.exceptions import MissingDependencyError
from jplay.inspection import feature_relevance
from jplay.report import (
    Headline,
    IntervalChart,
    LineChart,
    Report,
    Run,
    Section,
    Share,
    Table,
    Text,
    _gather,
    compose,
    record_run,
    scene_view,
    write_report,
)
from jplay.report._charts import interval_chart, line_chart
from jplay.report._png import png_bytes

TRAIN, TEST = np.arange(0, 150, 2), np.arange(1, 150, 2)


@pytest.fixture(scope="module")
def iris_run():
    X, y = load_iris(return_X_y=True)
    model = JPlay(n_components=2, n_layers=[3, 2]).fit(X[TRAIN], y[TRAIN])
    names = ["setosa", "versicolor", "virginica"]
    run = record_run(
        model, X, y, train=TRAIN, test=TEST, title="Iris", class_names=names, facts={"Data": "iris"}
    )
    return run, model, X, y


@pytest.fixture(scope="module")
def scene_run():
    scene = make_hyperspectral_scene(30, 40, n_bands=50, n_classes=3, random_state=0)
    train = scene.train_indices
    model = JPlay(n_components=3, n_layers=1).fit(scene.data[train], scene.target[train])
    class_map = model.predict(scene.cube.reshape(-1, 50)).reshape(30, 40)
    run = record_run(
        model,
        scene.data,
        scene.target,
        train=train,
        test=scene.test_indices,
        title="Scene",
        class_names=scene.target_names,
        scene=scene,
        class_map=class_map,
    )
    return run, scene, class_map


def test_run_figures_are_those_of_the_model(iris_run):
    run, model, X, y = iris_run
    assert np.trace(run.confusion) / len(TEST) == pytest.approx(model.score(X[TEST], y[TEST]))
    assert run.class_counts == {"Training": [25, 25, 25], "Test": [25, 25, 25]}
    knn = KNeighborsClassifier(1).fit(model.transform_layers(X[TRAIN])[-1], y[TRAIN])
    assert run.layer_accuracy[-1] == knn.score(model.transform_layers(X[TEST])[-1], y[TEST])
    np.testing.assert_allclose(
        np.sum(list(run.objective.values()), axis=0), model.objective_history_
    )
    assert run.residuals.shape == (model.n_iter_, 2)
    assert list(run.facts) == ["Data", "Samples", "Model", "Subspaces", "Fit"]
    assert run.facts["Subspaces"] == "4 → 3 → 2"


def test_run_holds_what_the_classes_rely_on_and_the_page_its_sign(iris_run, tmp_path):
    run, model, X, y = iris_run
    shares = feature_relevance(model, X[TRAIN], y[TRAIN]).shares()
    np.testing.assert_allclose(run.relevance, shares, rtol=1e-6)
    page = write_report(run, tmp_path / "report.html").read_text()
    bars = page.partition('<table class="relevance">')[2].split('src="data:image/png;base64,')
    for bar, row in zip(bars[1:4], shares, strict=True):
        path = tmp_path / "bar.png"
        path.write_bytes(b64decode(bar.partition('"')[0]))
        red, _, blue, *_ = np.moveaxis(imread(path)[0], -1, 0)
        strong = np.abs(row) > 0.1 * np.abs(row).max()
        np.testing.assert_array_equal(np.sign(red - blue)[strong], np.sign(row)[strong])


def test_planes_show_the_class_means_apart_and_agree_between_layers(iris_run):
    run, _, _, y = iris_run
    assert run.planes.shape == (3, 75, 2)
    np.testing.assert_array_equal(run.point_labels, y[TEST])
    for before, after in zip(run.planes, run.planes[1:], strict=False):
        assert np.trace(before.T @ after) > 0.5 * np.sum(before**2)


def test_saved_run_is_the_same_when_loaded(scene_run, tmp_path):
    run, _, _ = scene_run
    run.save(tmp_path / "new" / "folder")
    loaded = Run.load(tmp_path / "new" / "folder")
    for name in ("title", "facts", "class_names", "scores", "depth", "objective", "parameters"):
        assert getattr(loaded, name) == getattr(run, name)
    for name in ("confusion", "residuals", "planes", "point_labels", "relevance"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(run, name))
    np.testing.assert_array_equal(loaded.scene.spectra, run.scene.spectra)
    assert tuple(loaded.scene.value_range) == run.scene.value_range
    pages = [
        write_report(r, tmp_path / f"{n}.html").read_text() for n, r in enumerate((run, loaded))
    ]
    assert pages[0] == pages[1]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "run.json",
        "run.npz",
    ]


def test_scene_view_keeps_maps_and_spectra(scene_run):
    run, scene, class_map = scene_run
    view = run.scene
    np.testing.assert_array_equal(view.ground_truth, scene.ground_truth)
    np.testing.assert_array_equal(view.prediction, class_map)
    assert view.training.sum() == len(scene.train_indices)
    low, high = view.value_range
    restored = low + view.spectra / 255 * (high - low)
    np.testing.assert_allclose(restored, scene.cube, atol=(high - low) / 500)


def test_large_scene_is_reduced_to_the_limits(scene_run, monkeypatch):
    _, scene, class_map = scene_run
    monkeypatch.setattr(_gather, "MAX_PIXELS", 300)
    monkeypatch.setattr(_gather, "MAX_SPECTRUM_BYTES", 800)
    monkeypatch.setattr(_gather, "MAX_BANDS", 10)
    view = scene_view(
        scene.cube,
        class_map,
        np.array([1, 2, 3]),
        truth=scene.ground_truth,
        wavelengths=scene.wavelengths,
        step=3,
    )
    assert view.pixel_step == 6
    np.testing.assert_array_equal(view.ground_truth, scene.ground_truth[::2, ::2])
    assert view.spectrum_step == 2
    assert view.spectra.shape == (8, 10, 10)
    np.testing.assert_allclose(view.wavelengths[0], scene.wavelengths[:5].mean())


def test_class_map_of_another_shape_is_refused(scene_run):
    _, scene, class_map = scene_run
    with pytest.raises(ValueError, match="`class_map` should have shape"):
        scene_view(scene.cube, class_map[1:], np.array([1, 2, 3]))


def test_multilabel_run_has_figures_per_label_and_no_confusion(tmp_path):
    X, Y = make_multilabel_classification(120, 12, n_classes=4, random_state=0)
    train, test = np.arange(80), np.arange(80, 120)
    model = JPlay(n_components=4, n_layers=1).fit(X[train], Y[train])
    run = record_run(model, X, Y, train=train, test=test, title="Labels")
    predicted = model.predict(X[test])
    recall = (predicted * Y[test]).sum(axis=0) / Y[test].sum(axis=0)
    assert run.class_figures["Recall"] == pytest.approx(list(recall))
    assert run.confusion is None
    page = write_report(run, tmp_path / "report.html").read_text()
    assert "F1" in page
    assert "Confusion matrix" not in page


def test_many_classes_make_an_image_of_the_confusion(tmp_path):
    confusion = np.eye(40, dtype=int) * 9
    confusion[3, 7] = 5
    names = [f"face {k}" for k in range(40)]
    run = Run(title="Faces", facts={}, class_names=names, confusion=confusion)
    page = write_report(run, tmp_path / "report.html").read_text()
    assert "Confusion matrix of 40 classes as an image" in page
    pairs = page.partition('aria-label="Most frequent confusions"')[2].partition("</table>")[0]
    assert re.findall(r'scope="row">(.*?)</th>\s*<td>(.*?)</td>', pairs) == [("face 3", "face 7")]
    assert 'class="confusion"' not in page


def test_intervals_are_wilsons_and_those_of_a_mean_lie_between():
    five = Share.of_counts(5, 5)
    z2 = 1.959964**2
    assert five.low == pytest.approx(5 / (5 + z2), abs=1e-4)
    assert five.interval == "56.6–100.0"
    mean = Share.mean_of([five, Share.of_counts(900, 1000), Share(None)])
    assert mean.value == pytest.approx(0.95)
    assert five.low < mean.low < mean.value < mean.high <= 1
    # The mean of four shares has half the uncertainty of one.
    many = Share.mean_of([Share(0.5, 0.4, 0.6)] * 4)
    assert (many.low, many.high) == pytest.approx((0.45, 0.55))
    assert Share.of_counts(0, 0).text == "–"


def test_table_is_downloaded_with_the_limits_of_its_shares(tmp_path):
    rows = [["a, b", 3, Share(0.5, 0.25, 0.75), 1.5], ["=c", 4, Share(None), None]]
    table = Table("Two rows", ["Class", "n", "OA %", "x"], rows)
    expected = 'Class,n,OA %,OA % low,OA % high,x\n"a, b",3,50,25,75,1.5\n\'=c,4,,,,\n'
    assert table.to_csv() == expected
    page = Report("t", sections=[Section("s", [table])]).write(tmp_path / "a.html").read_text()
    found = re.search(r'download="two-rows.csv" href="data:[^,]*,([^"]*)"', page).group(1)
    assert b64decode(found).decode("utf-8-sig") == expected


def test_table_refuses_a_row_of_another_length():
    with pytest.raises(ValueError, match=r"`rows\[1\]` should have 2 cells"):
        Table("t", ["a", "b"], [[1, 2], [1]])


def test_interval_chart_puts_every_row_in_its_place_and_cuts_long_names():
    rows = {"best": Share(0.9, 0.8, 0.95), "x" * 90: Share(0.5), "none": Share(None)}
    chart = interval_chart("a", IntervalChart("t", rows, own="best"))
    places = [float(x) for x in re.findall(r'<circle class="estimate[^"]*" cx="([\d.]+)"', chart)]
    assert len(places) == 2
    assert places[0] > places[1]
    assert chart.count("whisker") == 1
    assert "…" in chart


def test_page_says_when_how_and_with_what_it_was_made(tmp_path):
    report = Report("t", warnings=["few <samples>"], headlines=[Headline("Pixels", "7")])
    page = report.write(tmp_path / "a.html").read_text()
    assert report.provenance.date in page
    assert f"scikit-learn {report.provenance.versions['scikit-learn']}" in page
    assert "few &lt;samples&gt;" in page
    with pytest.raises(TypeError, match="should hold parts"):
        Report("t", sections=[Section("s", ["text"])]).html()
    assert "<p>text</p>" in Report("t", sections=[Section("s", [Text("text")])]).html()


def test_warnings_name_small_classes_and_test_pixels_beside_training_pixels(scene_run):
    run, scene, _ = scene_run
    counts = {"Training": [3, 50, 50], "Test": [100, 29, 100]}
    first, second, third = compose(replace(run, class_counts=counts)).warnings
    assert f"10 training samples: {scene.target_names[0]} (3)" in first
    assert f"30 test samples: {scene.target_names[1]} (29)" in second
    near = np.zeros((30, 40), dtype=bool)
    for row, column in np.argwhere(run.scene.training):
        near[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = True
    tested = (scene.ground_truth > 0) & (run.scene.training == 0)
    assert third.startswith(f"{100 * near[tested].mean():.0f} % of the test pixels touch")


def test_removed_bands_interrupt_the_spectra(scene_run):
    run, *_ = scene_run
    waves = run.scene.wavelengths.copy()
    waves[20:] += 300
    shown = replace(run, scene=replace(run.scene, wavelengths=waves), feature_positions=waves)
    page = compose(shown).html()
    assert json.loads(re.search(r'id="map-data">(.*?)</script>', page).group(1))["gaps"] == [20]
    strips = next(s for s in compose(shown).sections if s.title == "Features").parts[1]
    transparent = strips.images[0][0, :, 3] == 0
    assert transparent[20]
    assert not transparent[:20].any()
    assert (~transparent).sum() == 50


def test_empty_run_is_a_page_without_sections(tmp_path):
    run = Run(title="Nothing", facts={}, class_names=[])
    page = write_report(run, tmp_path / "new" / "report.html").read_text()
    assert page.count("<section") == 1


def test_page_names_no_address_and_escapes_text(scene_run, tmp_path):
    run = replace(
        scene_run[0], title="</title><script>alert(1)</script>", class_names=["</script>", "b", "c"]
    )
    page = write_report(run, tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    addresses = [line for line in page.split('"') if "://" in line]
    assert set(addresses) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "run.json").unlink(), "should hold run.json"),
        (lambda folder: (folder / "run.json").write_text("{"), "is not a run"),
        (lambda folder: (folder / "run.json").write_text("[]"), "is not a run"),
        (lambda folder: (folder / "run.json").write_text('{"format": 99}'), "format 99"),
        (lambda folder: (folder / "run.npz").write_bytes(b""), "is not a run"),
        (lambda folder: (folder / "run.npz").write_bytes(b"PK\x03\x04 no"), "is not a run"),
    ],
)
def test_spoiled_folder_is_refused_by_name(iris_run, tmp_path, spoil, message):
    iris_run[0].save(tmp_path)
    spoil(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        Run.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("spoiled", [None, 3, "text", [], {}, [None]])
def test_edited_run_is_a_page_or_one_clear_error(iris_run, tmp_path, spoiled):
    iris_run[0].save(tmp_path)
    path = tmp_path / "run.json"
    plain = json.loads(path.read_text())
    messages = []
    for name in plain:
        path.write_text(json.dumps(plain | {name: spoiled}))
        try:
            write_report(tmp_path, tmp_path / "report.html")
        except ValueError as error:
            messages.append(str(error))
    assert messages
    assert all("is not a run" in message for message in messages)


def test_pickled_objects_are_not_loaded(iris_run, tmp_path):
    iris_run[0].save(tmp_path)
    np.savez(tmp_path / "run.npz", confusion=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="is not a run"):
        Run.load(tmp_path)


def test_failed_save_leaves_the_older_run(iris_run, tmp_path):
    iris_run[0].save(tmp_path)
    before = (tmp_path / "run.json").read_text()
    with pytest.raises(ValueError):
        replace(iris_run[0], depth=[{"n_layers": float("nan")}]).save(tmp_path)
    assert (tmp_path / "run.json").read_text() == before
    assert json.loads(before)["title"] == "Iris"
    assert not list(tmp_path.glob("*.part"))


def test_missing_jinja_names_the_extra(iris_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"\[report\]'"):
        write_report(iris_run[0], tmp_path / "report.html")


def test_class_names_must_fit_the_model(iris_run):
    _, model, X, y = iris_run
    with pytest.raises(ValueError, match="`class_names` should hold 3 names"):
        record_run(model, X, y, train=TRAIN, test=TEST, title="Iris", class_names=["a"])


@pytest.mark.parametrize("channels", [3, 4])
def test_png_is_read_back_by_another_reader(channels, tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    path = tmp_path / "image.png"
    path.write_bytes(png_bytes(image))
    np.testing.assert_array_equal(np.round(imread(path) * 255), image)
    assert zlib.crc32(path.read_bytes()[-8:-4]) == int.from_bytes(path.read_bytes()[-4:])


@pytest.mark.parametrize("log", [False, True])
def test_line_chart_places_points_in_order_and_leaves_out_what_has_no_place(log):
    drawn = LineChart("A & b", [1, 2, 3, 4], {"s": [1, 10, np.nan, 100]}, "x", "y", log=log)
    chart = line_chart("a", drawn)
    path = chart.partition('class="line series-0" data-series="0" d="')[2].partition('"')[0]
    assert [pen for pen in path if pen in "ML"] == ["M", "L", "M"]
    points = np.array([p.split(" ") for p in re.split("[ML]", path)[1:]], dtype=float)
    assert len(points) == 3
    assert (np.diff(points[:, 0]) > 0).all()
    assert (np.diff(points[:, 1]) < 0).all()
    if log:
        assert points[0, 1] - points[1, 1] == pytest.approx(points[1, 1] - points[2, 1], abs=0.2)
    assert "A &amp; b" in chart


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [np.nan, np.nan], [1e-9, 1e9]])
def test_line_chart_of_odd_values_is_drawn(values):
    for log in (False, True):
        chart = line_chart("a", LineChart("t", range(len(values)), {"s": values}, "", "", log=log))
        assert "nan" not in chart
        assert "inf" not in chart
        drawn = chart.count('class="line series-0"')
        assert drawn == (1 if np.any(np.greater(values, 0 if log else -1)) else 0)


def test_page_opens_with_the_map_and_names_the_row_it_shows(scene_run, tmp_path):
    run, *_ = scene_run
    row = {"n_features": 50, "average_accuracy": 0.5, "kappa": 0.5}
    scores = [
        {**row, "features": "raw", "classifier": "forest", "overall_accuracy": 0.75},
        {**row, "features": "committee", "classifier": "built-in", "overall_accuracy": 0.625},
    ]
    shown = replace(run, scores=scores, judged="committee")
    page = write_report(shown, tmp_path / "report.html").read_text()
    places = [page.index(text) for text in ('id="stage"', '<section id="accuracy">', 'id="run"')]
    assert places == sorted(places)
    assert "Class map of the committee" in page
    numbers = [headline.number for headline in compose(shown).headlines]
    assert numbers[2] == "75.0 %"
    assert [h.note for h in compose(shown).headlines][:1] == ["committee"]


def test_page_without_a_map_opens_with_the_comparison_or_the_classes(iris_run):
    run, *_ = iris_run
    assert list(compose(run).main.rows) == ["setosa", "versicolor", "virginica"]
    scores = [
        {"features": name, "classifier": "built-in", "overall_accuracy": figure}
        for name, figure in (("a", 0.5), ("b", 0.9))
    ]
    chart = compose(replace(run, scores=scores)).main
    assert list(chart.rows) == ["b", "a"]
    assert chart.rows["a"].interval == Share.of_counts(38, 75).interval


def test_figures_are_those_of_the_predictions_that_are_given(iris_run):
    _, model, X, y = iris_run
    run = record_run(
        model, X, y, train=TRAIN, test=TEST, title="Iris", judged="none", predicted=y[TEST] * 0
    )
    np.testing.assert_array_equal(run.confusion[:, 0], [25, 25, 25])
    assert run.judged == "none"
