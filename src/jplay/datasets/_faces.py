"""Face images: AR and Extended Yale-B."""

import numpy as np
from sklearn.utils import Bunch

from jplay.datasets._folder import require_file
from jplay.datasets.line_ends import check_not_converted
from jplay.datasets.readers import check_labels, pick_array, read_arrays
from jplay.datasets.registry import DATASETS


def fetch_ar(*, data_home=None, dtype=np.float64, return_X_y=False):
    """Load the AR faces: 100 subjects, session 1 for training and session 2 for testing.

    1399 grey images of 60 x 43 pixels, 7 per subject and session (subject 77 lacks one in session
    2). The file must be requested from its authors; where it is absent the error says where and
    which name to give it.

    Parameters
    ----------
    data_home : path-like, optional
        Data folder, see :func:`get_data_home`.
    dtype : dtype, default=float64
        Type of ``data`` and ``images``.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (1399, 2580), each row an image in row-major order with grey values 0 to 255;
        ``images`` (1399, 60, 43); ``image_shape``; ``target`` (1399,), subjects 1 to 100;
        ``target_names``; ``train_indices`` (700 of session 1) and ``test_indices`` (699 of session
        2); ``split``; ``DESCR``, ``source``, ``licence``, ``filenames``.

    Examples
    --------
    >>> from jplay.datasets import fetch_ar
    >>> faces = fetch_ar()  # doctest: +SKIP
    >>> faces.data[faces.train_indices].shape  # doctest: +SKIP
    (700, 2580)
    """
    entry = DATASETS["ar"]
    path = require_file(entry, "faces", data_home)
    arrays = read_arrays(path)
    train = pick_array(path, arrays, ["NewTrain_DAT"], (entry.n_features, entry.n_train))
    test = pick_array(path, arrays, ["NewTest_DAT"], (entry.n_features, entry.n_test))
    y_train = _subjects(path, arrays, "trainlabels", entry.n_train, entry.n_classes)
    y_test = _subjects(path, arrays, "testlabels", entry.n_test, entry.n_classes)
    return _faces(
        entry,
        path,
        columns=np.hstack([train, test]).T,
        target=np.concatenate([y_train, y_test]),
        image_shape=(60, 43),
        dtype=dtype,
        return_X_y=return_X_y,
        split="sessions",
        train_indices=np.arange(entry.n_train),
        test_indices=np.arange(entry.n_train, entry.n_samples),
    )


def fetch_extended_yale_b(*, data_home=None, dtype=np.float64, return_X_y=False):
    """Load the Extended Yale-B faces: 38 subjects under some 64 illuminations each.

    2414 grey images of 32 x 32 pixels. There is no fixed split; the customary one draws 10 images
    per subject for training, ten times: ``RepeatedPerClassSplit(10)``.

    Parameters
    ----------
    data_home : path-like, optional
        Data folder, see :func:`get_data_home`.
    dtype : dtype, default=float64
        Type of ``data`` and ``images``.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (2414, 1024), each row an image in row-major order with grey values 0 to 255;
        ``images`` (2414, 32, 32); ``image_shape``; ``target`` (2414,), subjects 1 to 38;
        ``target_names``; ``split`` (None); ``DESCR``, ``source``, ``licence``, ``filenames``.

    Examples
    --------
    >>> from jplay.datasets import RepeatedPerClassSplit, fetch_extended_yale_b
    >>> faces = fetch_extended_yale_b()  # doctest: +SKIP
    >>> cv = RepeatedPerClassSplit(10, random_state=0)
    >>> train, test = next(cv.split(faces.data, faces.target))  # doctest: +SKIP
    """
    entry = DATASETS["extended_yale_b"]
    path = require_file(entry, "faces", data_home)
    arrays = read_arrays(path)
    pixels = pick_array(path, arrays, ["fea"], (entry.n_samples, entry.n_features))
    target = _subjects(path, arrays, "gnd", entry.n_samples, entry.n_classes)
    return _faces(
        entry,
        path,
        columns=pixels,
        target=target,
        image_shape=(32, 32),
        dtype=dtype,
        return_X_y=return_X_y,
        split=None,
    )


def _subjects(path, arrays, name, size, n_subjects):
    flat = {key: value.ravel() for key, value in arrays.items() if value.size == size}
    return check_labels(path, pick_array(path, flat, [name], (size,)), n_subjects, counts=size)


def _faces(entry, path, *, columns, target, image_shape, dtype, return_X_y, **extra):
    """Assemble the Bunch; the files hold each image column by column, as MATLAB does."""
    check_not_converted(path, columns)
    height, width = image_shape
    images = np.swapaxes(columns.reshape(-1, width, height), 1, 2).astype(dtype, order="C")
    data = images.reshape(len(images), -1)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        images=images,
        image_shape=image_shape,
        target=target,
        target_names=np.array([f"subject {k}" for k in range(1, entry.n_classes + 1)]),
        **extra,
        DESCR=(
            f"{entry.title}\n\n{len(data)} grey images of {height} x {width} pixels, values 0 to "
            f"255, of {entry.n_classes} subjects.\n\nSource: {entry.source}.\n"
            f"Licence: {entry.licence}."
        ),
        source=entry.source,
        licence=entry.licence,
        filenames=[str(path)],
    )
