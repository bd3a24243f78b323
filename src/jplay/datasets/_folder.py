"""The data folder: where files are looked for, and how known ones are downloaded into it."""

import os
from pathlib import Path

from jplay._optional import import_optional
from jplay.datasets._download import download
from jplay.exceptions import DatasetNotFoundError

FOLDER_VARIABLE = "JPLAY_DATA"
MIRROR_VARIABLE = "JPLAY_MIRROR"


def get_data_home(data_home=None):
    """Return the folder in which data sets are kept.

    Parameters
    ----------
    data_home : path-like, optional
        The folder itself. By default the environment variable ``JPLAY_DATA``, and where that is not
        set a per-user cache folder of the operating system. The folder need not exist.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> from jplay.datasets import get_data_home
    >>> get_data_home("measurements").name
    'measurements'
    """
    chosen = data_home or os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    pooch = import_optional("pooch", feature="The per-user data folder", extra="data")
    return Path(pooch.os_cache("jplay"))


def find_file(entry, role, data_home):
    """Return the path of the file of a role under any accepted name, or None.

    A file counts in the data set's folder and directly in the data folder. If none is there, a
    known file is downloaded if it has an address.
    """
    path = local_file(entry, role, data_home)
    return _download_known(entry, role, get_data_home(data_home)) if path is None else path


def local_file(entry, role, data_home):
    """Find a file as :func:`find_file` does, among those that are there already."""
    home, wanted = get_data_home(data_home), entry.files[role]
    for folder in (home / entry.folder, home):
        for stem in wanted.stems:
            for suffix in wanted.suffixes:
                path = folder / f"{stem}{suffix}"
                if path.is_file():
                    return path
    return None


def require_file(entry, role, data_home):
    """Find a file as :func:`find_file` does, or say what to request where and how to name it."""
    path = find_file(entry, role, data_home)
    if path is None:
        raise not_found(entry, [role], data_home)
    return path


def not_found(entry, roles, data_home):
    """Build the error that tells a person how to obtain a file; the first of the roles is named."""
    home, wanted = get_data_home(data_home), entry.files[roles[0]]
    stems = [stem for role in roles for stem in entry.files[role].stems]
    alternatives = [f"named {stem}" for stem in stems[1:]]
    alternatives += [f"as {suffix}" for suffix in wanted.suffixes[1:]]
    also = f" (accepted too: {', '.join(alternatives)})" if alternatives else ""
    return DatasetNotFoundError(
        f"{wanted.title or entry.title}: no file '{wanted.name}' in the data folder {home}. "
        f"{wanted.request or entry.request}; save it as {home / entry.folder / wanted.name}{also}. "
        f"Licence: {wanted.licence or entry.licence}. The folder is chosen by `data_home` or by "
        f"the environment variable {FOLDER_VARIABLE}."
    )


def _download_known(entry, role, home):
    mirror, known = os.environ.get(MIRROR_VARIABLE), entry.files[role]
    url = f"{mirror.rstrip('/')}/{entry.folder}/{known.name}" if mirror else known.url
    if url is None or known.sha256 is None:
        return None
    return download(url, home / entry.folder / known.name, known.sha256)
