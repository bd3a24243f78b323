"""A short name for the content of a data set, for the records of experiments."""

import hashlib

import numpy as np


def fingerprint(bunch):
    """Return the SHA-256 of what a model sees of a data set: samples, targets and division.

    The value does not depend on the file layout the data came from, on the machine, or on whether
    whole numbers were loaded as float32 or float64.

    Parameters
    ----------
    bunch : Bunch
        What a loader of this package returned.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from jplay.datasets import fingerprint, load_digits
    >>> fingerprint(load_digits()) == fingerprint(load_digits())
    True
    >>> fingerprint(load_digits()) == fingerprint(load_digits(random_state=1))
    False
    """
    digest = hashlib.sha256()
    for name, kind in (
        ("data", "<f8"),
        ("target", "<i8"),
        ("train_indices", "<i8"),
        ("test_indices", "<i8"),
    ):
        value = bunch.get(name)
        digest.update(f"{name} {None if value is None else value.shape};".encode())
        if value is not None:
            digest.update(np.ascontiguousarray(value, dtype=kind).tobytes())
    return digest.hexdigest()
