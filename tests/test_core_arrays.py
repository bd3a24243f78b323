"""Every option of a fit gives on arrays of other libraries and devices what it gives on NumPy."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("array_api_strict")

# scikit-learn dispatches only where SciPy was told to before its import, so in a new process.
PROGRAM = textwrap.dedent(
    """
    import sys
    import warnings
    import numpy as np
    import sklearn
    from jplay import FastSolver, HeatGraph, JPlay, LabelPenalty, LPP

    warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
    library = sys.argv[1]
    if library == "array_api_strict":
        import array_api_strict as xp
        device = xp.Device("device1")  # every operation on arrays of two devices is an error
    else:
        import torch as xp
        device = "cpu"

    def host(array):
        if library == "array_api_strict":
            array = xp.asarray(array, device=xp.Device("CPU_DEVICE"))
        return np.asarray(array)

    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = 2 * rng.random((3, 9))[y] + rng.random((120, 9))
    copies = X.copy()
    copies[:40] = copies[0] + 1e-6 * rng.random((40, 9))
    copies[50] = copies[51]
    crowded = X.copy()
    crowded[30:] = np.where((np.arange(90) % 3 > 0)[:, None], X[29], X[30:])
    weight = rng.random(120) + 0.2
    missing = np.where(np.arange(120) % 4 == 0, -1, y)
    labels = np.stack([y == 0, y > 0, np.arange(120) % 4 == 0], axis=1).astype(int)
    quick = {"graph": HeatGraph(5), "solver": FastSolver(max_iter=40)}
    cases = {
        "plain": (JPlay(3, **quick), X, y, None),
        "deep": (JPlay(3, 3, **quick), X, y, None),
        "weights": (JPlay(3, class_weight="balanced", **quick), X, y, weight),
        "missing": (JPlay(3, **quick), X, missing, None),
        "labels": (JPlay(3, **quick), X, labels, None),
        "sparse": (JPlay(3, gamma=LabelPenalty(absolute=0.5), **quick), X, y, None),
        "free": (JPlay(3, constraints=None, scaling=None, **quick), X, y, None),
        "unit_ball": (JPlay(3, constraints="unit_ball", scaling="norm", **quick), X, y, None),
        "prediction": (JPlay(3, reconstruction=False, **quick), X, y, None),
        "wide": (JPlay(3, **quick), rng.random((40, 90)) + y[:40, None], y[:40], None),
        "copies": (JPlay(3, **quick), copies, y, None),
        "far": (JPlay(3, **quick), copies + 300, y, None),
        "crowded": (JPlay(3, **quick), crowded, y, None),
        "embedding": (LPP(3, graph=HeatGraph(5)), X, y, None),
    }
    for name, (model, X, y, weight) in cases.items():
        arguments = [y] if weight is None else [y, weight]
        reference = sklearn.clone(model).fit(X, *arguments)
        with sklearn.config_context(array_api_dispatch=True):
            moved = [xp.asarray(array, device=device) for array in (X, *arguments)]
            model.fit(*moved)
            features = model.transform(moved[0])
            assert type(features) is type(moved[0])
            assert features.device == moved[0].device
            found = host(features)
        expected = reference.transform(X)
        tolerance = 1e-5
        difference = np.abs(found - expected).max()
        assert difference < tolerance * np.abs(expected).max(), (name, difference)
        width = abs(float(model.bandwidth_) - reference.bandwidth_) / reference.bandwidth_
        assert width < 1e-6, (name, width)
    print("agreed", len(cases))
    """
)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_every_option_gives_what_it_gives_on_numpy(library):
    pytest.importorskip(library)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, library],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.split() == ["agreed", "14"]
