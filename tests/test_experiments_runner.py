import json
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import hamming_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.utils import Bunch

from jplay.datasets import (
    RepeatedPerClassSplit,
    load_digits,
    make_hyperspectral_scene,
    split_per_class,
)
from jplay.datasets.registry import CORRUPT_FINGERPRINTS
from jplay.experiments import (
    Experiment,
    ResultTable,
    _fitted,
    _runner,
    available_recipes,
    load_recipes,
    parse_problems,
    parse_recipe,
    study_recipe,
    write_results,
)
from jplay.experiments._division import load_file
from jplay.experiments._recipe import Dataset
from tiny_recipes import tiny, undivided


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    experiment = Experiment(parse_recipe(tiny()), tmp_path_factory.mktemp("tiny"))
    seen = []
    experiment.run(progress=seen.append)
    return experiment, seen


def test_run_computes_every_cell_once(finished):
    experiment, _ = finished
    # 3 splits of 4 rows in 2 columns, and a column of their own for two rows.
    assert len(experiment.cell_records()) == 3 * (4 * 2 + 2)
    assert set(experiment.journal.times_done().values()) == {1}
    assert experiment.failures() == []
    assert not list(experiment.folder.glob("fits/*")), "fits are kept only as long as needed"


def test_run_counts_its_progress_to_the_end(finished):
    _, seen = finished
    assert [p.n_done for p in seen if p.n_total == 3] == [0, 1, 2, 3]
    assert [p.n_done for p in seen if p.n_total == 12] == list(range(13))
    assert seen[-1].label == "J-Play_2, split 3"


def test_cells_are_what_the_estimators_give_by_hand(finished):
    experiment, _ = finished
    digits = load_digits()
    X = normalize(digits.data, norm="max")
    draws = RepeatedPerClassSplit(8, n_repeats=3, random_state=1).split(X, digits.target)
    found = [
        r["result"]["overall_accuracy"]
        for r in experiment.cell_records()
        if (r["method"], r["classifier"]) == ("baseline", "NN")
    ]
    expected = []
    for train, test in draws:
        knn = KNeighborsClassifier(1).fit(X[train], digits.target[train])
        expected.append(knn.score(X[test], digits.target[test]))
    assert found == pytest.approx(expected)


def test_chosen_parameters_are_used_and_recorded(finished):
    experiment, _ = finished
    assert sorted(experiment.chosen()) == [("weights", 0), ("weights", 1), ("weights", 2)]
    records = [r for r in experiment.cell_records() if r["method"].startswith("J-Play")]
    assert {record["split"] for record in records} == {0, 1, 2}
    for record in records:
        chosen = experiment.chosen()["weights", record["split"]]["result"]["parameters"]
        assert chosen
        assert chosen.items() <= record["parameters"].items()
        assert record["parameters"]["n_layers"] == record["depth"]
        assert len(record["fit"]["layer_sizes"]) == record["depth"]


def test_choice_sees_training_samples_alone(tmp_path):
    """Whatever stands at the place of test samples, the choice is the same."""
    digits = load_digits()
    train, test = digits.train_indices, digits.test_indices
    spoiled = digits.data.copy()
    spoiled[test] = np.random.default_rng(0).random((test.size, 64))
    choices = []
    for name, data in (("plain", digits.data), ("spoiled", spoiled)):
        recipe = parse_recipe(tiny(split={"kind": "given"}))
        bunch = Bunch(
            data=data[np.r_[train[:120], test]],
            target=digits.target[np.r_[train[:120], test]],
            train_indices=np.arange(120),
            test_indices=np.arange(120, 120 + test.size),
        )
        experiment = Experiment(recipe, tmp_path / name, data=bunch)
        (task,) = experiment.choices
        _runner.run_choice(experiment, task, os.getpid())
        result = experiment.chosen()["weights", 0]["result"]
        choices.append((result["parameters"], result["trials"]))
    assert choices[0] == choices[1]


def test_a_subspace_is_fitted_once_for_all_its_classifiers(tmp_path, monkeypatch):
    fits = []
    real = _runner.fit_row

    def counted(experiment, method, params, split):
        fits.append((method.name, split))
        return real(experiment, method, params, split)

    monkeypatch.setattr(_runner, "fit_row", counted)
    recipe = parse_recipe(tiny()).restricted(n_splits=1)
    Experiment(recipe, tmp_path).run()
    assert sorted(fits) == [("J-Play_1", 0), ("J-Play_2", 0), ("PCA", 0), ("baseline", 0)]


def test_run_resumes_and_adds_only_what_is_new(tmp_path, monkeypatch):
    recipe = parse_recipe(tiny())
    Experiment(recipe.restricted(n_splits=1, methods=["PCA"]), tmp_path).run()
    assert len(Experiment(recipe, tmp_path).cell_records()) == 2
    experiment = Experiment(recipe.restricted(n_splits=2, methods=["PCA", "baseline"]), tmp_path)
    experiment.run()
    assert len(experiment.cell_records()) == 8
    assert set(experiment.journal.times_done().values()) == {1}
    monkeypatch.setattr(_runner, "fit_row", None)
    experiment.run()


def test_changed_parameters_are_new_cells(tmp_path):
    Experiment(parse_recipe(tiny()).restricted(n_splits=1, methods=["PCA"]), tmp_path).run()
    table = tiny()
    table["methods"][1]["params"]["n_components"] = 9
    changed = Experiment(parse_recipe(table).restricted(n_splits=1, methods=["PCA"]), tmp_path)
    assert changed.cell_records() == []
    transductive = tiny()
    transductive["classifiers"][0]["features"] = ["unit-range"]
    recipe = parse_recipe(transductive).restricted(n_splits=1, methods=["PCA"])
    keys = [
        Experiment(recipe, tmp_path, scaling=scaling).tasks[0].cells[0].key
        for scaling in ("inductive", "transductive")
    ]
    assert keys[0] != keys[1]


def test_failed_cells_are_recorded_with_their_error_and_tried_again(tmp_path, monkeypatch):
    recipe = parse_recipe(tiny()).restricted(n_splits=1, methods=["baseline", "PCA"])
    real = _fitted.make_classifier

    def broken(classifier, seed):
        if classifier.name == "CCF":
            raise MemoryError("no room")
        return real(classifier, seed)

    monkeypatch.setattr(_fitted, "make_classifier", broken)
    experiment = Experiment(recipe, tmp_path)
    experiment.run()
    assert {f["error"] for f in experiment.failures()} == {"MemoryError: no room"}
    assert len(experiment.cell_records()) == 2
    assert ResultTable.of(experiment).entries["PCA", "CCF"].text() == "failed"
    assert "failed: PCA, CCF" in write_and_read(experiment)
    monkeypatch.setattr(_fitted, "make_classifier", real)
    experiment.run()
    assert experiment.failures() == []
    assert len(experiment.cell_records()) == 4
    assert set(experiment.journal.times_done().values()) == {1}


def write_and_read(experiment):
    write_results(experiment, ResultTable.of(experiment), experiment.folder, figures=False)
    return (experiment.folder / "table.md").read_text()


def test_a_method_that_fails_does_not_stop_the_others(tmp_path):
    table = tiny()
    table["methods"][1]["params"]["n_components"] = 500
    experiment = Experiment(parse_recipe(table).restricted(n_splits=1), tmp_path)
    experiment.run()
    assert {f["method"] for f in experiment.failures()} == {"PCA"}
    assert "n_components=500" in experiment.failures()[0]["error"]
    assert len(experiment.cell_records()) == 8


def test_processes_give_the_same_table(finished, tmp_path):
    experiment, _ = finished
    parallel = Experiment(experiment.recipe, tmp_path)
    parallel.run(n_jobs=2)
    assert set(parallel.journal.times_done().values()) == {1}
    assert ResultTable.of(parallel).to_markdown() == ResultTable.of(experiment).to_markdown()


def test_paired_results_are_differences_on_the_same_splits(finished):
    experiment, _ = finished
    table = ResultTable.of(experiment)
    pairs = table.paired("baseline")
    assert ("J-Play_1", "own") not in pairs, "the reference has no such column"
    assert set(pairs["baseline", "NN"].differences) == {0.0}
    accuracy = {
        (r["method"], r["split"]): 100 * r["result"]["overall_accuracy"]
        for r in experiment.cell_records()
        if r["classifier"] == "NN"
    }
    expected = [accuracy["J-Play_2", split] - accuracy["baseline", split] for split in range(3)]
    pair = pairs["J-Play_2", "NN"]
    assert pair.differences == pytest.approx(expected)
    assert pair.mean == pytest.approx(np.mean(expected))
    assert (pair.n_better, pair.n_worse) == (
        np.sum(np.array(expected) > 0),
        np.sum(np.array(expected) < 0),
    )
    assert pair.n_better + pair.n_equal + pair.n_worse == 3


def test_reference_of_a_recipe_writes_the_pairs(finished, tmp_path):
    experiment, _ = finished
    recipe = parse_recipe(tiny(reference="PCA"))
    written = write_results(
        Experiment(recipe, experiment.folder), ResultTable.of(experiment), tmp_path, figures=False
    )
    assert [path.name for path in written][-1] == "paired.csv"
    lines = (tmp_path / "paired.csv").read_text().splitlines()
    assert lines[0] == "method,classifier,mean,better,equal,worse,p_value,differences"
    assert len(lines) == 1 + 4 * 2
    assert "PCA,NN,0.0,0,3,0,,+0.0000 +0.0000 +0.0000" in lines
    with pytest.raises(ValueError, match="`reference` should be the name of a method, got 'SOM'"):
        parse_recipe(tiny(reference="SOM"))


def test_table_sets_ours_beside_the_published_figures(finished):
    experiment, _ = finished
    table = ResultTable.of(experiment)
    entry = table.entries["J-Play_2", "NN"]
    accuracies = [
        100 * r["result"]["overall_accuracy"]
        for r in experiment.cell_records()
        if (r["method"], r["classifier"]) == ("J-Play_2", "NN")
    ]
    assert entry.mean == pytest.approx(np.mean(accuracies))
    assert entry.deviation == pytest.approx(np.std(accuracies, ddof=1))
    assert entry.difference == pytest.approx(np.mean(accuracies) - 86.0)
    lines = table.to_markdown().splitlines()
    assert lines[0].split(" | ")[3:6] == ["NN", "published", "diff."]
    assert f"| 86.00 | {entry.difference:+.2f} |" in lines[-1]
    csv_lines = table.to_csv().splitlines()
    assert len(csv_lines) == 1 + 10
    assert csv_lines[0].startswith("method,depth,classifier")


def test_results_and_figures_are_written(finished):
    pytest.importorskip("matplotlib", reason="figures")
    experiment, _ = finished
    recipe = replace(experiment.recipe, faces="J-Play_1", convergence="J-Play_2")
    experiment = Experiment(recipe, experiment.folder)
    written = write_results(experiment, ResultTable.of(experiment), experiment.folder)
    assert sorted(path.name for path in written) == [
        "parameters.csv",
        "table.csv",
        "table.md",
        "tiny-convergence.png",
        "tiny-depth.png",
        "tiny-faces.png",
    ]
    assert all(path.stat().st_size > 100 for path in written)


def test_houston_recipe_runs_on_a_scene_of_the_same_layout(tmp_path):
    pytest.importorskip("matplotlib", reason="maps")
    scene = make_hyperspectral_scene(
        60, 100, n_bands=144, n_classes=15, split="random", random_state=0
    )
    (recipe,) = load_recipes("houston")
    assert recipe.quickened().dataset.fingerprint is not None
    kept = ["baseline", "LDA", "J-Play_1, fast solver", "J-Play_2, paper's schedule"]
    recipe = recipe.restricted(methods=kept)
    recipe = recipe.__class__(
        **{
            **recipe.__dict__,
            "dataset": recipe.dataset.__class__("synthetic-scene"),
            "methods": tuple(m.__class__(**{**m.__dict__, "search": None}) for m in recipe.methods),
            "classifiers": tuple(
                c.__class__(**{**c.__dict__, "params": {"n_estimators": 5}})
                if c.name == "CCF"
                else c
                for c in recipe.classifiers
                if c.name != "KSVM"
            ),
        }
    )
    experiment = Experiment(recipe, tmp_path, data=scene)
    experiment.run()
    assert experiment.failures() == []
    table = ResultTable.of(experiment)
    assert table.entries["LDA", "NN"].published == 75.81
    assert table.entries["J-Play_1, fast solver", "NN"].mean > 60
    written = write_results(experiment, table, tmp_path)
    assert "houston-maps.png" in [path.name for path in written]
    maps = [np.load(path)["labels"] for path in tmp_path.glob("maps/*.npz")]
    assert len(maps) == 4
    assert {m.shape for m in maps} == {(60, 100)}
    test_pixels = scene.pixel_indices[scene.test_indices]
    agreement = [np.mean(m.ravel()[test_pixels] == scene.target[scene.test_indices]) for m in maps]
    in_table = [table.entries[name, "CCF"].mean / 100 for name in table.methods]
    assert sorted(agreement) == pytest.approx(sorted(in_table))


def test_multilabel_recipe_reports_the_five_figures(tmp_path):
    X, Y = make_multilabel_classification(200, 20, n_classes=5, random_state=0)
    bunch = Bunch(data=X, target=Y, train_indices=np.arange(120), test_indices=np.arange(120, 200))
    (recipe,) = load_recipes("emotions")
    recipe = recipe.quickened()
    recipe = replace(
        recipe,
        dataset=Dataset("multilabel"),
        methods=tuple(
            replace(m, params={**m.params, "n_components": 8}) if m.kind == "jplay" else m
            for m in recipe.methods
        ),
        classifiers=tuple(
            replace(c, params={"n_estimators": 10}) if c.kind == "forest" else c
            for c in recipe.classifiers
        ),
    )
    experiment = Experiment(recipe, tmp_path, data=bunch)
    experiment.run()
    assert experiment.failures() == []
    table = ResultTable.of(experiment)
    everything_absent = hamming_loss(Y[120:], np.zeros_like(Y[120:]))
    for entry in table.entries.values():
        assert 0 < entry.labels["hamming_loss"] < everything_absent
        assert 0.5 < entry.labels["average_precision"] <= 1
        assert 0 <= entry.labels["ranking_loss"] < 0.5
    assert len(table.to_markdown().splitlines()) == 2 + 3 + 4


def test_packaged_recipes_are_those_of_the_paper_and_their_parts():
    assert {"table1", "table2", "multilabel", "ar", "houston"} <= set(available_recipes())


@pytest.mark.parametrize("name", sorted({*available_recipes()} - {"suite", "scenes"}))
def test_packaged_recipes_are_complete(name):
    for recipe in load_recipes(name):
        quick = recipe.quickened()
        assert quick.methods, "quick keeps rows"
        assert all(method.search is None for method in quick.methods)
        fast = [m for m in quick.methods if m.kind == "jplay"]
        assert fast
        assert all({"alpha", "gamma", "n_components"} <= set(m.params) for m in fast)
        assert recipe.dataset.fingerprint
        if name.startswith("table"):
            assert len({m.name for m in recipe.methods}) == 8 + 7 + 7 + 3
            published = [(m.name, column) for m in recipe.methods for column in m.published]
            assert len(published) == len(set(published)) == 3 * 21


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "got also colour"),
        ({"split": {"kind": "leave-one-out"}}, '"groups", "places" or "blocks"'),
        ({"dataset": {"loader": "moon"}}, "`loader` should be one of"),
    ],
)
def test_mistakes_in_a_recipe_are_named(change, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Experiment(parse_recipe(tiny(**change)), tmp_path)


def test_depth_lists_of_wrong_length_and_unknown_searches_are_refused():
    table = tiny()
    table["methods"][2]["published"] = {"NN": [1.0]}
    with pytest.raises(ValueError, match="2 values"):
        parse_recipe(table)
    table = tiny(searches={})
    with pytest.raises(ValueError, match="`search` of method"):
        parse_recipe(table)
    table = tiny()
    table["methods"][2]["classifiers"] = ["NNN"]
    with pytest.raises(ValueError, match="should list some of NN, CCF, own, got"):
        parse_recipe(table)
    table = tiny()
    table["searches"]["later"] = {"start": "weights", "params": {"alpha": 1.0}}
    with pytest.raises(ValueError, match="leave out what its start 'weights' chooses, got alpha"):
        parse_recipe(table)
    table = tiny()
    table["searches"]["later"] = {"start": "unknown", "grid": {"alpha": [1.0]}}
    with pytest.raises(ValueError, match=r"`start` of search 'later'.*\(weights\).*'unknown'"):
        parse_recipe(table)


def test_a_column_cannot_be_filled_twice():
    table = tiny()
    table["methods"].append({"name": "PCA", "kind": "pca", "params": {"n_components": 4}})
    with pytest.raises(ValueError, match="'PCA' twice for 'NN'"):
        parse_recipe(table)


def test_methods_of_one_name_share_a_row_and_searches_continue_one_another(tmp_path):
    table = tiny(split={"kind": "per-class", "n_train": 8, "n_splits": 1})
    table["searches"]["forest"] = {
        "start": "weights",
        "params": {"n_layers": 2},
        "grid": {"gamma": [1.0, 0.1, 10.0, 100.0]},
        "classifier": {"kind": "ccf", "params": {"n_estimators": 4}, "features": ["unit-range"]},
    }
    ours = table["methods"].pop()
    other = {**ours, "search": "forest", "classifiers": ["CCF"], "published": {"CCF": [1.0, 2.0]}}
    table["methods"] += [{**ours, "classifiers": ["NN", "own"]}, other]
    experiment = Experiment(parse_recipe(table), tmp_path)
    experiment.run()
    assert len(experiment.tasks) == 2 + 2 * 2
    restricted = Experiment(parse_recipe(table).restricted(classifiers=["NN"]), tmp_path)
    assert [task.search.name for task in restricted.choices] == ["weights"]
    published = {**ours["published"], "CCF": [1.0, 2.0]}
    chosen = [
        {"classifiers": ["NN", "own"], "search": "weights"},
        {"classifiers": ["CCF"], "search": "forest"},
    ]
    short = {k: v for k, v in ours.items() if k != "search"}
    short |= {"published": published, "choices": chosen}
    assert parse_recipe({**table, "methods": [*table["methods"][:2], short]}) == parse_recipe(table)
    quick = Experiment(replace(parse_recipe(table), quick={}).quickened(), tmp_path)
    assert len(quick.tasks) == 2 + 2, "entries that are fitted alike share the fit"
    first, second = (experiment.chosen()[name, 0] for name in ("weights", "forest"))
    begun_with = first["result"]["parameters"]
    assert second["result"]["trials"][0]["gamma"] == begun_with["gamma"]
    assert second["result"]["parameters"]["alpha"] == begun_with["alpha"]
    assert second["result"]["n_fits"] == 4 * 2, "grid of four, folds as where it starts"
    table = ResultTable.of(experiment)
    assert table.methods == ["baseline", "PCA", "J-Play_1", "J-Play_2"]
    assert {c for m, c in table.entries if m == "J-Play_2"} == {"NN", "CCF", "own"}
    assert table.entries["J-Play_2", "CCF"].published == 2.0
    by_column = {r["classifier"]: r for r in experiment.cell_records() if r["depth"] == 2}
    assert by_column["CCF"]["parameters"]["gamma"] == second["result"]["parameters"]["gamma"]
    assert by_column["NN"]["parameters"]["gamma"] == begun_with["gamma"]


def test_every_recorded_result_is_recognised(monkeypatch):
    """Keys of cells and choices do not depend on how a recipe writes its parameters."""
    folder = Path(__file__).parents[1] / "results"
    if not folder.is_dir():
        pytest.skip("the records are in the repository alone")

    monkeypatch.setattr(_runner, "load_divided", undivided)
    for path in sorted(path.parent for path in folder.glob("*/records.jsonl")):
        (recipe,) = load_recipes(path.name)
        experiment = Experiment(recipe, path)
        lines = (path / "records.jsonl").read_text(encoding="utf-8").splitlines()
        found = {json.loads(line).get("fingerprint") for line in lines} - {None}
        if found != {recipe.dataset.fingerprint}:  # made on data that were corrupt: not taken
            assert found <= set(CORRUPT_FINGERPRINTS), path.name
            assert not experiment.cell_records(), path.name
            (fingerprint,) = found
            recipe = replace(recipe, dataset=replace(recipe.dataset, fingerprint=fingerprint))
            experiment = Experiment(recipe, path)
        filled = {(c["method"], c["classifier"], c["split"]) for c in experiment.cell_records()}
        wanted = {
            (t.method.name, c.classifier.name, t.split) for t in experiment.tasks for c in t.cells
        }
        assert filled == wanted, path.name
        assert len(experiment.chosen()) == len(experiment.choices), path.name


def test_draws_with_a_seed_each_are_those_of_the_seeds(tmp_path):
    split = {"kind": "per-class-seeds", "n_train": 8, "n_splits": 2, "seed": 5, "small": 4}
    experiment = Experiment(parse_recipe(tiny(split=split)), tmp_path)
    for seed, (train, _) in zip((5, 6), experiment.divided.splits, strict=True):
        expected, _ = split_per_class(load_digits().target, 8, small=4, random_state=seed)
        np.testing.assert_array_equal(train, expected)
    other = Experiment(parse_recipe(tiny(split={**split, "small": 3})), tmp_path)
    assert experiment.tasks[0].key != other.tasks[0].key


def test_several_problems_share_methods_and_have_a_table_of_all():
    table = tiny(name="suite")
    del table["dataset"], table["split"]
    problems = [
        {"name": "few", "dataset": {"loader": "digits"}, "split": {"kind": "given"}},
        {
            "name": "wine",
            "title": "Wines",
            "dataset": {"loader": "wine"},
            "preprocessing": ["standard"],
        },
    ]
    few, wine = parse_problems({**table, "problems": problems})
    assert (few.title, wine.title) == ("few", "Wines")
    assert (few.preprocessing, wine.preprocessing) == (("sample-max",), ("standard",))
    assert few.methods == wine.methods
    assert few.suite == wine.suite == "suite"
    with pytest.raises(ValueError, match="names of their own"):
        parse_problems({**table, "problems": problems[:1] * 2})


def test_other_data_than_the_recipe_expects_is_said(tmp_path):
    with pytest.warns(UserWarning, match="not those it was written for"):
        Experiment(parse_recipe(tiny(dataset={"loader": "digits", "fingerprint": "0"})), tmp_path)


@pytest.mark.parametrize("layout", ["npz", "csv", "tsv", "mat", "divided"])
def test_study_reads_the_layouts_of_own_files(tmp_path, layout):
    rng = np.random.default_rng(0)
    X, labels = rng.random((40, 5)), np.repeat(["ash", "oak"], 20)
    path = tmp_path / f"own.{'npz' if layout == 'divided' else layout}"
    if layout == "npz":
        np.savez(path, X=X, y=labels)
    elif layout == "divided":
        np.savez(path, X_train=X[::2], y_train=labels[::2], X_test=X[1::2], y_test=labels[1::2])
    elif layout == "mat":
        from scipy.io import savemat

        savemat(path, {"fea": X, "gnd": np.repeat([1, 2], 20)})
    else:
        mark = "," if layout == "csv" else "\t"
        rows = [[*map(repr, row.tolist()), label] for row, label in zip(X, labels, strict=True)]
        lines = [mark.join(row) for row in (["a", "b", "c", "d", "e", "kind"], *rows)]
        path.write_text("\n".join(lines))
    data = load_file(path)
    assert data.data.shape == (40, 5)
    assert np.bincount(data.target).tolist() == [0, 20, 20]
    recipe = study_recipe(path, n_train=5, n_components=3)
    assert recipe.split.kind == ("given" if layout == "divided" else "per-class")
    assert [m.name for m in recipe.methods][-3:] == ["J-Play_1", "J-Play_2", "J-Play_3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,x\n2,x\n", "at least two classes"),
        ("a,b\nred,x\nblue,y\n", "Column 'a' .* should hold numbers"),
    ],
)
def test_study_refuses_files_it_cannot_use(tmp_path, content, message):
    path = tmp_path / "own.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_file(path)
    np.savez(tmp_path / "own.npz", X=np.eye(3), y=np.eye(3, dtype=int))
    with pytest.raises(ValueError, match="several labels"):
        load_file(tmp_path / "own.npz")


def test_the_recipe_of_the_documentation_can_be_read(tmp_path):
    page = Path(__file__).parents[1] / "docs" / "experiments.md"
    text, own = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert set(tomllib.loads(own)["methods"][0]) == {"name", "class", "options", "preprocessing"}
    experiment = Experiment(parse_recipe(tomllib.loads(text)), tmp_path)
    assert ResultTable.of(experiment).methods == [
        "baseline",
        *(f"J-Play_{depth}" for depth in (1, 2, 3)),
        "J-Play, published schedule",
    ]
    assert len(experiment.choices) == 2 * 5
    task = experiment.first_task("J-Play, published schedule")
    assert experiment.fitted(task).summary()["layer_sizes"] == [40, 12]


def test_tables_for_people_show_names_as_text(tmp_path):
    table = tiny(title="<script>", split={"kind": "per-class", "n_train": 8, "n_splits": 1})
    table["methods"] = [{"name": "=<img src=x>|", "kind": "identity"}]
    table["classifiers"] = [{"name": "@NN", "kind": "nn"}]
    experiment = Experiment(parse_recipe(table), tmp_path)
    experiment.run()
    write_results(experiment, ResultTable.of(experiment), tmp_path, figures=False)
    assert "<" not in (tmp_path / "table.md").read_text()
    assert (tmp_path / "table.csv").read_text().splitlines()[1].startswith("'=<img src=x>|,,'@NN")
