"""J-Play for several tasks that share a chain."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import with_callbacks
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from jplay._estimator_base import float_dtypes, warn_if_not_converged
from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.arrays import like, multiply_chain, namespace, to_numpy
from jplay.core.blocked import is_in_blocks
from jplay.core.decision import estimate_covariance
from jplay.core.problem import Problem, prepare, replace_targets
from jplay.core.samples import Block, Samples, compute_moments
from jplay.core.solver import FastSolver
from jplay.core.targets import Targets
from jplay.estimators._chain import (
    CHAIN_CONSTRAINTS,
    MIN_COMPONENTS,
    ChainEstimator,
    choose_sizes,
    describe_chain,
    describe_coef,
    describe_decision,
    describe_fit,
    minimize_chain,
)
from jplay.estimators.coupling import apply_composition
from jplay.estimators.regression import describe_predictions
from jplay.estimators.task_targets import (
    couple_classes,
    encode_tasks,
    is_named,
    name_targets,
    split_tasks,
)
from jplay.numerics.votes import softmax


class MultiTaskJPlay(ChainEstimator, BaseEstimator):
    r"""One chain of projections for several tasks, each labelled on samples of its own.

    The prediction loss of J-Play (Eq. 6) becomes a sum over tasks,

    .. math:: \tfrac\alpha2 \sum_t w_t \|Y_t - X_{m,t} P_t^T\|_F^2,

    where :math:`X_{m,t}` are the last features of the samples that task :math:`t` has targets for
    and :math:`P_t` is its label projection. Tasks are class labels or real targets. Classes are
    decided as by :class:`JPlay`, real targets are predicted as by :class:`JPlayRegressor`, and
    tasks learn from each other as ``linked`` says.

    Parameters
    ----------
    n_components : int or None, default=None
        Dimension of the last subspace. ``None`` means as many as the tasks would have one by
        one, 30 or twice the number of classes each, or fewer if the samples' rank is smaller.
    n_layers : int or sequence of int, default=1
        Number of projections, or the size of each, see :class:`JPlay`.
    tasks : None, {"classification", "regression"} or dict, default=None
        What kind of task each is, for all or by name. ``None`` means as the targets look: whole
        numbers and text are classes, other numbers are real targets.
    task_weight : None, "balanced" or dict, default=None
        ``None`` gives every label the same weight, so that a task weighs by its number of
        labels; ``"balanced"`` gives every task the same total; a dictionary multiplies the
        weight of the labels of the tasks it names.
    linked : bool, default=True
        Whether tasks learn from each other beyond the chain. The probabilities of a task of
        classes are made to agree with those of tasks that have more labels, by which classes
        samples with both labels have (Jeffrey's rule); the coefficients of a real target are
        pulled to those of the others (Lindley and Smith 1972). The training samples decide how
        much: tasks that have nothing to do with each other stay as they are.
    alpha : float, default=10.0
        Weight of the prediction loss.
    beta : float, default=0.01
        Weight of the manifold term.
    gamma : float, default=0.1
        Weight of the ridge on the label projections.
    graph : HeatGraph, callable, matrix of shape (n_samples, n_samples) or None, default=None
        The graph of the manifold term, see :class:`JPlay`.
    constraints : {"both", "nonnegative", "unit_ball"} or None, default="both"
        What projected samples must be: non-negative, of norm at most one, both, or neither.
    reconstruction : bool, default=True
        Whether the reconstruction term is part of the model.
    solver : "fast" or FastSolver, default="fast"
        The published solver has one weight for all samples, and so no tasks.
    scaling : {"standard", "norm"} or None, default="standard"
        What is done to features before the first layer, see :class:`JPlay`.

    Attributes
    ----------
    tasks_ : dict
        Kind of every task by name. The tasks of a matrix are named by their column.
    task_classes_ : dict
        Classes of every classification task.
    projections_ : list of ndarray of shape (n_out, n_in)
    components_ : ndarray of shape (n_components, n_features)
        Product of the chain, for features as they come.
    intercept_ : ndarray of shape (n_components,)
    coef_ : list of ndarray of shape (n_outputs, n_components)
        Label projection :math:`P_t` of every task, in the order of ``tasks_``.
    output_coef_ : list of ndarray of shape (n_outputs, n_components)
    output_intercept_ : list of ndarray of shape (n_outputs,)
        Scores of classes, and predictions, are linear in the features.
    links_ : dict of dicts of ndarrays of shape (n_classes, n_other_classes)
        For every task that others inform, the share of each of their classes in its own.
    layer_sizes_ : list of int
    affinity_ : csr_array of shape (n_samples, n_samples)
    bandwidth_ : float or None
    objective_history_ : ndarray of shape (n_iter_,)
    n_iter_ : int
    result_ : SolverResult
    n_features_in_ : int

    See Also
    --------
    JPlay : One task of classes or labels.
    JPlayRegressor : Real targets that are known for the same samples.

    Examples
    --------
    Few samples have a name, all have a group of names.

    >>> import numpy as np
    >>> from jplay import MultiTaskJPlay
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> few = np.where(np.arange(len(y)) % 10 == 0, y, -1)
    >>> model = MultiTaskJPlay().fit(X, {"digit": few, "is round": np.isin(y, [0, 6, 8, 9])})
    >>> predicted = model.predict(X)
    >>> sorted(predicted)
    ['digit', 'is round']
    >>> np.mean(predicted["digit"] == y) > 0.8
    np.True_
    """

    _parameter_constraints: dict = {
        **CHAIN_CONSTRAINTS,
        "tasks": [StrOptions({"classification", "regression"}), dict, None],
        "task_weight": [StrOptions({"balanced"}), dict, None],
        "linked": ["boolean"],
        "solver": [StrOptions({"fast"}), FastSolver],
    }

    def __init__(
        self,
        n_components: int | None = None,
        n_layers: int | Sequence[int] = 1,
        *,
        tasks: Literal["classification", "regression"] | dict | None = None,
        task_weight: Literal["balanced"] | dict | None = None,
        linked: bool = True,
        alpha: float = 10.0,
        beta: float = 0.01,
        gamma: float = 0.1,
        graph: Any = None,
        constraints: Literal["both", "nonnegative", "unit_ball"] | None = "both",
        reconstruction: bool = True,
        solver: Literal["fast"] | FastSolver = "fast",
        scaling: Literal["standard", "norm"] | None = "standard",
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.tasks = tasks
        self.task_weight = task_weight
        self.linked = linked
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.graph = graph
        self.constraints = constraints
        self.reconstruction = reconstruction
        self.solver = solver
        self.scaling = scaling

    @stores_at_end
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the chain of projections and what each task makes of its features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In memory.
        y : dict of array-likes of shape (n_samples,), or array-like of shape (n_samples, n_tasks)
            Targets of every task by its name, or a column for each; a vector is one task. NaN
            and None mark samples without a target, -1 those without a class label (unless -1
            and 1 are the only values). All samples take part in graph, reconstruction and
            constraints.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the prediction loss, the decisions and the predictions.

        Returns
        -------
        self
        """
        if is_in_blocks(X):
            raise ValueError(
                "`X` should be an array in memory for several tasks, got samples in blocks. "
                "Load a part of them, or fit one JPlay per task; predict and transform take blocks."
            )
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = validate_data(self, X, dtype=float_dtypes(X), ensure_min_samples=2)
        tasks = split_tasks(y, self.tasks, X.shape[0])
        targets = encode_tasks(tasks, X.shape[0], self.task_weight, sample_weight)
        attributes = {
            "tasks_": {task.name: task.type for task in tasks},
            "task_classes_": {
                task.name: np.unique(task.y) for task in tasks if task.type == "classification"
            },
            "links_": couple_classes(tasks) if self.linked else {},
            "_layout": "names" if is_named(y) else "vector" if len(tasks) == 1 else "matrix",
        }
        with prepare(
            X, None, graph=self.graph, scaling=self.scaling, n_components=self.n_components
        ) as problem:
            parts = [(replace_targets(problem, part), part) for part in targets]
            problem = join_tasks(problem, targets)
            n_components = self.n_components
            if n_components is None and isinstance(self.n_layers, Integral):
                wanted = sum(max(MIN_COMPONENTS, 2 * part.n_outputs) for part in targets)
                n_components = min(wanted, problem.rank)
            sizes = choose_sizes(problem, n_components, self.n_layers, 0)

            def describe(thetas, coef):
                return attributes | describe_tasks(problem, parts, thetas, coef, self.linked)

            callback = self._make_callback(X, y, describe)
            result = minimize_chain(problem, sizes, self._objective, self._solver_options, callback)
            attributes = describe(result.thetas, result.coef) | describe_fit(problem, result)
        self.__dict__.update(attributes)
        warn_if_not_converged(result.status, "MultiTaskJPlay")
        return self._end_fit(X, y)

    def _outputs(self, X):
        """Scores or predictions of every task, (n_samples, n_outputs) each."""
        check_is_fitted(self, "components_")
        xp = namespace(self.components_)
        matrix, offset = self._after_chain(xp.concat(self.output_coef_))
        outputs = self._product(X, matrix, offset + like(xp.concat(self.output_intercept_), matrix))
        ends = list(accumulate((len(coef) for coef in self.output_coef_), initial=0))
        return {
            name: outputs[:, start:end]
            for name, (start, end) in zip(self.tasks_, pairwise(ends), strict=True)
        }

    def _by_name(self, X):
        """Predictions of every task by its name."""
        outputs = self._outputs(X)
        probabilities = self._probabilities(outputs)
        return {
            name: outputs[name][:, 0]
            if kind == "regression"
            else self.task_classes_[name][to_numpy(probabilities[name]).argmax(axis=1)]
            for name, kind in self.tasks_.items()
        }

    def _probabilities(self, outputs):
        """Probabilities of the classes of every classification task."""
        found = {name: softmax(outputs[name], 1.0) for name in self.task_classes_}
        for name, others in self.links_.items():
            for other, shares in others.items():
                found[name] = apply_composition(
                    found[name], found[other], like(shares, found[name])
                )
        return found

    @by_rows
    def predict(self, X: Any) -> Any:
        """Class or real target of every task.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : dict of ndarrays of shape (n_samples,)
            In the manner of the targets of ``fit``: by name for a dictionary, a column each for a
            matrix, a vector for a vector.
        """
        predicted = self._by_name(X)
        if self._layout == "vector":
            return predicted[0]
        if self._layout == "matrix":
            return np.stack([to_numpy(column) for column in predicted.values()], axis=1)
        return predicted

    @by_rows
    def predict_proba(self, X: Any) -> Any:
        """Probability of every class, for every classification task.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : dict of ndarrays of shape (n_samples, n_classes)
            By name for targets in a dictionary, a list for those in a matrix, the array alone
            for a vector.
        """
        check_is_fitted(self, "components_")
        if not self.task_classes_:
            raise AttributeError(
                "`predict_proba` needs a classification task, got real targets only. Use predict, "
                "or set `tasks`."
            )
        probabilities = self._probabilities(self._outputs(X))
        if self._layout == "vector":
            return probabilities[0]
        return list(probabilities.values()) if self._layout == "matrix" else probabilities

    def score(self, X: Any, y: Any) -> float:
        """Mean over tasks of accuracy (classes) or coefficient of determination (real targets).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : targets in the manner of ``fit``
            Samples without a target for a task do not count for it; a task may be left out.

        Returns
        -------
        score : float
        """
        predicted = self._by_name(X)
        named = name_targets(y)
        unknown = [name for name in named if name not in self.tasks_]
        if unknown:
            raise ValueError(
                f"`y` should hold tasks of the fit ({', '.join(map(repr, self.tasks_))}), got "
                f"{', '.join(map(repr, unknown))}."
            )
        scores = []
        for task in split_tasks(y, {name: self.tasks_[name] for name in named}, _num_samples(X)):
            found = to_numpy(predicted[task.name])[task.rows]
            measure = r2_score if task.type == "regression" else accuracy_score
            scores.append(measure(task.y, found))
        return float(np.mean(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def join_tasks(problem: Problem, targets: Sequence[Targets]) -> Problem:
    """Return the problem of the same samples with the targets of all tasks side by side."""
    encoded = [part.encode() for part in targets]
    Y = np.concatenate([Y for Y, _ in encoded], axis=1)
    weight = np.concatenate([weight for _, weight in encoded], axis=1)
    ends = accumulate((part.n_outputs for part in targets), initial=0)
    outputs = tuple(slice(start, end) for start, end in pairwise(ends))
    blocks, first = [], 0
    for loaded in problem.samples.blocks:
        X = loaded.load().X
        rows = slice(first, first + X.shape[0])
        blocks.append(Block(X, like(Y[rows], X), like(weight[rows], X)))
        first = rows.stop
    samples = Samples(blocks, outputs, problem.samples.map)
    return replace(problem, samples=samples, moments=compute_moments(samples))


def describe_tasks(
    problem: Problem,
    parts: Sequence[tuple[Problem, Targets]],
    thetas: list,
    coef: Any,
    coupled: bool,
) -> dict:
    """Return the fitted attributes of the chain, and of the scores or predictions of each task."""
    xp, dtype, theta = namespace(coef), problem.dtype, multiply_chain(thetas)
    real = [part for part in parts if part[1].center is not None]
    groups = [real] if coupled else [[part] for part in real]
    predictions = iter(
        [fit for group in groups for fit in describe_predictions(group, theta, coupled=coupled)]
    )
    rows = zip(parts, problem.samples.outputs, strict=True)
    coefs, output_coefs, output_intercepts = [], [], []
    for (part, targets), outputs in rows:
        coefs.append(xp.astype(describe_coef(coef[outputs, :], targets), dtype))
        if targets.center is not None:
            prediction = next(predictions)
            output_coefs.append(prediction["output_coef_"])
            output_intercepts.append(prediction["output_intercept_"])
        else:
            rule = describe_decision(part, theta, estimate_covariance(part, targets), targets)
            output_coefs.append(rule["mean_rule_coef_"])
            output_intercepts.append(rule["mean_rule_intercept_"])
    return describe_chain(problem, thetas) | {
        "coef_": coefs,
        "output_coef_": output_coefs,
        "output_intercept_": output_intercepts,
    }
