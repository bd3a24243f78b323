"""What can be asked of a problem: the few features that tell its classes apart."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jplay._array_api import like, to_numpy
from jplay.numerics.feature_choice import ChoiceRules, LeftOutLoss, first_allowed, grown, swapped
from jplay.numerics.subsets import class_folds
from jplay.problems.problem import FitProblem, described
from jplay.problems.tasks import ChainTask, Report, Solution
from jplay.solvers.joint import solve_joint
from jplay.solvers.result import SolverResult, Status
from jplay.solvers.schedules import FastSchedule

_FIRST_PENALTY = 0.003
"""Of the strongest pull of the labels on a column: at the start hardly any becomes zero."""
_PENALTY_GROWTH = 1.5
_MAX_PENALTIES = 60
_N_FOLDS = 5
_JUDGED_ROWS = 2000
"""Left-out samples by which features are judged, at most: more cost time and change little."""


@dataclass(frozen=True, eq=False)
class FeaturePath:
    """First projections of the model along a growing penalty on their columns.

    Attributes
    ----------
    penalties : ndarray of shape (n_penalties,)
    norms : ndarray of shape (n_penalties, n_features)
        Of the columns of the first projection, for scaled features; zero for features that the
        chain does not use.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectionTask(ChainTask):
    """The path of a penalty on the columns of the first projection, and a choice from it."""

    schedule: FastSchedule
    n_selected: int
    rules: ChoiceRules
    refined: bool
    n_resamples: int
    seed: int

    def run(self, problem: FitProblem, report: Report | None = None) -> Solution:
        assert problem.rows is not None
        path, status = self.path(problem)
        rows, Y = (to_numpy(part) for part in problem.rows())
        n_features = problem.first_layer.n_features
        X, labels = rows[:, :n_features], Y.argmax(axis=1)
        chosen = first_allowed(path.order.tolist(), self.n_selected, self.rules)
        loss = self._loss(X, labels)
        if self.refined:
            chosen = self._refined(loss, chosen)
        support = np.zeros(n_features, dtype=bool)
        support[chosen] = True
        attributes = {
            "support_": support,
            "path_": path,
            "loss_": loss(chosen),
            "importances_": _importances(loss, chosen),
            "stability_": self._stability(X, labels) if self.n_resamples else None,
        }
        return Solution(attributes, status)

    def path(self, problem: FitProblem) -> tuple[FeaturePath, Status]:
        """Solve for growing penalties, each from the solution before, until few bands are left."""
        statistics, d = problem.statistics, problem.first_layer.n_features
        solved = self._solved(problem, None)
        [(X_root, Y_root)] = statistics.label_roots
        pull = self.model.alpha * to_numpy(solved.coef).T @ to_numpy(Y_root.mT @ X_root)[:, :d]
        penalty = _FIRST_PENALTY * float(np.linalg.norm(pull, axis=0).max()) or 1.0
        weight = np.zeros(statistics.n_features)  # none for the constant feature, which is last
        weight[:d] = 1.0 if self.rules.costs is None else self.rules.costs / self.rules.costs.mean()
        penalties, norms = [], []
        for _ in range(_MAX_PENALTIES):
            solved = self._penalised(problem, like(penalty * weight, statistics.X_root), solved)
            penalties.append(penalty)
            norms.append(np.linalg.norm(to_numpy(solved.thetas[0])[:, :d], axis=0))
            # Half of what is wanted, so that rules find enough that last.
            if np.count_nonzero(norms[-1]) <= self.n_selected // 2:
                break
            penalty *= _PENALTY_GROWTH
        return FeaturePath(np.array(penalties), np.array(norms)), solved.status

    def _penalised(self, problem: FitProblem, penalty: Any, before: SolverResult) -> SolverResult:
        return solve_joint(
            problem.samples,
            self.sizes(problem),
            self.model,
            self.schedule,
            statistics=problem.statistics,
            column_penalty=penalty,
            start=before.thetas,
        )

    def _loss(self, X: np.ndarray, labels: np.ndarray) -> LeftOutLoss:
        """Loss on standardised features of some samples, each left out once."""
        rng = np.random.default_rng(self.seed)
        if len(X) > _JUDGED_ROWS:
            parts = class_folds(labels, -(-len(X) // _JUDGED_ROWS), rng)
            X, labels = X[parts == 0], labels[parts == 0]
        deviation = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        labels = np.unique(labels, return_inverse=True)[1]
        return LeftOutLoss.of(X, labels, class_folds(labels, _N_FOLDS, rng))

    def _refined(self, loss: LeftOutLoss, start: list[int]) -> list[int]:
        """Swaps in the set that grows feature by feature, or in the path's if that is better."""
        rules = self.rules
        if rules.costs is not None and not np.isfinite(rules.max_cost):
            rules = replace(rules, max_cost=float(rules.costs[start].sum()))
        proposed = swapped(loss, start, rules)
        chosen = swapped(loss, grown(loss, [], self.n_selected, rules), rules)
        if len(proposed) >= len(chosen) and loss.gains_surely(chosen, proposed):
            return proposed
        return chosen

    def _stability(self, X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Share of the halves of the samples for which each feature is chosen."""
        counts = np.zeros(X.shape[1])
        for number in range(self.n_resamples):
            seed = self.seed + 1 + number
            half = class_folds(labels, 2, np.random.default_rng(seed)) == 0
            task = replace(self, n_resamples=0, seed=seed)
            with described(X[half], labels[half], scaling="standard", reduced=False) as problem:
                counts += task.run(problem).attributes["support_"]
        return counts / self.n_resamples


def _importances(loss: LeftOutLoss, chosen: list[int]) -> np.ndarray:
    """By how much the loss grows without a feature; zero for those not chosen."""
    importances = np.zeros(loss.n_features)
    now = loss(chosen)
    for feature in chosen:
        importances[feature] = loss([other for other in chosen if other != feature]) - now
    return importances
