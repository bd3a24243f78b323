"""The parameters of J-Play as plain values: how recipes and commands write them."""

GRAPH_SETTINGS = ("n_neighbors", "bandwidth")
SOLVER_SETTINGS = ("max_iter", "tol", "inner_max_iter", "inner_tol", "eta", "pretraining")
PLAIN_SETTINGS = (*GRAPH_SETTINGS, *SOLVER_SETTINGS, "constraints")
"""What :func:`estimator_parameters` takes beside the parameters of J-Play itself."""

PUBLISHED = {"n_layers": 3, "beta": 0.1, "scaling": None, "whiten": False}
"""Values of the paper that differ from the defaults of J-Play."""

CONSTRAINTS = ("both", "nonnegative", "unit_ball", "none")
KINDS_WITH_A_GRAPH = ("jplay", "lpp")
_INNER = {"graph": GRAPH_SETTINGS, "solver": SOLVER_SETTINGS}


def open_tables(kind, params):
    """Take the values out of the tables ``graph`` and ``solver`` of a recipe's parameters.

    What is left has one level of names; keys of records are made of it.

    Examples
    --------
    >>> from jplay.experiments._settings import open_tables
    >>> open_tables("jplay", {"alpha": 1.0, "solver": {"name": "paper", "eta": 0.1}})
    {'alpha': 1.0, 'solver': 'paper', 'eta': 0.1}
    """
    if kind not in KINDS_WITH_A_GRAPH:
        return dict(params)
    opened = {}
    for name, value in params.items():
        for table, names in _INNER.items():
            if name in names:
                raise ValueError(
                    f"`{name}` of {kind!r} should be in the table `{table}`, as in "
                    f"{table} = {{ {name} = ... }}."
                )
        if not isinstance(value, dict) or name not in _INNER:
            opened[name] = value
            continue
        unknown = sorted(set(value) - {"name", *_INNER[name]})
        if unknown:
            raise ValueError(
                f"`{name}` of {kind!r} should hold only {', '.join(_INNER[name])}, got also "
                f"{', '.join(unknown)}."
            )
        opened |= {name if inner == "name" else inner: v for inner, v in value.items()}
    return opened


def estimator_parameters(settings):
    """Turn plain values of one level into the parameters of :class:`jplay.JPlay`.

    Parameters
    ----------
    settings : dict
        Weights and sizes as ``JPlay`` has them, and beside them ``n_neighbors`` and ``bandwidth``
        of the graph, the name and the values of the ``solver``, ``n_layers`` as a number or as a
        list of sizes, ``constraints`` as ``"both"``, ``"nonnegative"``, ``"unit_ball"`` or
        ``"none"``.

    Returns
    -------
    dict

    Examples
    --------
    >>> from jplay.experiments import estimator_parameters
    >>> estimator_parameters({"alpha": 10.0, "bandwidth": 0.1})["graph"]
    HeatGraph(n_neighbors=10, bandwidth=0.1, method='auto', overlap=0)
    """
    from jplay import FastSolver, HeatGraph, PaperSolver  # heavy: recipes are read without

    params = dict(settings)
    graph = _taken(params, GRAPH_SETTINGS)
    if graph:
        params["graph"] = HeatGraph(**graph)
    schedule = _taken(params, SOLVER_SETTINGS)
    if schedule:
        solver = params.get("solver", "fast")
        params["solver"] = {"fast": FastSolver, "paper": PaperSolver}[solver](**schedule)
    if "constraints" in params:
        kept = params["constraints"]
        if kept not in CONSTRAINTS:
            raise ValueError(
                f"`constraints` should be one of {', '.join(CONSTRAINTS)}, got {kept!r}."
            )
        params["constraints"] = None if kept == "none" else kept
    return params


def graph_parameters(settings):
    """Turn plain values of one level into the parameters of :class:`jplay.LPP`."""
    from jplay import HeatGraph

    params = dict(settings)
    graph = _taken(params, GRAPH_SETTINGS)
    return params | ({"graph": HeatGraph(**graph)} if graph else {})


def _taken(params, names):
    return {name: params.pop(name) for name in names if name in params}
