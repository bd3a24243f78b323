"""Model files: round trips, exports, and what is refused."""

import io
import json
import os
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from jplay import JPlay
from jplay.exceptions import (
    CorruptFileError,
    ModelMismatchError,
    ModelVersionWarning,
    UntrustedModelError,
)
from jplay.persistence import (
    ModelMetadata,
    TrainedModel,
    collapse_model,
    export_npz,
    export_onnx,
    load_model,
    model_card,
    save_model,
)

pytest.importorskip("skops", reason="model files need skops")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y + 1


def _fit(X, y, **settings):
    return make_pipeline(Normalizer(norm="max"), JPlay(3, 2, **settings)).fit(X, y)


@pytest.fixture(scope="module")
def fitted(iris):
    metadata = ModelMetadata(
        feature_names=["sepal length", "sepal width", "petal length", "petal width"],
        class_names=["setosa", "versicolor", "virginica"],
        wavelengths=[450.0, 550.0, 650.0, 750.0],
        training={"source": "iris", "samples_per_class": {"1": 50, "2": 50, "3": 50}},
    )
    return TrainedModel(_fit(*iris), metadata)


@pytest.fixture
def model_file(fitted, tmp_path):
    return save_model(fitted, tmp_path / "model.skops")


def _rewritten(path, change, compression=zipfile.ZIP_STORED):
    """Rewrite an archive; ``change`` maps (name, bytes) to bytes."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in change(entries).items():
            archive.writestr(name, content)


def _with_honest_checksums(entries):
    """What an attacker would do: adapt the sums to the changed content."""
    import hashlib

    document = json.loads(entries["jplay.json"])
    told = json.dumps([document["format"], document["metadata"]], sort_keys=True).encode()
    document["sha256"] = {
        name: hashlib.sha256(told if name == "jplay.json" else content).hexdigest()
        for name, content in entries.items()
    }
    return entries | {"jplay.json": json.dumps(document).encode()}


def test_round_trip_keeps_predictions_and_metadata(fitted, model_file, iris):
    X, _ = iris
    loaded = load_model(model_file)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.metadata == fitted.metadata
    assert loaded.estimator[0].norm == "max"


def test_file_leaves_the_training_samples_graph_out(fitted, model_file):
    loaded = load_model(model_file)
    assert not hasattr(loaded.final_step, "affinity_")
    assert hasattr(fitted.final_step, "affinity_"), "saving must not change the model"
    np.testing.assert_array_equal(
        loaded.final_step.objective_history_, fitted.final_step.objective_history_
    )
    assert model_file.stat().st_size < 100_000


def test_skops_itself_reads_the_file(fitted, model_file, iris):
    import skops.io

    estimator = skops.io.load(model_file, trusted=skops.io.get_untrusted_types(file=model_file))
    np.testing.assert_array_equal(estimator.predict(iris[0]), fitted.predict(iris[0]))


def test_string_and_multilabel_targets_survive(iris, tmp_path):
    X, y = iris
    names = np.array(["", "one", "two", "three"])[y]
    by_name = load_model(save_model(_fit(X, names), tmp_path / "names.skops"))
    assert by_name.metadata.class_names == ["one", "three", "two"]
    assert set(by_name.predict(X)) <= set(names)
    Y = np.column_stack([y > 1, y > 2]).astype(int)
    several = _fit(X, Y)
    again = load_model(save_model(several, tmp_path / "labels.skops"))
    np.testing.assert_array_equal(again.predict(X), several.predict(X))


@pytest.mark.parametrize("name", ["CanonicalCorrelationForestClassifier", "LFDA", "LPP", "NPE"])
def test_every_method_of_jplay_travels(iris, tmp_path, name):
    import jplay

    X, y = iris
    if name.endswith("Classifier"):
        model = getattr(jplay, name)(n_estimators=3, random_state=0)
    else:
        model = make_pipeline(getattr(jplay, name)(2), KNeighborsClassifier(1, algorithm="brute"))
    model.fit(X, y)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_search_tree_of_neighbours_is_refused_with_a_way_out(iris, tmp_path):
    model = KNeighborsClassifier(1, algorithm="kd_tree").fit(*iris)
    with pytest.raises(UntrustedModelError, match=r"KDTree.*algorithm='brute'"):
        save_model(model, tmp_path / "model.skops")


def test_other_estimators_of_scikit_learn_travel_too(iris, tmp_path):
    X, y = iris
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, y)
    loaded = load_model(save_model(model, tmp_path / "lr.skops"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_file_is_refused(model_file, share):
    content = model_file.read_bytes()
    model_file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CorruptFileError, match=r"model\.skops"):
        load_model(model_file)


def test_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "text.skops"
    path.write_text("not a model")
    with pytest.raises(CorruptFileError, match="no zip archive"):
        load_model(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("something.txt", "else")
    path.write_bytes(buffer.getvalue())
    with pytest.raises(CorruptFileError, match="not written by jplay"):
        load_model(path)


def test_changed_matrix_is_refused(model_file):
    def double_an_array(entries):
        name = next(name for name in entries if name.endswith(".npy"))
        changed = io.BytesIO()
        np.save(changed, 2 * np.load(io.BytesIO(entries[name])))
        return entries | {name: changed.getvalue()}

    _rewritten(model_file, double_an_array)
    with pytest.raises(UntrustedModelError, match="changed after it was written"):
        load_model(model_file)


def test_flipped_bytes_are_refused_or_harmless(fitted, model_file, iris):
    content = model_file.read_bytes()
    expected = fitted.decision_function(iris[0])
    rng = np.random.default_rng(0)
    n_refused = 0
    for position in rng.integers(0, len(content), 80).tolist():
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        model_file.write_bytes(bytes(damaged))
        try:
            loaded = load_model(model_file)
        except (CorruptFileError, UntrustedModelError):
            n_refused += 1
        else:
            np.testing.assert_array_equal(loaded.decision_function(iris[0]), expected)
    assert n_refused > 40


def test_added_entry_is_refused(model_file):
    with zipfile.ZipFile(model_file, "a") as archive:
        archive.writestr("extra.npy", b"")
    with pytest.raises(UntrustedModelError, match=r"extra\.npy"):
        load_model(model_file)


@pytest.mark.parametrize("kind", ["partial", "transformer", "nested"])
def test_hostile_file_executes_nothing(model_file, tmp_path, kind):
    """A file with honest checksums whose estimator calls a function of the system."""
    import skops.io

    marker = tmp_path / "executed"
    call = partial(os.system, f"touch {marker}")
    hostile = {
        "partial": call,
        "transformer": FunctionTransformer(call),
        "nested": make_pipeline(FunctionTransformer(func=os.system), LogisticRegression()),
    }[kind]
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(hostile))) as archive:
        payload = {name: archive.read(name) for name in archive.namelist()}
    _rewritten(model_file, lambda entries: _with_honest_checksums(entries | payload))
    with pytest.raises(UntrustedModelError, match="system"):
        load_model(model_file)
    assert not marker.exists()


def test_pickle_in_an_array_is_not_loaded(model_file, tmp_path):
    marker = tmp_path / "executed"

    class Exploit:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    def pickled(entries):
        name = next(name for name in entries if name.endswith(".npy"))
        content = io.BytesIO()
        np.save(content, np.array([Exploit()], dtype=object), allow_pickle=True)
        return _with_honest_checksums(entries | {name: content.getvalue()})

    _rewritten(model_file, pickled)
    with pytest.raises(CorruptFileError):
        load_model(model_file)
    assert not marker.exists()


def test_type_that_is_not_trusted_is_named(model_file):
    def ask_for_a_type(entries):
        schema = entries["schema.json"].replace(b'"JPlay"', b'"Exploit"')
        return _with_honest_checksums(entries | {"schema.json": schema})

    _rewritten(model_file, ask_for_a_type)
    with pytest.raises(UntrustedModelError, match="Exploit"):
        load_model(model_file)


def test_zip_bomb_is_refused(model_file, monkeypatch):
    monkeypatch.setattr("jplay.persistence._files._LARGEST_MODEL_BYTES", 1000)
    with pytest.raises(UntrustedModelError, match="unpacks to"):
        load_model(model_file)


def _peak_bytes(path):
    """Memory at most taken by the attempt to load a file, which is refused."""
    tracemalloc.start()
    try:
        with pytest.raises((CorruptFileError, UntrustedModelError)):
            load_model(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["entry", "header", "mentions", "nested", "document"])
def test_bomb_is_refused_before_it_is_unpacked(model_file, kind):
    def armed(entries):
        name = next(name for name in entries if name.endswith(".npy"))
        content = io.BytesIO()
        if kind == "entry":
            np.save(content, np.zeros(2**23 + 1))
        elif kind == "header":
            header = {"descr": "<f8", "fortran_order": False, "shape": (2**34,)}
            np.lib.format.write_array_header_1_0(content, header)
        elif kind == "mentions":
            np.save(content, np.zeros(2**19))
            schema = json.loads(entries["schema.json"])
            mention = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
            mention |= {"type": "numpy", "file": name}
            schema["content"] = [mention | {"__id__": i} for i in range(100)]
            entries |= {"schema.json": json.dumps(schema).encode()}
        elif kind == "nested":
            np.savez_compressed(content, data=np.zeros(2**23 + 1))
            name = "sparse.npz"
        else:
            content.write(b"[" + b" " * 2**25 + b"]")
            name = "more.json"
        return _with_honest_checksums(entries | {name: content.getvalue()})

    _rewritten(model_file, armed, zipfile.ZIP_DEFLATED)
    assert model_file.stat().st_size < 2**19
    assert _peak_bytes(model_file) < 2**27


@pytest.mark.parametrize(
    "change",
    [
        {"jplay_version": None},
        {"class_names": "abc"},
        {"class_names": [1, 2, 3]},
        {"wavelengths": [None] * 4},
        {"training": None},
        {"n_scene_bands": "4"},
    ],
)
def test_metadata_of_another_type_are_refused(model_file, change):
    def with_change(entries):
        document = json.loads(entries["jplay.json"])
        document["metadata"] |= change
        return _with_honest_checksums(entries | {"jplay.json": json.dumps(document).encode()})

    _rewritten(model_file, with_change)
    with pytest.raises(CorruptFileError, match=next(iter(change))):
        load_model(model_file)


def test_changed_metadata_are_refused(model_file):
    def with_other_names(entries):
        document = json.loads(entries["jplay.json"])
        document["metadata"]["class_names"].reverse()
        return entries | {"jplay.json": json.dumps(document).encode()}

    _rewritten(model_file, with_other_names)
    with pytest.raises(UntrustedModelError, match=r"jplay\.json"):
        load_model(model_file)


def test_flipped_bit_of_the_directory_is_one_clear_error(model_file):
    content = model_file.read_bytes()
    directory = content.index(b"PK\x01\x02")
    for position in (*range(46), *range(directory, directory + 46)):
        damaged = bytearray(content)
        damaged[position] ^= 0x80
        model_file.write_bytes(bytes(damaged))
        with suppress(CorruptFileError, UntrustedModelError):
            load_model(model_file)


def test_function_in_a_model_is_refused_when_saving(iris, tmp_path):
    X, y = iris

    def own_graph(X):
        from sklearn.neighbors import kneighbors_graph

        graph = kneighbors_graph(X, 5)
        return graph.maximum(graph.T)

    with pytest.raises(UntrustedModelError, match="a function given as `graph`"):
        save_model(JPlay(3, graph=own_graph).fit(X, y), tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_other_versions_are_announced_and_other_formats_refused(fitted, tmp_path):
    older = TrainedModel(fitted.estimator, replace(fitted.metadata, jplay_version="0.0.1"))
    path = save_model(older, tmp_path / "older.skops")
    with pytest.warns(ModelVersionWarning, match=r"jplay 0\.0\.1"):
        load_model(path)

    def of_format(number):
        def change(entries):
            document = json.loads(entries["jplay.json"])
            entries["jplay.json"] = json.dumps(document | {"format": number}).encode()
            return _with_honest_checksums(entries)

        return change

    _rewritten(path, of_format(99))
    with pytest.raises(CorruptFileError, match=r"has format 99; .* Install a newer jplay"):
        load_model(path)
    _rewritten(path, of_format(1))
    with pytest.raises(CorruptFileError, match=r"has format 1, which an older jplay wrote; .* Fit"):
        load_model(path)


def test_feature_names_and_wavelengths_are_checked_at_load(fitted, model_file):
    names = fitted.metadata.feature_names
    assert load_model(model_file, feature_names=names).n_features == 4
    with pytest.raises(ModelMismatchError, match="Missing: 'sepal length'"):
        load_model(model_file, feature_names=["length", *names[1:]])
    with pytest.raises(ModelMismatchError, match="order differs from position 0"):
        load_model(model_file, feature_names=names[::-1])
    with pytest.raises(ModelMismatchError, match="band 3 is at 760 nm"):
        load_model(model_file, wavelengths=[450.0, 550.4, 650.0, 760.0])


def test_metadata_of_another_model_are_refused(fitted):
    with pytest.raises(ValueError, match="class_names"):
        TrainedModel(fitted.estimator, ModelMetadata(class_names=["one"]))


@pytest.mark.parametrize("norm", [None, "max", "l1", "l2"])
@pytest.mark.parametrize("decision", ["centroid", "projection"])
def test_collapsed_model_equals_the_pipeline(iris, norm, decision):
    X, y = iris
    last = JPlay(3, 2, decision=decision)
    model = (last if norm is None else make_pipeline(Normalizer(norm=norm), last)).fit(X, y)
    collapsed = collapse_model(model)
    np.testing.assert_allclose(collapsed.transform(X), model.transform(X), atol=1e-12)
    np.testing.assert_allclose(collapsed.scores(X), model.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(collapsed.predict(X), model.predict(X))


def test_export_of_a_foreign_pipeline_says_what_is_possible(iris):
    X, y = iris
    with pytest.raises(TypeError, match="StandardScaler -> JPlay"):
        collapse_model(make_pipeline(StandardScaler(), JPlay(3)).fit(X, y))


def test_npz_holds_the_chain_without_pickle(fitted, iris, tmp_path):
    X, _ = iris
    with np.load(export_npz(fitted, tmp_path / "model.npz"), allow_pickle=False) as arrays:
        scaled = X / np.abs(X).max(axis=1, keepdims=True)
        Z = scaled @ arrays["components"].T + arrays["intercept"]
        scores = Z @ arrays["label_coef"].T + arrays["label_intercept"]
        layer = scaled @ arrays["projection_0"].T + arrays["first_intercept"]
        layer = layer @ arrays["projection_1"].T - arrays["center"]
        np.testing.assert_allclose(layer @ arrays["whitener"].T, Z, atol=1e-9)
        np.testing.assert_array_equal(arrays["classes"][scores.argmax(axis=1)], fitted.predict(X))
        assert arrays["class_names"].tolist() == fitted.metadata.class_names


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["integers", "names", "two", "several"])
def test_onnxruntime_agrees(iris, tmp_path, dtype, target):
    pytest.importorskip("onnx", reason="export needs onnx")
    onnxruntime = pytest.importorskip("onnxruntime", reason="checks the export")
    X, y = iris[0].astype(dtype), iris[1]
    y = {
        "integers": y,
        "names": np.array(["", "one", "two", "three"])[y],
        "two": y > 1,
        "several": np.column_stack([y > 1, y > 2]).astype(int),
    }[target]
    model = _fit(X, y, alpha=1.0)
    path = export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    samples = np.vstack([X, np.zeros((1, 4), dtype)])
    features, scores, label = session.run(["features", "scores", "label"], {"X": samples})
    np.testing.assert_allclose(features, model.transform(samples), atol=1e-5)
    expected = model.decision_function(samples)
    found = scores[:, 1] - scores[:, 0] if target == "two" else scores
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-5)
    np.testing.assert_array_equal(label, model.predict(samples))


def test_card_tells_input_classes_settings_and_accuracy(fitted):
    card = model_card(fitted)
    assert "4 features" in card
    assert "450 to 750 nm" in card
    assert "| 2 | versicolor | 50 |" in card
    assert "Not measured" in card
    measured = replace(
        fitted.metadata,
        accuracy={"method": "5-fold", "overall_accuracy": 0.9, "average_accuracy": 0.8},
    )
    card = model_card(TrainedModel(fitted.estimator, measured))
    assert "5-fold.\n" in card
    assert "| this model | 90.0 % | – |" in card
    assert "average accuracy 80.0 %" in card
    compared = [
        {"name": "JPlay", "overall_accuracy": 0.9, "low": 0.8, "high": 0.95},
        {"name": "Shrinkage LDA", "overall_accuracy": 0.85, "low": 0.7, "high": 0.9},
    ]
    told = {**measured.accuracy, "compared": compared, "notes": ["Few samples."]}
    card = model_card(TrainedModel(fitted.estimator, replace(measured, accuracy=told)))
    assert "| JPlay | 90.0 % | 80.0 % to 95.0 % |" in card
    assert "| Shrinkage LDA | 85.0 % | 70.0 % to 90.0 % |" in card
    assert "- Few samples." in card


def test_card_shows_names_as_text(iris):
    X, y = iris
    names = ["<script>alert(1)</script>", "a|b\n\n# heading", "<img src=x>"]
    features = ["<b>", "`x`", "a|b", "d"]
    model = TrainedModel(
        JPlay(3).fit(X, y),
        ModelMetadata(
            class_names=names, feature_names=features, training={"source": "<iframe src=x>.csv"}
        ),
    )
    card = model_card(model)
    assert "<" not in card
    assert "# heading" not in [line.strip() for line in card.splitlines()]
    assert "| 1 | &lt;script&gt;alert(1)&lt;/script&gt; |" in card
