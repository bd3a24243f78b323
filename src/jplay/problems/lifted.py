"""A lifted chain: similarities to landmarks between two J-Play stages.

A chain of linear maps is one linear map. With a Gaussian feature map in between, the second
J-Play sees similarities: bounded and non-negative, as its constraints ask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from jplay._array_api import Array, eigh, like, namespace, rows_of, to_numpy
from jplay.numerics.discriminant import class_moments, shrunk_covariance, whitening
from jplay.numerics.eigen import is_well_conditioned, range_basis, symmetrize
from jplay.numerics.kernels import gaussian_similarities, median_distance, squared_distances
from jplay.problems.problem import FitProblem
from jplay.problems.solution import solve
from jplay.problems.stacks import Inputs, solve_together
from jplay.problems.stages import (
    FIRST,
    LOOSE,
    columns_of,
    described_stage,
    relevance,
    reliance,
    single,
)
from jplay.problems.tasks import ChainTask, MapTask, Solution
from jplay.solvers.model import ModelSettings, collapse

_RANK_TOLERANCE = 1e-8
"""Of the largest eigenvalue of the kernel between landmarks, below which one counts as zero."""
_SINGLE_RANGE = 1e3
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
        X = columns_of(X, self.features)
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
            return replace(self, origin=single(origin), landmarks=single(self.landmarks))
        landmarks = to_numpy(self.landmarks) - self.outputs(center[None, :])
        matrix = None if self.matrix is None else single(self.matrix)
        return replace(self, matrix=matrix, landmarks=single(landmarks))

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
        return reliance(view.features, relevant, n_features)

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
            single(self.coef),
        )


def supervised_view(inputs: Inputs, features: Any, *, within: bool = False) -> View:
    """J-Play on some features, whitened; the features themselves if it finds no subspace.

    With ``within`` they are whitened by a covariance that is shrunk towards variances within
    classes, and no direction is shortened, instead of what suits a single J-Play best.
    """
    chosen = replace(inputs, X=columns_of(inputs.X, features))
    try:
        with described_stage(chosen) as problem:
            solution = solve(problem, _view_task(within))
            return _whitened_view(problem, solution, chosen.X, features, within)
    except ValueError:  # constant or degenerate features
        return View(features, None)


def supervised_views(
    inputs: Sequence[Inputs], features: Sequence[Any], *, within: bool = False
) -> list[View]:
    """:func:`supervised_view` of many, those of one shape as one stack."""
    chosen = [
        replace(own, X=columns_of(own.X, own_features))
        for own, own_features in zip(inputs, features, strict=True)
    ]
    found = solve_together(chosen, [_view_task(within)] * len(chosen))
    return [
        supervised_view(own, own_features, within=within)
        if solved is None
        else _whitened_view(*solved, inside.X, own_features, within)
        for own, inside, own_features, solved in zip(inputs, chosen, features, found, strict=True)
    ]


def _view_task(within: bool) -> ChainTask:
    # The whitener is all that is wanted of the decision, and if within classes not even that.
    task_type = MapTask if within else ChainTask
    return task_type(None, 1, FIRST, LOOSE)


def _whitened_view(
    problem: FitProblem, solution: Solution, inside: Array, features: Any, within: bool
) -> View:
    """What J-Play on the features ``inside`` has found, as a view."""
    found = solution.attributes
    whitener = _whitener_within(problem, found) if within else found["whitener_"]
    relevant = relevance(found["coef_"] @ found["components_"], inside)
    return View(features, whitener @ found["components_"], relevance=relevant)


def _whitener_within(problem: FitProblem, found: dict) -> Array:
    layer, theta = problem.first_layer, collapse(found["result_"].thetas)
    shrunk = shrunk_covariance(problem.moments, layer.basis, layer.n_features, within=True)
    whitener = whitening(symmetrize(theta @ shrunk.matrix() @ theta.mT))
    return namespace(whitener).astype(whitener, problem.dtype)


def standardised_view(X: Array, Y: Array | None, features: Any) -> View:
    """Some features, each divided by its standard deviation: within classes, if there are any."""
    xp, inside = namespace(X), columns_of(X, features)
    within = total = to_numpy(xp.var(inside, axis=0))
    if Y is not None:
        moments = class_moments(inside, like(Y, inside))
        within = np.diagonal(to_numpy(moments.covariance))
        total = np.diagonal(to_numpy(moments.total_covariance))
    # A feature that hardly varies within classes counts for a hundred times its deviation at most.
    variance = np.maximum(within, 1e-4 * total)
    # The deviation of a constant has the rounding of its value.
    rounding = 100 * float(xp.finfo(inside.dtype).eps) * to_numpy(xp.max(xp.abs(inside), axis=0))
    varies = total > np.maximum(1e-12 * total.max(), rounding**2)
    return View(features, varies / np.sqrt(np.where(varies, variance, 1.0)))


def with_landmarks(view: View, X: Array, rows: Any, widths: Sequence[float]) -> View:
    """The view with some samples as landmarks; widths in median distances between them."""
    landmarks = view.outputs(rows_of(X, rows))
    unit = median_distance(squared_distances(landmarks, landmarks))
    return replace(view, landmarks=landmarks, widths=tuple(unit * width for width in widths))


@dataclass(frozen=True, eq=False)
class Lift:
    """What is asked of one lifted chain."""

    inputs: Inputs
    Y: Any
    """(n_labelled, n_outputs) indicators of the labelled samples, which come first."""
    views: list[View]
    """With landmarks, the same samples in each."""
    rows: Any
    """Which samples are the landmarks."""
    model: ModelSettings
    n_components: int
    n_coordinates: int
    """How many coordinates of the similarities are kept, those of the largest eigenvalues."""

    def kernel(self) -> Array:
        """Similarity of the samples to landmarks."""
        return LiftedChain(self.views, None, None, None).kernel(self.inputs.X)

    def second_stage(self, kernel: Array, basis: Array) -> Inputs:
        """Coordinates of the similarities in the place of the samples."""
        F = kernel @ basis
        xp = namespace(F)
        lengths = xp.linalg.vector_norm(basis, axis=0)
        even = bool(xp.max(lengths) < _SINGLE_RANGE * xp.min(lengths))
        if F.shape[0] > F.shape[1] and even:
            # The loose tolerance is far above the rounding of single precision, in which a pass
            # over the samples and the search for neighbours take half of the time. If there are as
            # many coordinates as samples, their mean takes a direction away, which rounding
            # would restore.
            F = xp.astype(F, xp.float32)
        return replace(self.inputs, X=F)

    def task(self, rank: int) -> MapTask:
        """The second J-Play on coordinates of some rank."""
        return MapTask(min(self.n_components, rank), 1, self.model, LOOSE)

    def chain(
        self, kernel: Array, basis: Array, solution: Solution | None
    ) -> tuple[LiftedChain, Array]:
        """The chain, and the features of the samples.

        Without a solution all similarities are equal: nothing to learn but the shares of classes.
        """
        if solution is None:
            n_outputs = self.Y.shape[1]
            read_out = np.zeros((len(self.rows), n_outputs))
            chain = LiftedChain(self.views, read_out, self.Y.mean(axis=0), np.eye(n_outputs))
        else:
            found = solution.attributes
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


def _second_solution(lift: Lift, stage: Inputs) -> Solution | None:
    """The second J-Play; ``None`` if all similarities are equal."""
    try:
        with described_stage(stage) as problem:
            return solve(problem, lift.task(problem.rank))
    except ValueError:
        return None


def lifted_chains(lifts: Sequence[Lift]) -> list[tuple[LiftedChain, Array]]:
    """:func:`lifted_chain` of many, eigenbases and solves of one shape as one stack."""
    kernels = [lift.kernel() for lift in lifts]
    bases = coordinate_bases(
        [rows_of(kernel, lift.rows) for lift, kernel in zip(lifts, kernels, strict=True)],
        [lift.n_coordinates for lift in lifts],
    )
    stages = [
        lift.second_stage(kernel, basis)
        for lift, kernel, basis in zip(lifts, kernels, bases, strict=True)
    ]
    tasks = [lift.task(stage.X.shape[1]) for lift, stage in zip(lifts, stages, strict=True)]
    found = solve_together(stages, tasks)
    return [
        lift.chain(kernel, basis, _second_solution(lift, stage) if solved is None else solved[1])
        for lift, kernel, basis, stage, solved in zip(
            lifts, kernels, bases, stages, found, strict=True
        )
    ]


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


def coordinate_bases(kernels: Sequence[Array], n_coordinates: Sequence[int]) -> list[Array]:
    """:func:`coordinate_basis` of many, kernels of one size decomposed as one stack."""
    bases: list[Array] = [None] * len(kernels)
    for size in dict.fromkeys(kernel.shape[0] for kernel in kernels):
        numbers = [i for i, kernel in enumerate(kernels) if kernel.shape[0] == size]
        xp = namespace(kernels[numbers[0]])
        values, vectors = eigh(symmetrize(xp.stack([kernels[i] for i in numbers])))
        kept = values > _RANK_TOLERANCE * xp.max(values, axis=1, keepdims=True)
        ranks = to_numpy(xp.sum(xp.astype(kept, xp.int64), axis=1)).tolist()
        for place, (i, rank) in enumerate(zip(numbers, ranks, strict=True)):
            first = size - min(rank, n_coordinates[i])
            bases[i] = vectors[place, :, first:] / xp.sqrt(values[place, first:])
    return bases
