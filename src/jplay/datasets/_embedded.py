"""Small data sets that come with scikit-learn and need no file."""

import numpy as np
from sklearn.utils import Bunch

from jplay.datasets._fingerprint import fingerprint
from jplay.datasets.registry import DATASETS
from jplay.datasets.splits import split_per_class
from jplay.exceptions import CorruptFileError


def load_digits(*, dtype=np.float64, random_state=0, return_X_y=False):
    """Load the 1797 handwritten digits (8 x 8 pixels, 10 classes) with a drawn split.

    Parameters
    ----------
    dtype : dtype, default=float64
        Type of ``data`` and ``images``.
    random_state : int, RandomState instance or None, default=0
        For the draw of 50 training images per digit.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (1797, 64) with values 0 to 16; ``images`` (1797, 8, 8); ``image_shape``;
        ``target`` (1797,), digits 0 to 9; ``target_names``; ``split``, ``train_indices``,
        ``test_indices``; ``DESCR``, ``source``, ``licence``, ``filenames``.

    Examples
    --------
    >>> from jplay.datasets import load_digits
    >>> digits = load_digits()
    >>> digits.data.shape, digits.train_indices.size
    ((1797, 64), 500)
    """
    from sklearn import datasets

    digits = datasets.load_digits()
    bunch = _bunch("digits", digits, "digit", dtype, random_state, n_train=50)
    bunch.update(images=bunch.data.reshape(-1, 8, 8), image_shape=(8, 8))
    return (bunch.data, bunch.target) if return_X_y else bunch


def load_wine(*, dtype=np.float64, random_state=0, return_X_y=False):
    """Load the 178 wines (13 measurements, 3 cultivars) with a drawn split of 20 per class.

    Parameters and fields as for :func:`load_digits`, without images.

    Examples
    --------
    >>> from jplay.datasets import load_wine
    >>> load_wine().data.shape
    (178, 13)
    """
    from sklearn import datasets

    bunch = _bunch("wine", datasets.load_wine(), "cultivar", dtype, random_state, n_train=20)
    return (bunch.data, bunch.target) if return_X_y else bunch


def _bunch(name, loaded, noun, dtype, random_state, n_train):
    entry = DATASETS[name]
    _check_content(entry, loaded)
    train, test = split_per_class(loaded.target, n_train, small=None, random_state=random_state)
    return Bunch(
        data=loaded.data.astype(dtype),
        target=loaded.target.astype(np.int64),
        target_names=np.array([f"{noun} {k}" for k in range(entry.n_classes)]),
        split="random",
        train_indices=train,
        test_indices=test,
        DESCR=loaded.DESCR,
        source=entry.source,
        licence=entry.licence,
        filenames=[],
    )


def _check_content(entry, loaded):
    found = fingerprint({"data": loaded.data, "target": loaded.target})
    expected = entry.sha256["data and target"]
    if found != expected:
        raise CorruptFileError(
            f"'{entry.name}' of the installed scikit-learn should have the SHA-256 "
            f"{expected[:12]}, found {found[:12]}. Its file is damaged: install scikit-learn again."
        )
