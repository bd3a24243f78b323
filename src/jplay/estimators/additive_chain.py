"""An additive chain: J-Play on ramps of the features, with a curve for every feature."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jplay.core.arrays import Array, like, multiply_chain, to_numpy
from jplay.core.decision import estimate_covariance
from jplay.estimators._chain import (
    describe_chain,
    describe_coef,
    describe_decision,
    round_attributes,
)
from jplay.estimators.stages import (
    FIRST,
    StageData,
    measure_importance,
    minimize_stage,
    prepare_stage,
    round_to_single,
    spread_importance,
    take_columns,
)
from jplay.numerics.eigen import principal_axes
from jplay.numerics.ramps import quantile_ramps, ramp, ramp_products

N_RAMPS = 6
"""Of a feature. Over 70 problems 4 were as good, and 10 lost 0.2 points."""
SCORE_UNIT = 1 / 16
"""Of outputs, if they are scores of classes: as sharp as a label projection's, which lie near 0
and 1."""
ABSENT = -10.0
"""Score of a class that has no samples. Those of the others sum to zero: one is not negative."""


@dataclass(frozen=True, eq=False)
class AdditiveChain:
    """Ramps of some features, and the J-Play that reads them."""

    columns: Any
    """Which features, (n_inputs,); ``None`` for all."""
    starts: Any
    """Where ramps begin, (n_ramps, n_inputs)."""
    slopes: Any
    """How steep they are, (n_ramps, n_inputs)."""
    components: Any
    """(n_components, n_ramps, n_inputs): from ramps to the whitened subspace."""
    coef: Any
    """(n_outputs, n_ramps, n_inputs): from ramps to scores of classes, or to labels."""
    intercept: Any
    """(n_outputs,)"""
    relevance: Any
    """How much the outputs rely on each feature, (n_inputs,)."""

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Features of samples in the subspace, and outputs."""
        inside, maps = take_columns(X, self.columns), [self.components, self.coef]
        features, outputs = ramp_products(inside, self.starts, self.slopes, maps)
        return features, outputs + like(self.intercept, outputs)

    @property
    def cost(self) -> int:
        """Multiply-adds for one sample."""
        return self.components.size + self.coef.size

    def reliance(self, n_features: int) -> np.ndarray:
        """How much it relies on each feature; sums to one."""
        return spread_importance(self.columns, self.relevance, n_features)

    def with_outputs(self, present: np.ndarray, n_outputs: int) -> "AdditiveChain":
        """The chain with low scores for classes that its samples lack."""
        if len(present) == n_outputs:
            return self
        coef = np.zeros((n_outputs, *self.coef.shape[1:]))
        intercept = np.full(n_outputs, ABSENT)
        coef[present], intercept[present] = self.coef, self.intercept
        return replace(self, coef=coef, intercept=intercept)

    def seen_from(self, center: np.ndarray) -> "AdditiveChain":
        """The chain for samples from which their mean was subtracted, in single precision."""
        center = center if self.columns is None else center[self.columns]
        return replace(
            self,
            starts=round_to_single(self.starts - center),
            slopes=round_to_single(self.slopes),
            components=round_to_single(self.components),
            coef=round_to_single(self.coef),
            intercept=round_to_single(self.intercept),
        )


def additive_chain(
    inputs: StageData, Y: np.ndarray, columns: Any, n_coordinates: int, *, multilabel: bool
) -> tuple[AdditiveChain, np.ndarray]:
    """Fit J-Play on ramps of some features, in host memory; with the features of the samples.

    Outputs are scores of classes by the rule of the nearest mean, or those of the label projection
    if there are several labels.

    Parameters
    ----------
    inputs : Inputs
    Y : ndarray of shape (n_labelled, n_outputs)
        Indicators of the labelled samples.
    columns : ndarray of int or None
        Which features; ``None`` for all.
    n_coordinates : int
        How many principal axes of the ramps are kept.
    multilabel : bool
    """
    X = to_numpy(take_columns(inputs.X, columns)).astype(np.float64)
    starts, slopes, heights = quantile_ramps(X, N_RAMPS)
    # Squared distances between ramps are then as large as distances between ranks.
    roots = np.sqrt(heights)
    ramps = np.hstack([ramp(X, starts[i], slopes[i]) * roots[i] for i in range(N_RAMPS)])
    axes = principal_axes(ramps, n_coordinates) if min(ramps.shape) > n_coordinates else None
    Z = ramps if axes is None else ramps @ axes
    unit = 1 / (np.sqrt(np.mean(np.sum(Z**2, axis=1))) or 1.0)
    try:
        with prepare_stage(replace(inputs, X=unit * Z)) as problem:
            result, targets = minimize_stage(problem, FIRST), problem.targets
            statistics = estimate_covariance(problem, targets)
            theta = multiply_chain(result.thetas)
            found = describe_chain(problem, result.thetas)
            found |= describe_decision(problem, theta, statistics, targets)
            coef = describe_coef(result.coef, targets)
            found |= round_attributes({"coef_": coef}, problem.dtype)
    except ValueError:  # constant features: nothing to learn but the shares of classes
        shares = Y.mean(axis=0)
        coef, components = np.zeros((len(shares), ramps.shape[1])), np.zeros((1, ramps.shape[1]))
        intercept = shares if multilabel else SCORE_UNIT * np.log(shares)
    else:
        coef, intercept = found["coef_"], 0.0
        if not multilabel:
            coef = SCORE_UNIT * found["mean_rule_coef_"]
            intercept = SCORE_UNIT * found["mean_rule_intercept_"]
            intercept = intercept - intercept.mean()
        intercept = intercept + coef @ found["intercept_"]
        components = unit * found["components_"]
        components = components if axes is None else components @ axes.T
        coef, components = coef @ components, found["whitener_"] @ components
    chain = AdditiveChain(
        columns,
        starts,
        slopes,
        components.reshape(len(components), *roots.shape) * roots,
        coef.reshape(len(coef), *roots.shape) * roots,
        intercept,
        np.linalg.norm(measure_importance(coef, ramps).reshape(roots.shape), axis=0),
    )
    return chain, ramps @ components.T
