"""A lifted chain: similarities to landmarks between two J-Play stages.

A chain of linear maps is one linear map. With a Gaussian feature map in between, the second
J-Play sees similarities: bounded and non-negative, as its constraints ask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from jplay.core.arrays import Array, like, namespace, rows_of, symmetrize, to_numpy
from jplay.core.decision import (
    choose_kept_variances,
    compute_class_statistics,
    compute_neighbor_metric,
    compute_overall_statistics,
    compute_whitener,
    estimate_covariance,
    shrink,
)
from jplay.core.objective import Objective
from jplay.core.problem import Problem
from jplay.core.result import SolverResult
from jplay.estimators._chain import describe_chain, describe_coef, round_attributes
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
from jplay.numerics.eigen import is_well_conditioned, range_basis
from jplay.numerics.kernels import gaussian_similarities, median_distance, squared_distances

_RANK_TOLERANCE = 1e-8
"""Of the largest eigenvalue of the kernel between landmarks, below which one counts as zero."""


SINGLE_RANGE = 1e3
"""Ratio of the sizes of coordinates up to which they are rounded to single precision. Samples that
a chain was not fitted to have large coordinates where those of the training samples are small, so
that rounding counts that many times: with a ratio of 1e4 it moved probabilities by 4e-3."""


@dataclass(frozen=True, eq=False)
class View:
    """Samples seen through a linear map of some features, and compared with landmarks."""

    features: Any
    """Which features, (n_inputs,); ``None`` for all."""
    matrix: Any
    """(n_outputs, n_inputs), or the diagonal of a diagonal one; ``None`` for the features."""
    normalised: bool = False
    """Whether samples are divided by their length instead."""
    origin: Any = None
    """What was subtracted from samples that are to be normalised, (n_inputs,)."""
    landmarks: Any = None
    """(n_landmarks, n_outputs)"""
    widths: tuple[float, ...] = ()
    """Of the Gaussian kernels whose mean is the similarity."""
    relevance: Any = None
    """How much a supervised map relies on each of its features, (n_inputs,)."""

    def outputs(self, X: Array) -> Array:
        """What the map makes of samples."""
        X = take_columns(X, self.features)
        if self.normalised:
            return _unit_length(X if self.origin is None else X + like(self.origin, X))
        if self.matrix is None:
            return X
        matrix = like(self.matrix, X)
        # With columns in one piece, as sums over features want them.
        return X * matrix if matrix.ndim == 1 else (matrix @ X.mT).mT

    def seen_from(self, center: np.ndarray) -> "View":
        """The view for samples from which their mean was subtracted, in single precision."""
        if self.normalised:
            origin = center if self.features is None else center[self.features]
            return replace(
                self, origin=round_to_single(origin), landmarks=round_to_single(self.landmarks)
            )
        landmarks = to_numpy(self.landmarks) - self.outputs(center[None, :])
        matrix = None if self.matrix is None else round_to_single(self.matrix)
        return replace(self, matrix=matrix, landmarks=round_to_single(landmarks))

    def kernel(self, X: Array) -> Array:
        """Similarity of samples to landmarks, (n_samples, n_landmarks)."""
        Z = self.outputs(X)
        landmarks = like(self.landmarks, Z)
        if len(self.widths) == 1:
            return gaussian_similarities(Z, landmarks, self.widths[0])
        return mean_kernel(squared_distances(Z, landmarks), self.widths)


def _unit_length(X: Array) -> Array:
    """Samples divided by their length; those of length zero stay."""
    xp = namespace(X)
    lengths = xp.linalg.vector_norm(X, axis=1, keepdims=True)
    return X / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def mean_kernel(distances: Array, widths: Sequence[float]) -> Array:
    """Mean of Gaussian kernels of several widths, of squared distances."""
    xp = namespace(distances)
    kernel = xp.exp(distances * (-0.5 / widths[0] ** 2))
    for width in widths[1:]:
        kernel = kernel + xp.exp(distances * (-0.5 / width**2))
    return kernel if len(widths) == 1 else kernel / len(widths)


@dataclass(frozen=True, eq=False)
class LiftedChain:
    """Similarities to landmarks, and the J-Play that reads them."""

    views: list[View]
    read_out: Any
    """(n_landmarks, n_components): from similarities to the last subspace."""
    offset: Any
    """(n_components,)"""
    coef: Any
    """The label projection, (n_outputs, n_components)."""

    def kernel(self, X: Array) -> Array:
        """Similarity of samples to landmarks, in the mean of all views."""
        kernel = self.views[0].kernel(X)
        for view in self.views[1:]:
            kernel = kernel + view.kernel(X)
        return kernel if len(self.views) == 1 else kernel / len(self.views)

    def features(self, kernel: Array) -> Array:
        """Features in the last subspace of samples with these similarities to landmarks."""
        return kernel @ like(self.read_out, kernel) + like(self.offset, kernel)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Features of samples in the last subspace, and outputs of the label projection."""
        features = self.features(self.kernel(X))
        return features, (like(self.coef, X) @ features.mT).mT

    @property
    def cost(self) -> int:
        """Multiply-adds for one sample, of the first view."""
        n_landmarks, n_components = self.read_out.shape
        return n_landmarks * (self.views[0].landmarks.shape[1] + n_components)

    def reliance(self, n_features: int) -> np.ndarray:
        """How much it relies on each feature; sums to one."""
        view = self.views[0]
        # A view of features as they are relies on all of them alike.
        relevant = 1.0 if view.relevance is None else view.relevance
        return spread_importance(view.features, relevant, n_features)

    def with_outputs(self, present: np.ndarray, n_outputs: int) -> "LiftedChain":
        """The chain with outputs of zero for classes that its samples lack."""
        if len(present) == n_outputs:
            return self
        coef = np.zeros((n_outputs, self.coef.shape[1]))
        coef[present] = to_numpy(self.coef)
        return replace(self, coef=coef)

    def seen_from(self, center: np.ndarray) -> "LiftedChain":
        """The chain for samples from which their mean was subtracted, in single precision.

        Distances between samples that are near each other and far from the origin would be lost
        in the rounding of their norms. The read-out stays in double precision: products with its
        large entries cancel.
        """
        return LiftedChain(
            [view.seen_from(center) for view in self.views],
            to_numpy(self.read_out),
            to_numpy(self.offset),
            round_to_single(self.coef),
        )


def supervised_view(data: StageData, features: Any, *, within: bool = False) -> View:
    """J-Play on some features, whitened; the features themselves if it finds no subspace.

    With ``within`` they are whitened by a covariance that is shrunk towards variances within
    classes, and no direction is shortened, instead of what suits a single J-Play best.
    """
    inside = take_columns(data.X, features)
    try:
        with prepare_stage(replace(data, X=inside)) as problem:
            result = minimize_stage(problem, FIRST)
            whitener = _whitener_of(problem, result, within)
            chain = describe_chain(problem, result.thetas)
            coef = describe_coef(result.coef, problem.targets)
    except ValueError:  # constant or degenerate features
        return View(features, None)
    whitener = namespace(whitener).astype(whitener, inside.dtype)
    components = chain["components_"]
    importance = measure_importance(namespace(coef).astype(coef, inside.dtype) @ components, inside)
    return View(features, whitener @ components, relevance=importance)


def _whitener_of(problem: Problem, result: SolverResult, within: bool) -> Array:
    """Whitener of the features of a chain of one layer."""
    [theta], targets = result.thetas, problem.targets
    if not within:
        statistics = estimate_covariance(problem, targets, tune=False)
        whitener = compute_whitener(theta @ statistics.covariance() @ theta.mT)
        if targets.multilabel:
            return whitener
        prior = namespace(theta).exp(statistics.log_prior)
        return compute_neighbor_metric(whitener, statistics.means @ theta.mT, prior)
    if targets.multilabel:
        statistics = compute_overall_statistics(problem)
    else:
        statistics = compute_class_statistics(problem, targets)
    variances = choose_kept_variances(statistics, problem.transform)
    statistics = shrink(statistics, problem.transform, variances)
    return compute_whitener(symmetrize(theta @ statistics.covariance() @ theta.mT))


def standardised_view(X: Array, Y: Array | None, features: Any) -> View:
    """Some features, each divided by its standard deviation: within classes, if there are any."""
    xp, inside = namespace(X), take_columns(X, features)
    within = total = to_numpy(xp.var(inside, axis=0))
    if Y is not None:
        within, total = _variances(inside, like(Y, inside))
    # A feature that hardly varies within classes counts for a hundred times its deviation at most.
    variance = np.maximum(within, 1e-4 * total)
    # The deviation of a constant has the rounding of its value.
    rounding = 100 * float(xp.finfo(inside.dtype).eps) * to_numpy(xp.max(xp.abs(inside), axis=0))
    varies = total > np.maximum(1e-12 * total.max(), rounding**2)
    return View(features, varies / np.sqrt(np.where(varies, variance, 1.0)))


def _variances(X: Array, Y: Array) -> tuple[np.ndarray, np.ndarray]:
    """Variance of every feature within classes, and around the common mean."""
    xp = namespace(X)
    sizes = xp.sum(Y, axis=0)
    means = (Y.mT @ X) / sizes[:, None]
    dof = max(1.0, X.shape[0] - Y.shape[1])
    within = xp.sum((X - Y @ means) ** 2, axis=0) / dof
    return to_numpy(within), to_numpy(xp.var(X, axis=0))


def with_landmarks(view: View, X: Array, rows: Any, widths: Sequence[float]) -> View:
    """The view with some samples as landmarks; widths in median distances between them."""
    landmarks = view.outputs(rows_of(X, rows))
    unit = median_distance(squared_distances(landmarks, landmarks))
    return replace(view, landmarks=landmarks, widths=tuple(unit * width for width in widths))


@dataclass(frozen=True, eq=False)
class Lift:
    """What is asked of one lifted chain."""

    inputs: StageData
    Y: Any
    """(n_labelled, n_outputs) indicators of the labelled samples, which come first."""
    views: list[View]
    """With landmarks, the same samples in each."""
    rows: Any
    """Which samples are the landmarks."""
    model: Objective
    n_components: int
    n_coordinates: int
    """How many coordinates of the similarities are kept, those of the largest eigenvalues."""

    def kernel(self) -> Array:
        """Similarity of the samples to landmarks."""
        return LiftedChain(self.views, None, None, None).kernel(self.inputs.X)

    def second_stage(self, kernel: Array, basis: Array) -> StageData:
        """Coordinates of the similarities in the place of the samples."""
        F = kernel @ basis
        xp = namespace(F)
        lengths = xp.linalg.vector_norm(basis, axis=0)
        even = bool(xp.max(lengths) < SINGLE_RANGE * xp.min(lengths))
        if F.shape[0] > F.shape[1] and even:
            # The loose tolerance is far above the rounding of single precision, in which a pass
            # over the samples and the search for neighbours take half of the time. If there are as
            # many coordinates as samples, their mean takes a direction away, which rounding
            # would restore.
            F = xp.astype(F, xp.float32)
        return replace(self.inputs, X=F)

    def chain(
        self, kernel: Array, basis: Array, solution: dict | None
    ) -> tuple[LiftedChain, Array]:
        """The chain, and the features of the samples.

        Without a solution all similarities are equal: nothing to learn but the shares of classes.
        """
        if solution is None:
            n_outputs = self.Y.shape[1]
            read_out = np.zeros((len(self.rows), n_outputs))
            chain = LiftedChain(self.views, read_out, self.Y.mean(axis=0), np.eye(n_outputs))
        else:
            found = solution
            read_out = basis @ like(found["components_"], basis).mT
            chain = LiftedChain(self.views, read_out, found["intercept_"], found["coef_"])
        return chain, chain.features(kernel)


def lifted_chain(lift: Lift) -> tuple[LiftedChain, Array]:
    """Fit J-Play on similarities to landmarks; with the features of the samples.

    Coordinates whose inner products are the kernel (Nystroem) stand for the similarities, see
    :func:`coordinate_basis`. What reads them out reads out the kernel through the same matrix.
    """
    kernel = lift.kernel()
    basis = coordinate_basis(rows_of(kernel, lift.rows), lift.n_coordinates)
    return lift.chain(kernel, basis, _second_solution(lift, lift.second_stage(kernel, basis)))


def _second_solution(lift: Lift, stage: StageData) -> dict | None:
    """Attributes of the second J-Play; ``None`` if all similarities are equal."""
    try:
        with prepare_stage(stage) as problem:
            result = minimize_stage(problem, lift.model, min(lift.n_components, problem.rank))
            coef = describe_coef(result.coef, problem.targets)
            chain = describe_chain(problem, result.thetas)
            return chain | round_attributes({"coef_": coef}, problem.dtype)
    except ValueError:
        return None


def coordinate_basis(kernel: Array, n_coordinates: int) -> Array:
    """Matrix ``B`` for coordinates ``K(X, landmarks) B`` whose inner products are the kernel.

    With ``K = U diag(s) U^T`` between landmarks it is ``U s^(-1/2)``, of the largest eigenvalues if
    fewer are wanted. If all are, any ``B`` with ``B B^T = K^-1`` gives the same coordinates but for
    a rotation, to which J-Play is blind: ``L^-T`` of a Cholesky factor takes a tenth of the time.

    Parameters
    ----------
    kernel : array of shape (n_landmarks, n_landmarks)
    n_coordinates : int

    Returns
    -------
    basis : array of shape (n_landmarks, n_found)
    """
    if n_coordinates >= kernel.shape[0] and is_well_conditioned(kernel, _RANK_TOLERANCE):
        unit = np.eye(kernel.shape[0])
        factor = np.linalg.cholesky(symmetrize(kernel))
        return scipy.linalg.solve_triangular(factor, unit, lower=True, check_finite=False).T
    values, vectors = range_basis(kernel, rtol=_RANK_TOLERANCE)
    first = max(0, values.shape[0] - n_coordinates)
    return vectors[:, first:] / namespace(values).sqrt(values[first:])
