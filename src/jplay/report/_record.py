"""From a fitted model and its samples to a run."""

from dataclasses import asdict, is_dataclass

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from jplay.numerics.metrics import AccuracyReport
from jplay.plotting import false_color, feature_reliance
from jplay.report._run import Run, SceneView

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
        Where features are pixels of an image.
    n_points : int, default=1500
        Most test samples in the pictures of the subspaces.

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
    shown = test[np.linspace(0, len(test) - 1, min(n_points, len(test))).astype(int)]
    spaces = [X[shown], *model.transform_layers(X[shown])]
    train_spaces = [X[train], *model.transform_layers(X[train])]
    reliance, positions, axis = feature_reliance(model, X[train]), None, "Feature"
    if scene is not None and len(scene.wavelengths) == X.shape[1]:
        positions, axis = np.asarray(scene.wavelengths, dtype=float), "Wavelength (nm)"
    result = model.result_
    return Run(
        title=title,
        facts=dict(facts or {}) | _fit_facts(model, len(train), len(test)),
        class_names=names,
        parameters={k: _plain(v) for k, v in sorted(model.get_params(deep=False).items())},
        scores=[_row(score) for score in scores],
        **_accuracy(y[test], model.predict(X[test]), model.classes_),
        class_counts=_counts(y, train, test, model.classes_),
        depth=[_row(point) for point in depth],
        objective={
            name: [float(getattr(terms, name)) for terms in result.objective_terms]
            for name in ("reconstruction", "prediction", "manifold", "ridge")
        },
        residuals=_last_residuals(result.residuals),
        layer_names=[
            f"Input: {spaces[0].shape[1]} features",
            *(f"Layer {n}: {Z.shape[1]} dimensions" for n, Z in enumerate(spaces[1:], 1)),
        ],
        layer_accuracy=_nearest_neighbour_shares(train_spaces, y[train], spaces, y[shown]),
        planes=_planes(train_spaces, y[train], spaces),
        point_labels=_positions(y[shown], model.classes_),
        reliance=reliance.astype(np.float32),
        feature_positions=np.arange(X.shape[1], dtype=float) if positions is None else positions,
        feature_axis=axis,
        image_shape=None if image_shape is None else tuple(int(n) for n in image_shape),
        scene=None if class_map is None else scene_view(scene, class_map, train, model.classes_),
    )


def _fit_facts(model, n_train, n_test):
    sizes = " → ".join(str(size) for size in (model.n_features_in_, *model.layer_sizes_))
    return {
        "Samples": f"{n_train} for training, {n_test} for testing",
        "Subspaces": sizes,
        "Fit": f"solver “{model.solver}”, {model.n_iter_} iterations: "
        f"{model.result_.status.message}",
    }


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


def _counts(y, train, test, classes):
    def per_class(rows):
        if y.ndim == 2:
            return y[rows].sum(axis=0)
        return (y[rows][:, None] == classes).sum(axis=0)

    return {
        name: [int(n) for n in per_class(rows)]
        for name, rows in (("Training", train), ("Test", test))
    }


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


def _nearest_neighbour_shares(train_spaces, y_train, spaces, y):
    if y.ndim == 2:
        return []
    return [
        float(KNeighborsClassifier(1).fit(Z_train, y_train).score(Z, y))
        for Z_train, Z in zip(train_spaces, spaces, strict=True)
    ]


def _planes(train_spaces, y_train, spaces):
    """View every subspace in the plane in which the training samples' class means differ most.

    Every plane is scaled to unit spread and turned to agree with the one before it. Axes have
    arbitrary signs, so that without this a class would jump from panel to panel.
    """
    turned = []
    for Z_train, Z in zip(train_spaces, spaces, strict=True):
        centre = Z_train.mean(axis=0)
        axes = np.linalg.svd(_class_means(Z_train, y_train) - centre, full_matrices=False)[2][:2]
        plane = (Z - centre) @ axes.T
        plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
        plane = plane / (np.sqrt(np.mean(plane**2)) or 1.0)
        if turned:
            left, _, right = np.linalg.svd(plane.T @ turned[-1])
            plane = plane @ (left @ right)
        turned.append(plane)
    return np.stack(turned).astype(np.float32)


def _class_means(Z, y):
    members = y.T > 0 if y.ndim == 2 else np.unique(y)[:, None] == y
    return np.stack([Z[rows].mean(axis=0) for rows in members if rows.any()])


def scene_view(scene, class_map, train, classes):
    """Reduce a scene and its maps to what a page can carry.

    Maps keep at most a million pixels and spectra at most five million values, by leaving out
    rows and columns, and by averaging neighbouring bands where there are more than 256.
    """
    cube, truth = np.asarray(scene.cube), np.asarray(scene.ground_truth)
    class_map = np.asarray(class_map)
    if class_map.shape != truth.shape:
        raise ValueError(
            f"`class_map` should have shape {truth.shape}, that of the scene, got "
            f"{class_map.shape}."
        )
    training = np.zeros(truth.size, dtype=np.uint8)
    training[np.asarray(scene.pixel_indices)[train]] = 1
    step = int(np.ceil(np.sqrt(truth.size / MAX_PIXELS)))
    every = np.s_[::step, ::step]
    cube = cube[every]
    has_wavelengths = scene.wavelengths is not None
    wavelengths = np.asarray(
        scene.wavelengths if has_wavelengths else np.arange(cube.shape[2]), dtype=float
    )
    groups = np.array_split(np.arange(cube.shape[2]), min(cube.shape[2], MAX_BANDS))
    spectrum_step = int(
        np.ceil(np.sqrt(cube.shape[0] * cube.shape[1] * len(groups) / MAX_SPECTRUM_BYTES))
    )
    sparse = cube[::spectrum_step, ::spectrum_step]
    spectra = np.stack([sparse[:, :, group].mean(axis=2) for group in groups], axis=2)
    low, high = (float(v) for v in np.nanpercentile(spectra, (0, 100)))
    quantised = np.nan_to_num((spectra - low) * (255 / ((high - low) or 1.0)))
    colors = false_color(cube, wavelengths=wavelengths if has_wavelengths else None)
    return SceneView(
        false_color=np.round(255 * colors).astype(np.uint8),
        ground_truth=_class_numbers(truth[every], classes),
        prediction=_class_numbers(class_map[every], classes),
        training=training.reshape(truth.shape)[every],
        spectra=np.round(quantised).astype(np.uint8),
        wavelengths=np.array([wavelengths[group].mean() for group in groups]),
        value_range=(low, high),
        spectrum_step=spectrum_step,
        pixel_step=step,
        has_wavelengths=has_wavelengths,
    )


def _class_numbers(labels, classes):
    """Number the classes from 1 in the order of the model's; anything else is 0."""
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(np.asarray(classes)[places] == labels, places + 1, 0).astype(np.uint16)
