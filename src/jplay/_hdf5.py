"""Open HDF5 files so that no other file is read through them.

External links, virtual datasets and external storage name other files; a file with any of them is
refused. NetCDF 4 and MATLAB 7.3 files are HDF5, the latter behind a block of 512 bytes, which the
library skips by itself. The open file that was checked is the one that is read, so that no other
file can take its place in between.
"""

from pathlib import Path
from typing import Any

from jplay._optional import import_optional
from jplay.exceptions import CorruptFileError

MAX_OBJECTS = 100_000
"""Maximum number of links of a file, which take some five seconds to check. Files with more hold
cells of tables, not images or matrices."""

_ELSEWHERE = "refers to other files. Write it as one file, for example with h5repack."


def open_hdf5(path: Any, *, extra: str) -> Any:
    """Open an HDF5 file that holds all of its data.

    Parameters
    ----------
    path : path-like
    extra : str
        Extra of jplay that installs h5py.

    Returns
    -------
    h5py.File

    Raises
    ------
    CorruptFileError
        If it cannot be read.
    ValueError
        If it refers to other files, or has too many objects.
    """
    h5py = import_optional("h5py", feature="Reading HDF5 files", extra=extra)
    path = Path(path)
    try:
        file = h5py.File(path, "r")
        try:
            reason = _reason_against(file.id, h5py)
        except BaseException:
            file.close()
            raise
    except PermissionError:
        raise
    except Exception as error:  # the library raises whatever a damaged byte leads it to
        raise CorruptFileError(
            f"'{path}' cannot be read as HDF5 ({error}). It is truncated, damaged or of another "
            "kind: obtain it again."
        ) from error
    if reason is not None:
        file.close()
        raise ValueError(f"'{path.name}' {reason}")
    return file


def _reason_against(root: Any, h5py: Any) -> str | None:
    """Why a file is refused, if it is; each object is visited once, whatever links to it."""
    pending = [h5py.h5g.open(root, b"/")]
    known: set[int] = set()
    groups = {h5py.h5o.get_info(root).addr}
    n_links = 0
    while pending:
        group = pending.pop()
        links: list[tuple] = []
        # A result that is not None ends the iteration, which follows no link.
        group.links.iterate(
            lambda name, link, links=links: (
                links.append((name, link.type, link.u)) or len(links) > MAX_OBJECTS or None
            ),
            info=True,
        )
        n_links += len(links)
        if n_links > MAX_OBJECTS:
            return (
                f"has more than {MAX_OBJECTS} objects, too many to check. Write the arrays to a "
                "separate file."
            )
        for name, kind, address in links:
            # A soft link leads to an object that is reached otherwise, or to none.
            if kind not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT) or b"/" in name:
                return _ELSEWHERE
            if kind == h5py.h5l.TYPE_HARD and address in groups:
                return (
                    "has a group to which several links lead, and which readers would follow "
                    "again and again. Copy the arrays to another file."
                )
            if kind == h5py.h5l.TYPE_SOFT or address in known:
                continue
            known.add(address)
            item = h5py.h5o.open(group, name)
            if isinstance(item, h5py.h5g.GroupID):
                pending.append(item)
                groups.add(address)
            elif isinstance(item, h5py.h5d.DatasetID):
                storage = item.get_create_plist()
                if storage.get_external_count() or storage.get_layout() == h5py.h5d.VIRTUAL:
                    return _ELSEWHERE

    return None
