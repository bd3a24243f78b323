"""Several problems: which rows there are, and what they reached over all problems."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean

from jplay.exceptions import DatasetNotFoundError, MissingDependencyError
from jplay.experiments._named import find_class, parse_estimator
from jplay.experiments._recipe import Dataset, Method, SplitPlan, load_recipes
from jplay.experiments._results import ResultTable, line_of, text_of

MISSING = (DatasetNotFoundError, MissingDependencyError)

ITSELF, NEAREST = "itself", "1-NN"
"""Columns of the suite: the method's own decision, or the nearest sample among its features."""


def row_name(method, classifier):
    """Return the name of a row over several problems: a method, and what decides on top of it."""
    return method if classifier == ITSELF else f"{method} + {classifier}"


@dataclass(frozen=True)
class Suite:
    """Several problems with the same methods, each problem a recipe with a folder of records.

    Attributes
    ----------
    recipes : tuple of Recipe
        By problem.

    Examples
    --------
    >>> from jplay.experiments import Suite
    >>> suite = Suite.load(methods=["sklearn.naive_bayes:GaussianNB"])
    >>> list(suite.restricted(rows=["*NB", "*forest"]).rows)
    ['random forest', 'GaussianNB']
    """

    recipes: tuple

    @classmethod
    def load(cls, name="suite", *, n_draws=None, methods=(), scene=None):
        """Read the suite of ``jplay suite``, or another recipe with several problems.

        Parameters
        ----------
        name : str or path-like, default="suite"
            ``"scenes"`` for the suite of ``jplay suite --scenes``.
        n_draws : int, optional
            Draws of the training samples, for problems that are drawn at random; by default as
            many as the recipe says.
        methods : sequence of str
            More methods, as ``package:Class`` or ``package:Class(name=value)``. One that predicts
            is judged by its predictions, another by 1-NN on its features.
        scene : path-like, optional
            A file with a scene and its labels, whose blocks are one more problem.

        Returns
        -------
        Suite
        """
        more = tuple(_added(text) for text in methods)
        recipes = load_recipes(name)
        if scene is not None:
            own = Dataset("scene-file", {"path": str(scene)})
            plan = SplitPlan("places", n_splits=10, n_train=50)
            recipes.append(
                replace(recipes[-1], name=Path(scene).stem, title="own", dataset=own, split=plan)
            )
        return cls(
            tuple(
                replace(recipe, methods=recipe.methods + more).restricted(n_splits=n_draws)
                for recipe in recipes
            )
        )

    @property
    def problems(self):
        """Names of the problems."""
        return [recipe.name for recipe in self.recipes]

    @property
    def rows(self):
        """The methods by the names of their rows; one method may have several."""
        return {
            row_name(method.name, column.name): method
            for recipe in self.recipes
            for method in recipe.methods
            for column in recipe.classifiers
            if column.applies_to(method)
        }

    def restricted(self, *, problems=None, rows=None):
        """Return the suite with some problems and some rows; names may have wildcards."""
        _check_names("problems", problems, self.problems)
        _check_names("rows", rows, self.rows)
        return Suite(
            tuple(
                replace(recipe, methods=tuple(_with_rows(recipe, rows)))
                for recipe in self.recipes
                if _fits(recipe.name, problems)
            )
        )

    def run(self, folder, *, n_jobs=1, again=False, max_seconds=None, progress=None):
        """Compute what the records do not hold yet, problem after problem.

        Parameters
        ----------
        folder : path-like
            Has a folder for each problem.
        n_jobs : int, default=1
            Processes.
        again : bool, default=False
            Whether the records there are no longer count.
        max_seconds : float, optional
            Time that a fit may take, see :class:`Experiment`.
        progress : callable, optional
            See :meth:`Experiment.run`.

        Returns
        -------
        dict of str to str
            Problems that were not run because their data are missing, and why.
        """
        from jplay.experiments._runner import Experiment

        absent = {method.name for name, method in self.rows.items() if name in self.missing_rows()}
        missing = {}
        for recipe in self.recipes:
            present = tuple(method for method in recipe.methods if method.name not in absent)
            try:
                experiment = Experiment(
                    replace(recipe, methods=present),
                    Path(folder) / recipe.name,
                    max_seconds=max_seconds,
                )
            except MISSING as error:
                missing[recipe.name] = str(error)
                continue
            if again:
                experiment.drop()
            experiment.run(n_jobs=n_jobs, progress=progress)
        return missing

    def table(self, folder):
        """Collect what the records hold; the data are not needed.

        Returns
        -------
        SuiteTable
        """
        return SuiteTable.of(
            {r.name: ResultTable.read(r, Path(folder) / r.name) for r in self.recipes}
        )

    def missing_rows(self):
        """Return the rows whose package is not installed, and why they cannot be run."""
        missing = {}
        for name, method in self.rows.items():
            if "class" in method.params:
                try:
                    find_class(method.params["class"])
                except MISSING as error:
                    missing[name] = str(error)
        return missing

    def missing_problems(self):
        """Return the problems whose data cannot be loaded, and why; this loads all the others."""
        from jplay.experiments._division import load_divided

        missing = {}
        for recipe in self.recipes:
            try:
                load_divided(recipe)
            except MISSING as error:
                missing[recipe.name] = str(error)
        return missing


def _added(text):
    params = parse_estimator(text)
    predicts = hasattr(find_class(params["class"]), "predict")
    return Method(
        name=text.partition(":")[2].strip(),
        kind="estimator",
        params=params,
        classifiers=(ITSELF,) if predicts else (NEAREST,),
    )


def _with_rows(recipe, wanted):
    """Return the methods of a recipe with the columns whose rows are wanted."""
    for method in recipe.methods:
        kept = tuple(
            column.name
            for column in recipe.classifiers
            if column.applies_to(method) and _fits(row_name(method.name, column.name), wanted)
        )
        if kept:
            yield replace(method, classifiers=kept)


def _fits(name, patterns):
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def _check_names(what, patterns, names):
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"`{what}` should name some of: {', '.join(names)}; got {pattern!r}.")


@dataclass(frozen=True)
class SuiteRow:
    """A method, and what decides on top of it, over several problems.

    Attributes
    ----------
    method, classifier : str
    entries : dict of str to Entry
        By problem.
    accuracies : dict of str to float
        In percent, by problem; problems without a figure are not among them.
    mean : float
        Of the accuracies there are.
    mean_rank : float
        Place among the rows; 1 is the best, equals share a place. Without a figure the row
        shares the last place.
    n_best : int
        Problems on which no row is better.
    """

    method: str
    classifier: str
    entries: dict
    accuracies: dict
    mean: float
    mean_rank: float
    n_best: int

    @property
    def name(self):
        return row_name(self.method, self.classifier)

    def average(self, quantity):
        """Return the mean of a quantity of the entries over the problems that have it, or None."""
        values = [getattr(self.entries[problem], quantity) for problem in self.accuracies]
        values = [value for value in values if value is not None]
        return fmean(values) if values else None


@dataclass(frozen=True)
class Duel:
    """How a row differs from a reference on the problems that both have a figure for.

    ``p_value`` is that of Wilcoxon's signed rank test, two-sided; None if there is no difference.
    """

    row: str
    reference: str
    n_better: int
    n_equal: int
    n_worse: int
    mean_difference: float
    p_value: float | None


@dataclass(frozen=True)
class SuiteTable:
    """Means, ranks and pairs of every row over several problems.

    Attributes
    ----------
    problems : list of str
        Those with at least one figure.
    rows : list of SuiteRow
        Those with at least one figure, the best mean rank first.
    """

    problems: list
    rows: list

    @classmethod
    def of(cls, tables):
        """Collect the figures of several problems.

        Parameters
        ----------
        tables : dict of str to ResultTable
            By problem.
        """
        cells = dict.fromkeys(cell for table in tables.values() for cell in table.entries)
        entries = {
            cell: {name: t.entries[cell] for name, t in tables.items() if cell in t.entries}
            for cell in cells
        }
        figures = {
            cell: {name: e.mean for name, e in own.items() if e.mean is not None}
            for cell, own in entries.items()
        }
        figures = {cell: own for cell, own in figures.items() if own}
        problems = [name for name in tables if any(name in own for own in figures.values())]
        rows = [
            SuiteRow(
                *cell,
                entries=entries[cell],
                accuracies=own,
                mean=fmean(own.values()),
                mean_rank=fmean(_rank(own, name, figures) for name in problems),
                n_best=sum(
                    own[name] == max(other.get(name, 0.0) for other in figures.values())
                    for name in own
                ),
            )
            for cell, own in figures.items()
        ]
        return cls(problems, sorted(rows, key=lambda row: (row.mean_rank, -row.mean)))

    def against(self, reference):
        """Compare every other row with one of them, problem by problem.

        Parameters
        ----------
        reference : str
            Name of a row.

        Returns
        -------
        dict of str to Duel
            By row; rows that share no problem with the reference are not among them.
        """
        by_name = {row.name: row for row in self.rows}
        if reference not in by_name:
            raise ValueError(
                f"`reference` should be one of {', '.join(by_name)}, got {reference!r}."
            )
        known = by_name[reference].accuracies
        duels = {}
        for name, row in by_name.items():
            shared = [problem for problem in row.accuracies if problem in known]
            if name != reference and shared:
                gaps = [round(row.accuracies[p] - known[p], 9) for p in shared]
                duels[name] = Duel(
                    row=name,
                    reference=reference,
                    n_better=sum(gap > 0 for gap in gaps),
                    n_equal=sum(gap == 0 for gap in gaps),
                    n_worse=sum(gap < 0 for gap in gaps),
                    mean_difference=fmean(gaps),
                    p_value=_signed_rank(gaps),
                )
        return duels

    def to_markdown(self):
        """Return the accuracies in Markdown, a column per problem."""
        headings = ["method", "classifier", *self.problems, "mean", "mean rank"]
        lines = [line_of(headings), line_of(["---"] * len(headings))]
        for row in self.rows:
            figures = [row.accuracies.get(name) for name in self.problems]
            cells = map(text_of, [*figures, row.mean, row.mean_rank])
            lines.append(line_of([row.method, row.classifier, *cells]))
        return "\n".join(lines) + "\n"


def _rank(own, problem, figures):
    """Return the place of a row on a problem, the mean place among equals."""
    values = [other.get(problem, float("-inf")) for other in figures.values()]
    value = own.get(problem, float("-inf"))
    return 1 + sum(v > value for v in values) + (values.count(value) - 1) / 2


def _signed_rank(gaps):
    from scipy.stats import wilcoxon

    return float(wilcoxon(gaps).pvalue) if any(gaps) else None
