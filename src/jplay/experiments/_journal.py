"""Append-only records: one JSON line per finished or failed cell."""

import json
import os
import platform
import subprocess
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import numpy as np

DONE, FAILED, DROPPED = "done", "failed", "dropped"


@cache
def environment():
    """Return what a figure may depend on: versions, processor, threads."""
    packages = ("jplay", "numpy", "scipy", "scikit-learn", "joblib")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "blas_threads": os.environ.get("OMP_NUM_THREADS"),
        "packages": {name: _version(name) for name in packages},
        "code": code_fingerprint(),
        "commit": _commit(),
    }


def _commit():
    """Return the commit of the clone that the package is in, or None outside of one."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def code_fingerprint():
    """Return a hash of what computes the figures: everything up to the estimators."""
    package = Path(__file__).parents[1]
    digest = sha256()
    for folder in ("numerics", "core", "baselines", "estimators"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _version(name):
    if name == "jplay":
        from jplay import __version__

        return __version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def content_key(content):
    """Return a short hash of a description, the same for the same content on every machine.

    Examples
    --------
    >>> from jplay.experiments._journal import content_key
    >>> content_key({"a": 1, "b": [2]}) == content_key({"b": [2], "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, default=_plain)
    return sha256(text.encode()).hexdigest()[:20]


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be recorded")


class Journal:
    """Records of a folder, in ``records.jsonl``.

    A record is one line, written by one system call and flushed to the disk. What a killed run
    left of its last line is not read, and the next record begins on a line of its own.

    Parameters
    ----------
    path : path-like
    """

    def __init__(self, path):
        self.path = Path(path)

    def append(self, record):
        """Add one record with the time and the environment."""
        full = {
            **record,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": environment(),
        }
        line = json.dumps(full, default=_plain, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size:
                os.lseek(handle, size - 1, os.SEEK_SET)
                if os.read(handle, 1) != b"\n":
                    line = "\n" + line
            os.write(handle, line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self):
        """Return all complete records in the order they were written."""
        if not self.path.exists():
            return []
        records = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            records.append(record)
        return records

    def done(self):
        """Return the finished records by key; failures and what was dropped are not among them."""
        return {r["key"]: r for r in self._standing() if r["status"] == DONE}

    def failures(self):
        """Return the last failure by key of what has not been finished since."""
        records = self._standing()
        done = {r["key"] for r in records if r["status"] == DONE}
        return {r["key"]: r for r in records if r["status"] == FAILED and r["key"] not in done}

    def times_done(self):
        """Return how often each key was finished: once, if nothing was computed twice."""
        return Counter(r["key"] for r in self._standing() if r["status"] == DONE)

    def drop(self, keys):
        """Let the records of some keys no longer count; they stay in the file."""
        standing = {record["key"] for record in self._standing()}
        for key in keys:
            if key in standing:
                self.append({"key": key, "status": DROPPED})

    def _standing(self):
        """Return the records that were not dropped after they were written."""
        records = self.read()
        dropped = {r["key"]: place for place, r in enumerate(records) if r["status"] == DROPPED}
        return [r for place, r in enumerate(records) if place > dropped.get(r["key"], -1)]


@contextmanager
def exclusive(folder):
    """Hold a folder for one run; a second run is refused until the first ends or is killed."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"`output_dir` should not be in use, but another run writes to '{folder}'. Wait "
                "for it or choose another folder."
            ) from None
        yield
