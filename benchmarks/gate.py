"""Notice when the code gets slower; ``make bench``.

    python benchmarks/gate.py [--against FILE] [--record FILE]

Times fits, predictions and the graph, each as a ratio to a reference that runs in turn with it,
and compares the ratios with recorded ones. Fails if one is more than half larger than recorded. A
ratio that looks too large is measured again before it counts: a busy machine can spoil it, but
not make it too small. Run ``--record benchmarks/results/gate.json`` after a change that is
slower for a good reason, and say why in the commit.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from run import RESULTS, environment

RECORDED = RESULTS / "gate.json"
ALLOWED = 1.5
SECONDS = 3.0  # per measurement of a ratio
TRIES = 4


def classes(n_samples=695, n_features=200, n_classes=16, seed=0):
    """Positive samples around one center per class, divided by their maximum."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    X = 1.0 + rng.random((n_classes, n_features))[y] + 0.3 * rng.random((n_samples, n_features))
    return X / X.max(axis=1, keepdims=True), y


def small_fit():
    from sklearn.svm import SVC

    from jplay import JPlay

    X, y = classes()
    return lambda: JPlay(20, 1).fit(X, y), lambda: SVC(kernel="rbf").fit(X, y)


def three_layers():
    from jplay import JPlay

    X, y = classes()
    return lambda: JPlay(20, 3).fit(X, y), lambda: JPlay(20, 1).fit(X, y)


def transform():
    from jplay import JPlay

    model = JPlay(20, 1).fit(*classes())
    X = np.random.default_rng(3).random((100_000, 200))
    components = np.ascontiguousarray(model.components_.T)
    return lambda: model.transform(X), lambda: X @ components


def neighbor_graph():
    from jplay import HeatGraph

    X = np.random.default_rng(4).random((4_000, 200))
    return lambda: HeatGraph(10)(X), lambda: X @ X.T


def committee():
    """A small committee of the usual shape, in single precision, and samples for it."""
    from jplay import JPlayCommittee

    X, y = classes()
    samples = np.random.default_rng(5).permutation(np.concatenate([X] * 6))[:4096]
    return JPlayCommittee(15, random_state=0).fit(X, y), samples.astype(np.float32)


def committee_fit():
    from sklearn.svm import SVC

    from jplay import JPlayCommittee

    X, y = classes()
    model = JPlayCommittee(9, random_state=0)
    return lambda: model.fit(X, y), lambda: [SVC(kernel="rbf").fit(X, y) for _ in range(9)]


def committee_prediction():
    model, X = committee()
    # As many multiply-adds as all votes of all members that count, in one product.
    cost = sum(member.cost for member, _ in model._ballots())
    matrix = np.ones((X.shape[1], cost // X.shape[1]), dtype=np.float32)
    return lambda: model.predict_proba(X), lambda: X @ matrix


CASES = {
    "small fit / SVC": small_fit,
    "three layers / one layer": three_layers,
    "transform / one product": transform,
    "neighbor graph / distance product": neighbor_graph,
    "committee fit / as many SVCs": committee_fit,
    "committee votes / their products": committee_prediction,
}


def seconds(function):
    """Processor time, which other programs on the machine disturb less than the clock's."""
    start = time.process_time()
    function()
    return time.process_time() - start


def measure(work, reference, budget=SECONDS):
    """Least seconds of both, taken in turn so that a busy moment spoils both or neither."""
    work(), reference()
    pairs, end = [], time.perf_counter() + budget
    while len(pairs) < 3 or time.perf_counter() < end:
        pairs.append((seconds(work), seconds(reference)))
    return np.min(pairs, axis=0)


def measured(name, recorded=None):
    """The ratio of a case; measured again while it is too large, or to be recorded."""
    work, reference = CASES[name]()
    best = None
    for _ in range(TRIES):
        times = measure(work, reference)
        best = times if best is None else np.minimum(best, times)
        if recorded is not None and best[0] / best[1] <= ALLOWED * recorded:
            break
    return {
        "ratio": float(best[0] / best[1]),
        "seconds": float(best[0]),
        "reference_seconds": float(best[1]),
    }


def slower(found, recorded):
    """Names of the cases that are slower than allowed, or that were never recorded."""
    return [
        name
        for name, case in found.items()
        if name not in recorded or case["ratio"] > ALLOWED * recorded[name]["ratio"]
    ]


def table(found, recorded):
    lines = [f"{'case':<36} {'recorded':>9} {'now':>9} {'now/recorded':>13}"]
    for name, case in found.items():
        before = recorded[name]["ratio"] if name in recorded else float("nan")
        lines.append(
            f"{name:<36} {before:>9.3f} {case['ratio']:>9.3f} {case['ratio'] / before:>13.2f}"
        )
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, default=RECORDED, help="ratios to compare with")
    parser.add_argument("--record", type=Path, help="write the ratios here, compare with nothing")
    options = parser.parse_args(arguments)
    recorded = {} if options.record else json.loads(options.against.read_text())["cases"]
    found = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in CASES:
            found[name] = measured(name, recorded.get(name, {}).get("ratio"))
    if options.record:
        record = {"environment": environment(), "cases": found}
        options.record.write_text(json.dumps(record, indent=1) + "\n")
        print(f"Wrote {options.record}.")
        return 0
    print(table(found, recorded))
    failed = slower(found, recorded)
    if failed:
        print(f"\nMore than {ALLOWED} times the recorded ratio, or not recorded:")
        print(table({name: found[name] for name in failed}, recorded))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
