"""Multi-label data: samples that carry several labels at once."""

import numpy as np
from sklearn.utils import Bunch

from jplay.datasets._folder import find_file, require_file
from jplay.datasets.line_ends import check_not_converted
from jplay.datasets.readers import pick_array, read_arff, read_arrays
from jplay.datasets.registry import DATASETS
from jplay.exceptions import CorruptFileError


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
    known = [entry.name for entry in DATASETS.values() if entry.loader == "fetch_multilabel"]
    if name not in known:
        raise ValueError(
            f"`name` should be one of {', '.join(sorted(known))}, got {name!r}. Choose one of them."
        )
    entry = DATASETS[name]
    parts, filenames = _read_parts(entry, data_home)
    data = np.concatenate([parts["X_train"], parts["X_test"]]).astype(dtype)
    target = np.concatenate([parts["Y_train"], parts["Y_test"]]).astype(np.int64)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=np.array([f"label {k}" for k in range(1, entry.n_classes + 1)]),
        split="fixed",
        train_indices=np.arange(entry.n_train),
        test_indices=np.arange(entry.n_train, entry.n_samples),
        DESCR=(
            f"{entry.title}\n\n{entry.n_train} training and {entry.n_test} test samples, "
            f"{entry.n_features} features, {entry.n_classes} labels, "
            f"{target.sum(axis=1).mean():.2f} labels per sample.\n\n"
            f"Source: {entry.source}.\nLicence: {entry.licence}."
        ),
        source=entry.source,
        licence=entry.licence,
        filenames=filenames,
    )


def _read_parts(entry, data_home):
    """Return the four arrays by name, and the files they came from."""
    path = find_file(entry, "arrays", data_home)
    if path is not None:
        arrays = read_arrays(path)
        paths = dict.fromkeys(("train", "test"), path)
    else:
        arrays, paths = _read_arff_parts(entry, data_home)
    parts = {}
    for part, n_rows in (("train", entry.n_train), ("test", entry.n_test)):
        X = pick_array(paths[part], arrays, [f"X_{part}"], (n_rows, entry.n_features))
        Y = pick_array(paths[part], arrays, [f"Y_{part}"], (n_rows, entry.n_classes))
        if not np.isin(Y, (0, 1)).all():
            raise CorruptFileError(
                f"'{paths[part]}' should hold labels 0 or 1 in Y_{part}, found values from "
                f"{Y.min()} to {Y.max()}. It is another file: replace it."
            )
        check_not_converted(paths[part], X)
        parts |= {f"X_{part}": X, f"Y_{part}": Y}
    return parts, sorted({str(path) for path in paths.values()})


def _read_arff_parts(entry, data_home):
    n_labels = entry.n_classes
    arrays, paths = {}, {}
    for part in ("train", "test"):
        paths[part] = require_file(entry, part, data_home)
        table, labels_first = read_arff(paths[part])
        at = n_labels if labels_first else table.shape[1] - n_labels
        left, right = table[:, :at], table[:, at:]
        arrays[f"Y_{part}"], arrays[f"X_{part}"] = (left, right) if labels_first else (right, left)
    return arrays, paths
