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


def find_file(info, stems, suffixes, data_home):
    """Return the path of the first file present among ``stems`` x ``suffixes``, or None.

    A file counts in the data set's own folder and directly in the data folder. Where none is there,
    a known file is downloaded if it has an address.
    """
    path = local_file(info, stems, suffixes, data_home)
    return _download_known(info, stems, get_data_home(data_home)) if path is None else path


def local_file(info, stems, suffixes, data_home):
    """Find a file as :func:`find_file` does, among those that are there already."""
    home = get_data_home(data_home)
    for folder in (home / info.folder, home):
        for stem in stems:
            for suffix in suffixes:
                path = folder / f"{stem}{suffix}"
                if path.is_file():
                    return path
    return None


def require_file(info, stems, suffixes, data_home):
    """Find a file as :func:`find_file` does, or say what to request where and how to name it."""
    path = find_file(info, stems, suffixes, data_home)
    if path is None:
        raise not_found(info, stems, suffixes, data_home)
    return path


def not_found(info, stems, suffixes, data_home):
    """Build the error that tells a person how to obtain a file."""
    home = get_data_home(data_home)
    name = f"{stems[0]}{suffixes[0]}"
    alternatives = [f"named {stem}" for stem in stems[1:]] + [f"as {end}" for end in suffixes[1:]]
    also = f" (accepted too: {', '.join(alternatives)})" if alternatives else ""
    return DatasetNotFoundError(
        f"{info.title}: no file '{name}' in the data folder {home}. {info.request}; save it as "
        f"{home / info.folder / name}{also}. Licence: {info.licence}. The folder is chosen by "
        f"`data_home` or by the environment variable {FOLDER_VARIABLE}."
    )


def _download_known(info, stems, home):
    mirror = os.environ.get(MIRROR_VARIABLE)
    for stem in stems:
        known = info.known_file(stem)
        if known is None:
            continue
        url = f"{mirror.rstrip('/')}/{info.folder}/{known.name}" if mirror else known.url
        if url:
            return download(url, home / info.folder / known.name, known.sha256)
    return None
