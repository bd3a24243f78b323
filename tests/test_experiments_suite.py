import csv
import itertools
import json
import signal
import time
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_iris, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from jplay import JPlay, SpatialJPlay
from jplay.datasets import make_hyperspectral_scene, registry, split_per_class
from jplay.estimators.scene_inputs import scene_inputs, unit_maximum
from jplay.exceptions import MissingDependencyError
from jplay.experiments import (
    Experiment,
    ResultTable,
    Suite,
    SuiteTable,
    _runner,
    parse_recipe,
    write_suite,
)
from jplay.experiments._division import load_divided
from jplay.experiments._limits import OverTime, time_limit
from jplay.experiments._named import find_class, make_named, parse_estimator
from jplay.experiments._results import _kept
from jplay.experiments._rivals import (
    PLSDAClassifier,
    ShrinkageLDAClassifier,
    TunedLogisticClassifier,
)
from jplay.experiments._steps import RBFSVMClassifier
from jplay.experiments._suite_data import load_coffee, load_materials, load_series
from jplay.experiments._suite_scenes import EdgeAwareJPlay
from jplay.numerics.spatial import guided_filter
from jplay.numerics.votes import expected_calibration_error
from tiny_recipes import tiny, undivided


class Sleeper(DummyClassifier):
    """A classifier that takes its time."""

    seconds = 60

    def fit(self, X, y, sample_weight=None):
        time.sleep(self.seconds)
        return super().fit(X, y, sample_weight)


def entry(mean, **more):
    known = {
        "calibration_error": None,
        "training_seconds": 1.0,
        "predict_seconds": None,
        "kept": {},
    }
    missing = {"n_splits": 1, "deviation": None, "why_missing": lambda: "failed", "by_split": {}}
    return SimpleNamespace(mean=mean, **{**known, **missing, **more})


def table(**means):
    cells = {(name, "itself"): entry(mean) for name, mean in means.items()}
    return ResultTable("", list(means), ["itself"], cells)


@pytest.fixture
def suite_table():
    return SuiteTable.of(
        {
            "one": table(a=90.0, b=80.0, c=80.0, d=1.0, e=None),
            "two": table(a=50.0, b=70.0, c=60.0, d=None, e=None),
            "three": table(a=None, b=None, c=None, d=None, e=None),
        }
    )


def test_suite_ranks_rows_and_puts_those_without_a_figure_last(suite_table):
    assert suite_table.problems == ["one", "two"]
    assert [row.name for row in suite_table.rows] == ["b", "a", "c", "d"]
    assert [row.mean for row in suite_table.rows] == [75.0, 70.0, 70.0, 1.0]
    ranks = [(2.5 + 1) / 2, (1 + 3) / 2, (2.5 + 2) / 2, (4 + 4) / 2]
    assert [row.mean_rank for row in suite_table.rows] == ranks
    assert [row.n_best for row in suite_table.rows] == [1, 1, 0, 0]
    lines = suite_table.to_markdown().splitlines()
    assert lines[2] == "| b | itself | 80.00 | 70.00 | 75.00 | 1.75 |"
    assert lines[5] == "| d | itself | 1.00 |  | 1.00 | 4.00 |"


def signed_rank_by_enumeration(gaps):
    """Two-sided p-value: the share of signs that give a rank sum at least as extreme."""
    ranks = np.argsort(np.argsort(np.abs(gaps))) + 1
    sums = [np.dot(ranks, signs) for signs in itertools.product([0, 1], repeat=len(gaps))]
    found, total = np.dot(ranks, np.array(gaps) > 0), ranks.sum()
    extreme = min(found, total - found)
    return np.mean([min(s, total - s) <= extreme for s in sums])


def test_pairs_of_rows_are_counted_and_tested_as_by_hand():
    gaps = [1.0, 2.0, 3.0, 4.0, -0.5, 6.0]
    tables = {f"p{i}": table(a=50.0, b=50.0 + gap, c=50.0) for i, gap in enumerate(gaps)}
    duels = SuiteTable.of(tables).against("a")
    b = duels["b"]
    assert (b.n_better, b.n_equal, b.n_worse) == (5, 0, 1)
    assert b.mean_difference == pytest.approx(15.5 / 6)
    assert b.p_value == pytest.approx(signed_rank_by_enumeration(gaps)) == pytest.approx(0.0625)
    assert (duels["c"].n_equal, duels["c"].p_value) == (6, None)
    with pytest.raises(ValueError, match="should be one of b, a, c"):
        SuiteTable.of(tables).against("z")


def test_pairs_count_shared_problems_alone(suite_table):
    d = suite_table.against("b")["d"]
    assert (d.n_better, d.n_equal, d.n_worse, d.mean_difference) == (0, 0, 1, -79.0)


def test_suite_is_written_as_csv_markdown_and_json(suite_table, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- suite: begin -->\nold\n<!-- suite: end -->\nafter\n")
    missing = {"TabPFN": "the package is not installed"}
    write_suite(suite_table, tmp_path, references=["a", "none"], missing=missing, page=page)
    content = json.loads((tmp_path / "suite.json").read_text())
    assert content["missing"] == missing
    assert [m["mean_rank"] for m in content["methods"]] == [1.75, 2.0, 2.25, 4.0]
    assert {pair["reference"] for pair in content["pairs"]} == {"a", "b"}, "the best one and ours"
    with open(tmp_path / "cells.csv", newline="") as stream:
        cells = {(r["problem"], r["row"]): r for r in csv.DictReader(stream)}
    assert len(cells) == 8
    assert cells["two", "d"]["not_run"] == "failed"
    assert float(cells["two", "b"]["accuracy"]) == 70.0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- suite: end -->\nafter\n")
    assert "old" not in text
    assert "| d | 1.0 | failed |" in text
    assert "- not run: d on two (failed)." in text
    assert "- not run: TabPFN: the package is not installed." in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="should hold the marks"):
        write_suite(suite_table, tmp_path, page=page)


def test_calibration_error_is_the_gap_of_each_bin_weighed_by_its_samples():
    column = SimpleNamespace(probabilities=lambda X, Z: np.column_stack([X, 1 - X]))
    confidence = np.array([0.9, 0.9, 0.95, 0.55, 0.55, 1.0])
    correct = np.array([True, False, True, False, True, True])
    # Bins of 1/15: {0.9, 0.9} in the 14th, {0.95, 1.0} in the 15th, {0.55, 0.55} in the 9th.
    by_hand = (2 * abs(0.9 - 0.5) + 2 * abs(0.975 - 1.0) + 2 * abs(0.55 - 0.5)) / 6
    found = _runner._confidence(column, confidence, None, correct)
    assert found["calibration_error"] == pytest.approx(by_hand)
    assert found["kept"]["0.5"] == pytest.approx({"share": 1.0, "accuracy": 4 / 6})
    assert found["kept"]["0.9"] == pytest.approx({"share": 4 / 6, "accuracy": 3 / 4})
    assert _runner._confidence(column, np.array([0.6]), None, correct[:1])["kept"].keys() == {
        "0.5",
        "0.6",
    }, "nothing is as sure as the others"
    without = SimpleNamespace(probabilities=None)
    nothing = {"calibration_error": None, "kept": {}}
    assert _runner._confidence(without, confidence, None, correct) == nothing


def test_thresholds_are_pooled_over_the_draws(tmp_path):
    splits = [
        {"0.5": {"share": 1.0, "accuracy": 0.6}, "0.9": {"share": 0.5, "accuracy": 1.0}},
        {"0.5": {"share": 0.5, "accuracy": 0.9}},
    ]
    kept = _kept(splits)
    assert kept == {"0.5": pytest.approx((75, 70)), "0.9": pytest.approx((25, 100))}
    cells = {("a", "itself"): entry(70.0, kept=kept), ("b", "itself"): entry(60.0)}
    write_suite(SuiteTable.of({"p": ResultTable("", ["a", "b"], ["itself"], cells)}), tmp_path)
    text = (tmp_path / "suite.md").read_text()
    assert "### a at a threshold of the probability: share kept, its accuracy" in text
    assert "| 0.5 | 75 %: 70.0 |\n| 0.9 | 25 %: 100.0 |" in text


@pytest.mark.parametrize("n_features", [12, 200])
def test_shrinkage_lda_is_that_of_scikit_learn_with_the_chosen_shrinkage(n_features):
    X, y = make_classification(
        90, n_features, n_informative=6, n_classes=3, class_sep=0.7, random_state=0
    )
    model = ShrinkageLDAClassifier(random_state=0).fit(X[:60], y[:60])
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=model.shrinkage_)
    expected = lda.fit(X[:60], y[:60]).predict_proba(X[60:])
    np.testing.assert_allclose(model.predict_proba(X[60:]), expected, atol=1e-8)
    assert model.shrinkage_ > 1e-4, "hardly any shrinkage is too little for so few samples"


def test_pls_da_is_least_squares_with_the_chosen_number_of_components():
    X, y = make_classification(120, 30, n_informative=8, n_classes=3, random_state=1)
    model = PLSDAClassifier(random_state=0).fit(X[:80], y[:80])
    scaler = StandardScaler().fit(X[:80])
    pls = PLSRegression(model.n_components_, scale=False)
    pls.fit(scaler.transform(X[:80]), np.eye(3)[y[:80]])
    expected = pls.predict(scaler.transform(X[80:])).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X[80:]), expected)


def test_logistic_regression_in_the_span_of_few_samples_is_the_same():
    X, y = make_classification(60, 150, n_informative=10, n_classes=2, random_state=0)
    model = TunedLogisticClassifier(C_grid=(0.01, 0.1), random_state=0).fit(X[:40], y[:40])
    scaler = StandardScaler().fit(X[:40])
    plain = LogisticRegression(C=model.C_, max_iter=1000, tol=1e-8)
    plain.fit(scaler.transform(X[:40]), y[:40])
    expected = plain.predict_proba(scaler.transform(X[40:]))
    np.testing.assert_allclose(model.predict_proba(X[40:]), expected, atol=1e-3)


def test_estimators_are_named_by_class_and_plain_arguments():
    assert parse_estimator("sklearn.svm:SVC") == {"class": "sklearn.svm:SVC"}
    params = parse_estimator("sklearn.svm:SVC(C=2.0, kernel='linear')")
    model = make_named(params, seed=7)
    assert (model.C, model.kernel, model.random_state) == (2.0, "linear", 7)
    for text in ("SVC", "sklearn.svm:SVC(2.0)", "sklearn.svm:SVC(C=f())", "sklearn.svm:SVC(C=1"):
        with pytest.raises(ValueError, match="package:Class"):
            parse_estimator(text)
    with pytest.raises(MissingDependencyError, match="'no_such_package' is not installed"):
        find_class("no_such_package:Model")
    with pytest.raises(ValueError, match="has no 'NoSVC'"):
        find_class("sklearn.svm:NoSVC")


def suite_recipe(**changes):
    own = {"class": "sklearn.dummy:DummyClassifier"}
    return parse_recipe(
        {
            "name": "iris",
            "title": "Iris",
            "preprocessing": ["column-max"],
            "dataset": {"loader": "embedded", "options": {"name": "iris"}},
            "split": {"kind": "per-class-seeds", "n_train": 10, "n_splits": 2},
            "classifiers": [{"name": "itself", "kind": "own"}, {"name": "1-NN", "kind": "nn"}],
            "methods": [
                {"name": "1-NN", "kind": "nn", "classifiers": ["itself"]},
                {"name": "LDA", "kind": "lda"},
                {"name": "dummy", "kind": "estimator", "params": own, "classifiers": ["itself"]},
            ],
            **changes,
        }
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    experiment = Experiment(suite_recipe(), tmp_path_factory.mktemp("iris"))
    experiment.run()
    experiment.raise_failures()
    return experiment


def test_classifiers_as_rows_are_what_they_are_by_hand(finished):
    X, y = load_iris(return_X_y=True)
    found = ResultTable.of(finished).entries
    for row, model in (("1-NN", KNeighborsClassifier(1)), ("LDA", LinearDiscriminantAnalysis())):
        scores, errors = [], []
        for seed in range(2):
            train, test = split_per_class(y + 1, 10, small=None, random_state=seed)
            scaler = MaxAbsScaler().fit(X[train])
            model.fit(scaler.transform(X[train]), y[train])
            Z = scaler.transform(X[test])
            scores.append(100 * model.score(Z, y[test]))
            errors.append(expected_calibration_error(model.predict_proba(Z), y[test], 15))
        assert found[row, "itself"].mean == pytest.approx(np.mean(scores))
        assert found[row, "itself"].calibration_error == pytest.approx(np.mean(errors))
        assert found[row, "itself"].training_seconds > 0
        assert found[row, "itself"].predict_seconds > 0
    assert found["dummy", "itself"].mean == pytest.approx(100 / 3)
    assert set(found) == {
        ("1-NN", "itself"),
        ("LDA", "itself"),
        ("LDA", "1-NN"),
        ("dummy", "itself"),
    }


def test_table_of_the_records_needs_no_data(finished, monkeypatch):
    monkeypatch.setattr("jplay.experiments._division._load", None)
    read = ResultTable.read(finished.recipe, finished.folder)
    assert read.entries == ResultTable.of(finished).entries
    other = suite_recipe(
        methods=[{"name": "LDA", "kind": "lda", "params": {"solver": "lsqr"}}],
        classifiers=[{"name": "itself", "kind": "own"}],
    )
    changed = ResultTable.read(other, finished.folder).entries["LDA", "itself"]
    assert changed.mean is None, "records of other parameters do not count"
    fewer = ResultTable.read(finished.recipe.restricted(n_splits=1), finished.folder)
    assert {e.n_splits for e in fewer.entries.values()} == {1}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_a_row_over_its_time_is_named_and_tried_again_only_with_more_time(tmp_path, monkeypatch):
    sleeper = {"class": f"{__name__}:Sleeper"}
    recipe = suite_recipe(
        methods=[
            {"name": "1-NN", "kind": "nn", "classifiers": ["itself"]},
            {"name": "slow", "kind": "estimator", "params": sleeper, "classifiers": ["itself"]},
        ]
    )
    experiment = Experiment(recipe, tmp_path, max_seconds=3)
    experiment.run()
    found = ResultTable.of(experiment).entries
    assert found["1-NN", "itself"].n_splits == 2
    assert found["slow", "itself"].text() == "over 3 s"
    errors = [failure["error"] for failure in experiment.failures()]
    assert errors == ["over 3 s", "over 3 s on another split"]
    n_records = len(experiment.journal.read())
    experiment.run()
    assert len(experiment.journal.read()) == n_records, "no more time, no other result"
    monkeypatch.setattr(Sleeper, "seconds", 0)
    longer = Experiment(recipe, tmp_path, max_seconds=60)
    longer.run()
    assert ResultTable.of(longer).entries["slow", "itself"].n_splits == 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_time_limit_is_no_exception_that_estimators_catch_and_ends_with_its_block():
    def stubborn():
        try:
            time.sleep(60)
        except Exception:
            return "caught"

    with pytest.raises(OverTime), time_limit(0.02):
        stubborn()
    with time_limit(1):
        pass
    time.sleep(1.1)  # nothing is raised any more


def test_dropped_cells_are_computed_again(finished, tmp_path):
    experiment = Experiment(suite_recipe(), tmp_path)
    experiment.run()
    before = experiment.journal.done()
    part = Experiment(experiment.recipe.restricted(methods=["dummy"]), tmp_path)
    part.drop()
    assert len(experiment.cell_records()) == 6
    experiment.run()
    after = experiment.journal.done()
    assert after.keys() == before.keys()
    changed = {
        before[key]["method"]
        for key in before
        if before[key] is not after[key] and before[key]["seconds"] != after[key]["seconds"]
    }
    assert changed == {"dummy"}


def test_suite_has_its_problems_and_rows_and_takes_more():
    suite = Suite.load(n_draws=2, methods=["sklearn.decomposition:PCA(n_components=2)"])
    assert len(set(suite.problems)) == len(suite.problems) >= 14
    assert {"J-Play", "J-Play + 1-NN", "lifted J-Play", "J-Play committee", "RBF SVM"} <= set(
        suite.rows
    )
    assert "PCA(n_components=2) + 1-NN" in suite.rows, "what does not predict gives features"
    assert {r.split.n_splits for r in suite.recipes if r.split.kind != "given"} == {2}
    part = suite.restricted(problems=["iris*", "wine*"], rows=["J-Play + 1-NN", "1-NN"])
    assert part.problems == ["iris-10", "wine-10"]
    assert list(part.rows) == ["1-NN", "J-Play + 1-NN"]
    with pytest.raises(ValueError, match="`rows` should name some of: 1-NN"):
        suite.restricted(rows=["SOM"])
    with pytest.raises(ValueError, match="`problems` should name some of: iris-10"):
        suite.restricted(problems=["mnist"])


def test_suite_recognises_its_records(monkeypatch):
    """Keys of cells depend on the recipe and the pinned data alone, so records stay valid."""
    folder = Path(__file__).parents[1] / "results" / "suite"
    if not folder.is_dir():
        pytest.skip("the records are in the repository alone")

    monkeypatch.setattr(_runner, "load_divided", undivided)
    suite = Suite.load()
    table = suite.table(folder)
    # Those of Indian Pines were made on the corrupt cube, which no table takes for true.
    corrupt = {"pines-10", "pines-50", "pines-fixed"}
    assert table.problems == [name for name in suite.problems if name not in corrupt]
    for recipe in suite.recipes:
        experiment = Experiment(recipe, folder / recipe.name)
        read = ResultTable.read(recipe, folder / recipe.name)
        assert ResultTable.of(experiment).entries == read.entries, recipe.name


def test_suite_names_missing_data_and_missing_packages(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path / "empty"))
    monkeypatch.setattr("jplay.experiments._suite_data.find_spec", lambda name: None)
    suite = Suite.load().restricted(problems=["ar", "coffee-10", "jasper-10", "wine-10"])
    missing = suite.restricted(rows=["1-NN"]).run(tmp_path / "out")
    assert set(missing) == {"ar", "coffee-10", "jasper-10"}
    assert "AR_DAT.mat" in missing["ar"]
    assert "[suite]" in missing["coffee-10"]
    assert "Jasper.mat" in missing["jasper-10"]
    assert suite.missing_problems() == missing
    assert suite.table(tmp_path / "out").problems == ["wine-10"]


def test_blocks_divide_a_scene_by_seeds(tmp_path):
    size = {"height": 160, "width": 160, "n_bands": 6, "n_classes": 3, "random_state": 0}
    scene = {"loader": "synthetic-scene", "options": size}
    split = {"kind": "blocks", "n_splits": 2, "seed": 3}
    divided = load_divided(parse_recipe(tiny(dataset=scene, split=split)))
    (first, rest), (second, _) = divided.splits
    assert not np.intersect1d(first, rest).size
    assert not np.array_equal(first, second)
    again = load_divided(parse_recipe(tiny(dataset=scene, split={**split, "seed": 4})))
    np.testing.assert_array_equal(again.splits[0][0], second)
    with pytest.raises(ValueError, match="needs a scene"):
        load_divided(parse_recipe(tiny(split=split)))


def test_series_and_spectra_are_read_from_installed_packages(tmp_path, monkeypatch):
    for package in ("aeon", "chemotools"):
        data = tmp_path / package / "datasets" / "data"
        data.mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    head = "#about\n@problemName Toy\n@classLabel true a b\n@data\n"
    folder = tmp_path / "aeon" / "datasets" / "data" / "Toy"
    folder.mkdir()
    (folder / "Toy_TRAIN.ts").write_text(head + "1.0,2.0,3.0:b\n4.0,5.0,6.0:a\n")
    (folder / "Toy_TEST.ts").write_text(head + "7.0,8.0,9.5:a\n")
    (data / "coffee_spectra.csv").write_text("0,1\n0.5,0.25\n0.1,0.2\n")
    (data / "coffee_labels.csv").write_text("labels\nBrasil\nVietnam\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    series = load_series("Toy")
    np.testing.assert_array_equal(series.data, [[1, 2, 3], [4, 5, 6], [7, 8, 9.5]])
    assert series.target.tolist() == [2, 1, 1]
    assert (series.train_indices.tolist(), series.test_indices.tolist()) == ([0, 1], [2])
    with pytest.raises(FileNotFoundError, match=r"no file 'None_TRAIN\.ts'"):
        load_series("None")
    coffee = load_coffee()
    np.testing.assert_array_equal(coffee.data, [[0.5, 0.25], [0.1, 0.2]])
    assert coffee.target_names.tolist() == ["Brasil", "Vietnam"]


def test_pixels_have_the_class_of_their_largest_share(tmp_path, monkeypatch):
    from scipy.io import savemat

    (tmp_path / "mixed").mkdir()
    spectra = np.arange(8.0).reshape(2, 4)
    shares = np.array([[0.9, 0.2, 0.5, 0.1], [0.1, 0.8, 0.5, 0.9]])
    savemat(tmp_path / "mixed" / "Toy.mat", {"Y": spectra})
    savemat(tmp_path / "mixed" / "EndToy.mat", {"A": shares})
    names = ("mixed/Toy.mat", "mixed/EndToy.mat")
    known = {name: sha256((tmp_path / name).read_bytes()).hexdigest() for name in names}
    group = registry.BenchmarkFiles("Toy", source="here", checked="by eye", sha256=known)
    monkeypatch.setattr(registry, "BENCHMARK_FILES", (group,))
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    pixels = load_materials("Toy")
    np.testing.assert_array_equal(pixels.data, spectra.T)
    assert pixels.target.tolist() == [1, 2, 1, 2]


@pytest.fixture
def scene_file(tmp_path):
    scene = make_hyperspectral_scene(72, 72, n_bands=12, n_classes=3, random_state=0)
    np.savez(tmp_path / "mine.npz", cube=scene.cube, labels=scene.ground_truth)
    return tmp_path / "mine.npz"


def test_places_are_drawn_anew_for_each_split(scene_file):
    recipe = Suite.load("scenes", n_draws=3, scene=scene_file).recipes[-1]
    assert recipe.name == "mine"
    divided = load_divided(recipe)
    places = divided.X[:, 0].astype(int)
    labels = np.zeros((72, 72), dtype=int)
    labels.flat[places] = divided.y
    np.testing.assert_array_equal(labels, divided.data.ground_truth)
    assert len({tuple(train) for train, _ in divided.splits}) == 3
    for train, test in divided.splits:
        assert np.bincount(divided.y[train]).max() <= 50
        apart = [
            np.abs(np.subtract.outer(*(np.divmod(places[r], 72)[axis] for r in (train, test))))
            for axis in (0, 1)
        ]
        assert np.maximum(*apart).min() > 6


def test_rows_of_a_scene_are_what_they_are_by_hand(scene_file, tmp_path):
    suite = Suite.load("scenes", n_draws=1, scene=scene_file)
    suite = suite.restricted(problems=["mine"], rows=["shrinkage LDA, CV"])
    assert suite.run(tmp_path / "out") == {}
    (row,) = suite.table(tmp_path / "out").rows
    divided = load_divided(suite.recipes[0])
    (train, test), cube = divided.splits[0], divided.data.cube
    labels = np.zeros(cube.shape[:2], dtype=int)
    labels.flat[divided.X[train, 0].astype(int)] = divided.y[train]
    model = SpatialJPlay(ShrinkageLDAClassifier(random_state=0), random_state=0)
    found = model.fit_predict(cube, labels).flat[divided.X[test, 0].astype(int)]
    assert row.accuracies["mine"] == pytest.approx(100 * np.mean(found == divided.y[test]))


def test_published_rows_of_a_scene_see_one_input(scene_file, tmp_path):
    suite = Suite.load("scenes", n_draws=1, scene=scene_file)
    suite = suite.restricted(problems=["mine"], rows=["profiles + SVM", "guided class maps"])
    assert suite.run(tmp_path / "out") == {}
    found = {row.name: row.accuracies["mine"] for row in suite.table(tmp_path / "out").rows}
    divided = load_divided(suite.recipes[0])
    (train, test), cube = divided.splits[0], divided.data.cube
    places, y, train = divided.X[:, 0].astype(int), divided.y, np.sort(train)

    def class_map(image):
        pixels = image.reshape(72 * 72, -1)
        model = make_pipeline(StandardScaler(), RBFSVMClassifier(random_state=0))
        return model.fit(pixels[places[train]], y[train]).predict(pixels).reshape(72, 72)

    def accuracy(mapped):  # within two pixels
        return pytest.approx(100 * np.mean(mapped.flat[places[test]] == y[test]), abs=0.1)

    usual = {"radius": 5, "edge_width": 1.0, "profile_radii": (2, 4, 6, 8)}
    constants = scene_inputs(cube, **usual, rng=np.random.RandomState(0))
    assert found["profiles + SVM"] == accuracy(class_map(constants.profile(cube)))
    classes = np.unique(y)
    voted = (class_map(unit_maximum(cube))[:, :, None] == classes).astype(float)
    filtered = guided_filter(voted, constants.guide(cube), 3, 1e-3)
    assert found["guided class maps"] == accuracy(classes[filtered.argmax(axis=2)])


def test_edge_aware_average_before_one_jplay(scene_file, tmp_path):
    suite = Suite.load("scenes", n_draws=1, scene=scene_file)
    suite = suite.restricted(problems=["mine"], rows=["edge-aware*"])
    assert suite.run(tmp_path / "out") == {}
    (row,) = suite.table(tmp_path / "out").rows
    assert row.entries["mine"].calibration_error is None, "it has no probabilities"
    divided = load_divided(suite.recipes[0])
    (train, test), cube = divided.splits[0], divided.data.cube
    X, y = divided.X, divided.y
    model = EdgeAwareJPlay(cube, random_state=0).fit(X[train], y[train])
    found = np.mean(model.predict(X[test]) == y[test])
    assert row.accuracies["mine"] == pytest.approx(100 * found)
    spectra = JPlay(n_layers=1, alpha=10.0).fit(X[train, 1:], y[train])
    assert found > spectra.score(X[test, 1:], y[test])


def test_file_without_one_image_and_its_labels_is_refused(tmp_path):
    np.savez(tmp_path / "two.npz", a=np.zeros((4, 4, 2)), b=np.zeros((4, 3)))
    with pytest.raises(ValueError, match="should hold one image of shape"):
        load_divided(Suite.load("scenes", scene=tmp_path / "two.npz").recipes[-1])


def test_draws_are_compared_one_by_one(tmp_path):
    def cell(values):
        mean = float(100 * np.mean(values))
        return entry(mean, by_split=dict(enumerate(values)), text=lambda: f"{mean:.2f}")

    cells = {"a": cell([0.9, 0.8, 0.7, 0.9]), "b": cell([0.8, 0.8, 0.6, 0.5])}
    cells = {(name, "itself"): values for name, values in cells.items()}
    write_suite(SuiteTable.of({"p": ResultTable("", ["a", "b"], ["itself"], cells)}), tmp_path)
    text = (tmp_path / "suite.md").read_text()
    assert "Draw by draw, and how much less than a" in text
    assert "| b | 67.50 (4); 15.00 ± 17.32, 3 of 4 |" in text
