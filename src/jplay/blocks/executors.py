"""Two ways to run one function on every block: in this process, or on a Dask cluster.

The function takes what belongs to one block, and a value shared by all, and returns
``(kept, summary)``. What it keeps stays where it was made; summaries are combined, and their
combination is all that comes back. The function must be pure: a worker that is lost takes
its share of what was kept with it, and the same call on another worker makes it again.
"""

import os
import pickle
import tempfile
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from jplay._optional import import_optional


class Executor(Protocol):
    """Runs functions on blocks and keeps what they leave behind."""

    def share(self, value: Any) -> Any:
        """Reference to a value that every block may need."""

    def run(self, function: Any, combine: Any, columns: list, shared: Any) -> tuple[list, Any]:
        """Kept results of all blocks, by reference, and their combined summaries."""

    def reduce(self, function: Any, combine: Any, columns: list, shared: Any) -> Any:
        """Combined summaries of a function that keeps nothing, each freed once it is added."""

    def shorten(self, kept: list, replay: Any, columns: list, history: list) -> list:
        """The same results, without holding on to all that they were made from."""


class _Kept:
    """Result of one block in a file, removed when nothing refers to it any more."""

    def __init__(self, value, folder):
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            pickle.dump(value, file, protocol=5)
        self._path = Path(file.name)
        weakref.finalize(self, self._path.unlink, missing_ok=True)

    def load(self):
        return pickle.loads(self._path.read_bytes())


class LocalExecutor:
    """Blocks one after the other, or a few at a time, in this process.

    Parameters
    ----------
    mapper : callable, default=map
        ``mapper(function, items)`` gives the results in order.
    scratch : path, default=None
        Folder for what blocks keep; ``None`` keeps it in memory.
    """

    def __init__(self, mapper: Callable = map, scratch: str | os.PathLike | None = None) -> None:
        self.mapper = mapper
        self.scratch = scratch

    def share(self, value: Any) -> Any:
        return value

    def run(
        self, function: Callable, combine: Callable, columns: list, shared: Any
    ) -> tuple[list, Any]:
        def on_block(arguments):
            arguments = [a.load() if isinstance(a, _Kept) else a for a in arguments]
            kept, summary = function(*arguments, shared=shared)
            if kept is not None and self.scratch is not None:
                kept = _Kept(kept, self.scratch)
            return kept, summary

        all_kept, total = [], None
        for kept, summary in self.mapper(on_block, list(zip(*columns, strict=True))):
            all_kept.append(kept)
            total = summary if len(all_kept) == 1 else combine(total, summary)
        return all_kept, total

    def reduce(self, function: Callable, combine: Callable, columns: list, shared: Any) -> Any:
        return self.run(function, combine, columns, shared)[1]

    def shorten(self, kept: list, replay: Callable, columns: list, history: list) -> list:
        return kept


_DASK_BATCH = 64  # blocks whose summaries are held before they are combined


def dask_mapper(function: Callable, items: list) -> Iterator:
    """Map with the scheduler that Dask is configured to use, by default its threads."""
    dask = import_optional("dask", feature="A fit on Dask arrays", extra="dask")
    get = (
        dask.base.get_scheduler()
        or import_optional("dask.threaded", feature="A fit on Dask arrays", extra="dask").get
    )
    for start in range(0, len(items), _DASK_BATCH):
        batch = items[start : start + _DASK_BATCH]
        tasks = {f"jplay-block-{i}": (partial(function, item),) for i, item in enumerate(batch)}
        yield from get(tasks, list(tasks))


_PATIENCE_SECONDS = 30.0  # after which it is asked whether there is still a worker
_GONE = (
    "The Dask cluster has {what} any more, and the fit ended. Start a cluster, connect a client to "
    "it and fit again."
)
_GROUP = 8  # summaries on a worker that are added up at once


class _Outcome(NamedTuple):
    """What one block's task leaves on its worker."""

    kept: Any
    summary: Any


@dataclass(frozen=True, eq=False)
class _Name:
    """A key that Dask should not take for a dependency."""

    key: Any


def _identity(value):
    return value


def _held(arguments):
    """What earlier tasks have left for this one, and other arguments as they are."""
    return [a.kept if isinstance(a, _Outcome) else a for a in arguments]


def _on_worker(function, *arguments, shared):
    return _Outcome(*function(*_held(arguments), shared=shared))


def _fold(combine, outcomes):
    return _Outcome(None, reduce(combine, (outcome.summary for outcome in outcomes)))


def _kept_or_replayed(replay, name, *arguments, history):
    """What this worker holds under ``name``; if it does not, the same made from the start."""
    from distributed import get_worker

    outcome = get_worker().data.get(name.key)
    if outcome is not None:
        return outcome
    return _Outcome(replay(*_held(arguments), history=history), None)


class ClusterExecutor:
    """Blocks on the workers of a ``distributed.Client``.

    A block's task runs where its data is, unless that worker is gone. Summaries are
    combined on each worker first, so that what travels does not grow with the number of
    blocks. Shared values travel inside tasks: the scheduler can make them again, which it
    could not with scattered data.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.homes: list = []

    def workers(self) -> dict:
        """What the scheduler knows of its workers, by address."""
        known = self.client.scheduler_info(n_workers=-1).get("workers")
        if not known:
            raise ConnectionError(_GONE.format(what="no worker"))
        return known

    def place(self, sources: list) -> list:
        """Spread the descriptions of blocks over the workers, neighbours together."""
        workers = sorted(self.workers())
        n_blocks = len(sources)
        self.homes = [workers[i * len(workers) // n_blocks] for i in range(n_blocks)]
        return self.send(sources)

    def send(self, values: list) -> list:
        """One value for every block, to where the block lives."""
        dask = import_optional("dask", feature="A Dask cluster", extra="dask")
        # Labels in this process have to travel once: no reason for a warning.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self._map(_identity, [values])

    def adopt(self, futures: list) -> list:
        """Take blocks that are on the cluster already."""
        self._settle(futures)
        return futures

    def share(self, value: Any) -> Any:
        return self.client.submit(_identity, value, pure=False, key=_new_key("shared"))

    def run(
        self, function: Callable, combine: Callable, columns: list, shared: Any
    ) -> tuple[list, Any]:
        outcomes = self._map(partial(_on_worker, function), columns, shared=shared)
        self._settle(outcomes)
        sums = [
            self._folded(combine, [outcomes[i] for i in members], home)
            for home, members in self._members().items()
        ]
        return outcomes, self._gathered(combine, sums)

    def reduce(self, function: Callable, combine: Callable, columns: list, shared: Any) -> Any:
        outcomes = self._map(partial(_on_worker, function), columns, shared=shared)
        sums = []
        for home, members in self._members().items():
            groups = [
                self._folded(combine, [outcomes[i] for i in group], home)
                for group in _groups(members)
            ]
            sums.append(self._folded(combine, groups, home))
        del outcomes, groups  # a summary is freed as soon as it is part of a sum
        return self._gathered(combine, sums)

    def _folded(self, combine, outcomes, home):
        return self.client.submit(
            _fold,
            combine,
            outcomes,
            key=_new_key("combine"),
            workers=[home],
            allow_other_workers=True,
            priority=10,  # before the next block: what is added up takes no more memory
            pure=False,
        )

    def _gathered(self, combine, sums):
        self._wait(sums)
        return reduce(combine, (outcome.summary for outcome in self.client.gather(sums)))

    def shorten(self, kept: list, replay: Callable, columns: list, history: list) -> list:
        names = [_Name(future.key) for future in kept]
        fresh = self._map(partial(_kept_or_replayed, replay), [names, *columns], history=history)
        self._settle(fresh)
        return fresh

    def _members(self):
        members = defaultdict(list)
        for block, home in enumerate(self.homes):
            members[home].append(block)
        return members

    def _map(self, function, columns, **shared):
        """Future of ``function`` for every block, on the worker where the block lives."""
        futures = [None] * len(columns[0])
        for home, members in self._members().items():
            submitted = self.client.map(
                function,
                *([column[i] for i in members] for column in columns),
                key=[_new_key("block") for _ in members],
                workers=[home],
                allow_other_workers=True,
                pure=False,
                **shared,
            )
            for i, future in zip(members, submitted, strict=True):
                futures[i] = future
        return futures

    def _settle(self, futures):
        """Wait, raise what a block raised, and note where the results are."""
        self._wait(futures)
        for future in futures:
            if future.status == "error":
                future.result()
        holders = self.client.who_has(futures)
        before = self.homes or [None] * len(futures)
        self.homes = [
            home if home in holders[f.key] or not holders[f.key] else holders[f.key][0]
            for f, home in zip(futures, before, strict=True)
        ]

    def _wait(self, futures):
        """Wait as long as there are workers; without one tasks would wait for ever."""
        distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
        while True:
            try:
                distributed.wait(futures, timeout=_PATIENCE_SECONDS)
            except TimeoutError:
                self.workers()
            else:
                return


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turn what a lost scheduler leads Dask to into one clear error."""
    distributed = import_optional("distributed", feature="A Dask cluster", extra="dask")
    try:
        yield
    except (CancelledError, distributed.comm.CommClosedError) as error:
        raise ConnectionError(_GONE.format(what="no scheduler")) from error


def _groups(members):
    return [members[i : i + _GROUP] for i in range(0, len(members), _GROUP)]


def _new_key(purpose):
    return f"jplay-{purpose}-{uuid.uuid4().hex}"
