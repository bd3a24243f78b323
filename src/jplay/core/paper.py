r"""The published solver: pretrain layer by layer, then alternate (Algorithms 1 and 2).

Algorithm 1 (:func:`minimize_paper`) pretrains every layer without labels (:func:`pretrain`), then
updates the label projection and all layers in turn until the objective changes no more. Algorithm 2
(:func:`solve_layer`) is an alternating direction method of multipliers for one layer with
everything else fixed. With samples in rows, its problem (Eq. 12, and Eq. 18 with labels) is

.. math::

    \min \tfrac12 \|X - H G\|_F^2 + \tfrac\alpha2 \|Y - H P_l^T\|_F^2
    + \tfrac\omega2 \mathrm{tr}(\Theta X^T L X \Theta^T)
    \quad \text{with} \quad H = Q = S = X \Theta^T, \; G = \Theta, \; Q \ge 0, \; \|s_i\| \le 1.

The splits ``H`` and ``G`` stand for the features and the decoder of the reconstruction term; the
splits ``Q`` and ``S`` carry one constraint each.

**Only Q and S need the samples.** ``H`` and its multiplier start as linear functions of ``[X, Y]``,
and every update keeps them linear. All updates but those of ``Q`` and ``S`` depend on the second
moments of ``[X, Y]`` alone. They run on *compressed samples*, the rows of a triangular factor ``R``
with ``R^T R = [X, Y]^T [X, Y]``, and give the iterates of the paper. ``R`` is computed by QR, since
forming the moments would square the condition.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jplay.core.arrays import (
    Array,
    concat_rows,
    eigh_generalized,
    identity,
    is_numpy,
    like,
    namespace,
    solve_positive,
    symmetrize,
    zeros_like_shape,
)
from jplay.core.objective import LabelMoments, Objective, Ridge, compute_objective, evaluate_chain
from jplay.core.options import check_options
from jplay.core.result import (
    LayerResult,
    ObjectiveTerms,
    SolverCallback,
    SolverProgress,
    SolverResult,
    Status,
)
from jplay.core.samples import Block, Samples
from jplay.core.start import add_layers, compute_lpp, scale_into_ball

if TYPE_CHECKING:
    from jplay.core.problem import Problem

ROWS_PER_COLUMN = 4
"""Rows of ``[X, Y]`` per column that are collected before a QR factorization. More rows take more
memory; fewer repeat the work on the rows of the last factor."""


@dataclass(frozen=True)
class PaperSolver:
    r"""Options of the published solver (Algorithms 1 and 2).

    Each outer iteration computes the label projection in closed form (Eq. 17) and then every layer
    in turn by the alternating direction method of multipliers. It ends when the objective
    changes by less than ``tol``, relative to its value. All defaults are the published values.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of outer iterations.
    tol : float, default=1e-4
        Relative change of the objective at which the outer iterations end.
    inner_max_iter : int, default=1000
        Maximum number of iterations of each layer problem.
    inner_tol : float, default=1e-6
        Frobenius norm below which all primal residuals of a layer problem must fall.
    eta : float, default=0.1
        Weight of the manifold term during pretraining (Eq. 11).
    pretraining : bool, default=True
        Whether layers start from AutoRULe, one after the other, or from locality preserving
        projections and a selection of their features.
    mu : float, default=1e-3
        First penalty parameter of each layer problem.
    growth : float, default=2.0
        Factor by which the penalty parameter grows after each inner iteration.
    mu_max : float, default=1e6
        Largest penalty parameter.

    Examples
    --------
    >>> from jplay import PaperSolver
    >>> PaperSolver(max_iter=20, eta=0.01).inner_tol
    1e-06
    """

    max_iter: int = 1000
    tol: float = 1e-4
    inner_max_iter: int = 1000
    inner_tol: float = 1e-6
    eta: float = 0.1
    pretraining: bool = True
    mu: float = 1e-3
    growth: float = 2.0
    mu_max: float = 1e6

    def __post_init__(self) -> None:
        check_options(self)


def minimize_paper(
    problem: "Problem",
    layer_sizes: Sequence[int],
    objective: Objective,
    options: PaperSolver,
    callback: SolverCallback | None = None,
) -> SolverResult:
    """Minimize Eq. 6 by Algorithm 1.

    Each layer problem is solved to the end with the layers before and behind it at their newest
    values. It leaves out the reconstruction terms and the constraints of the layers behind it, so
    the objective need not fall from one outer iteration to the next.

    Parameters
    ----------
    problem : Problem
    layer_sizes : sequence of int
        Number of outputs of each layer.
    objective : Objective
        Its penalty must be a :class:`.objective.Ridge`.
    options : PaperSolver
    callback : callable, default=None
        Called with a :class:`SolverProgress` after each pretrained layer and each outer iteration;
        a true value after an outer iteration stops.

    Returns
    -------
    SolverResult
    """
    gamma = check_supported(problem, objective)
    moments, callback = problem.moments, callback or (lambda progress: False)
    labels = LabelMoments(None, moments.cross, (slice(None),), moments.label_square)
    first = compress_samples(problem)
    pretraining: list[LayerResult] = []
    if options.pretraining:
        start = problem.start_with_intercepts
        pretraining = pretrain(first, start, layer_sizes, objective, options, callback)
        thetas = [result.theta for result in pretraining]
    else:
        thetas = select_start(problem, layer_sizes)
    # The input of the first layer never changes, and neither does its linear system.
    system = factor_theta_system(first.X, first.edges.laplacian_gram, objective.n_constraints)

    history: list[ObjectiveTerms] = []
    residuals = []
    status = None
    while status is None:
        P = solve_ridge(first, thetas, objective.alpha, gamma)
        results = update_layers(first, thetas, P, objective, options, system)
        thetas = [result.theta for result in results]
        chain = evaluate_chain(moments.gram, first.edges.laplacian_gram, labels, thetas)
        terms = compute_objective(*chain, P, objective)
        history.append(ObjectiveTerms(*(float(term) for term in terms[..., 0, 0])))
        residuals.append([result.residuals for result in results])
        progress = SolverProgress(
            "fine-tuning", len(history), options.max_iter, history[-1].total, thetas, P
        )
        status = find_status(history, results, pretraining, options, bool(callback(progress)))
    return SolverResult(thetas, P, len(history), status, history, pretraining, residuals)


def fit_autorule(
    problem: "Problem", n_components: int, objective: Objective, options: PaperSolver
) -> LayerResult:
    """Fit AutoRULe (Eq. 11), one layer without labels, from locality preserving projections.

    Parameters
    ----------
    problem : Problem
    n_components : int
    objective : Objective
        Its constraints and ``reconstruction`` are used, its weights are not.
    options : PaperSolver
        ``eta`` and the options of layer problems are used.

    Returns
    -------
    LayerResult
    """
    start = pad_start(problem.start_with_intercepts, n_components)
    return solve_layer(compress_samples(problem), start, options.eta, objective, options)


class LayerInput(NamedTuple):
    """Input of one layer: the samples, and what the updates need of them."""

    samples: Samples
    X: Array
    """(n_rows, n_in) compressed samples."""
    Y: Array
    """(n_rows, n_outputs) compressed targets."""
    edges: Any
    """Moments of the neighbor graph."""
    mean: Array

    def project(self, theta: Array) -> "LayerInput":
        """Return the input of the next layer, ``X Theta^T``."""
        root = factor_rows(namespace(theta).concat([self.X @ theta.mT, self.Y], axis=1))
        edges, n_out = self.edges, theta.shape[0]
        projected = type(edges)(
            laplacian_gram=theta @ edges.laplacian_gram @ theta.mT,
            degree_gram=theta @ edges.degree_gram @ theta.mT,
            degree_sum=theta @ edges.degree_sum,
            total_degree=edges.total_degree,
        )
        samples, mean = project_samples(self.samples, theta), theta @ self.mean
        return LayerInput(samples, root[:, :n_out], root[:, n_out:], projected, mean)


def pretrain(
    layer: LayerInput,
    start: Array,
    layer_sizes: Sequence[int],
    objective: Objective,
    options: PaperSolver,
    callback: SolverCallback,
) -> list[LayerResult]:
    """Solve AutoRULe for each layer from the output of the layer before (Alg. 1, lines 3 to 7)."""
    results: list[LayerResult] = []
    for number, n_out in enumerate(layer_sizes, 1):
        if results:
            layer = layer.project(results[-1].theta)
            start = compute_lpp(layer.edges, layer.mean)
        theta = pad_start(start, n_out)
        result = solve_layer(layer, theta, options.eta, objective, options)
        if not result.status.converged:
            message = f"pre-training of layer {number}: {result.status.message}"
            result = replace(result, status=Status(False, message))
        results.append(result)
        callback(SolverProgress("pretraining", number, len(layer_sizes)))
    return results


def pad_start(start: Array, n_out: int) -> Array:
    """Return ``n_out`` projections, the last of them zero if the samples support fewer."""
    theta = start[:n_out, :]
    return concat_rows([theta, zeros_like_shape((n_out - theta.shape[0], theta.shape[1]), theta)])


def select_start(problem: "Problem", layer_sizes: Sequence[int]) -> list[Array]:
    """Return locality preserving projections and a selection of their features."""
    theta, gram = pad_start(problem.start_with_intercepts, layer_sizes[0]), problem.moments.gram
    thetas = [scale_into_ball(theta, gram, problem.moments.n_samples)]
    if len(layer_sizes) > 1:
        thetas += add_layers(theta @ gram @ theta.mT, layer_sizes[1:])
    return thetas


def solve_ridge(first: LayerInput, thetas: Sequence[Array], alpha: float, gamma: float) -> Array:
    """Compute the label projection ``P`` (Eq. 17), (n_outputs, n_components).

    ``P (alpha V^T V + gamma I) = alpha Y^T V`` with the features ``V`` of the last subspace. With
    ``gamma`` zero, dependent features leave several solutions, of which the smallest is returned.
    """
    V = first.X
    for theta in thetas:
        V = V @ theta.mT
    if gamma == 0:
        return (namespace(V).linalg.pinv(V) @ first.Y).mT
    gram = alpha * (V.mT @ V) + gamma * identity(V.shape[1], V)
    return solve_positive(gram, alpha * (V.mT @ first.Y)).mT


def update_layers(
    layer: LayerInput,
    thetas: Sequence[Array],
    P: Array,
    objective: Objective,
    options: PaperSolver,
    system: tuple[Array, Array] | None,
) -> list[LayerResult]:
    """Solve every layer problem once, with the other layers at their newest values."""
    # P_l = P Theta_m ... Theta_{l+1} leads from the features of layer l to the labels (Eq. 19).
    downstream = [P]
    for theta in reversed(thetas[1:]):
        downstream.insert(0, downstream[0] @ theta)
    results: list[LayerResult] = []
    for theta, P_l in zip(thetas, downstream, strict=True):
        if results:
            layer, system = layer.project(results[-1].theta), None
        weight = objective.beta
        results.append(solve_layer(layer, theta, weight, objective, options, P_l, system))
    return results


def solve_layer(
    layer: LayerInput,
    theta: Array,
    weight: float,
    objective: Objective,
    options: PaperSolver,
    P: Array | None = None,
    system: tuple[Array, Array] | None = None,
) -> LayerResult:
    """Minimize over one layer by Algorithm 2, until all four primal residuals are small.

    The penalty parameter doubles with each iteration, so the residuals shrink whatever the
    objective does: a few dozen iterations end the solve, and where it ends depends on the start.

    Parameters
    ----------
    layer : LayerInput
    theta : array of shape (n_out, n_in)
        Start. The split ``H`` starts at ``X Theta^T``, everything else at zero.
    weight : float
        Weight ``omega`` of the manifold term: ``eta`` in pretraining (Eq. 11), ``beta`` in
        fine-tuning (Eq. 18).
    objective : Objective
    options : PaperSolver
    P : array of shape (n_outputs, n_out), default=None
        ``P_l`` of Eq. 19; ``None`` without labels.
    system : tuple of arrays, default=None
        Result of :func:`factor_theta_system` for this layer, if it is there already.

    Returns
    -------
    LayerResult
    """
    xp, X, samples = namespace(theta), layer.X, layer.samples
    if system is None:
        system = factor_theta_system(X, layer.edges.laplacian_gram, objective.n_constraints)
    H = X @ theta.mT
    HX, dual_H = H.mT @ X, xp.zeros_like(H)
    G, dual_G, dual_HX, split_cross = (xp.zeros_like(theta) for _ in range(4))
    duals: Sequence[Any] = [(0.0, 0.0) for _ in samples.blocks]
    mu, converged = options.mu, False
    residuals: list[tuple[float, ...]] = []
    while len(residuals) < options.inner_max_iter and not converged:
        next_mu = min(options.growth * mu, options.mu_max)
        # The order is that of the algorithm box: Theta, H, G, Q and S with their multipliers, the
        # multipliers of H and G.
        right = mu * HX + dual_HX + mu * G + dual_G + split_cross
        theta = update_theta(right, system, weight, mu)
        Z = X @ theta.mT
        H = update_H(X, Z, G, dual_H, mu, objective, layer.Y, P)
        HX = H.mT @ X
        G = update_G(theta, H, HX, dual_G, mu) if objective.reconstruction else theta - dual_G / mu
        squares: list[Any] = [0.0, 0.0]
        if objective.n_constraints:
            step = SplitsStep(theta, mu, next_mu, objective.nonnegative, objective.unit_ball)
            duals, (cross, *squares) = samples.update(step, duals)
            split_cross = like(cross, theta)
        gap_H, gap_G = H - Z, G - theta
        dual_H = dual_H + mu * gap_H
        dual_HX = dual_H.mT @ X
        dual_G = dual_G + mu * gap_G
        norms = [float(xp.linalg.vector_norm(gap)) for gap in (gap_H, gap_G)]
        residuals.append((*norms, *(float(square) ** 0.5 / mu for square in squares)))
        converged = max(residuals[-1]) < options.inner_tol
        mu = next_mu
    message = f"all residuals below {options.inner_tol:g}"
    if not converged:
        message = (
            f"largest residual {max(residuals[-1]):.2g} after {len(residuals)} inner iterations, "
            f"above inner_tol={options.inner_tol:g}: increase inner_max_iter or inner_tol"
        )
    return LayerResult(theta, len(residuals), np.asarray(residuals), Status(converged, message))


def factor_theta_system(X: Array, laplacian_gram: Array, n_constraints: int) -> tuple[Array, Array]:
    """Factor the matrix of :func:`update_theta` for every ``mu`` and ``omega`` at once.

    With ``N = (k + 1) X^T X + I``, the solutions of ``X^T L X v = lambda N v`` with ``V^T N V = I``
    give ``(omega X^T L X + mu N)^-1 = V diag(1 / (omega lambda + mu)) V^T``. The identity makes
    ``N`` positive definite, and ``lambda >= 0``: no divisor is below ``mu``.
    """
    N = (n_constraints + 1) * (X.mT @ X) + identity(X.shape[1], X)
    return eigh_generalized(symmetrize(laplacian_gram), N)


def update_theta(right: Array, system: tuple[Array, Array], weight: float, mu: float) -> Array:
    """Minimize over the projection (Algorithm 2, step 3).

    ``Theta (omega X^T L X + mu ((k + 1) X^T X + I)) = right`` with ``k`` constraints, so that the
    paper's 3 is ``k + 1``, and with the splits ``Q``, ``S`` and the multipliers ``D``
    ``right = (mu (H + Q + S) + D_H + D_Q + D_S)^T X + mu G + D_G``.
    """
    eigenvalues, V = system
    return ((right @ V) / (weight * eigenvalues + mu)) @ V.mT


def update_H(
    X: Array,
    Z: Array,
    G: Array,
    dual_H: Array,
    mu: float,
    objective: Objective,
    Y: Array,
    P: Array | None,
) -> Array:
    """Minimize over the split of the features (Eq. 20).

    ``H (alpha P_l^T P_l + G G^T + mu I) = alpha Y P_l + X G^T + mu Z - D_H``.
    """
    matrix, right = mu * identity(G.shape[0], G), mu * Z - dual_H
    if objective.reconstruction:
        matrix, right = matrix + G @ G.mT, right + X @ G.mT
    if P is not None:
        matrix = matrix + objective.alpha * (P.mT @ P)
        right = right + objective.alpha * (Y @ P)
    return solve_positive(matrix, right.mT).mT


def update_G(theta: Array, H: Array, HX: Array, dual_G: Array, mu: float) -> Array:
    """Minimize over the split of the decoder (Algorithm 2, step 5).

    ``(H^T H + mu I) G = H^T X + mu Theta - D_G``: the ``X_i`` of the algorithm box is the input
    ``X_{l-1}``. Without the reconstruction term only the coupling to ``Theta`` is left.
    """
    return solve_positive(H.mT @ H + mu * identity(H.shape[1], H), HX + mu * theta - dual_G)


@dataclass(frozen=True, eq=False)
class SplitsStep:
    r"""Update of the splits ``Q`` and ``S`` and their multipliers on one block (steps 6 to 8).

    In units of :math:`\mu`, with :math:`Z = X \Theta^T` and a multiplier :math:`D`,

    .. math:: V = \mu Z - D, \quad q = \mu\, \mathrm{proj}(V / \mu), \quad D \leftarrow q - V,

    since :math:`D + \mu (Q - Z) = q - V` for the split :math:`Q = q / \mu`. The split is not kept:
    the next update of the projection needs :math:`(\mu' Q + D)^T X` with
    :math:`\mu' Q = (\mu' / \mu) q`.
    """

    theta: Array
    mu: float
    next_mu: float
    nonnegative: bool
    unit_ball: bool

    def __call__(self, block: Block, duals: Sequence[Any]) -> tuple[list[Any], list[Array]]:
        """Return the multipliers, and the cross-product and both squared residuals to sum up."""
        X = block.X
        xp = namespace(X)
        scaled = X @ like(self.mu * self.theta, X).mT
        targets, new_duals, squares = [], [*duals], [zeros_like_shape((), X)] * 2
        for i, project in enumerate((self.nonnegative and clip, self.unit_ball and self.shrink)):
            if project:
                V = scaled - duals[i]
                split = project(V)
                new_duals[i] = split - V
                squares[i] = xp.linalg.vector_norm(split - scaled) ** 2
                split *= self.next_mu / self.mu
                targets.append(split + new_duals[i])
        return new_duals, [reduce(add, targets).mT @ X, *squares]

    def shrink(self, V: Array) -> Array:
        """Shrink rows into the ball of radius ``mu`` (Eq. 15)."""
        xp = namespace(V)
        norms = xp.linalg.vector_norm(V, axis=-1, keepdims=True)
        return V * (self.mu / xp.maximum(norms, xp.full_like(norms, self.mu)))


def clip(V: Array) -> Array:
    """Clip at zero (Eq. 14)."""
    return namespace(V).maximum(V, namespace(V).zeros_like(V[..., :1]))


def project_samples(samples: Samples, theta: Array) -> Samples:
    """Return samples ``X Theta^T`` with the same targets, computed once, where the samples are."""

    def project_block(block: Block, state: None) -> tuple[Block, list[Array]]:
        return Block(block.X @ like(theta, block.X).mT, block.Y, block.weight), []

    # The new states are blocks: they stay with their samples and are loaded like them.
    projected = copy.copy(samples)
    projected.blocks, _ = samples.update(project_block, [None for _ in samples.blocks])
    return projected


def factor_rows(matrix: Array) -> Array:
    """Return the triangular factor of a matrix with more rows than columns, or the matrix."""
    if matrix.shape[0] <= matrix.shape[1]:
        return matrix
    if is_numpy(matrix):
        return np.linalg.qr(matrix, mode="r")
    return namespace(matrix).linalg.qr(matrix)[1]


def compress_samples(problem: "Problem") -> LayerInput:
    """Return the input of the first layer, with compressed samples in double precision."""

    def factor_block(block: Block) -> list[Array]:
        xp = namespace(block.X)
        X, Y = (like(array, block.X, dtype=xp.float64) for array in (block.X, block.Y))
        return [factor_rows(xp.concat([X, Y], axis=1))]

    def join(left: list[Array], right: list[Array]) -> list[Array]:
        parts = left + right
        n_rows = sum(part.shape[0] for part in parts)
        enough = n_rows > ROWS_PER_COLUMN * parts[0].shape[1]
        return [factor_rows(concat_rows(parts))] if enough else parts

    root = factor_rows(concat_rows(problem.samples.reduce(factor_block, join)))
    root = like(root, problem.start)
    n_inputs = problem.start.shape[1]
    X, Y = root[:, :n_inputs], root[:, n_inputs:]
    return LayerInput(problem.samples, X, Y, problem.edges, problem.moments.mean)


def find_status(
    history: Sequence[ObjectiveTerms],
    results: Sequence[LayerResult],
    pretraining: Sequence[LayerResult],
    options: PaperSolver,
    stop_requested: bool,
) -> Status | None:
    """Return the reason to end the outer iterations, or ``None`` to continue."""
    change, reached = inf, ""
    if len(history) > 1:
        previous = history[-2].total
        change = abs(history[-1].total - previous) / (abs(previous) or 1.0)
        reached = f"relative change of the objective {change:.2g}"
    if change < options.tol:
        named = [(f"layer {number}: ", result) for number, result in enumerate(results, 1)]
        named += [("", result) for result in pretraining]
        failures = [name + r.status.message for name, r in named if not r.status.converged]
        return Status(not failures, "; ".join(failures) or f"{reached} < {options.tol:g}")
    if stop_requested:
        return Status(True, "stopped by a callback")
    if len(history) < options.max_iter:
        return None
    reached = f" ({reached})" if reached else ""
    return Status(
        False,
        f"no convergence within max_iter={options.max_iter} outer iterations{reached}: "
        f"increase max_iter or tol={options.tol:g}",
    )


def check_supported(problem: "Problem", objective: Objective) -> float:
    """Return the weight of the ridge; refuse objectives that the updates do not minimize."""
    if problem.moments.label_grams is not None:
        raise ValueError(
            "`solver` should be 'fast' if samples or classes differ in weight or samples lack a "
            "label, got the published solver, whose updates know one weight for all. "
            "Use solver='fast'."
        )
    if not isinstance(objective.penalty, Ridge):
        raise ValueError(
            "`solver` should be 'fast' if `gamma` is a penalty other than the ridge, got the "
            "published solver, which knows a ridge only. Use solver='fast'."
        )
    return objective.penalty.gamma
