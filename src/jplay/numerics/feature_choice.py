r"""Which few features tell classes apart: choice by the likelihood of left-out samples.

Every class is a normal distribution, whose covariance is that of its own samples mixed with the
covariance within all classes. With the Cholesky factor of the covariance of chosen features, a
further feature adds one coordinate: what the chosen ones do not explain of it, in units of its
own standard deviation. The squared distance of a sample from a class grows by the square
of that coordinate. So all candidates are judged at once, at the cost of one solve.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

POOLED = 0.2
"""Share of the covariance within all classes in that of a class."""
TEMPERATURE = 0.3
"""By which log-likelihoods are multiplied: features of real spectra are less normal, and samples
less independent, than the distributions claim."""
_DIAGONAL = 0.01  # of every covariance; keeps features that are nearly copies apart
_ENTRIES = 20_000_000  # of scores that are computed at a time: less than 40 megabytes per fold
_MAX_ROUNDS = 5  # of swaps through all chosen features
_LEAST_VARIANCE = 1e-9  # of the variance that chosen features leave; below it is rounding


@dataclass(frozen=True, eq=False)
class _Fold:
    """Normal distributions of the classes, and samples that had no part in them."""

    means: np.ndarray
    pooled: np.ndarray
    """Covariance within all classes, (n_features, n_features)."""
    variances: np.ndarray
    """Of every class, mixed with the pooled ones, (n_classes, n_features)."""
    residuals: list[np.ndarray]
    """Of every class, scaled so that ``R^T R`` is its part of the mixed covariance."""
    log_prior: np.ndarray
    X: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, labels: np.ndarray, left_out: np.ndarray) -> "_Fold":
        n_classes, n_features = int(labels.max()) + 1, X.shape[1]
        rows, own = X[~left_out], labels[~left_out]
        sizes = np.bincount(own, minlength=n_classes)
        present = sizes > 0
        means = np.zeros((n_classes, n_features))
        np.add.at(means, own, rows)
        means /= np.maximum(sizes, 1)[:, None]
        residuals = rows - means[own]
        pooled = residuals.T @ residuals / max(1, len(rows) - np.count_nonzero(present))
        parts = [
            residuals[own == label] * np.sqrt((1 - POOLED) * (1 - _DIAGONAL) / max(1, size - 1))
            for label, size in enumerate(sizes)
        ]
        diagonal = _DIAGONAL * np.maximum(np.diag(pooled), _LEAST_VARIANCE)
        pooled = POOLED * (1 - _DIAGONAL) * pooled
        pooled[np.diag_indices(n_features)] += diagonal
        variances = np.array([np.sum(part**2, axis=0) for part in parts]) + np.diag(pooled)
        with np.errstate(divide="ignore"):  # a class without samples is never likely
            log_prior = np.log(sizes / sizes.sum())
        known = left_out & present[labels]
        return cls(means, pooled, variances, parts, log_prior, X[known], labels[known])

    def losses(self, chosen: Sequence[int], candidates: np.ndarray) -> np.ndarray:
        """Minus the log probability of each sample's class, (n_samples, n_candidates)."""
        chosen = list(chosen)
        shape = (len(self.X), len(self.means), len(candidates))
        scores = np.empty(shape)
        for label, (mean, part) in enumerate(zip(self.means, self.residuals, strict=True)):
            apart = self.X[:, candidates] - mean[candidates]
            variance = self.variances[label, candidates]
            base: ArrayLike = 0.0
            if chosen:
                covariance = part[:, chosen].T @ part + self.pooled[chosen]
                root = np.linalg.cholesky(covariance[:, chosen])
                explained = np.linalg.solve(root, covariance[:, candidates])
                white = np.linalg.solve(root, (self.X[:, chosen] - mean[chosen]).T).T
                variance = variance - np.sum(explained**2, axis=0)
                apart = apart - white @ explained
                base = np.sum(white**2, axis=1) + 2 * np.log(np.diag(root)).sum()
            variance = np.maximum(variance, _LEAST_VARIANCE)
            distance = np.asarray(base)[..., None] + apart**2 / variance + np.log(variance)
            scores[:, label] = self.log_prior[label] - 0.5 * TEMPERATURE * distance
        scores -= scores.max(axis=1, keepdims=True)
        own = scores[np.arange(len(self.X)), self.labels]
        return np.log(np.exp(scores).sum(axis=1)) - own


@dataclass(frozen=True, eq=False)
class LeftOutLoss:
    """Mean of minus the log probability of left-out samples' classes, given some features."""

    folds: list[_Fold]
    n_features: int

    @classmethod
    def of(cls, X: np.ndarray, labels: np.ndarray, folds: np.ndarray) -> "LeftOutLoss":
        """The loss of samples whose folds are left out in turn.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Standardised.
        labels : ndarray of int of shape (n_samples,)
            Numbers from zero.
        folds : ndarray of int of shape (n_samples,)
        """
        found = [_Fold.of(X, labels, folds == fold) for fold in np.unique(folds)]
        return cls(found, X.shape[1])

    def with_one_more(
        self, chosen: Sequence[int], candidates: ArrayLike | None = None
    ) -> np.ndarray:
        """Loss of the chosen features and each candidate; infinite for what is chosen already.

        Parameters
        ----------
        chosen : sequence of int
        candidates : array-like of int, default=None
            ``None`` means all features.

        Returns
        -------
        losses : ndarray of shape (n_features,)
            Infinite for features that are no candidates.
        """
        every = np.arange(self.n_features) if candidates is None else np.asarray(candidates)
        every = np.setdiff1d(every, list(chosen))
        losses = np.full(self.n_features, np.inf)
        if every.size:
            n_samples = sum(len(fold.X) for fold in self.folds)
            n_pieces = -(-n_samples * len(self.folds[0].means) * every.size // _ENTRIES)
            for piece in np.array_split(every, n_pieces):
                total = sum(fold.losses(chosen, piece).sum(axis=0) for fold in self.folds)
                losses[piece] = total / n_samples
        return losses

    def by_sample(self, chosen: Sequence[int]) -> np.ndarray:
        """Loss of every left-out sample; that of the classes' shares without features."""
        if not chosen:
            return np.concatenate([-fold.log_prior[fold.labels] for fold in self.folds])
        *rest, last = chosen
        return np.concatenate([fold.losses(rest, np.array([last]))[:, 0] for fold in self.folds])

    def __call__(self, chosen: Sequence[int]) -> float:
        """Loss of the chosen features."""
        return float(np.mean(self.by_sample(chosen)))

    def gains_surely(self, chosen: Sequence[int], other: Sequence[int]) -> bool:
        """Whether another set is better by more than the standard error of the difference.

        The best of many candidates is better on some samples by chance.
        """
        gain = self.by_sample(chosen) - self.by_sample(other)
        return bool(np.mean(gain) > np.std(gain) / np.sqrt(len(gain)) + 1e-12)


@dataclass(frozen=True, eq=False)
class ChoiceRules:
    """Which features may be chosen together, and what they may cost.

    Examples
    --------
    >>> import numpy as np
    >>> rules = ChoiceRules(n_features=6, min_distance=2)
    >>> np.flatnonzero(rules.allowed([3])).tolist()
    [0, 1, 5]
    """

    n_features: int
    min_distance: int = 1
    groups: np.ndarray | None = None
    costs: np.ndarray | None = None
    max_cost: float = np.inf

    def allowed(self, chosen: Sequence[int]) -> np.ndarray:
        """Which features may join the chosen ones, (n_features,)."""
        chosen = list(chosen)
        places = np.arange(self.n_features)
        free = np.ones(self.n_features, dtype=bool)
        for feature in chosen:
            free &= np.abs(places - feature) >= self.min_distance
        free[chosen] = False
        if self.groups is not None:
            free &= ~np.isin(self.groups, self.groups[chosen])
        if self.costs is not None:
            # Sums of costs round: a set that costs just as much as it may is allowed.
            limit = self.max_cost * (1 + 1e-9) - self.costs[chosen].sum()
            free &= self.costs <= limit
        return free

    def value(self, gain: np.ndarray) -> np.ndarray:
        """What a gain is worth: per cost, if features differ in cost."""
        if self.costs is None:
            return gain
        return np.where(gain > 0, gain / self.costs, gain)


def first_allowed(order: Sequence[int], n: int, rules: ChoiceRules) -> list[int]:
    """The first ``n`` features of an order that may be chosen together, or as many as may."""
    chosen: list[int] = []
    for feature in order:
        if len(chosen) == n:
            break
        if rules.allowed(chosen)[feature]:
            chosen.append(int(feature))
    return chosen


def grown(loss: LeftOutLoss, chosen: Sequence[int], n: int, rules: ChoiceRules) -> list[int]:
    """Add the best feature again and again until there are ``n``, or none may be added."""
    chosen = list(chosen)
    now = loss(chosen)
    while len(chosen) < n:
        candidates = np.flatnonzero(rules.allowed(chosen))
        if not candidates.size:
            break
        losses = loss.with_one_more(chosen, candidates)
        best = int(np.argmax(rules.value(now - losses)))
        chosen.append(best)
        now = losses[best]
    return chosen


def swapped(loss: LeftOutLoss, chosen: Sequence[int], rules: ChoiceRules) -> list[int]:
    """Replace single features as long as the loss falls by more than its standard error.

    Features are taken out in turn, the oldest first, and the best that may take the place does.
    The total cost never grows beyond what is allowed.
    """
    chosen = list(chosen)
    unchanged = 0
    for _ in range(_MAX_ROUNDS * len(chosen)):
        if unchanged == len(chosen):
            break
        out, *rest = chosen
        losses = loss.with_one_more(rest, np.flatnonzero(rules.allowed(rest)))
        best = int(np.argmin(losses))
        if best != out and loss.gains_surely(chosen, [*rest, best]):
            chosen, unchanged = [*rest, best], 0
        else:
            chosen, unchanged = [*rest, out], unchanged + 1
    return chosen
