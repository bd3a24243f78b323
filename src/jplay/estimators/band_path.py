"""Feature selection along a penalty on the columns of the first projection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jplay._estimator_base import (
    translate_linalg_errors,
)
from jplay.core.arrays import Array, inner, like, namespace, to_numpy, trace
from jplay.core.objective import Objective
from jplay.core.problem import Problem, prepare
from jplay.core.result import SolverResult, Status
from jplay.core.samples import collect_rows
from jplay.core.solver import FastSolver, minimize
from jplay.core.step import QuadraticPull
from jplay.core.targets import encode_targets
from jplay.estimators._chain import (
    choose_sizes,
)
from jplay.numerics.feature_choice import ChoiceRules, LeftOutLoss, first_allowed, grown, swapped
from jplay.numerics.subsets import class_folds

FIRST_PENALTY = 0.003
"""First penalty, relative to the strongest pull of the labels on a column: hardly any column is
zero with it."""
PENALTY_GROWTH = 1.5
"""Factor of the penalty from one step of the path to the next."""
MAX_PENALTIES = 60
"""Maximum number of steps of the path."""
N_FOLDS = 5
MAX_ROWS = 20_000
"""Maximum number of labeled samples from which features are selected."""
MAX_HELD_OUT = 2000
"""Maximum number of held-out samples for the selection loss: more cost time and change little."""
FIRST_SHRINKAGE = 3.0
"""Penalty parameter of the split at the start, in units that shrink a column of typical length to
zero. With less, all columns would be zero at first, and few would come back."""


class ColumnSplit:
    r"""Split of the first projection that carries a penalty on its columns, and its dual.

    The penalty :math:`\sum_j t_j \|\theta_j\|` makes whole columns zero: features that the
    chain does not use. As for the features of the samples, with the split :math:`S` and the scaled
    dual :math:`D`, :math:`V = \Theta_1 - D`, :math:`S = \mathrm{prox}(V)` and
    :math:`D \leftarrow S - V`. Splits of features weigh a projection by ``A``; the mean eigenvalue
    of ``A`` times the penalty parameter makes it as strong on average. It is larger if columns
    would otherwise lose more than a third of their typical length in the first step.
    """

    def __init__(self, problem: Problem, penalty: np.ndarray, theta: Array) -> None:
        self.A = problem.moments.gram
        self.penalty = like(penalty, theta)
        size = float(inner(theta, theta)[0, 0] / theta.shape[1]) ** 0.5 or 1.0
        typical = np.exp(np.mean(np.log(penalty[penalty > 0]))) if np.any(penalty > 0) else 0.0
        mean_eigenvalue = float(trace(self.A)[0, 0]) / self.A.shape[0]
        self.unit = float(max(mean_eigenvalue, FIRST_SHRINKAGE * typical / size, 1e-300))
        self.split = theta
        self.dual = 0 * theta

    def update(self, theta: Array, mu: Array, dual_scale: Array) -> tuple[QuadraticPull, Array]:
        weight = mu * self.unit
        V = theta - self.dual * dual_scale
        self.split = shrink_columns(V, self.penalty / weight[0, 0])
        self.dual = self.split - V
        difference = theta - self.split
        square = inner(difference @ self.A, difference)
        pull = QuadraticPull(self.split + self.dual, weight)
        return pull, namespace(square).maximum(square, 0 * square)

    def value(self, theta: Array) -> Array:
        xp = namespace(theta)
        norms = xp.linalg.vector_norm(theta, axis=0, keepdims=True)
        return xp.sum(self.penalty * norms, axis=1, keepdims=True)

    def finish(self, theta: Array) -> Array:
        return self.split


def shrink_columns(V: Array, threshold: Array) -> Array:
    r"""Return the proximal map of :math:`\sum_j t_j \|v_j\|` over the columns of a matrix.

    Every column loses its threshold in length; one that is no longer than it becomes zero.

    Examples
    --------
    >>> import numpy as np
    >>> shrink_columns(np.array([[3.0, 0.3], [4.0, 0.4]]), np.array([1.0, 1.0]))
    array([[2.4, 0. ],
           [3.2, 0. ]])
    """
    xp = namespace(V)
    norms = xp.linalg.vector_norm(V, axis=0)
    longer = norms > threshold
    factor = 1 - threshold / xp.where(longer, norms, xp.ones_like(norms))
    return V * xp.where(longer, factor, xp.zeros_like(factor))


@dataclass(frozen=True, eq=False)
class FeaturePath:
    """Regularization path: first projections for a growing penalty on their columns.

    Attributes
    ----------
    penalties : ndarray of shape (n_penalties,)
    norms : ndarray of shape (n_penalties, n_features)
        Norms of the columns of the first projection, for scaled features; zero for features that
        the chain does not use.
    """

    penalties: np.ndarray
    norms: np.ndarray

    @property
    def n_kept(self) -> np.ndarray:
        """Number of features that the chain uses at each penalty."""
        return np.count_nonzero(self.norms, axis=1)

    @property
    def order(self) -> np.ndarray:
        """Features, those first that last longest; the larger column first among equals."""
        kept = self.norms > 0
        steps = np.arange(1, len(self.penalties) + 1)[:, None]
        last = np.max(kept * steps, axis=0)
        size = np.take_along_axis(self.norms, np.maximum(last - 1, 0)[None, :], axis=0)[0]
        return np.lexsort((-size, -last))


@dataclass(frozen=True, eq=False)
class Selector:
    """Settings of a feature selection."""

    n_components: int | None
    objective: Objective
    solver: FastSolver
    n_selected: int
    rules: ChoiceRules
    refine: bool
    n_resamples: int
    seed: int

    def select(self, problem: Problem) -> tuple[dict, Status]:
        """Return the fitted attributes, and how the last solve of the path ended."""
        path, status = compute_path(self, problem)
        rows, Y, _ = collect_rows(problem.samples, problem.moments.n_samples, MAX_ROWS)
        X = to_numpy(rows)[:, : problem.transform.n_features]
        labels = to_numpy(Y).argmax(axis=1)
        loss = build_loss(X, labels, self.seed)
        chosen = first_allowed(path.order.tolist(), self.n_selected, self.rules)
        if self.refine:
            chosen = refine(loss, chosen, self.n_selected, self.rules)
        support = np.zeros(X.shape[1], dtype=bool)
        support[chosen] = True
        attributes = {
            "support_": support,
            "path_": path,
            "loss_": loss(chosen),
            "importances_": compute_importances(loss, chosen),
            "stability_": self.measure_stability(X, labels) if self.n_resamples else None,
        }
        return attributes, status

    def measure_stability(self, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the fraction of the halves of the samples for which each feature is selected."""
        counts = np.zeros(X.shape[1])
        for number in range(self.n_resamples):
            seed = self.seed + 1 + number
            half = class_folds(labels, 2, np.random.default_rng(seed)) == 0
            selector = replace(self, n_resamples=0, seed=seed)
            targets = encode_targets(labels[half])
            with prepare(X[half], targets, scaling="standard", reduce_features=False) as problem:
                counts += selector.select(problem)[0]["support_"]
        return counts / self.n_resamples


def compute_path(selector: Selector, problem: Problem) -> tuple[FeaturePath, Status]:
    """Solve for growing penalties, each from the solution before, until few features are left."""
    n_features, rules = problem.transform.n_features, selector.rules
    n_outputs = problem.targets.n_outputs
    sizes = choose_sizes(problem, selector.n_components, 1, n_outputs)
    with translate_linalg_errors():
        result = minimize(problem, sizes, selector.objective, selector.solver)
    cross = to_numpy(problem.moments.cross)[:, :n_features]
    pull = selector.objective.alpha * to_numpy(result.coef).T @ cross
    penalty = FIRST_PENALTY * float(np.linalg.norm(pull, axis=0).max()) or 1.0
    weight = np.zeros(problem.moments.gram.shape[0])  # zero for the constant feature, the last
    weight[:n_features] = 1.0 if rules.costs is None else rules.costs / rules.costs.mean()
    penalties, norms = [], []
    for _ in range(MAX_PENALTIES):
        result = solve_penalized(selector, problem, penalty * weight, result)
        penalties.append(penalty)
        norms.append(np.linalg.norm(to_numpy(result.thetas[0])[:, :n_features], axis=0))
        # Half of the requested number, so that rules find enough features that last.
        if np.count_nonzero(norms[-1]) <= selector.n_selected // 2:
            break
        penalty *= PENALTY_GROWTH
    return FeaturePath(np.array(penalties), np.array(norms)), result.status


def solve_penalized(
    selector: Selector, problem: Problem, penalty: np.ndarray, before: SolverResult
) -> SolverResult:
    """Minimize the objective and the penalty on columns, from the solution of a smaller one."""
    return minimize(
        problem,
        [theta.shape[0] for theta in before.thetas],
        selector.objective,
        selector.solver,
        start=before.thetas,
        first_split=ColumnSplit(problem, penalty, before.thetas[0]),
    )


def build_loss(X: np.ndarray, labels: np.ndarray, seed: int) -> LeftOutLoss:
    """Return the loss on standardized features of some samples, each held out once."""
    rng = np.random.default_rng(seed)
    if len(X) > MAX_HELD_OUT:
        parts = class_folds(labels, -(-len(X) // MAX_HELD_OUT), rng)
        X, labels = X[parts == 0], labels[parts == 0]
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    labels = np.unique(labels, return_inverse=True)[1]
    return LeftOutLoss.of(X, labels, class_folds(labels, N_FOLDS, rng))


def refine(
    loss: LeftOutLoss, start: Sequence[int], n_selected: int, rules: ChoiceRules
) -> list[int]:
    """Return swaps in the set of forward selection, or in the path's set if that is better."""
    start = list(start)
    if rules.costs is not None and not np.isfinite(rules.max_cost):
        rules = replace(rules, max_cost=float(rules.costs[start].sum()))
    from_path = swapped(loss, start, rules)
    forward = swapped(loss, grown(loss, [], n_selected, rules), rules)
    if len(from_path) >= len(forward) and loss.gains_surely(forward, from_path):
        return from_path
    return forward


def compute_importances(loss: LeftOutLoss, chosen: Sequence[int]) -> np.ndarray:
    """Return the growth of the loss without each feature; zero for those not selected."""
    importances = np.zeros(loss.n_features)
    full = loss(list(chosen))
    for feature in chosen:
        importances[feature] = loss([other for other in chosen if other != feature]) - full
    return importances
