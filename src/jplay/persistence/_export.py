"""The collapsed model for tools that know nothing of Python."""

from pathlib import Path

import numpy as np

from jplay import __version__
from jplay._optional import import_optional
from jplay.persistence._atomic import atomic_path
from jplay.persistence._collapsed import collapse_model
from jplay.persistence._model import as_trained_model

_OPSET = 17
_IR_VERSION = 8


def export_npz(model, path):
    """Write the matrices of a model to a plain NumPy archive, readable without pickle.

    Entries: those of :class:`CollapsedModel` (``norm`` is ``""`` where samples are not scaled),
    ``projection_0``, ``projection_1``, ... with ``first_intercept``, the chain layer by layer,
    and ``wavelengths``, ``feature_names``, ``class_names`` where the model has them.

    Parameters
    ----------
    model : TrainedModel, JPlay or Pipeline of Normalizer and JPlay
    path : str or path-like

    Returns
    -------
    pathlib.Path
    """
    model = as_trained_model(model)
    collapsed, metadata, path = collapse_model(model), model.metadata, Path(path)
    entries = {
        "norm": np.array(collapsed.norm or ""),
        "components": collapsed.components,
        "intercept": collapsed.intercept,
        "label_coef": collapsed.label_coef,
        "label_intercept": collapsed.label_intercept,
        "classes": _without_objects(collapsed.classes),
        "multilabel": np.array(collapsed.multilabel),
        "first_intercept": model.final_step.first_intercept_,
        "jplay_version": np.array(__version__),
    }
    for layer, projection in enumerate(model.final_step.projections_):
        entries[f"projection_{layer}"] = projection
    for name in ("wavelengths", "feature_names", "class_names"):
        if getattr(metadata, name) is not None:
            entries[name] = np.asarray(getattr(metadata, name))
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **entries)
    return path


def export_onnx(model, path):
    """Write transform and predict of a model as one ONNX graph.

    The input is ``X`` of shape (n_samples, n_features) in the model's precision; the outputs are
    ``features`` (n_samples, n_components), ``scores`` (n_samples, n_outputs) and ``label``, the
    class of each sample or, for multi-label models, an indicator matrix.

    Parameters
    ----------
    model : TrainedModel, JPlay or Pipeline of Normalizer and JPlay
    path : str or path-like

    Returns
    -------
    pathlib.Path
    """
    onnx = import_optional("onnx", feature="Export to ONNX", extra="onnx")
    collapsed, path = collapse_model(model), Path(path)
    dtype = collapsed.components.dtype
    number = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    graph = onnx.helper.make_graph(
        [*_scaling_nodes(onnx, collapsed), *_affine_nodes(onnx), *_label_nodes(onnx, collapsed)],
        "jplay",
        [onnx.helper.make_tensor_value_info("X", number, ["n", collapsed.components.shape[1]])],
        _outputs(onnx, collapsed, number),
        initializer=[
            onnx.numpy_helper.from_array(value, name)
            for name, value in _constants(collapsed, dtype).items()
        ],
    )
    written = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="jplay",
        producer_version=__version__,
    )
    onnx.checker.check_model(written, full_check=True)
    with atomic_path(path) as temporary:
        temporary.write_bytes(written.SerializeToString())
    return path


def _scaling_nodes(onnx, collapsed):
    """Divide each sample by its norm, by 1 where that is zero."""
    node = onnx.helper.make_node
    if collapsed.norm is None:
        return [node("Identity", ["X"], ["scaled"])]
    norm = {
        "max": [
            node("Abs", ["X"], ["absolute"]),
            node("ReduceMax", ["absolute"], ["norm"], axes=[1], keepdims=1),
        ],
        "l1": [node("ReduceL1", ["X"], ["norm"], axes=[1], keepdims=1)],
        "l2": [node("ReduceL2", ["X"], ["norm"], axes=[1], keepdims=1)],
    }[collapsed.norm]
    return [
        *norm,
        node("Equal", ["norm", "zero"], ["is_zero"]),
        node("Where", ["is_zero", "one", "norm"], ["divisor"]),
        node("Div", ["X", "divisor"], ["scaled"]),
    ]


def _affine_nodes(onnx):
    node = onnx.helper.make_node
    return [
        node("MatMul", ["scaled", "components"], ["projected"]),
        node("Add", ["projected", "intercept"], ["features"]),
        node("MatMul", ["features", "label_coef"], ["outputs"]),
        node("Add", ["outputs", "label_intercept"], ["scores"]),
    ]


def _label_nodes(onnx, collapsed):
    node = onnx.helper.make_node
    if collapsed.multilabel:
        return [
            node("Greater", ["scores", "half"], ["is_label"]),
            node("Cast", ["is_label"], ["label"], to=onnx.TensorProto.INT64),
        ]
    return [
        node("ArgMax", ["scores"], ["position"], axis=1, keepdims=0),
        node("Gather", ["classes", "position"], ["label"]),
    ]


def _outputs(onnx, collapsed, number):
    info = onnx.helper.make_tensor_value_info
    n_outputs, n_components = collapsed.label_coef.shape
    if collapsed.multilabel:
        label = info("label", onnx.TensorProto.INT64, ["n", n_outputs])
    else:
        is_text = _onnx_classes(collapsed.classes).dtype.kind == "O"
        kind = onnx.TensorProto.STRING if is_text else onnx.TensorProto.INT64
        label = info("label", kind, ["n"])
    return [
        info("features", number, ["n", n_components]),
        info("scores", number, ["n", n_outputs]),
        label,
    ]


def _constants(collapsed, dtype):
    constants = {
        "components": np.ascontiguousarray(collapsed.components.T),
        "intercept": collapsed.intercept.astype(dtype),
        "label_coef": np.ascontiguousarray(collapsed.label_coef.T.astype(dtype)),
        "label_intercept": collapsed.label_intercept.astype(dtype),
    }
    if collapsed.norm is not None:
        constants |= {"zero": np.zeros(1, dtype), "one": np.ones(1, dtype)}
    if collapsed.multilabel:
        constants["half"] = np.full(1, 0.5, dtype)
    else:
        constants["classes"] = _onnx_classes(collapsed.classes)
    return constants


def _onnx_classes(classes):
    """Integers stay numbers; any other label becomes its text."""
    if classes.dtype.kind in "biu":
        return classes.astype(np.int64)
    return np.array([str(label) for label in classes.tolist()], dtype=object)


def _without_objects(classes):
    return classes.astype(str) if classes.dtype.kind == "O" else classes
