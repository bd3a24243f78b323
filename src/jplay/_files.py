"""Files that appear under their name complete or not at all."""

import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".jplay-unfinished"
_LOCK_NAME = ".owner"
_ABANDONED_SECONDS = 24 * 3600.0
"""Age after which a folder without a lock is taken for abandoned."""


@contextmanager
def scratch_folder(name: str, parent: str | os.PathLike | None = None) -> Iterator[Path]:
    """Give a folder for unfinished work that is removed when the block ends, however it ends.

    A process that is killed leaves its folder behind. The next one that works in the same parent
    removes it: the folder's owner holds a lock, which the system frees when the process ends.

    Parameters
    ----------
    name : str
        First part of the folder's name, for people.
    parent : str or path-like, optional
        By default the system's folder for temporary files.

    Yields
    ------
    pathlib.Path
    """
    parent = Path(tempfile.gettempdir() if parent is None else parent)
    _remove_abandoned(parent)
    folder, lock = _locked_folder(name, parent)
    try:
        yield folder
    finally:
        lock.close()
        shutil.rmtree(folder, ignore_errors=True)


def _locked_folder(name: str, parent: Path) -> tuple[Path, IO]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=_SUFFIX, dir=parent))
        lock = (folder / _LOCK_NAME).open("w")
        if fcntl is None:
            return folder, lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock.fileno()).st_nlink:
            return folder, lock
        lock.close()  # another process took the folder for abandoned before it was locked


def _remove_abandoned(parent: Path) -> None:
    """Remove what killed processes left; folders in use and those of other users stay."""
    for folder in parent.glob(f".*{_SUFFIX}"):
        try:
            age = time.time() - folder.stat().st_mtime
            with (folder / _LOCK_NAME).open("r+") as lock:
                if fcntl is not None:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                elif age < _ABANDONED_SECONDS:
                    continue
                shutil.rmtree(folder, ignore_errors=True)
        except FileNotFoundError:
            # Made a moment ago, or its owner was killed between two steps.
            if folder.is_dir() and age > _ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


@contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Give a temporary path beside ``path`` and move it there when the block ends well.

    Whatever ends the block early (an error, a full disk, Ctrl-C) leaves ``path`` as it was. What a
    killed process left beside it is removed by the next one that writes there. Files that a writer
    puts beside the temporary one under its name plus a suffix (``.aux.xml``) move with it.

    Parameters
    ----------
    path : str or path-like
        Where the finished file should be; its folder must exist.

    Yields
    ------
    pathlib.Path
        In the same folder, with the same suffix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from jplay._files import atomic_path
    >>> target = Path(tempfile.mkdtemp()) / "result.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("complete")
    >>> target.read_text()
    'complete'
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(
            f"'{path}' is a folder. Give the name of a file to write, for example "
            f"'{path / 'result'}'."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder '{path.parent}' does not exist. Create it or write somewhere else."
        )
    with scratch_folder(path.name, path.parent) as folder:
        temporary = folder / path.name
        yield temporary
        _flush_to_disk(temporary)
        for part in sorted(folder.glob(f"{glob.escape(temporary.name)}.*")):
            os.replace(part, path.parent / part.name)
        os.replace(temporary, path)


def _flush_to_disk(path):
    with path.open("rb") as file:
        os.fsync(file.fileno())
