"""The published schedule of J-Play (Algorithm 1): pre-train, then alternate over P and layers."""

from dataclasses import dataclass, field

from jplay._array_api import identity, namespace, solve_positive
from jplay.numerics.objective import objective_terms
from jplay.solvers.joint import starting_projections
from jplay.solvers.layer import LayerProblem, PenaltySchedule, ThetaSystem, solve_layer
from jplay.solvers.pretraining import pretrain
from jplay.solvers.result import Progress, SolverResult, Status
from jplay.solvers.samples import reduced_rows


@dataclass(frozen=True)
class ModelSettings:
    """The model: weights of the terms of Eq. 6 and which parts of it are present."""

    alpha: float = 1.0
    beta: float = 0.1
    gamma: float = 0.1
    eta: float = 0.1
    nonnegative: bool = True
    unit_ball: bool = True
    reconstruction: bool = True

    @property
    def constraints(self):
        return {"nonnegative": self.nonnegative, "unit_ball": self.unit_ball}


@dataclass(frozen=True)
class PaperSchedule:
    """The published stopping rules and penalties."""

    max_iter: int = 1000
    tol: float = 1e-4
    inner_max_iter: int = 1000
    inner_tol: float = 1e-6
    penalty: PenaltySchedule = field(default_factory=PenaltySchedule)
    pretraining: bool = True
    """Whether layers start from AutoRULe, or from what AutoRULe itself starts from."""

    @property
    def inner_options(self):
        return {
            "schedule": self.penalty,
            "max_iter": self.inner_max_iter,
            "tol": self.inner_tol,
        }


def solve_coef(Z, Y, alpha, gamma):
    """Ridge regression of the labels on the last subspace (Eq. 17), (n_outputs, n_components).

    With ``gamma`` zero the smallest solution is taken, so that a rank-deficient subspace is
    no obstacle.
    """
    xp = namespace(Z)
    if gamma == 0:
        return (xp.linalg.pinv(Z) @ Y).mT
    system = alpha * (Z.mT @ Z) + gamma * identity(Z.shape[1], Z)
    return solve_positive(system, alpha * (Z.mT @ Y)).mT


def downstream_coefs(coef, thetas):
    """For each layer, the product of all that follows it, down to the labels (Eq. 19)."""
    coefs = [coef]
    for theta in reversed(thetas[1:]):
        coefs.append(coefs[-1] @ theta)
    return coefs[::-1]


def collapse(thetas):
    """The product of the chain, (n_components, n_features)."""
    product = thetas[0]
    for theta in thetas[1:]:
        product = theta @ product
    return product


def solve_jplay(samples, layer_sizes, model, schedule, *, statistics=None, callback=None):
    """Fit the model by the published schedule.

    Parameters
    ----------
    samples : Samples
    layer_sizes : sequence of int
        Output dimension of each layer.
    model : ModelSettings
    schedule : PaperSchedule
    statistics : Statistics, default=None
        Of the same samples, where the caller has them already.
    callback : callable, default=None
        Called with a :class:`Progress` after each outer iteration; a true value stops.

    Returns
    -------
    SolverResult
    """
    if statistics is None:
        statistics = samples.statistics()

    def report_pretraining(done, total):
        if callback is not None:
            callback(Progress("pretraining", done, total))

    pretraining = []
    if schedule.pretraining:
        pretraining = pretrain(
            samples,
            statistics,
            layer_sizes,
            eta=model.eta,
            constraints=model.constraints,
            reconstruction=model.reconstruction,
            options=schedule.inner_options,
            callback=report_pretraining,
        )
        thetas = [result.theta for result in pretraining]
    else:
        thetas = starting_projections(statistics, layer_sizes)
    X, Y = statistics.X_root, statistics.Y_root
    # The first layer's input never changes, and neither does its linear system.
    first_system = ThetaSystem(X, statistics.laplacian_gram, sum(model.constraints.values()))
    history, residuals = [], []
    status = None
    while status is None:
        coef = solve_coef(X @ collapse(thetas).mT, Y, model.alpha, model.gamma)
        layer_results = _update_layers(
            samples, statistics, X, Y, thetas, coef, model, schedule, first_system
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
        progress = Progress(
            "fine-tuning", len(history), schedule.max_iter, history[-1].total, thetas, coef
        )
        stop_requested = callback is not None and callback(progress)
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


def _update_layers(samples, statistics, X, Y, thetas, coef, model, schedule, first_system):
    """One sweep over the layers, each with its neighbours at their newest values."""
    coefs = downstream_coefs(coef, thetas)
    laplacian_gram = statistics.laplacian_gram
    results = []
    for layer, theta in enumerate(thetas):
        rows = reduced_rows(X, Y)
        problem = LayerProblem(
            X=rows[0],
            Y=rows[1],
            laplacian_gram=laplacian_gram,
            manifold_weight=model.beta,
            n_constraints=sum(model.constraints.values()),
            coef=coefs[layer],
            alpha=model.alpha,
            reconstruction=model.reconstruction,
        )
        result = solve_layer(
            problem,
            samples.constraint_pass(theta.shape[0], **model.constraints),
            theta,
            system=first_system if layer == 0 else None,
            **schedule.inner_options,
        )
        results.append(result)
        if layer + 1 < len(thetas):
            samples = samples.projected(result.theta)
            X = X @ result.theta.mT
            laplacian_gram = result.theta @ laplacian_gram @ result.theta.mT
    return results


def _outer_status(history, layer_results, pretraining, schedule, stop_requested):
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
