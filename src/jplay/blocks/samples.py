"""The solver's sample interface over blocks, wherever they are."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jplay._array_api import Array
from jplay.blocks import functions
from jplay.blocks.executors import ClusterExecutor, LocalExecutor
from jplay.numerics.rows import AS_THEY_ARE, RowForm
from jplay.solvers.samples import PassResult

_LINEAGE = 10  # passes after which multipliers no longer refer to those of earlier passes


class BlockSamples:
    """Samples in blocks of rows; multipliers stay with their block.

    Parameters
    ----------
    executor : Executor
    X : list
        One reference per block, to its rows or to where they can be read.
    form : RowForm, default=AS_THEY_ARE
        What is done to rows when they are read.
    """

    def __init__(
        self, executor: LocalExecutor | ClusterExecutor, X: list, form: RowForm = AS_THEY_ARE
    ) -> None:
        self.executor = executor
        self.X = X
        self.form = form

    def joint_pass(
        self,
        layer_sizes: Sequence[int],
        *,
        nonnegative: bool,
        unit_ball: bool,
        relaxation: float = 1.0,
    ) -> "_JointPass":
        return _JointPass(
            self,
            sizes=list(layer_sizes),
            settings={
                "nonnegative": nonnegative,
                "unit_ball": unit_ball,
                "relaxation": relaxation,
            },
        )

    def constraint_pass(
        self, n_out: int, *, nonnegative: bool, unit_ball: bool
    ) -> "_ConstraintPass":
        return _ConstraintPass(
            self,
            n_out=n_out,
            constraints={"nonnegative": nonnegative, "unit_ball": unit_ball},
        )

    def lowest_ratios(self, thetas: list[Array], direction: Array) -> tuple[list[Array], float]:
        *ratios, weight = self._reduced(
            functions.lowest_ratios, functions.lowest_arrays, (thetas, direction)
        )
        return ratios, float(weight)

    def largest_norms(self, thetas: list[Array]) -> list[float]:
        norms = self._reduced(functions.largest_norms, np.maximum, thetas)
        return [float(norm) for norm in norms]

    def projected(self, theta: Array) -> "BlockSamples":
        Z, _ = self.executor.run(
            partial(functions.project, form=self.form),
            functions.nothing,
            [self.X],
            self.executor.share(theta),
        )
        return BlockSamples(self.executor, Z)

    def _reduced(self, function: Callable, combine: Callable, shared: Any) -> Any:
        function = partial(function, form=self.form)
        return self.executor.reduce(function, combine, [self.X], self.executor.share(shared))


class _RepeatedPass:
    """Passes whose state, one per block, lives with the blocks between calls."""

    def __init__(
        self, step: Callable, replay: Callable, samples: BlockSamples, **settings: Any
    ) -> None:
        self.samples = samples
        self.step = partial(step, form=samples.form, **settings)
        self.replay = partial(replay, form=samples.form, **settings)
        self.state: list = [None] * len(samples.X)
        self.history: list = []

    def advance(self, value: Any) -> list[np.ndarray]:
        executor, X = self.samples.executor, self.samples.X
        shared = executor.share(value)
        self.history.append(shared)
        self.state, total = executor.run(self.step, functions.add_arrays, [X, self.state], shared)
        if len(self.history) % _LINEAGE == 0:
            self.state = executor.shorten(self.state, self.replay, [X], self.history)
        return total


class _JointPass(_RepeatedPass):
    def __init__(self, samples: BlockSamples, **settings: Any) -> None:
        super().__init__(functions.joint_step, functions.replayed_joint_steps, samples, **settings)

    def __call__(self, thetas: list[Array], dual_scale: Array) -> tuple[list[Array], np.ndarray]:
        *pulls, squares = self.advance((thetas, dual_scale))
        return pulls, np.sqrt(squares)


class _ConstraintPass(_RepeatedPass):
    def __init__(self, samples: BlockSamples, **settings: Any) -> None:
        super().__init__(
            functions.constraint_step, functions.replayed_constraint_steps, samples, **settings
        )

    def __call__(self, theta: Array, mu: float, mu_next: float) -> PassResult:
        pull, squares = self.advance((theta, mu, mu_next))
        nonnegativity, unit_ball = np.sqrt(squares)
        return PassResult(pull, float(nonnegativity), float(unit_ball))
