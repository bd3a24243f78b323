"""From a fitted model and its samples to a run."""

from dataclasses import asdict, is_dataclass

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from jplay.inspection import feature_relevance
from jplay.numerics.metrics import AccuracyReport
from jplay.persistence import as_trained_model
from jplay.plotting import align_planes, false_color
from jplay.report._content import Run
from jplay.report._parts import SceneView

MAX_PIXELS = 1_000_000
MAX_SPECTRUM_BYTES = 5_000_000
MAX_BANDS = 256


def record_run(
    model,
    X,
    y,
    *,
    train,
    test,
    title,
    facts=None,
    class_names=None,
    scores=(),
    depth=(),
    scene=None,
    class_map=None,
    image_shape=None,
    judged="",
    predicted=None,
    n_points=1500,
):
    """Gather what a report shows of a fitted model.

    Parameters
    ----------
    model : fitted JPlay
    X : array-like of shape (n_samples, n_features)
        As the model expects them.
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    train, test : array-like of int
        Rows of ``X`` the model was fitted to, and rows it is judged by.
    title : str
    facts : dict of str to str, optional
        What was run and on what.
    class_names : sequence of str, optional
        In the order of ``model.classes_``.
    scores, depth : sequence of dict or dataclass, optional
        Rows of the comparison and of accuracy against depth, see :class:`Run`.
    scene : Bunch, optional
        With ``cube``, ``ground_truth``, ``pixel_indices`` and ``wavelengths``, as the loaders of
        scenes return it; ``model.classes_`` are then labels of its ground truth.
    class_map : array-like of shape (height, width), optional
        Predicted label of every pixel of ``scene``, 0 where there is none.
    image_shape : pair of int, optional
        If features are pixels of an image.
    judged : str, optional
        Row of ``scores`` that the class map and ``predicted`` are of, by its ``features``, if they
        are not the model's.
    predicted : array-like of shape (n_test,) or (n_test, n_labels), optional
        Predictions whose accuracy is shown; by default the model's.
    n_points : int, default=1500
        Maximum number of test samples in the figures of the subspaces.

    Returns
    -------
    Run

    Examples
    --------
    >>> import numpy as np
    >>> from jplay import JPlay
    >>> from jplay.report import record_run
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    >>> model = JPlay(n_components=2, n_layers=2).fit(X[train], y[train])
    >>> run = record_run(model, X, y, train=train, test=test, title="Iris")
    >>> run.confusion.shape
    (3, 3)
    """
    X, y, train, test = np.asarray(X), np.asarray(y), np.asarray(train), np.asarray(test)
    names = [str(name) for name in (model.classes_ if class_names is None else class_names)]
    if len(names) != len(model.classes_):
        raise ValueError(
            f"`class_names` should hold {len(model.classes_)} names (one per class of the model), "
            f"got {len(names)}."
        )
    shown = _some_of(test, n_points)
    positions, axis = _positions_of(X.shape[1], None if scene is None else scene.wavelengths)
    predicted = model.predict(X[test]) if predicted is None else np.asarray(predicted)
    return Run(
        title=title,
        facts=dict(facts or {}) | _fit_facts(model, len(train), len(test)),
        class_names=names,
        parameters=_parameters(model),
        scores=[_row(score) for score in scores],
        judged=judged,
        **_accuracy(y[test], predicted, model.classes_),
        class_counts={
            name: _counts(y[rows], model.classes_)
            for name, rows in (("Training", train), ("Test", test))
        },
        depth=[_row(point) for point in depth],
        **_chain_parts(model, X[train], y[train], X[shown], y[shown]),
        layer_accuracy=_nearest_neighbour_shares(model, X[train], y[train], X[shown], y[shown]),
        feature_positions=positions,
        feature_axis=axis,
        image_shape=None if image_shape is None else tuple(int(n) for n in image_shape),
        scene=None if class_map is None else _view_of(scene, class_map, train, model.classes_),
        remarks=_remarks(model),
    )


def record_model(model, X, y, *, title, facts=None, scene=None, n_points=1500):
    """Gather what a report shows of a model and the samples it was fitted to.

    Its accuracy is the one that was estimated when it was trained, on samples left out of the fit
    (:func:`jplay.persistence.train_model` with ``cv``). What the samples themselves would say is
    not shown.

    Parameters
    ----------
    model : TrainedModel or fitted classifier
        A pipeline, too; the subspaces, what classes rely on and convergence are shown if its last
        step is a :class:`jplay.JPlay`.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    title : str
    facts : dict of str to str, optional
        What was run and on what.
    scene : SceneView, optional
        The image that the samples are from, with the model's class map.
    n_points : int, default=1500
        Maximum number of samples in the figures of the subspaces.

    Returns
    -------
    Run

    Examples
    --------
    >>> from jplay.persistence import train_model
    >>> from jplay.report import record_model
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> run = record_model(train_model(X, y, cv=3), X, y, title="Iris")
    >>> [score["features"] for score in run.scores]
    ['JPlay', 'Shrinkage LDA', 'Random forest']
    """
    model, y = as_trained_model(model), np.asarray(y)
    metadata, last = model.metadata, model.final_step
    accuracy = metadata.accuracy or {}
    if hasattr(model.estimator, "steps") and len(model.estimator.steps) > 1:
        X = model.estimator[:-1].transform(X)
    parts = {}
    if hasattr(last, "transform_layers"):
        shown = _some_of(np.arange(len(y)), n_points)
        # A model that was fitted to a frame expects one.
        some = X.iloc[shown] if hasattr(X, "iloc") else np.asarray(X)[shown]
        parts = _chain_parts(last, X, y, some, y[shown])
        positions, axis = _positions_of(X.shape[1], metadata.wavelengths)
        parts |= {"feature_positions": positions, "feature_axis": axis}
        if metadata.wavelengths is None and len(metadata.feature_names or ()) == len(positions):
            parts["feature_names"] = list(metadata.feature_names)
    compared = accuracy.get("compared", ())
    confusion = accuracy.get("confusion")
    return Run(
        title=title,
        facts=dict(facts or {})
        | ({"Accuracy": accuracy["method"]} if accuracy else {})
        | _fit_facts(last, len(y)),
        class_names=list(metadata.class_names or ()),
        parameters=_parameters(last),
        scores=[{"features": row["name"], "classifier": "built-in", **row} for row in compared],
        judged=compared[0]["name"] if compared else "",
        confusion=None if confusion is None else np.asarray(confusion),
        class_counts={"Samples": _counts(y, last.classes_)},
        **parts,
        scene=scene,
        remarks=[*accuracy.get("notes", ()), *_remarks(last)],
    )


def _some_of(rows, n_points):
    return rows[np.linspace(0, len(rows) - 1, min(n_points, len(rows))).astype(int)]


def _positions_of(n_features, wavelengths):
    if wavelengths is not None and len(wavelengths) == n_features:
        return np.asarray(wavelengths, dtype=float), "Wavelength (nm)"
    return np.arange(n_features, dtype=float), "Feature"


def _parameters(model):
    return {name: _plain(v) for name, v in sorted(model.get_params(deep=False).items())}


def _chain_parts(model, X_train, y_train, X, y):
    """What only a chain of projections has to show: its subspaces, relevance and history."""
    spaces, train_spaces = (
        [np.asarray(Z) for Z in (samples, *model.transform_layers(samples))]
        for samples in (X, X_train)
    )
    kind = "Input"
    if getattr(model, "scaling", None) == "standard":
        # As the model sees them; otherwise the feature with the largest unit would be all of it.
        centre, spread = train_spaces[0].mean(axis=0), train_spaces[0].std(axis=0)
        spread[spread == 0] = 1.0
        spaces[0], train_spaces[0] = ((Z - centre) / spread for Z in (spaces[0], train_spaces[0]))
        kind = "Scaled input"
    return {
        **_history(getattr(model, "result_", None)),
        "layer_names": [
            f"{kind}: {spaces[0].shape[1]} features",
            *(f"Layer {n}: {Z.shape[1]} dimensions" for n, Z in enumerate(spaces[1:], 1)),
        ],
        "planes": _planes(train_spaces, y_train, spaces),
        "point_labels": _positions(y, model.classes_),
        "relevance": feature_relevance(model, X_train, y_train).shares().astype(np.float32),
    }


def _history(result):
    """Objective and residuals; nothing of a model from a file, which has no history."""
    if result is None:
        return {}
    return {
        "objective": {
            name: [float(getattr(terms, name)) for terms in result.objective_terms]
            for name in ("reconstruction", "prediction", "manifold", "ridge")
        },
        "residuals": _last_residuals(result.residuals),
    }


def _remarks(model):
    result = getattr(model, "result_", None)
    if result is None or result.status.converged:
        return []
    return [f"The fit has not converged: {result.status.message}"]


def _view_of(scene, class_map, train, classes):
    """View a scene of the loaders, some of whose labelled pixels were trained on."""
    truth = np.asarray(scene.ground_truth)
    training = np.zeros(truth.size, dtype=bool)
    training[np.asarray(scene.pixel_indices)[train]] = True
    return scene_view(
        scene.cube,
        class_map,
        classes,
        truth=truth,
        training=training.reshape(truth.shape),
        wavelengths=scene.wavelengths,
    )


def _fit_facts(model, n_train, n_test=0):
    tested = f" for training, {n_test} for testing" if n_test else ""
    facts = {"Samples": f"{n_train}{tested}", "Model": type(model).__name__}
    if not hasattr(model, "layer_sizes_"):
        return facts
    sizes = " → ".join(str(size) for size in (model.n_features_in_, *model.layer_sizes_))
    facts["Subspaces"] = sizes
    if hasattr(model, "result_"):
        status = model.result_.status.message
        facts["Fit"] = f"solver “{_plain(model.solver)}”, {model.n_iter_} iterations: {status}"
    return facts


def _plain(value):
    """Return a setting as JSON can hold it."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple) and len(value) < 50:
        return [_plain(item) for item in value]
    return type(value).__name__


def _row(row):
    return asdict(row) if is_dataclass(row) else dict(row)


def _accuracy(y_true, y_pred, classes):
    if y_true.ndim == 2:
        hits = (y_true * y_pred).sum(axis=0)
        return {
            "class_figures": {
                "Precision": _shares(hits, y_pred.sum(axis=0)),
                "Recall": _shares(hits, y_true.sum(axis=0)),
                "F1": _shares(2 * hits, y_pred.sum(axis=0) + y_true.sum(axis=0)),
            }
        }
    report = AccuracyReport.from_labels(y_true, y_pred, labels=classes)
    figures = report.to_dict()
    return {
        "confusion": report.confusion,
        "class_figures": {
            "Producer's accuracy": figures["producers_accuracy"],
            "User's accuracy": figures["users_accuracy"],
        },
    }


def _shares(part, whole):
    return [float(p / w) if w else None for p, w in zip(part, whole, strict=True)]


def _counts(y, classes):
    per_class = y.sum(axis=0) if y.ndim == 2 else (y[:, None] == classes).sum(axis=0)
    return [int(n) for n in per_class]


def _positions(y, classes):
    """Position of each label among the classes; of the first one where there are several."""
    if y.ndim == 2:
        return y.argmax(axis=1).astype(np.uint16)
    return np.searchsorted(classes, y).astype(np.uint16)


def _last_residuals(residuals):
    """Return the largest residual with which each layer ended an iteration."""
    if not residuals:
        return None
    return np.array(
        [[np.max(np.atleast_2d(np.asarray(layer))[-1]) for layer in step] for step in residuals],
        dtype=float,
    )


def _nearest_neighbour_shares(model, X_train, y_train, X, y):
    if y.ndim == 2:
        return []
    spaces = zip(
        [X_train, *model.transform_layers(X_train)], [X, *model.transform_layers(X)], strict=True
    )
    return [
        float(KNeighborsClassifier(1).fit(Z_train, y_train).score(Z, y)) for Z_train, Z in spaces
    ]


def _planes(train_spaces, y_train, spaces):
    """View every subspace in the plane in which the training samples' class means differ most."""
    planes = []
    for Z_train, Z in zip(train_spaces, spaces, strict=True):
        centre = Z_train.mean(axis=0)
        axes = np.linalg.svd(_class_means(Z_train, y_train) - centre, full_matrices=False)[2][:2]
        plane = (Z - centre) @ axes.T
        planes.append(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))
    return np.stack(align_planes(planes)).astype(np.float32)


def _class_means(Z, y):
    members = y.T > 0 if y.ndim == 2 else np.unique(y)[:, None] == y
    return np.stack([Z[rows].mean(axis=0) for rows in members if rows.any()])


def scene_view(
    cube,
    class_map,
    classes,
    *,
    truth=None,
    training=None,
    wavelengths=None,
    value_name="Value",
    step=1,
):
    """Reduce an image and its maps to what a page can carry.

    Maps keep at most a million pixels and spectra at most five million values, by leaving out
    rows and columns, and by averaging neighbouring bands if there are more than 256.

    Parameters
    ----------
    cube : array-like of shape (height, width, n_bands)
        NaN if there is no value.
    class_map : array-like of shape (height, width)
        Label of every pixel; one that is not of ``classes`` is no class.
    classes : array-like of shape (n_classes,)
    truth : array-like of shape (height, width), optional
        Labels that are known.
    training : array-like of shape (height, width), optional
        True for pixels that the model was fitted to.
    wavelengths : array-like of shape (n_bands,), optional
        In nm.
    value_name : str, default="Value"
        What the spectra are, with its unit.
    step : int, default=1
        Rows and columns of the image of which ``cube`` and the maps hold one.

    Returns
    -------
    SceneView

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.report import scene_view
    >>> view = scene_view(np.random.rand(4, 5, 3), np.ones((4, 5)), [1, 2])
    >>> view.prediction.shape
    (4, 5)
    """
    cube, class_map = np.asarray(cube), np.asarray(class_map)
    shape = cube.shape[:2]
    truth = np.zeros(shape) if truth is None else np.asarray(truth)
    training = np.zeros(shape) if training is None else np.asarray(training)
    for name, array in (("class_map", class_map), ("truth", truth), ("training", training)):
        if array.shape != shape:
            raise ValueError(
                f"`{name}` should have shape {shape}, that of the scene, got {array.shape}."
            )
    thinned = int(np.ceil(np.sqrt(class_map.size / MAX_PIXELS)))
    every = np.s_[::thinned, ::thinned]
    cube = cube[every]
    has_wavelengths = wavelengths is not None
    positions = np.asarray(wavelengths if has_wavelengths else np.arange(cube.shape[2]), float)
    groups = np.array_split(np.arange(cube.shape[2]), min(cube.shape[2], MAX_BANDS))
    spectrum_step = int(
        np.ceil(np.sqrt(cube.shape[0] * cube.shape[1] * len(groups) / MAX_SPECTRUM_BYTES))
    )
    sparse = cube[::spectrum_step, ::spectrum_step]
    spectra = np.stack([sparse[:, :, group].mean(axis=2) for group in groups], axis=2)
    low, high = (float(v) for v in np.nanpercentile(spectra, (0, 100)))
    quantised = np.nan_to_num((spectra - low) * (255 / ((high - low) or 1.0)))
    colors = false_color(cube, wavelengths=positions if has_wavelengths else None)
    return SceneView(
        false_color=np.round(255 * colors).astype(np.uint8),
        ground_truth=_class_numbers(truth[every], classes),
        prediction=_class_numbers(class_map[every], classes),
        training=(training[every] > 0).astype(np.uint8),
        spectra=np.round(quantised).astype(np.uint8),
        wavelengths=np.array([positions[group].mean() for group in groups]),
        value_range=(low, high),
        spectrum_step=spectrum_step,
        pixel_step=step * thinned,
        has_wavelengths=has_wavelengths,
        value_name=value_name,
    )


def _class_numbers(labels, classes):
    """Number the classes from 1 in the order of the model's; anything else is 0."""
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(np.asarray(classes)[places] == labels, places + 1, 0).astype(np.uint16)
