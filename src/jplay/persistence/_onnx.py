"""Models as ONNX graphs, which programs in any language can run."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from jplay import __version__
from jplay._array_api import to_numpy
from jplay._files import atomic_path
from jplay._optional import import_optional
from jplay.estimators import JPlay, JPlayCommittee, LiftedJPlay, MultiLabelJPlay
from jplay.estimators.additive_chain import AdditiveChain
from jplay.numerics.votes import LEAST_NEIGHBOR_VOTE, LEAST_VOTE
from jplay.persistence._collapsed import collapse_model, norm_and_classifier
from jplay.persistence._model import as_trained_model

_OPSET = 17
_IR_VERSION = 8


def export_onnx(model: Any, path: str | os.PathLike, *, dtype: Any = None) -> Path:
    """Write the predictions of a model as one ONNX graph.

    The input is ``X`` of shape (n_samples, n_features). The outputs are ``label``, the class of
    each sample or, for multi-label models, an indicator matrix, and ``probabilities`` (n_samples,
    n_outputs). A :class:`jplay.JPlay` and a :class:`jplay.LiftedJPlay` also give ``features``
    (n_samples, n_components) and ``scores`` (n_samples, n_outputs).

    Parameters
    ----------
    model : TrainedModel, JPlay, LiftedJPlay, JPlayCommittee, MultiLabelJPlay
        Or a pipeline of a Normalizer and one of these. A :class:`jplay.MultiLabelJPlay` can be
        exported if its ``model_`` is one of the others.
    path : str or path-like
    dtype : {float32, float64}, default=None
        Precision of the input and of the graph. ``None`` for that in which a J-Play was fitted,
        and float64 for the others. In single precision the nearest of two training samples at
        the same distance may be the other one.

    Returns
    -------
    pathlib.Path
    """
    onnx = import_optional("onnx", feature="Export to ONNX", extra="onnx")
    model, path = as_trained_model(model), Path(path)
    norm, classifier = norm_and_classifier(model.estimator, tuple(_WRITERS))
    if dtype is None:
        dtype = classifier.components_.dtype if isinstance(classifier, JPlay) else np.float64
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"`dtype` should be float32 or float64, got {dtype!r}.")
    graph = _Graph(onnx, np.dtype(dtype))
    samples = graph.input("X", model.n_features)
    for name, value in _written(graph, classifier, _scaled(graph, samples, norm)).items():
        graph.output(name, value)
    with atomic_path(path) as temporary:
        temporary.write_bytes(graph.serialized())
    return path


class _Graph:
    """An ONNX graph that grows by one operation at a time."""

    def __init__(self, onnx, dtype):
        self.dtype = dtype
        self.integer = onnx.TensorProto.INT64
        self._onnx = onnx
        self._nodes, self._constants, self._inputs, self._outputs = [], [], [], []

    def __call__(self, operation, *inputs, n_outputs=1, **attributes):
        """Add an operation. Inputs are names of values, or constants; returns names."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        number = len(self._nodes)
        outputs = [f"{operation.lower()}_{number}_{place}" for place in range(n_outputs)]
        self._nodes.append(self._onnx.helper.make_node(operation, names, outputs, **attributes))
        return outputs[0] if n_outputs == 1 else outputs

    def _constant(self, value):
        """Numbers that are not whole take the precision of the graph."""
        value = to_numpy(value) if hasattr(value, "shape") else np.asarray(value)
        if value.dtype.kind == "f":
            value = value.astype(self.dtype)
        name = f"constant_{len(self._constants)}"
        self._constants.append(
            self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
        )
        return name

    def input(self, name, n_columns):
        number = self._onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        self._inputs.append(
            self._onnx.helper.make_tensor_value_info(name, number, ["n", n_columns])
        )
        return name

    def output(self, name, value):
        """Call a value ``name`` and give it out."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(name)

    def serialized(self):
        """The checked model as bytes."""
        helper = self._onnx.helper
        infos = [self._onnx.ValueInfoProto(name=name) for name in self._outputs]
        graph = helper.make_graph(
            self._nodes, "jplay", self._inputs, infos, initializer=self._constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="jplay",
            producer_version=__version__,
        )
        # Fills in types and shapes of the outputs.
        model = self._onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        self._onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


def _scaled(graph, X, norm):
    """Samples divided by their norm, by 1 if that is zero."""
    if norm is None:
        return X
    if norm == "max":
        size = graph("ReduceMax", graph("Abs", X), axes=[1], keepdims=1)
    else:
        size = graph(f"Reduce{norm.upper()}", X, axes=[1], keepdims=1)
    divisor = graph("Where", graph("Equal", size, [0.0]), [1.0], size)
    return graph("Div", X, divisor)


def _written(graph, classifier, X):
    """Values of a classifier's outputs by name."""
    return _WRITERS[type(classifier)](graph, classifier, X)


def _linear(graph, model, X):
    collapsed = collapse_model(model)
    features = _affine(graph, X, collapsed.components, collapsed.intercept)
    scores = _affine(graph, features, collapsed.label_coef, collapsed.label_intercept)
    return _scored(graph, model, features, scores)


def _lifted(graph, model, X):
    return _scored(graph, model, *_lifted_chain(graph, model.chain_, X))


def _scored(graph, model, features, scores):
    """Outputs of a classifier whose scores are logarithms of probabilities up to a factor."""
    to_probabilities = _logistic if model.multilabel_ else _softmax
    return {
        "features": features,
        "scores": scores,
        "probabilities": to_probabilities(graph, scores, model._sharpness),
        "label": _label(graph, model, scores, 0.5),
    }


def _committee(graph, model, X):
    X = graph("Sub", graph("Mul", X, model.scale_), model.center_)
    total = None
    for member, shares in model._ballots():
        write = _additive_chain if isinstance(member.chain, AdditiveChain) else _lifted_chain
        features, projection = write(graph, member.chain, X)
        sharpness = model.sharpness_[member.kind]
        if shares[0] > 0:
            votes = _neighbors(graph, member, features)
            if not model.multilabel_:
                powers = graph(
                    "Pow", graph("Add", votes, [LEAST_NEIGHBOR_VOTE]), [float(sharpness[0])]
                )
                votes = graph("Div", powers, graph("ReduceSum", powers, [1]))
            total = _added(graph, total, votes, shares[0])
        if shares[1] > 0:
            to_probabilities = _logistic if model.multilabel_ else _softmax
            votes = to_probabilities(graph, projection, sharpness[1])
            total = _added(graph, total, votes, shares[1])
    logarithms = graph("Log", graph("Add", total, [LEAST_VOTE]))
    if model.multilabel_:
        against = graph("Log", graph("Sub", [1 + LEAST_VOTE], total))
        odds = graph("Mul", graph("Sub", logarithms, against), [model.exponent_])
        total = probabilities = graph("Sigmoid", graph("Add", odds, [model.offset_]))
    else:
        probabilities = _softmax(graph, logarithms, model.exponent_)
    return {"probabilities": probabilities, "label": _label(graph, model, total, 0.5)}


def _thresholded(graph, model, X):
    norm, classifier = norm_and_classifier(model.model_, tuple(_WRITERS))
    outputs = _written(graph, classifier, _scaled(graph, X, norm))
    return outputs | {"label": _label(graph, model, outputs["probabilities"], model.thresholds_)}


_WRITERS = {
    JPlay: _linear,
    LiftedJPlay: _lifted,
    JPlayCommittee: _committee,
    MultiLabelJPlay: _thresholded,
}


def _additive_chain(graph, chain, X):
    """Features in the last subspace and outputs of an additive chain."""
    Z = X if chain.columns is None else graph("Gather", X, chain.columns, axis=1)
    features = outputs = None
    for number, (start, slope) in enumerate(zip(chain.starts, chain.slopes, strict=True)):
        ramp = graph("Clip", graph("Mul", graph("Sub", Z, start), slope), 0.0, 1.0)
        components, coef = chain.components[:, number], chain.coef[:, number]
        features = _added(graph, features, graph("MatMul", ramp, components.T), 1)
        outputs = _added(graph, outputs, graph("MatMul", ramp, coef.T), 1)
    return features, graph("Add", outputs, chain.intercept)


def _lifted_chain(graph, chain, X):
    """Features in the last subspace and outputs of a lifted chain."""
    kernel, n_kernels = None, sum(len(view.widths) for view in chain.views)
    for view in chain.views:
        Z = X if view.features is None else graph("Gather", X, view.features, axis=1)
        if view.normalised:
            Z = _scaled(graph, Z if view.origin is None else graph("Add", Z, view.origin), "l2")
        elif view.matrix is not None and view.matrix.ndim == 1:
            Z = graph("Mul", Z, view.matrix)
        elif view.matrix is not None:
            Z = graph("MatMul", Z, to_numpy(view.matrix).T)
        distances = _squared_distances(graph, Z, view.landmarks)
        for width in view.widths:
            similarity = graph("Exp", graph("Mul", distances, [-0.5 / width**2]))
            kernel = _added(graph, kernel, similarity, 1 / n_kernels)
    features = _affine(graph, kernel, to_numpy(chain.read_out).T, chain.offset)
    return features, graph("MatMul", features, to_numpy(chain.coef).T)


def _squared_distances(graph, A, B):
    """Between rows of samples and of a constant; rounding makes some negative."""
    B = to_numpy(B).astype(np.float64)
    products = graph("MatMul", A, -2 * B.T)
    norms = graph("ReduceSumSquare", A, axes=[1], keepdims=1)
    distances = graph("Add", graph("Add", products, norms), (B**2).sum(axis=1))
    return graph("Max", distances, 0.0)


def _neighbors(graph, member, features):
    """Votes of the nearest training samples, each weighed by one over its distance."""
    distances = _squared_distances(graph, features, member.neighbors)
    count = min(member.n_neighbors, len(member.neighbors))
    squares, nearest = graph("TopK", distances, [count], n_outputs=2, axis=1, largest=0)
    distances = graph("Sqrt", squares)
    largest = graph("ReduceMax", distances, axes=[1], keepdims=1)
    smallest = float(np.finfo(graph.dtype).smallest_normal) ** 0.5
    floor = graph("Add", graph("Mul", largest, [1e-9]), [smallest])
    weights = graph("Reciprocal", graph("Max", distances, floor))
    if member.weight is not None:
        weights = graph("Mul", weights, graph("Gather", member.weight, nearest))
    weights = graph("Div", weights, graph("ReduceSum", weights, [1]))
    targets = graph("Gather", member.indicators, nearest, axis=0)
    return graph(
        "ReduceSum", graph("Mul", graph("Unsqueeze", weights, [2]), targets), [1], keepdims=0
    )


def _affine(graph, X, matrix, offset):
    return graph("Add", graph("MatMul", X, to_numpy(matrix).T), offset)


def _added(graph, total, values, weight):
    """``total + weight * values``; a total of ``None`` is zero."""
    if weight != 1:
        values = graph("Mul", values, [float(weight)])
    return values if total is None else graph("Add", total, values)


def _softmax(graph, scores, sharpness):
    return graph("Softmax", graph("Mul", scores, [float(sharpness)]), axis=1)


def _logistic(graph, scores, sharpness):
    return graph("Sigmoid", graph("Mul", graph("Sub", scores, [0.5]), [float(sharpness)]))


def _label(graph, model, values, threshold):
    """The class with the largest value, or labels above a threshold."""
    if model.multilabel_:
        above = graph("Greater", values, np.atleast_1d(threshold))
        return graph("Cast", above, to=graph.integer)
    position = graph("ArgMax", values, axis=1, keepdims=0)
    return graph("Gather", _onnx_classes(to_numpy(model.classes_)), position)


def _onnx_classes(classes):
    """Integers stay numbers; any other label becomes its text."""
    if classes.dtype.kind in "biu":
        return classes.astype(np.int64)
    return np.array([str(label) for label in classes.tolist()], dtype=object)
