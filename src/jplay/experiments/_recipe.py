"""Recipes: what an experiment is made of, read from TOML."""

import re
import tomllib
from collections import Counter
from dataclasses import MISSING, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jplay.experiments._settings import open_tables

DEPTH_MARK = "{depth}"

_FOLDER_NAME = re.compile(r"(?!\.)[^<>:\"/\\|?*\x00-\x1f]+")
"""What names one folder on every system and never a path: results go to folders of that name."""


@dataclass(frozen=True)
class Dataset:
    """Which data: a loader of :mod:`jplay.datasets`, its options, and the expected content."""

    loader: str
    options: dict = field(default_factory=dict)
    fingerprint: str | None = None


@dataclass(frozen=True)
class SplitPlan:
    """The rule of draws: the data set's own division, or training samples drawn per class.

    ``"given"`` takes the data set's division, ``"per-class"`` draws one split after the other
    with one generator, and ``"per-class-seeds"`` draws split ``i`` with the seed ``seed + i``.
    ``"groups"`` leaves out every group of samples in turn, in ``n_splits`` folds.
    ``"given-per-class"`` draws from the training samples of the data set's division, with seeds
    likewise. ``"blocks"`` draws half of a scene's blocks of 16 x 16 pixels, with seeds likewise;
    ``"places"`` draws half of its blocks of 24 x 24 pixels with a belt of 6 pixels around, and
    ``n_train`` pixels per class from there. The grid begins at the corner of the scene if
    ``shifted`` is false.
    Classes of fewer than 100 samples give ``small`` for training, if that is set.
    """

    kind: str = "given"
    n_splits: int = 1
    n_train: int = 10
    seed: int = 0
    small: int | None = None
    shifted: bool | None = None


@dataclass(frozen=True)
class Classifier:
    """A column of the table. ``methods`` limits it to some kinds of method."""

    name: str
    kind: str
    params: dict = field(default_factory=dict)
    features: tuple = ()
    methods: tuple | None = None

    def applies_to(self, method):
        wanted = method.classifiers is None or self.name in method.classifiers
        return wanted and (self.methods is None or method.kind in self.methods)


@dataclass(frozen=True)
class Search:
    """A choice of parameters by cross-validation on training samples alone.

    ``classifier`` scores each point: the kind, parameters and features of a column. With
    ``start``, the search begins where another has ended on the same split and keeps what that
    one has chosen beyond its own grid.
    """

    name: str
    kind: str
    grid: dict
    params: dict = field(default_factory=dict)
    preprocessing: tuple = ()
    classifier: Classifier = field(default_factory=lambda: Classifier("score", "nn"))
    n_folds: int = 5
    n_rounds: int = 2
    start: str | None = None


@dataclass(frozen=True)
class Method:
    """A row of the table: preprocessing, an estimator and what is done to its features.

    Methods of one name share a row; ``classifiers`` then says which columns each of them fills.
    """

    name: str
    kind: str
    params: dict = field(default_factory=dict)
    depth: int | None = None
    preprocessing: tuple = ()
    features: tuple = ()
    published: dict = field(default_factory=dict)
    search: str | None = None
    classifiers: tuple | None = None
    n_splits: int | None = None
    family: str | None = None
    """Name of the rows that differ from this one in depth alone."""


@dataclass(frozen=True)
class Recipe:
    """One problem (its data and its rule of draws) and what is compared on it.

    Attributes
    ----------
    name, title : str
    dataset : Dataset
    split : SplitPlan
    preprocessing : tuple
        Steps before every method, fitted on training samples.
    methods : tuple of Method
    classifiers : tuple of Classifier
    searches : dict of str to Search
    seed : int
        Seed of every method and classifier that draws random numbers.
    quick : dict
        What ``--quick`` keeps: ``n_splits``, ``methods``, ``classifiers``, and ``params`` of
        classifiers by name.
    maps : str or None
        Classifier whose maps of the whole scene are kept, where the data are a scene.
    faces : str or None
        Method whose projection is drawn as images, where the data are images.
    convergence : str or None
        Method whose convergence is drawn.
    reference : str or None
        Method from which every other one's results are subtracted, split by split.
    suite : str or None
        Name of the recipe with several problems that this one is of.
    """

    name: str
    title: str
    dataset: Dataset
    split: SplitPlan
    methods: tuple
    classifiers: tuple
    preprocessing: tuple = ()
    searches: dict = field(default_factory=dict)
    seed: int = 0
    quick: dict = field(default_factory=dict)
    maps: str | None = None
    faces: str | None = None
    convergence: str | None = None
    reference: str | None = None
    suite: str | None = None

    def quickened(self):
        """Return the recipe that ``--quick`` runs: searches stay where they would begin."""
        kept = self.quick
        methods = kept.get("methods")
        classifiers = kept.get("classifiers")
        overrides = kept.get("params", {})
        return replace(
            self,
            split=replace(self.split, n_splits=min(kept.get("n_splits", 1), self.split.n_splits)),
            methods=tuple(
                replace(method, search=None, params={**self._start(method), **method.params})
                for method in self.methods
                if methods is None or method.name in methods
            ),
            classifiers=tuple(
                replace(c, params={**c.params, **overrides.get(c.name, {})})
                for c in self.classifiers
                if classifiers is None or c.name in classifiers
            ),
        )

    def _start(self, method):
        return {
            name: value
            for search in reversed(self.chain(method.search))
            for name, value in search.params.items()
            if name in search.grid
        }

    def chain(self, name):
        """Return the named search, the one it starts from, and so on to one without a start."""
        return _chain(name, self.searches)

    def restricted(self, *, n_splits=None, methods=None, classifiers=None):
        """Return the recipe with fewer splits, methods or classifiers."""
        recipe = self
        if n_splits is not None:
            recipe = replace(recipe, split=replace(recipe.split, n_splits=n_splits))
        if methods:
            recipe = replace(recipe, methods=_named(recipe.methods, methods, "methods"))
        if classifiers:
            recipe = replace(
                recipe, classifiers=_named(recipe.classifiers, classifiers, "classifiers")
            )
        return recipe


def _named(items, wanted, what):
    from fnmatch import fnmatchcase

    kept = tuple(item for item in items if any(fnmatchcase(item.name, w) for w in wanted))
    if not kept:
        names = ", ".join(item.name for item in items)
        raise ValueError(f"`{what}` should name some of: {names}; got {', '.join(wanted)}.")
    return kept


def available_recipes():
    """Return the names of the recipes in the package, tables of several parts included.

    Examples
    --------
    >>> from jplay.experiments import available_recipes
    >>> "table2" in available_recipes()
    True
    """
    folder = files("jplay.experiments") / "recipes"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_recipes(name):
    """Read a recipe by name, or from a TOML file; several parts or problems give several.

    Parameters
    ----------
    name : str or path-like

    Returns
    -------
    list of Recipe

    Examples
    --------
    >>> from jplay.experiments import load_recipes
    >>> [recipe.name for recipe in load_recipes("table2")]
    ['extended-yale-b', 'ar']
    """
    table = _read_toml(name)
    if "parts" not in table:
        return _parsed(name, table)
    parts = table["parts"]
    if not isinstance(parts, list) or not parts or not all(isinstance(p, str) for p in parts):
        raise ValueError(f"`parts` of '{name}' should list names of recipes, got {parts!r}.")
    tables = {part: _read_toml(part) for part in parts}
    nested = [part for part, content in tables.items() if "parts" in content]
    if nested:
        raise ValueError(
            f"`parts` of '{name}' should be recipes without parts of their own, got {nested[0]!r}."
        )
    return [recipe for part, content in tables.items() for recipe in _parsed(part, content)]


def _parsed(name, table):
    try:
        return parse_problems(table)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"'{name}' is not a recipe: an entry is missing or of another kind than expected "
            f"({type(error).__name__}: {error}). Compare it with one of jplay's recipes."
        ) from error


def _read_toml(name):
    path = Path(name)
    if path.suffix == ".toml":
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:  # of the encoding or of TOML
            raise ValueError(f"'{path}' cannot be read as TOML ({error}). Correct it.") from error
    if str(name) not in available_recipes():
        raise ValueError(
            f"`recipe` should be one of {', '.join(available_recipes())}, or a .toml file; got "
            f"{str(name)!r}."
        )
    resource = files("jplay.experiments") / "recipes" / f"{name}.toml"
    return tomllib.loads(resource.read_text(encoding="utf-8"))


def parse_problems(table):
    """Build one :class:`Recipe` per entry of ``problems``, or the only one if there is none.

    An entry holds the problem's name, its ``dataset`` and ``split``, and whatever else is not as
    in the rest of the table.
    """
    if "problems" not in table:
        return [parse_recipe(table)]
    if not table["problems"]:
        raise ValueError("`problems` should list at least one problem, got none.")
    _check_name("name", table.get("name"))
    shared = {k: v for k, v in table.items() if k not in ("problems", "name", "title")}
    recipes = [
        parse_recipe({"title": problem["name"], **shared, **problem, "suite": table["name"]})
        for problem in table["problems"]
    ]
    names = [recipe.name for recipe in recipes]
    if len(set(names)) < len(names):
        raise ValueError(f"`problems` should have names of their own, got {', '.join(names)}.")
    return recipes


def parse_recipe(table):
    """Build a :class:`Recipe` from the parsed TOML table, refusing keys it does not know."""
    table = dict(table)
    missing = [k for k in ("name", "dataset", "methods", "classifiers") if not table.get(k)]
    if missing:
        raise ValueError(f"`recipe` should have an entry {missing[0]!r}, found none. Add it.")
    _check_name("name", table["name"])
    methods = tuple(m for entry in table.pop("methods") for m in _parse_methods(entry))
    searches: dict[str, Search] = {}
    for name, entry in table.pop("searches", {}).items():
        searches[name] = _parse_search(name, entry, searches)
    for method in methods:
        if method.search is not None and method.search not in searches:
            raise ValueError(
                f"`search` of method {method.name!r} should be one of {sorted(searches)}, got "
                f"{method.search!r}."
            )
    reference = table.get("reference")
    if reference is not None and reference not in {method.name for method in methods}:
        raise ValueError(f"`reference` should be the name of a method, got {reference!r}.")
    classifiers = tuple(_build(Classifier, c, "classifiers") for c in table.pop("classifiers"))
    columns = [column.name for column in classifiers]
    for method in methods:
        named = method.classifiers or ()
        if isinstance(named, str) or not set(named) <= set(columns):
            raise ValueError(
                f"`classifiers` of method {method.name!r} should list some of "
                f"{', '.join(columns)}, got {named!r}."
            )
    filled = Counter((m.name, c.name) for m in methods for c in classifiers if c.applies_to(m))
    twice = [cell for cell, count in filled.items() if count > 1]
    if twice:
        raise ValueError(
            f"`methods` should fill every column of a row once, got {twice[0][0]!r} twice for "
            f"{twice[0][1]!r}. Give each its own `classifiers`."
        )
    return _build(
        Recipe,
        {
            **table,
            "dataset": _build(Dataset, table["dataset"], "dataset"),
            "split": _build(SplitPlan, table.get("split", {}), "split"),
            "methods": methods,
            "classifiers": classifiers,
            "searches": searches,
        },
        "recipe",
    )


def _parse_search(name, entry, before):
    """Build a search; what one with ``start`` does not say is as in that other search."""
    entry = {"name": name, **entry}
    start = entry.get("start")
    kind = entry.get("kind") or getattr(before.get(start), "kind", None)
    entry |= {k: open_tables(kind, entry[k]) for k in ("params", "grid") if k in entry}
    if start is not None:
        if start not in before:
            raise ValueError(
                f"`start` of search {name!r} should be one of the searches above it "
                f"({', '.join(before) or 'none'}), got {start!r}."
            )
        inherited = {k: getattr(before[start], k) for k in Search.__dataclass_fields__}
        chosen_before = {parameter for search in _chain(start, before) for parameter in search.grid}
        chosen = chosen_before & set(entry.get("params", {}))
        if chosen:
            raise ValueError(
                f"`params` of search {name!r} should leave out what its start {start!r} chooses, "
                f"got {', '.join(sorted(chosen))}."
            )
        entry = {**inherited, **entry, "params": {**inherited["params"], **entry.get("params", {})}}
    if isinstance(entry.get("classifier"), dict):
        where = f"searches.{name}.classifier"
        entry["classifier"] = _build(Classifier, {"name": "score", **entry["classifier"]}, where)
    return _build(Search, entry, f"searches.{name}")


def _chain(name, searches):
    """Return the named search, the one it starts from, and so on to one without a start."""
    links = []
    while name is not None:
        links.append(searches[name])
        name = links[-1].start
    return links


def _parse_methods(entry):
    """Expand one entry: a method per depth with its value of every list, for each choice again."""
    entry = dict(entry)
    choices = entry.pop("choices", None)
    if choices is not None:
        # Each search serves some columns; a row has the figures of all of them.
        published = entry.pop("published", {})
        return [
            method
            for choice in choices
            for method in _parse_methods(
                {
                    **entry,
                    **choice,
                    "published": {c: published[c] for c in choice["classifiers"] if c in published},
                }
            )
        ]
    kind = entry.get("kind")
    depths = entry.pop("depths", None)
    per_depth = open_tables(kind, entry.pop("per_depth", {}))
    entry["params"] = open_tables(kind, entry.get("params", {}))
    if depths is None:
        return [_build(Method, entry, "methods")]
    published = entry.pop("published", {})
    searches = entry.pop("search", None)
    searches = searches if isinstance(searches, list) else [searches] * len(depths)
    for name, values in {**per_depth, **published, "search": searches}.items():
        if len(values) != len(depths):
            raise ValueError(
                f"`{name}` of {entry['name']!r} should list {len(depths)} values (one per depth), "
                f"got {len(values)}."
            )
    return [
        _build(
            Method,
            {
                **entry,
                "name": entry["name"].replace(DEPTH_MARK, str(depth)),
                "family": entry["name"].replace(DEPTH_MARK, "m"),
                "depth": depth,
                "search": searches[i],
                "params": {
                    **entry["params"],
                    "n_layers": depth,
                    **{name: values[i] for name, values in per_depth.items()},
                },
                "published": {name: values[i] for name, values in published.items()},
            },
            "methods",
        )
        for i, depth in enumerate(depths)
    ]


def _check_name(entry, name):
    """Refuse a name that would lead out of the output folder."""
    if not isinstance(name, str) or not _FOLDER_NAME.fullmatch(name):
        raise ValueError(
            f"`{entry}` of a recipe should be the name of a folder, to which results go: not a "
            f"path, no '.' at the beginning, none of <>:\"/\\|?*; got {name!r}. Choose another."
        )


def _build(kind, entries, where) -> Any:
    known = kind.__dataclass_fields__
    unknown = sorted(set(entries) - set(known))
    if unknown:
        raise ValueError(
            f"`{where}` should hold only {', '.join(known)}, got also {', '.join(unknown)}. "
            "Correct or remove them."
        )
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in entries.items()}
    missing = [
        name
        for name, entry in known.items()
        if entry.default is MISSING and entry.default_factory is MISSING and name not in values
    ]
    if missing:
        raise ValueError(f"`{where}` should have an entry {missing[0]!r}, found none. Add it.")
    for name, value in values.items():
        expected = known[name].type
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            told = getattr(expected, "__name__", str(expected))
            raise ValueError(f"`{where}.{name}` should be of type {told}, got {value!r}.")
    return kind(**values)
