"""What can be asked of a problem: a chain with labels, one layer without, an embedding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg

from jplay._array_api import like, namespace, to_numpy
from jplay.blocks.graph import heat_graph
from jplay.exceptions import CollapsedSolutionError
from jplay.numerics.discriminant import (
    NearestMeanRule,
    nearest_mean_rule,
    neighbor_metric,
    whitening,
)
from jplay.numerics.eigen import symmetrize
from jplay.numerics.graph import NeighborGraph, weighted_by_features
from jplay.numerics.read_out import Regression, related_read_outs, ridge_read_out
from jplay.problems.checks import check_rank, layer_sizes, raise_if_collapsed
from jplay.problems.problem import FitProblem
from jplay.problems.targets import Propagation, RealCode, TargetCode, Targets, soft_targets
from jplay.solvers.model import ModelSettings, collapse
from jplay.solvers.pretraining import autorule
from jplay.solvers.result import SolverResult, Status
from jplay.solvers.samples import ArraySamples
from jplay.solvers.schedules import FastSchedule, LayerSchedule, PaperSchedule
from jplay.solvers.solve import solve

LEAST_COMPONENTS = 30
"""Of the last subspace, if the samples' rank and the user allow. With 20 instead, digits of 784
pixels lose two to three points and the mean over 40 problems 0.1; with 40 nothing changes."""

Report = Callable[[Any, Callable[[], dict]], Any]
"""Called with the solver's progress and a function that gives the attributes so far."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What an estimator stores: its fitted attributes by name, and how the solve ended."""

    attributes: dict[str, Any]
    status: Status


@dataclass(frozen=True, eq=False)
class ChainTask:
    """A chain of projections and the label projection (Eq. 6)."""

    n_components: int | None
    n_layers: Any
    model: ModelSettings
    schedule: FastSchedule | PaperSchedule
    unlabelled: Any = None

    def sizes(self, problem: FitProblem) -> list[int]:
        n_components = self.n_components
        if n_components is None and isinstance(self.n_layers, Integral):
            codes = [part.code for part in problem.parts or (problem,) if part.code is not None]
            n_components = min(self.wanted_components(codes), problem.rank)
        return layer_sizes(self.n_layers, n_components, problem.rank)

    def wanted_components(self, codes: Sequence[TargetCode]) -> int:
        """Of the last subspace, if the rank allows; several tasks have as many as one by one."""
        if self.n_components is not None:
            return self.n_components
        return sum(max(LEAST_COMPONENTS, 2 * len(code.classes)) for code in codes)

    def run(self, problem: FitProblem, report: Report | None = None) -> Solution:
        if isinstance(self.schedule, PaperSchedule):
            assert problem.code is not None
            _check_unweighted(problem.code)
            if self.model.sparsity:
                raise ValueError(
                    "`solver` should be 'fast' if `gamma` weighs absolute values, got the "
                    "published schedule, which knows a ridge only. Use solver='fast'."
                )
        result = self._solved(problem, report)
        true_targets = problem.targets
        if isinstance(self.unlabelled, Propagation) and problem.code and problem.code.partial:
            assert true_targets is not None
            for _ in range(self.unlabelled.rounds):
                graphs = _label_graphs(problem, result)
                soft = soft_targets(graphs, true_targets, self.unlabelled.weight)
                problem = _with_targets(problem, soft)
                result = self._solved(problem, report)
        return chain_solution(problem, result, self.attributes)

    def attributes(self, problem: FitProblem, thetas: list, coef: Any) -> dict:
        """What transform and predict need, from a solver's state."""
        return chain_attributes(problem, thetas, coef)

    def _solved(self, problem: FitProblem, report: Report | None) -> SolverResult:
        callback = None
        if report is not None:

            def callback(progress: Any) -> Any:
                return report(
                    progress, lambda: self.attributes(problem, progress.thetas, progress.coef)
                )

        sizes = self.sizes(problem)
        if isinstance(self.schedule, PaperSchedule):
            start = problem.start_with_intercepts
        else:
            start = problem.leading_start(sizes[0])
        return solve(
            problem.samples,
            sizes,
            self.model,
            self.schedule,
            statistics=problem.statistics,
            projections=start,
            callback=callback,
        )


@dataclass(frozen=True, eq=False)
class MapTask(ChainTask):
    """A chain of which the maps are wanted, and no decision by class means or neighbours."""

    def attributes(self, problem: FitProblem, thetas: list, coef: Any) -> dict:
        label_coef = namespace(coef).astype(_in_units(coef, problem.code), problem.dtype)
        return {"coef_": label_coef} | _map_attributes(problem, thetas)


@dataclass(frozen=True, eq=False)
class RegressionTask(ChainTask):
    """A chain of projections for real targets, and their prediction from its features."""

    def run(self, problem: FitProblem, report: Report | None = None) -> Solution:
        solution = super().run(problem, report)
        theta = collapse(solution.attributes["result_"].thetas)
        attributes = solution.attributes | _read_outs([problem], theta)[0]
        return replace(solution, attributes=attributes)


@dataclass(frozen=True, eq=False)
class SharedChainTask(ChainTask):
    """One chain for several tasks, and the decision or prediction of each."""

    related: bool = True
    """Whether predictions of real targets learn from each other."""

    def attributes(self, problem: FitProblem, thetas: list, coef: Any) -> dict:
        """The chain, and for each task scores or predictions that are linear in its features."""
        xp, dtype, theta = namespace(coef), problem.dtype, collapse(thetas)
        coefs, output_coefs, output_intercepts = [], [], []
        start = 0
        real = [part for part in problem.parts if isinstance(part.code, RealCode)]
        groups = [real] if self.related else [[part] for part in real]
        predictions = iter([found for group in groups for found in _read_outs(group, theta)])
        for part in problem.parts:
            assert part.code is not None
            end = start + len(part.code.classes)
            coefs.append(xp.astype(_in_units(coef[start:end, :], part.code), dtype))
            start = end
            if isinstance(part.code, RealCode):
                found = next(predictions)
                output_coefs.append(found["output_coef_"])
                output_intercepts.append(found["output_intercept_"])
            else:
                rule = _mean_rule(part, theta, _carried_whitener(part, theta))
                output_coefs.append(xp.astype(rule.coef, dtype))
                output_intercepts.append(xp.astype(rule.intercept, dtype))
        return _map_attributes(problem, thetas) | {
            "coef_": coefs,
            "output_coef_": output_coefs,
            "output_intercept_": output_intercepts,
        }


def _read_outs(problems: Sequence[FitProblem], theta: Any) -> list[dict]:
    """Predictions of real targets in their own units, linear in the last features.

    Those of several problems, each of one target, learn from each other.
    """
    if not problems:
        return []
    inside = _without_constant(problems[0])
    scaled = to_numpy(problems[0].first_layer.of_scaled_features(like(inside.T, theta)))
    metric, subspace = scaled @ scaled.T, to_numpy(theta) @ inside
    regressions, means = zip(*(_regression(problem, inside) for problem in problems), strict=True)
    if len(problems) == 1:
        found = [ridge_read_out(regressions[0], metric, subspace)]
    else:
        found = related_read_outs(regressions, metric, subspace)
    predictions = []
    for problem, mean, read_out in zip(problems, means, found, strict=True):
        code, dtype = problem.code, problem.dtype
        assert isinstance(code, RealCode)
        coef = read_out.coef / code.output_scale[:, None]
        prediction = {
            "output_coef_": like(coef, theta, dtype=dtype),
            "output_intercept_": like(
                code.center - coef @ (to_numpy(theta) @ mean), theta, dtype=dtype
            ),
            "ridge_": read_out.ridge,
        }
        predictions.append(prediction)
    return predictions


def _without_constant(problem: FitProblem) -> np.ndarray:
    """Orthonormal basis, in columns, of the solver's coordinates in which centred samples lie."""
    X_root = problem.statistics.X_root
    constant = problem.first_layer.constant_direction(X_root)
    if constant is None:
        return np.eye(X_root.shape[1])
    return scipy.linalg.null_space(to_numpy(constant)[None, :])


def _regression(problem: FitProblem, inside: np.ndarray) -> tuple[Regression, Any]:
    """Moments of centred samples and standardised targets, and the samples' mean."""
    code = problem.code
    assert isinstance(code, RealCode)
    [roots] = problem.statistics.label_roots
    X_root, Y_root = (to_numpy(root) for root in roots)
    mean = to_numpy(problem.labelled_sum) / code.total_weight
    # In units of one sample, whatever the weight of the task.
    unit = code.total_weight / code.effective_samples
    total = inside.T @ mean
    features = X_root @ inside
    moments = Regression(
        features.T @ features / unit - code.effective_samples * np.outer(total, total),
        features.T @ Y_root / unit,
        float((Y_root**2).sum()) / unit,
        code.effective_samples,
    )
    return moments, mean


def _check_unweighted(code: TargetCode) -> None:
    """Refuse what the updates of the published schedule do not know."""
    if not code.weighted:
        return
    if code.partial:
        cause = "samples lack a label (see `unlabelled`)"
    elif code.class_factors is not None:
        cause = "classes differ in weight (`class_weight`)"
    else:
        cause = "samples differ in weight (`sample_weight`)"
    raise ValueError(
        f"`solver` should be 'fast' if {cause}, got the published schedule, whose updates know "
        "one weight for all. Use solver='fast'."
    )


def chain_solution(
    problem: FitProblem,
    result: SolverResult,
    attributes_of: Callable[[FitProblem, list, Any], dict] | None = None,
) -> Solution:
    """The fitted attributes of a chain that was solved."""
    if result.n_iter == 0:
        raise CollapsedSolutionError(f"No solution was found because {result.status.message}.")
    raise_if_collapsed(
        problem.statistics.X_root,
        collapse(result.thetas),
        problem.n_samples,
    )
    attributes = (attributes_of or chain_attributes)(problem, result.thetas, result.coef)
    attributes["result_"] = result
    return Solution(attributes, result.status)


def chain_attributes(problem: FitProblem, thetas: list, coef: Any) -> dict:
    """What transform and predict need, from a solver's state."""
    xp, dtype, code = namespace(coef), problem.dtype, problem.code
    theta = collapse(thetas)
    whitener = _carried_whitener(problem, theta)
    attributes = {
        "coef_": _in_units(coef, code),
        "whitener_": whitener,
        "center_": theta @ problem.statistics.sample_sum / problem.n_samples,
    }
    assert code is not None
    if not code.multilabel:
        rule = _mean_rule(problem, theta, whitener)
        shares = xp.exp(problem.moments.log_prior)
        attributes["whitener_"] = neighbor_metric(whitener, rule.means, shares)
        attributes["class_means_"] = rule.means
        attributes["mean_rule_coef_"] = rule.coef
        attributes["mean_rule_intercept_"] = rule.intercept
    attributes = {name: xp.astype(value, dtype) for name, value in attributes.items()}
    return attributes | _map_attributes(problem, thetas)


def _map_attributes(problem: FitProblem, thetas: list) -> dict:
    """What the way from the samples to every subspace needs."""
    xp, dtype = namespace(thetas[0]), problem.dtype
    first, first_intercept = problem.first_layer.first_projection(thetas[0])
    scale, mean = problem.first_layer.scaling(first)
    attributes = {
        "first_intercept_": first_intercept,
        "components_": collapse([first, *thetas[1:]]),
        "intercept_": collapse([first_intercept[:, None], *thetas[1:]])[:, 0],
        "feature_scale_": scale,
        "feature_mean_": mean,
    }
    attributes = {name: xp.astype(value, dtype) for name, value in attributes.items()}
    attributes["projections_"] = [xp.astype(theta, dtype) for theta in (first, *thetas[1:])]
    return attributes | {"layer_sizes_": [int(theta.shape[0]) for theta in thetas]}


def _in_units(coef: Any, code: TargetCode | None) -> Any:
    """The label projection for targets in their own units."""
    assert code is not None
    return coef if code.output_scale is None else coef / like(code.output_scale, coef)[:, None]


def _carried_whitener(problem: FitProblem, theta: Any) -> Any:
    """Of the covariance of the decision, carried from the input to the last features."""
    return whitening(symmetrize(theta @ problem.covariance.matrix() @ theta.mT))


def _mean_rule(problem: FitProblem, theta: Any, whitener: Any) -> NearestMeanRule:
    moments = problem.moments
    return nearest_mean_rule(
        moments.means @ theta.mT, whitener, moments.log_prior, problem.covariance.temperature
    )


def _label_graphs(problem: FitProblem, result: SolverResult) -> list:
    """Graphs over which labels may spread: the fit's, and the neighbours in the subspace."""
    samples = problem.samples
    assert isinstance(samples, ArraySamples)
    affinity = samples.affinity
    if isinstance(affinity, NeighborGraph):
        affinity = affinity.to_sparse()
    features = to_numpy(samples.projected(collapse(result.thetas)).X)
    n_neighbors = min(problem.n_neighbors, problem.n_samples - 1)
    return [weighted_by_features(affinity, features), heat_graph(features, n_neighbors)[0]]


def _with_targets(problem: FitProblem, targets: Targets) -> FitProblem:
    """The same samples and graph with other targets."""
    samples = problem.samples
    assert isinstance(samples, ArraySamples)
    Y = like(targets.Y, samples.Y)
    labelled = ArraySamples(samples.X, Y, samples.affinity, samples.pool, targets.weight_like(Y))
    return replace(problem, samples=labelled, statistics=labelled.statistics(), targets=targets)


@dataclass(frozen=True)
class LayerTask:
    """One constrained layer without labels (Eq. 11)."""

    n_components: int | None
    eta: float
    model: ModelSettings
    schedule: LayerSchedule

    def run(self, problem: FitProblem, report: Report | None = None) -> Solution:
        [n_components] = layer_sizes(1, self.n_components, problem.rank)
        layer = autorule(
            problem.samples,
            problem.statistics.reduced(),
            problem.start_with_intercepts[:n_components, :],
            eta=self.eta,
            reconstruction=self.model.reconstruction,
            schedule=self.schedule,
            **self.model.constraints,
        )
        raise_if_collapsed(
            problem.statistics.X_root,
            layer.theta,
            problem.n_samples,
        )
        xp = namespace(layer.theta)
        components, intercept = problem.first_layer.first_projection(layer.theta)
        # The layer's remedy names the parameters of JPlay, which has an outer loop around it.
        status = replace(layer.status, message=layer.status.message.replace("inner_", ""))
        attributes = {
            "components_": xp.astype(components, problem.dtype),
            "intercept_": xp.astype(intercept, problem.dtype),
            "n_iter_": layer.n_iter,
            "result_": SolverResult([layer.theta], None, layer.n_iter, status, [], [layer]),
        }
        return Solution(attributes, status)


@dataclass(frozen=True)
class EmbeddingTask:
    """Locality preserving projections by themselves."""

    n_components: int | None

    def run(self, problem: FitProblem, report: Report | None = None) -> Solution:
        check_rank(problem.rank)
        [n_components] = layer_sizes(1, self.n_components, problem.rank)
        statistics, xp = problem.statistics, namespace(problem.start)
        components, _ = problem.first_layer.first_projection(problem.start[:n_components, :])
        mean, _ = problem.first_layer.first_projection(
            (statistics.sample_sum / statistics.n_samples)[None, :]
        )
        attributes = {
            "components_": xp.astype(components, problem.dtype),
            "mean_": xp.astype(mean[0, :], problem.dtype),
        }
        return Solution(attributes, Status(True, "an eigenproblem has no iterations"))
