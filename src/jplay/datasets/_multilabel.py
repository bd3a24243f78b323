"""Multi-label data: samples that carry several labels at once."""

import numpy as np
from sklearn.utils import Bunch

from jplay.datasets._folder import find_file, not_found
from jplay.datasets._readers import pick_array, read_arff, read_arrays
from jplay.datasets._registry import MULTILABEL
from jplay.exceptions import CorruptFileError

# name: training samples, test samples, features, labels
_SIZES = {
    "yeast": (1500, 917, 103, 14),
    "emotions": (391, 202, 72, 6),
    "bibtex": (4880, 2515, 1836, 159),
}


def fetch_multilabel(name, *, data_home=None, dtype=np.float64, return_X_y=False):
    """Load a multi-label data set with its customary division into training and test samples.

    Parameters
    ----------
    name : {"yeast", "emotions", "bibtex"}
        Which one.
    data_home : path-like, optional
        Data folder, see :func:`get_data_home`. It must hold ``multilabel/<name>.npz`` (arrays
        ``X_train``, ``Y_train``, ``X_test``, ``Y_test``), or ``<name>-train.arff`` and
        ``<name>-test.arff`` as the Mulan repository distributes them.
    dtype : dtype, default=float64
        Type of ``data``.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_features); ``target`` (n_samples, n_labels) of zeros and ones;
        ``target_names`` (n_labels,); ``split``, ``train_indices``, ``test_indices``; ``DESCR``,
        ``source``, ``licence``, ``filenames``.

    Examples
    --------
    >>> from jplay.datasets import fetch_multilabel
    >>> yeast = fetch_multilabel("yeast")  # doctest: +SKIP
    >>> yeast.data[yeast.train_indices].shape, yeast.target.shape  # doctest: +SKIP
    ((1500, 103), (2417, 14))
    """
    if name not in _SIZES:
        raise ValueError(
            f"`name` should be one of {', '.join(sorted(_SIZES))}, got {name!r}. Choose one of "
            "them."
        )
    info = MULTILABEL[name]
    n_train, n_test, n_features, n_labels = _SIZES[name]
    parts, filenames = _read_parts(info, name, data_home)
    data = np.concatenate([parts["X_train"], parts["X_test"]]).astype(dtype)
    target = np.concatenate([parts["Y_train"], parts["Y_test"]]).astype(np.int64)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=np.array([f"label {k}" for k in range(1, n_labels + 1)]),
        split="fixed",
        train_indices=np.arange(n_train),
        test_indices=np.arange(n_train, n_train + n_test),
        DESCR=(
            f"{info.title}\n\n{n_train} training and {n_test} test samples, {n_features} features, "
            f"{n_labels} labels, {target.sum(axis=1).mean():.2f} labels per sample.\n\n"
            f"Source: {info.source}.\nLicence: {info.licence}."
        ),
        source=info.source,
        licence=info.licence,
        filenames=filenames,
    )


def _read_parts(info, name, data_home):
    """Return the four arrays by name, and the files they came from."""
    path = find_file(info, [name], (".npz", ".mat"), data_home)
    if path is not None:
        arrays = read_arrays(path)
        paths = dict.fromkeys(("train", "test"), path)
    else:
        arrays, paths = _read_arff_parts(info, name, data_home)
    n_train, n_test, n_features, n_labels = _SIZES[name]
    parts = {}
    for part, n_rows in (("train", n_train), ("test", n_test)):
        X = pick_array(paths[part], arrays, [f"X_{part}"], (n_rows, n_features))
        Y = pick_array(paths[part], arrays, [f"Y_{part}"], (n_rows, n_labels))
        if not np.isin(Y, (0, 1)).all():
            raise CorruptFileError(
                f"'{paths[part]}' should hold labels 0 or 1 in Y_{part}, found values from "
                f"{Y.min()} to {Y.max()}. It is another file: replace it."
            )
        parts |= {f"X_{part}": X, f"Y_{part}": Y}
    return parts, sorted({str(path) for path in paths.values()})


def _read_arff_parts(info, name, data_home):
    n_labels = _SIZES[name][3]
    arrays, paths = {}, {}
    for part in ("train", "test"):
        paths[part] = find_file(info, [f"{name}-{part}"], (".arff",), data_home)
        if paths[part] is None:
            raise not_found(info, [f"{name}-{part}"], (".arff",), data_home)
        table, labels_first = read_arff(paths[part])
        at = n_labels if labels_first else table.shape[1] - n_labels
        left, right = table[:, :at], table[:, at:]
        arrays[f"Y_{part}"], arrays[f"X_{part}"] = (left, right) if labels_first else (right, left)
    return arrays, paths
