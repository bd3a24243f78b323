r"""One iteration of the fast solver, for one problem or for a batch of them.

The constraints of Eq. 6 are split off. With :math:`S_l` a copy of the features
:math:`Z_l = Z_{l-1} \Theta_l^T` that lies in both constraint sets and :math:`D_l` its scaled
multiplier, the augmented Lagrangian (compare Eq. 13, which has a copy for each set) is

.. math:: f(\Theta, P) + \tfrac\mu2 \sum_l \|Z_l - S_l - D_l\|_F^2 + \text{const}.

One copy suffices since the nearest point of both sets at once is known in closed form: clip at
zero (Eq. 14), then shrink into the ball (Eq. 15). An iteration

1. passes over the samples, which updates splits and multipliers and sums up
   ``pull_l = (S_l + D_l)^T X``, all that the projections need to know of them;
2. computes moments, label projection and objective from the projections (:mod:`.moments`);
3. asks whether to go on (:func:`measured` and :func:`ending`);
4. steps on every projection, last layer first (:func:`backward`), and raises the penalty.

A chain of several layers first goes through some iterations with its first layer alone; then
:func:`deepened` adds the others.

:func:`jplay.solvers.joint.solve_joint` and :func:`jplay.solvers.batch.solve_joint_batch` are loops
around these functions. Numbers that decide when to stop live in host memory, with one entry per
problem.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from jplay._array_api import (
    Array,
    eigh,
    eigh_generalized,
    identity,
    is_numpy,
    like,
    namespace,
    to_numpy,
)
from jplay.numerics.eigen import is_well_conditioned, symmetrize
from jplay.numerics.prox import shrink_columns
from jplay.solvers.model import ModelWeights
from jplay.solvers.moments import (
    Forward,
    Moments,
    first_moments,
    forward,
    label_coef,
    total,
    trace,
    weighted_terms,
)
from jplay.solvers.pretraining import selections
from jplay.solvers.result import Status
from jplay.solvers.samples import JointPass, Statistics
from jplay.solvers.schedules import FastSchedule

# Root mean square distance of features from the constraints at which a run is lost. Features
# start within the unit ball, so thirty radii are far outside of what a converging run passes
# through; the exact value does not matter.
_DIVERGED = 30.0

_FALLING = 0.05

# Of the largest eigenvalue of the samples' moments, below which one is rounding.
_RANK_TOLERANCE = 1e-10

# Penalty on columns at the start, in units that shrink a column of usual length to zero. With less,
# all columns would be zero at first, and few would come back.
_FIRST_SHRINKS = 3.0

_ALL = np.ones(1, dtype=bool)


class Diverged(ArithmeticError):
    """The iterates of all problems have left what can be computed with."""


@dataclass(frozen=True, eq=False)
class JointProblem:
    """What does not change over the iterations, of one problem or of a batch.

    Arrays of a batch have one axis more, the first, over its problems.
    """

    first: Moments
    basis: tuple[Array, Array]
    """Eigenvalues and eigenvectors of ``first.A``."""
    label_square: Array
    """``tr Y^T S Y`` of all tasks, (1, 1)."""
    manifold_bound: Array
    """Largest ``v^T M v / v^T A v``: a number, or (n_problems, 1, 1)."""
    label_bounds: tuple[Array, ...]
    """Largest ``v^T B v / v^T A v`` of each task: a number, or (n_problems, 1, 1)."""
    n_samples: np.ndarray
    """(n_problems,)"""
    settling_scale: np.ndarray
    """Size of the objective against which its change is measured, (n_problems,)."""
    exact: "JointProblem | None" = None
    """The same in double precision, if this one is in single precision."""

    @classmethod
    def of(cls, statistics: Statistics, alpha: float) -> "JointProblem":
        """The problem of samples with these statistics, or the stack of those of several."""
        n_samples = np.atleast_1d(statistics.n_samples)
        first = first_moments(statistics)
        if first.A_diagonal is None:
            basis = eigenbasis(first.A)
        else:
            basis = first.A_diagonal, identity(first.A.shape[0], first.A)
        one = 1.0 if first.A.ndim == 2 else namespace(first.A).ones_like(first.A[:, :1, :1])
        return cls(
            first=first,
            basis=basis,
            label_square=sum(total(Y**2) for _, Y in statistics.label_roots),
            manifold_bound=largest_ratio(first.M, first.A, basis),
            label_bounds=tuple(
                one if B is first.A else largest_ratio(B, first.A, basis) for B in first.B
            ),
            n_samples=n_samples,
            settling_scale=settling_scale(n_samples, np.full(len(n_samples), alpha)),
        )

    def spread(self, values: np.ndarray) -> Array:
        """Numbers, one per problem, as they broadcast against the problem's matrices."""
        if self.first.A.ndim == 2:
            return float(values[0])
        return like(values[:, None, None], self.first.A)


def settling_scale(n_samples: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Size of the objective against which its change is measured.

    With features in the unit ball a sample's share of the objective is of the order of one for
    reconstruction and of ``alpha`` for prediction. The geometric mean of ``1`` and
    ``1 + alpha`` per sample is a compromise found by experiment.
    """
    return n_samples * np.sqrt(1 + alpha)


class Curvature(NamedTuple):
    """What inverts ``S1 D A + S2 D``: eigenpairs of ``S1`` relative to ``S2``, and of ``A``."""

    values: Array
    modes: Array
    weights: Array
    vectors: Array | None
    """``None`` if ``A`` is diagonal."""
    size: Array
    """Of ``S1 D A`` against ``S2 D``, see :func:`relative_size`."""

    def mapped(self, function: Callable[..., Array], *others: "Curvature") -> "Curvature":
        """``function`` of each array, and of the same of others."""
        fields = zip(self, *others, strict=True)
        return Curvature(*(None if field[0] is None else function(*field) for field in fields))

    def where(self, chosen: Array, other: "Curvature") -> "Curvature":
        """Its own for the chosen problems of a batch, (n_problems, 1, 1), else another's."""
        xp = namespace(chosen)

        def choose(mine: Array, theirs: Array) -> Array:
            return xp.where(chosen if mine.ndim == 3 else chosen[..., 0], mine, theirs)

        return self.mapped(choose, other)


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """The curvature of every layer, and the step that it was made for."""

    layers: list[Curvature]
    made_at: np.ndarray
    """(n_problems,)"""

    def is_old(self, step: int) -> np.ndarray:
        """Problems for which it is too old at a step, (n_problems,).

        It may be a quarter as old as the chain: features move fast at first, then ever less.
        """
        return step - self.made_at > step // 4


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the iterations stand; penalties and objectives have one entry per problem."""

    thetas: list[Array]
    mu: np.ndarray
    mu_before: np.ndarray
    objective_before: np.ndarray
    n_steps: int = 0
    """Steps since the chain has these layers."""
    preconditioner: Preconditioner | None = None

    @classmethod
    def start(cls, thetas: list[Array], mu: float, n_problems: int = 1) -> "Iterate":
        penalty = np.full(n_problems, float(mu))
        return cls(thetas, penalty, penalty, np.full(n_problems, np.inf))


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one pass over the samples tells about an iterate; entries per problem come last."""

    pulls: list[Array]
    chain: Forward
    coef: Array
    terms: np.ndarray
    """The terms of the objective, (4, n_problems), or 5 with a penalty on columns."""
    objective: np.ndarray
    """Their sum, (n_problems,)."""
    gaps: np.ndarray
    """Root mean square distance of the features from the constraints, (n_layers, n_problems)."""
    worst_gap: np.ndarray
    """The largest over the layers, (n_problems,)."""
    settled: np.ndarray
    """Whether the objective has stopped changing, (n_problems,)."""
    at_limit: np.ndarray
    """Whether the penalty is the largest, (n_problems,)."""
    diverged: np.ndarray
    """(n_problems,)"""
    column_pull: "ColumnPull | None" = None
    """What the penalty on columns adds to the step on the first projection."""

    def may_end(self, iteration: int, schedule: FastSchedule) -> np.ndarray:
        """Problems for which :func:`ending` may say something without a callback."""
        return self.settled | self.at_limit | (iteration >= schedule.max_iter)


@dataclass(frozen=True, eq=False)
class ColumnPull:
    """The quadratic ``weight / 2 |Theta_1 - target|^2`` that ties a projection to its copy."""

    target: Array
    weight: float
    gap: float
    """Root mean square distance of the features of projection and copy."""


class ColumnSplit:
    r"""Copy of the first projection that bears a penalty on its columns, and its multiplier.

    The penalty :math:`\sum_j t_j \|\theta_j\|` makes whole columns zero: features that the
    chain does not use. As for the features of the samples, with the copy :math:`S` and the
    scaled multiplier :math:`D`, :math:`V = \Theta_1 - D`, :math:`S = \mathrm{prox}(V)` and
    :math:`D \leftarrow S - V`. Penalties on features weigh a projection by ``A``; the mean
    eigenvalue of ``A`` times ``mu`` makes this one as strong on average. It is larger if
    columns would otherwise lose more than a third of their usual length in the first step.
    """

    def __init__(self, problem: JointProblem, penalty: Array, theta: Array) -> None:
        self.penalty = like(penalty, theta)
        self.A = problem.first.A
        self.n_samples = float(problem.n_samples[0])
        size = float(total(theta * theta)[0, 0] / theta.shape[1]) ** 0.5 or 1.0
        weights = to_numpy(self.penalty)
        usual = np.exp(np.mean(np.log(weights[weights > 0]))) if np.any(weights > 0) else 0.0
        mean_eigenvalue = float(trace(self.A)[0, 0]) / self.A.shape[0]
        self.unit = float(max(mean_eigenvalue, _FIRST_SHRINKS * usual / size, 1e-300))
        self.copy = theta
        self.dual = 0 * theta

    def __call__(self, theta: Array, mu: float, mu_before: float) -> ColumnPull:
        weight = mu * self.unit
        V = theta - self.dual * (mu_before / mu)
        self.copy = shrink_columns(V, self.penalty / weight)
        self.dual = self.copy - V
        apart = theta - self.copy
        square = float(total((apart @ self.A) * apart)[0, 0])
        return ColumnPull(self.copy + self.dual, weight, (max(square, 0.0) / self.n_samples) ** 0.5)

    def cost(self, theta: Array) -> float:
        """The penalty of a projection."""
        xp = namespace(theta)
        return float(xp.sum(self.penalty * xp.linalg.vector_norm(theta, axis=0)))


def measured(
    problem: JointProblem,
    iterate: Iterate,
    sweep: JointPass,
    model: ModelWeights,
    schedule: FastSchedule,
    columns: "ColumnSplit | None" = None,
) -> Measurement:
    """Pass over the samples and evaluate the objective at an iterate.

    The multipliers are scaled by the penalty, ``D = multiplier / mu``: when it has grown they
    shrink by ``mu_before / mu``.
    """
    column_pull = None
    pulls, distances = sweep(iterate.thetas, problem.spread(iterate.mu_before / iterate.mu))
    gaps = np.reshape(distances, (len(pulls), -1)) / np.sqrt(problem.n_samples)
    if columns is not None:
        column_pull = columns(iterate.thetas[0], float(iterate.mu[0]), float(iterate.mu_before[0]))
        gaps = np.vstack([gaps, [[column_pull.gap]]])
    finite = np.isfinite(gaps).all(axis=0)
    if not finite.any():
        raise Diverged  # before factorisations of what is not finite
    chain = forward(problem.first, iterate.thetas)
    coef = label_coef(chain.moments[-1], model)
    parts = weighted_terms(chain, coef, problem.label_square, model)
    terms = to_numpy(namespace(coef).stack(parts)).reshape(4, -1)
    objective = terms[0] + terms[1] + terms[2] + terms[3]
    if columns is not None:
        terms = np.vstack([terms, [[columns.cost(iterate.thetas[0])]]])
        objective = objective + terms[4]
    with np.errstate(invalid="ignore"):  # of problems that diverged
        change = np.abs(objective - iterate.objective_before)
        settled = change <= schedule.tol * problem.settling_scale
        worst_gap = np.max(gaps, axis=0)
        diverged = ~(finite & np.isfinite(objective)) | (worst_gap > _DIVERGED)
    return Measurement(
        pulls=pulls,
        chain=chain,
        coef=coef,
        terms=terms,
        objective=objective,
        gaps=gaps,
        worst_gap=worst_gap,
        settled=settled,
        at_limit=iterate.mu >= schedule.mu_max,
        diverged=diverged,
        column_pull=column_pull,
    )


def stepped(
    problem: JointProblem,
    iterate: Iterate,
    measurement: Measurement,
    model: ModelWeights,
    schedule: FastSchedule,
) -> Iterate:
    """The next iterate: a step on every projection, and a larger penalty."""
    n_steps = iterate.n_steps + 1
    deep = len(iterate.thetas) > 1
    # An objective that falls by a good part of itself is far from settled. The penalty then grows
    # more slowly, so as not to freeze the features before, and no curvature stays valid.
    change = np.abs(measurement.objective - iterate.objective_before)
    falling = np.isfinite(change) & (change > _FALLING * np.abs(measurement.objective))
    kept = iterate.preconditioner
    due = np.ones_like(falling) if kept is None else falling | kept.is_old(n_steps)
    thetas, curvatures = backward(
        problem,
        measurement.chain,
        iterate.thetas,
        measurement.coef,
        measurement.pulls,
        problem.spread(iterate.mu),
        model,
        schedule.damping,
        measurement.column_pull,
        None if kept is None else kept.layers,
        due,
    )
    if deep:
        kept = Preconditioner(curvatures, np.where(due, n_steps, kept.made_at if kept else 0))
    ordinary = schedule.deep_growth if deep else schedule.growth
    growth = np.where(falling, np.sqrt(ordinary), ordinary)
    growth = np.where(measurement.settled, schedule.settled_growth, growth)
    mu = np.minimum(iterate.mu * growth, schedule.mu_max)
    return Iterate(thetas, mu, iterate.mu, measurement.objective, n_steps, kept)


def deepened(
    problem: JointProblem, iterate: Iterate, layer_sizes: Sequence[int], mu: float
) -> Iterate:
    """All layers, from an iterate of the first: the others choose among its features.

    The splits and multipliers of the first layer stay; the others have none yet, and need none,
    since features that the first layer has made feasible are so in a selection too.

    Parameters
    ----------
    problem : JointProblem
    iterate : Iterate
    layer_sizes : sequence of int
        Of the layers behind the first.
    mu : float
        Penalty with which all layers go on.
    """
    [theta] = iterate.thetas
    gram = symmetrize(theta @ problem.first.A @ theta.mT)
    whole = Iterate.start([theta, *selections(gram, layer_sizes)], mu, len(iterate.mu))
    return replace(whole, mu_before=iterate.mu_before)


def in_single_precision(problem: JointProblem, iterate: Iterate) -> tuple[JointProblem, Iterate]:
    """A problem and the start of its iterations, rounded to matrices whose products cost half."""
    xp = namespace(problem.first.A)

    def rounded(array: Array) -> Array:
        return array if isinstance(array, float) else xp.astype(array, xp.float32)

    rough = replace(
        problem,
        first=problem.first.mapped(rounded),
        basis=(rounded(problem.basis[0]), rounded(problem.basis[1])),
        label_square=rounded(problem.label_square),
        manifold_bound=rounded(problem.manifold_bound),
        label_bounds=tuple(rounded(bound) for bound in problem.label_bounds),
        exact=problem,
    )
    return rough, replace(iterate, thetas=[rounded(theta) for theta in iterate.thetas])


def in_double_precision(problem: JointProblem, iterate: Iterate) -> tuple[JointProblem, Iterate]:
    """A problem and an iterate in double precision, if they are not yet."""
    if problem.exact is None:
        return problem, iterate
    reference = problem.exact.first.A

    def exact(array: Array) -> Array:
        return like(array, reference)

    kept = iterate.preconditioner
    if kept is not None:
        kept = replace(kept, layers=[layer.mapped(exact) for layer in kept.layers])
    thetas = [exact(theta) for theta in iterate.thetas]
    return problem.exact, replace(iterate, thetas=thetas, preconditioner=kept)


def ending(
    measurement: Measurement,
    iteration: int,
    schedule: FastSchedule,
    *,
    number: int = 0,
    stop_requested: bool = False,
) -> Status | None:
    """Status if a problem should end now, else ``None``.

    At the largest penalty nothing changes any more, so the loop ends there. A gap of up to ten
    times ``tol`` still counts as success: the repair closes it, at a cost to the objective of
    the same order.
    """
    worst = float(measurement.worst_gap[number])
    at_limit = bool(measurement.at_limit[number])
    if (at_limit or measurement.settled[number]) and worst <= schedule.tol:
        return Status(True, f"objective settled, constraints met to {worst:.1g} before repair")
    if stop_requested:
        return Status(True, "stopped by a callback")
    if iteration >= schedule.max_iter:
        return Status(
            False,
            f"no convergence within max_iter={schedule.max_iter} iterations (root mean square "
            f"constraint gap {worst:.2g}): increase max_iter or tol={schedule.tol:g}",
        )
    if at_limit and worst <= 10 * schedule.tol:
        return Status(True, f"constraints met to {worst:.1g} at the largest penalty, before repair")
    if at_limit:
        return Status(
            False,
            f"constraint gap {worst:.2g} above tol={schedule.tol:g} at the largest penalty: scale "
            "the samples to norms near one, or lower alpha",
        )
    return None


def eigenbasis(A: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a positive semi-definite matrix, rounding clipped."""
    xp = namespace(A)
    if is_numpy(A) and A.ndim == 2:
        weights, vectors = scipy.linalg.eigh(A, check_finite=False, driver="evd")
    else:
        weights, vectors = eigh(A)
    return xp.where(weights > 0, weights, xp.zeros_like(weights)), vectors


def largest_ratio(M: Array, A: Array, basis: tuple[Array, Array]) -> Array:
    """Largest ``v^T M v / v^T A v`` over the directions that ``A`` spans.

    A number, or (n_problems, 1, 1) for stacks of matrices.

    It is the largest eigenvalue of ``W^-1/2 V^T M V W^-1/2`` with ``A = V W V^T``, whose factors
    are the ``basis``. A sample that is zero in some direction has no Laplacian there either:
    directions with less than 1e-10 of the largest eigenvalue are rounding, and left out. If there
    are none, a Cholesky factor of ``A`` does as well, in half of the time.
    """
    xp = namespace(M)
    if is_well_conditioned(A, _RANK_TOLERANCE):
        last = A.shape[0] - 1
        [ratio] = scipy.linalg.eigh(
            M, A, eigvals_only=True, subset_by_index=[last, last], check_finite=False
        )
        return max(0.0, float(ratio))
    weights, vectors = basis
    kept = weights > _RANK_TOLERANCE * xp.max(weights, axis=-1, keepdims=True)
    scale = xp.where(kept, weights, xp.ones_like(weights)) ** -0.5
    scale = xp.where(kept, scale, xp.zeros_like(scale))[..., None, :]
    whitened = symmetrize((vectors * scale).mT @ M @ (vectors * scale))
    if A.ndim == 2:
        return max(0.0, float(xp.max(xp.linalg.eigvalsh(whitened))))
    values, _ = eigh(whitened)
    largest = xp.max(values, axis=-1)[:, None, None]
    return xp.where(largest > 0, largest, xp.zeros_like(largest))


def preconditioned_step(gradient: Array, curvature: Curvature, growth: Array = 1.0) -> Array:
    """Solve ``S1 D A + S2 D = -gradient`` for the step ``D``, with ``A = V diag(w) V^T``.

    Let ``S1 U = S2 U diag(lambda)`` with ``U^T S2 U = I``, and ``D = U E V^T``. Multiplied by
    ``U^T`` from the left and by ``V`` from the right, the equation is

        lambda_i E_ij w_j + E_ij = -(U^T gradient V)_ij,

    which falls apart into single numbers. It is safe: ``S2`` is positive definite, ``S1`` and
    ``A`` are positive semi-definite, so every divisor ``1 + lambda_i w_j`` is at least one.

    Parameters
    ----------
    gradient : array of shape (n_out, n_in)
    curvature : Curvature
    growth : float, or array of shape (n_problems, 1, 1), default=1.0
        How much ``S1 D A`` has grown against ``S2 D`` since the curvature was computed.
    """
    values, modes, weights, vectors, _ = curvature
    scale = growth * values[..., :, None] * weights[..., None, :] + 1
    if vectors is None:
        return -(modes @ ((modes.mT @ gradient) / scale))
    return -(modes @ ((modes.mT @ gradient @ vectors) / scale) @ vectors.mT)


def relative_size(S1: Array, S2: Array, A: Array) -> Array:
    """Size of ``S1 D A`` against ``S2 D`` for a step ``D`` in no particular direction."""
    return trace(S1) * trace(A) / trace(S2) + 1e-300  # not zero if all features are


def best_length(step: Array, step_A: Array, gradient: Array, S1: Array, S2: Array) -> Array:
    """Factor of a step at which ``tr(gradient^T D) + tr(D^T (S1 D A + S2 D)) / 2`` is smallest.

    ``step_A`` is ``D A``.

    A step that was made with the present ``S1``, ``S2`` and ``A`` has the factor one. With those of
    an earlier iteration it may be far too long, and even then the best length of it descends.
    """
    xp = namespace(step)
    curvature = total(S1 * (step_A @ step.mT)) + total(S2 * (step @ step.mT))
    descent = -total(step * gradient)
    positive = curvature > 0
    return xp.where(
        positive, descent / xp.where(positive, curvature, xp.ones_like(curvature)), 0 * curvature
    )


def backward(
    problem: JointProblem,
    chain: Forward,
    thetas: Sequence[Array],
    coef: Array,
    pulls: Sequence[Array],
    mu: Array,
    model: ModelWeights,
    damping: float,
    column_pull: "ColumnPull | None" = None,
    kept: Sequence[Curvature] | None = None,
    due: np.ndarray = _ALL,
) -> tuple[list[Array], list[Curvature]]:
    r"""Step on every projection, from the last to the first, with those behind it updated.

    **Gradient.** With ``B_k = Theta_k ... Theta_{l+1}`` the features behind layer ``l`` are
    ``Z_k = Z_l B_k^T``, so all that the layers behind it cost is a quadratic function of its
    output ``Z_l``. It is described by four small matrices, each carried one layer towards the
    front by the projection just updated:

    - reconstruction (Eq. 7), ``R_{l-1} = Theta_l^T R_l Theta_l + (I - Theta_l^T Theta_l)^2``;
    - manifold (Eq. 9), ``F_{l-1} = beta I + Theta_l^T F_l Theta_l``;
    - penalties, ``N_{l-1} = I + Theta_l^T N_l Theta_l`` and
      ``pull_{l-1} = pulls_{l-1} + Theta_l^T pull_l``;
    - labels, ``P_{l-1} = P_l Theta_l`` (Eq. 19).

    The gradient with respect to ``Theta`` of layer ``l``, whose input has the moments ``A``,
    ``M``, ``B`` and ``C``, is

        (R + mu N + K - 2 I) Theta A + G Theta + F Theta M + alpha P^T (P Theta B - C) - mu pull T^T

    with ``K = Theta Theta^T`` and ``G = Theta A Theta^T`` from the layer's own reconstruction term
    ``(tr A - 2 tr G + tr(K G)) / 2``, and ``T`` the product of the projections before it. The part
    of the labels, here and below, is a sum over tasks, each with its ``P``, ``B`` and ``C``. The
    published layer problems (Eq. 18) leave out ``R``, ``F`` and ``N`` of the layers behind; without
    them deep chains with a large ``alpha`` diverge.

    **Curvature.** The second derivative in a direction ``D`` is replaced by
    ``S1 D A + S2 D``, which :func:`preconditioned_step` inverts exactly, with

        S1 = R + mu N + c_B alpha P^T P + c_M F + 2 K,    S2 = G + damping (tr G / n_out) I.

    Labels and manifold have ``B`` and ``M`` in place of ``A``; their largest ratios to ``A``,
    ``c_B`` and ``c_M``, make the replacement an upper bound for them, in deeper layers too, since
    ``M <= c A`` implies ``T M T^T <= c T A T^T``. The reconstruction term
    has ``tr(D^T G D) + tr(K D A D^T) - 2 tr(D A D^T)`` and mixed terms; the first is in ``S2``,
    the second twice in ``S1`` for a part of the mixed ones, and the concave third is left out.
    This is no proven bound on the mixed terms. ``damping`` makes up for them, ``mu`` in ``S1``
    grows over the iterations, and a run that diverges all the same is noticed and refused with
    a message that says what to change.

    The eigenpairs that invert it cost as much as all products together. They change less and less,
    and several layers use those of an earlier step for a while (:class:`Preconditioner`), in a
    direction that is then no longer the best but with the best length (:func:`best_length`).

    Parameters
    ----------
    problem : JointProblem
    chain : Forward
    thetas : sequence of arrays of shape (n_out, n_in)
    coef : array of shape (n_outputs, n_components)
    pulls : sequence of arrays of shape (n_out, n_features)
        From the pass over the samples: split plus scaled multiplier, times the samples.
    mu : float, or array of shape (n_problems, 1, 1)
    model : ModelWeights
    damping : float
    column_pull : ColumnPull, default=None
        Of the penalty on the columns of the first projection. Its quadratic
        ``w / 2 |Theta_1 - target|^2`` has the gradient ``w (Theta_1 - target)`` and the
        curvature ``w I``, which is part of ``S2``.
    kept : sequence of Curvature, default=None
        Of every layer at an earlier step, to use again.
    due : array of shape (n_problems,), default=True
        Problems whose curvature is computed anew.

    Returns
    -------
    updated : list of arrays of shape (n_out, n_in)
    curvatures : list of Curvature
        That were used, of every layer.
    """
    xp = namespace(coef)
    alpha, beta = model.alpha, model.beta
    updated: list[Array] = list(thetas)
    curvatures: list[Any] = [None] * len(thetas) if kept is None else list(kept)
    chosen = xp.astype(problem.spread(due), xp.bool) if not due.all() and due.any() else None
    # What the layers behind cost as quadratic forms of this layer's output, carried together if
    # they belong to the same moments: R + mu N to A, F to M, and the labels' to B, or to A as well
    # if all samples weigh one.
    all_equal = chain.moments[0].all_equal
    unit = identity(coef.shape[-1], coef)
    form, manifold_form = mu * unit, beta * unit
    if all_equal:
        form = form + alpha * (coef.mT @ coef)
    downstream_coef, pull = coef, pulls[-1]
    last = len(thetas) - 1
    for layer in reversed(range(len(thetas))):
        theta, theta_A = thetas[layer], chain.theta_A[layer]
        here, out_gram = chain.moments[layer], chain.moments[layer + 1].A
        upstream = chain.upstream[layer]
        unit = identity(theta.shape[-2], theta)
        theta_M = chain.theta_M[layer]
        gradient = (
            (beta * theta_M if layer == last else manifold_form @ theta_M)
            - alpha * (downstream_coef.mT @ here.C)
            - mu * (pull if upstream is None else pull @ upstream.mT)
        )
        S1 = form + problem.manifold_bound * manifold_form
        # 1e-12 keeps S2 positive definite if the features of the layer are all zero.
        S2 = (damping * trace(out_gram) / theta.shape[-2] + 1e-12) * unit
        own_form = form
        if not all_equal:
            tasks = zip(here.outputs, chain.theta_B[layer], problem.label_bounds, strict=True)
            for rows, theta_B, bound in tasks:
                task_coef = downstream_coef[..., rows, :]
                label_form = alpha * (task_coef.mT @ task_coef)
                gradient = gradient + label_form @ theta_B
                S1 = S1 + bound * label_form
        if model.reconstruction:
            row_gram = chain.row_gram[layer]
            own_form = form + row_gram - 2 * unit
            gradient = gradient + out_gram @ theta
            S1, S2 = S1 + 2 * row_gram, S2 + out_gram
        gradient = gradient + own_form @ theta_A
        if layer == 0 and column_pull is not None:
            gradient = gradient + column_pull.weight * (theta - column_pull.target)
            S2 = S2 + column_pull.weight * unit
        size = relative_size(S1, S2, here.A)
        if due.any():
            basis = problem.basis if layer == 0 else eigenbasis(here.A)
            if here.A_diagonal is not None:
                basis = here.A_diagonal, None
            fresh = Curvature(*eigh_generalized(symmetrize(S1), S2), *basis, size)
            curvatures[layer] = fresh if due.all() else fresh.where(chosen, curvatures[layer])
        step = preconditioned_step(gradient, curvatures[layer], size / curvatures[layer].size)
        if not due.all():
            step = best_length(step, here.times_A(step), gradient, S1, S2) * step
        theta = theta + step
        updated[layer] = theta
        if layer:
            if model.reconstruction:
                # (I - Theta^T Theta)^2 = I + Theta^T (Theta Theta^T - 2 I) Theta
                form = form + theta @ theta.mT - 2 * unit
            unit = identity(theta.shape[-1], theta)
            form = symmetrize(theta.mT @ form @ theta) + (mu + model.reconstruction) * unit
            manifold_form = beta * unit + symmetrize(theta.mT @ manifold_form @ theta)
            pull = pulls[layer - 1] + theta.mT @ pull
            downstream_coef = downstream_coef @ theta
    return updated, curvatures
