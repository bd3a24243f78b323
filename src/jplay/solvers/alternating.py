"""The published schedule of J-Play (Algorithm 1): pre-train, then alternate over P and layers."""

from collections.abc import Sequence

from jplay._array_api import Array, identity, namespace, solve_positive
from jplay.numerics.objective import ObjectiveTerms, objective_terms
from jplay.solvers.layer import LayerProblem, ThetaSystem, solve_layer
from jplay.solvers.model import ModelSettings, collapse
from jplay.solvers.pretraining import pretrain, starting_projections
from jplay.solvers.result import (
    LayerResult,
    SolverCallback,
    SolverProgress,
    SolverResult,
    Status,
)
from jplay.solvers.samples import Samples, Statistics, reduced_rows
from jplay.solvers.schedules import PaperSchedule


def solve_coef(Z: Array, Y: Array, alpha: float, gamma: float) -> Array:
    """Ridge regression of the labels on the last subspace (Eq. 17), (n_outputs, n_components).

    ``V`` of Eq. 17 stands for the projected samples, here ``Z`` in rows. With ``gamma`` zero the
    smallest solution is taken, so that a rank-deficient subspace is no obstacle.
    """
    xp = namespace(Z)
    if gamma == 0:
        return (xp.linalg.pinv(Z) @ Y).mT
    system = alpha * (Z.mT @ Z) + gamma * identity(Z.shape[1], Z)
    return solve_positive(system, alpha * (Z.mT @ Y)).mT


def downstream_coefs(coef: Array, thetas: Sequence[Array]) -> list[Array]:
    """For each layer, the product of all that follows it, down to the labels (Eq. 19)."""
    coefs = [coef]
    for theta in reversed(thetas[1:]):
        coefs.append(coefs[-1] @ theta)
    return coefs[::-1]


def solve_alternating(
    samples: Samples,
    layer_sizes: Sequence[int],
    model: ModelSettings,
    schedule: PaperSchedule,
    *,
    statistics: Statistics | None = None,
    projections: Array | None = None,
    callback: SolverCallback | None = None,
) -> SolverResult:
    """Fit the model by the published schedule.

    Each layer problem is solved to the end with its upstream and downstream at their newest
    values. Since it leaves out what the layer does to the reconstruction and the constraints of
    those behind it, the objective need not fall from one outer iteration to the next.

    Parameters
    ----------
    samples : Samples
    layer_sizes : sequence of int
        Output dimension of each layer.
    model : ModelSettings
    schedule : PaperSchedule
    statistics : Statistics, default=None
        Of the same samples, if the caller has them already.
    projections : array of shape (n_found, n_features), default=None
        Locality preserving projections of the same samples, if the caller has them already.
    callback : callable, default=None
        Called with a :class:`SolverProgress` after each outer iteration; a true value stops.

    Returns
    -------
    SolverResult
    """
    statistics = (samples.statistics() if statistics is None else statistics).reduced()

    def report_pretraining(done: int, total: int) -> None:
        if callback is not None:
            callback(SolverProgress("pretraining", done, total))

    pretraining: list[LayerResult] = []
    if schedule.pretraining:
        pretraining = pretrain(
            samples,
            statistics,
            layer_sizes,
            model,
            schedule,
            projections=projections,
            callback=report_pretraining,
        )
        thetas = [result.theta for result in pretraining]
    else:
        thetas = starting_projections(statistics, layer_sizes, projections)
    X, Y = statistics.X_root, statistics.Y_root
    # The first layer's input never changes, and neither does its linear system.
    first_system = ThetaSystem(X, statistics.laplacian_gram, model.n_constraints)
    history: list[ObjectiveTerms] = []
    residuals = []
    status = None
    while status is None:
        coef = solve_coef(X @ collapse(thetas).mT, Y, model.alpha, model.gamma)
        layer_results = _update_layers(
            samples, statistics, thetas, coef, model, schedule, first_system
        )
        thetas = [result.theta for result in layer_results]
        residuals.append([result.residuals for result in layer_results])
        history.append(
            objective_terms(
                X,
                Y,
                statistics.laplacian_gram,
                thetas,
                coef,
                alpha=model.alpha,
                beta=model.beta,
                gamma=model.gamma,
                reconstruction=model.reconstruction,
            )
        )
        progress = SolverProgress(
            "fine-tuning", len(history), schedule.max_iter, history[-1].total, thetas, coef
        )
        stop_requested = callback is not None and bool(callback(progress))
        status = _outer_status(history, layer_results, pretraining, schedule, stop_requested)
    return SolverResult(
        thetas=thetas,
        coef=coef,
        n_iter=len(history),
        status=status,
        objective_terms=history,
        pretraining=pretraining,
        residuals=residuals,
    )


def _update_layers(
    samples: Samples,
    statistics: Statistics,
    thetas: Sequence[Array],
    coef: Array,
    model: ModelSettings,
    schedule: PaperSchedule,
    first_system: ThetaSystem,
) -> list[LayerResult]:
    """One sweep over the layers, each with its neighbours at their newest values."""
    coefs = downstream_coefs(coef, thetas)
    X, Y, laplacian_gram = statistics.X_root, statistics.Y_root, statistics.laplacian_gram
    results: list[LayerResult] = []
    for layer, theta in enumerate(thetas):
        rows = reduced_rows(X, Y)
        problem = LayerProblem(
            X=rows[0],
            Y=rows[1],
            laplacian_gram=laplacian_gram,
            manifold_weight=model.beta,
            n_constraints=model.n_constraints,
            coef=coefs[layer],
            alpha=model.alpha,
            reconstruction=model.reconstruction,
        )
        result = solve_layer(
            problem,
            samples.constraint_pass(theta.shape[0], **model.constraints),
            theta,
            schedule.layer,
            system=first_system if layer == 0 else None,
        )
        results.append(result)
        if layer + 1 < len(thetas):
            samples = samples.projected(result.theta)
            X = X @ result.theta.mT
            laplacian_gram = result.theta @ laplacian_gram @ result.theta.mT
    return results


def _outer_status(
    history: Sequence[ObjectiveTerms],
    layer_results: Sequence[LayerResult],
    pretraining: Sequence[LayerResult],
    schedule: PaperSchedule,
    stop_requested: bool,
) -> Status | None:
    """Status if the outer loop should end now, else ``None``."""
    change = None
    if len(history) > 1:
        previous = history[-2].total
        change = abs(history[-1].total - previous) / (abs(previous) or 1.0)
    if change is not None and change < schedule.tol:
        failures = [
            f"layer {i}: {result.status.message}"
            for i, result in enumerate(layer_results, 1)
            if not result.status.converged
        ]
        failures += [r.status.message for r in pretraining if not r.status.converged]
        if failures:
            return Status(False, "; ".join(failures))
        return Status(True, f"relative change of the objective {change:.2g} < {schedule.tol:g}")
    if stop_requested:
        return Status(True, "stopped by a callback")
    if len(history) >= schedule.max_iter:
        reached = "" if change is None else f" (relative change of the objective {change:.2g})"
        return Status(
            False,
            f"no convergence within max_iter={schedule.max_iter} outer iterations{reached}: "
            f"increase max_iter or tol={schedule.tol:g}",
        )
    return None
