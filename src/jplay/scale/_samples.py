"""The solver's sample interface over blocks, wherever they are."""

from functools import partial

import numpy as np

from jplay.scale import _blocks
from jplay.solvers.samples import PassResult

_LINEAGE = 10  # passes after which multipliers no longer refer to those of earlier passes


class BlockSamples:
    """Samples in blocks of rows; multipliers stay with their block.

    Parameters
    ----------
    executor : Executor
    X : list
        One reference per block, to its rows or to where they can be read.
    constant : float, default=None
        Value of a further feature that makes the first layer affine.
    block_statistics : callable, default=None
        Statistics of all blocks from this object, for samples with labels and a graph.
    """

    def __init__(self, executor, X, constant=None, block_statistics=None):
        self.executor = executor
        self.X = X
        self.constant = constant
        self._block_statistics = block_statistics

    def statistics(self):
        return self._block_statistics(self)

    def joint_pass(self, layer_sizes, *, nonnegative, unit_ball):
        return _JointPass(
            self,
            sizes=list(layer_sizes),
            constraints={"nonnegative": nonnegative, "unit_ball": unit_ball},
        )

    def constraint_pass(self, n_out, *, nonnegative, unit_ball):
        return _ConstraintPass(
            self,
            n_out=n_out,
            constraints={"nonnegative": nonnegative, "unit_ball": unit_ball},
        )

    def lowest_ratios(self, thetas, direction):
        *ratios, weight = self._reduced(
            _blocks.lowest_ratios, _blocks.lowest_arrays, (thetas, direction)
        )
        return ratios, float(weight)

    def largest_norms(self, thetas, direction, shifts):
        norms = self._reduced(_blocks.largest_norms, np.maximum, (thetas, direction, shifts))
        return [float(norm) for norm in norms]

    def projected(self, theta):
        Z, _ = self.executor.run(
            partial(_blocks.project, constant=self.constant),
            _blocks.nothing,
            [self.X],
            self.executor.share(theta),
        )
        return BlockSamples(self.executor, Z)

    def _reduced(self, function, combine, shared):
        function = partial(function, constant=self.constant)
        return self.executor.reduce(function, combine, [self.X], self.executor.share(shared))


class _RepeatedPass:
    """Passes whose multipliers, one per block, live with the blocks between calls."""

    def __init__(self, step, replay, samples, **settings):
        self.samples = samples
        self.step = partial(step, constant=samples.constant, **settings)
        self.replay = partial(replay, constant=samples.constant, **settings)
        self.duals = [None] * len(samples.X)
        self.history = []

    def advance(self, value):
        executor, X = self.samples.executor, self.samples.X
        shared = executor.share(value)
        self.history.append(shared)
        self.duals, total = executor.run(self.step, _blocks.add_arrays, [X, self.duals], shared)
        if len(self.history) % _LINEAGE == 0:
            self.duals = executor.shorten(self.duals, self.replay, [X], self.history)
        return total


class _JointPass(_RepeatedPass):
    def __init__(self, samples, **settings):
        super().__init__(_blocks.joint_step, _blocks.replayed_joint_steps, samples, **settings)

    def __call__(self, thetas, dual_scale):
        *pulls, squares = self.advance((thetas, dual_scale))
        return pulls, np.sqrt(squares)


class _ConstraintPass(_RepeatedPass):
    def __init__(self, samples, **settings):
        super().__init__(
            _blocks.constraint_step, _blocks.replayed_constraint_steps, samples, **settings
        )

    def __call__(self, theta, mu, mu_next):
        pull, squares = self.advance((theta, mu, mu_next))
        nonnegativity, unit_ball = np.sqrt(squares)
        return PassResult(pull, float(nonnegativity), float(unit_ball))
