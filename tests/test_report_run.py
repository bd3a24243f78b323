import json
import sys
import zlib
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
from jplay.report import Run, record_run, write_report
from jplay.report import _record as recording
from jplay.report._charts import line_chart
from jplay.report._png import png_bytes

TRAIN, TEST = np.arange(0, 150, 2), np.arange(1, 150, 2)


@pytest.fixture(scope="module")
def iris_run():
    X, y = load_iris(return_X_y=True)
    model = JPlay(n_components=2, layer_sizes=[3, 2]).fit(X[TRAIN], y[TRAIN])
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
    knn = KNeighborsClassifier(1).fit(model.transform(X[TRAIN]), y[TRAIN])
    assert run.layer_accuracy[-1] == knn.score(model.transform(X[TEST]), y[TEST])
    np.testing.assert_allclose(
        np.sum(list(run.objective.values()), axis=0), model.objective_history_
    )
    assert run.residuals.shape == (model.n_iter_, 2)
    assert list(run.facts) == ["Data", "Samples", "Subspaces", "Fit"]
    assert run.facts["Subspaces"] == "4 → 3 → 2"


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
    for name in ("confusion", "residuals", "planes", "point_labels", "reliance"):
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
    monkeypatch.setattr(recording, "MAX_PIXELS", 300)
    monkeypatch.setattr(recording, "MAX_SPECTRUM_BYTES", 800)
    monkeypatch.setattr(recording, "MAX_BANDS", 10)
    view = recording.scene_view(scene, class_map, scene.train_indices, np.array([1, 2, 3]))
    assert view.pixel_step == 2
    np.testing.assert_array_equal(view.ground_truth, scene.ground_truth[::2, ::2])
    assert view.spectrum_step == 2
    assert view.spectra.shape == (8, 10, 10)
    np.testing.assert_allclose(view.wavelengths[0], scene.wavelengths[:5].mean())


def test_class_map_of_another_shape_is_refused(scene_run):
    _, scene, class_map = scene_run
    with pytest.raises(ValueError, match="`class_map` should have shape"):
        recording.scene_view(scene, class_map[1:], scene.train_indices, np.array([1, 2, 3]))


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
    assert '<th scope="row">face 3</th><td>face 7</td>' in page
    assert "<td" not in page.partition("Commonest confusions")[0]


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
    with pytest.raises(MissingDependencyError, match=r"jplay\[report\]"):
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
    chart = line_chart(
        "a", "A & b", [1, 2, 3, 4], {"s": [1, 10, np.nan, 100]}, x_label="x", y_label="y", log=log
    )
    path = chart.partition('class="line series-0" d="M')[2].partition('"')[0]
    points = np.array([p.split(" ") for p in path.split("L")], dtype=float)
    assert len(points) == 3
    assert (np.diff(points[:, 0]) > 0).all()
    assert (np.diff(points[:, 1]) < 0).all()
    if log:
        assert points[0, 1] - points[1, 1] == pytest.approx(points[1, 1] - points[2, 1], abs=0.2)
    assert "A &amp; b" in chart


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [np.nan, np.nan], [1e-9, 1e9]])
def test_line_chart_of_odd_values_is_drawn(values):
    for log in (False, True):
        chart = line_chart(
            "a", "t", range(len(values)), {"s": values}, x_label="", y_label="", log=log
        )
        assert "nan" not in chart
        assert "inf" not in chart
