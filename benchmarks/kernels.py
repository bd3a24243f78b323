"""Differences of results between processors: fits under several kernels on one machine.

    python benchmarks/kernels.py > benchmarks/results/kernels.md

OpenBLAS, in the wheels of NumPy and SciPy, and NumPy's vector loops have code for several kinds of
processors, which round differently. Environment variables choose among them, so that one machine
can stand for several: Haswell (most desktops), SkylakeX (servers with AVX-512), Nehalem without
vector loops, and Katmai (without AVX2). Kernels that the processor cannot run are left out. Every
kernel has a process of its own. A minute on one core.
"""

import json
import os
import platform
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_info

import jplay
from jplay import JPlay, JPlayCommittee

KERNELS = {"Haswell": True, "SkylakeX": True, "Nehalem": False, "Katmai": True}
"""Kernels of the BLAS, and whether NumPy has its vector loops beside them."""
PROBLEMS = {"digits": 300, "wine": 89, "noise": 120}
"""Problems, and the number of samples for training; the other samples are for testing."""
MODELS = {
    "`JPlay()`": lambda: JPlay(),
    "`JPlay(n_layers=3)`": lambda: JPlay(n_layers=3),
    "`JPlayCommittee(8)`": lambda: JPlayCommittee(8, random_state=0, n_jobs=1),
    '`JPlay(solver="paper")`': lambda: JPlay(solver="paper"),
    '`JPlay(n_layers=3, solver="paper")`': lambda: JPlay(n_layers=3, solver="paper"),
}


def samples(problem):
    """Training samples, test samples and their labels."""
    if problem == "noise":
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 30)), rng.integers(0, 4, 200)
        n_train = PROBLEMS[problem]
        return X[:n_train], X[n_train:], y[:n_train], y[n_train:]
    X, y = {"digits": load_digits, "wine": load_wine}[problem](return_X_y=True)
    return train_test_split(X, y, train_size=PROBLEMS[problem], stratify=y, random_state=0)


def write_probabilities(folder, cases):
    """Fit every model and write the probabilities of the test samples, and the kernels in use."""
    used = {info.get("architecture") for info in threadpool_info() if info["user_api"] == "blas"}
    (folder / "kernels.json").write_text(json.dumps(sorted(filter(None, used))))
    for number, (problem, model) in enumerate(cases):
        X, X_test, y, _ = samples(problem)
        np.save(folder / f"{number}.npy", MODELS[model]().fit(X, y).predict_proba(X_test))


def environment(kernel, vector_loops):
    """Environment variables of a process with these kernels and one thread."""
    chosen = {"OPENBLAS_CORETYPE": kernel, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if not vector_loops:
        extensions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
        chosen["NPY_DISABLE_CPU_FEATURES"] = " ".join(extensions)
    return os.environ | chosen


def probabilities(cases):
    """Probabilities of the test samples under every kernel that the processor can run.

    Parameters
    ----------
    cases : sequence of (problem, model)

    Returns
    -------
    found : dict
        From the name of a kernel to a list of arrays, one for each case.
    """
    found = {}
    for kernel, vector_loops in KERNELS.items():
        with TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "ignore", __file__, folder, json.dumps(cases)]
            ended = subprocess.run(command, env=environment(kernel, vector_loops), check=False)
            if ended.returncode < 0:  # killed by an instruction that the processor does not have
                continue
            ended.check_returncode()
            # The BLAS falls back to other kernels if it does not have those that are asked for.
            if json.loads((Path(folder) / "kernels.json").read_text()) == [kernel]:
                found[kernel] = [np.load(Path(folder) / f"{i}.npy") for i in range(len(cases))]
    return found


def largest_differences(arrays):
    """Largest difference of a probability, and of the number of labels, between any two."""
    pairs = list(combinations(arrays, 2))
    labels = [np.sum(a.argmax(axis=1) != b.argmax(axis=1)) for a, b in pairs]
    return max(np.abs(a - b).max() for a, b in pairs), max(labels)


def main():
    cases = [(problem, model) for model in MODELS for problem in PROBLEMS]
    found = probabilities(cases)
    if len(found) < 2:
        sys.exit(f"Two kernels are needed to compare, got {', '.join(found) or 'none'}.")
    rows = iter(map(largest_differences, zip(*found.values(), strict=True)))
    heads = [f"{name}, {len(samples(name)[0])} / {len(samples(name)[1])}" for name in PROBLEMS]
    print("# Results under several kernels\n")
    print(
        f"`python benchmarks/kernels.py`, jplay {jplay.__version__}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, Python {platform.python_version()}. "
        f"Kernels: {', '.join(found)}.\n\nLargest difference of a probability between any two "
        "kernels, and number of labels that differ. Behind each problem: samples for training and "
        "for testing.\n"
    )
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for model in MODELS:
        entries = [next(rows) for _ in PROBLEMS]
        print(f"| {model} | " + " | ".join(f"{p:.0e}, {n}" for p, n in entries) + " |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_probabilities(Path(sys.argv[1]), json.loads(sys.argv[2]))
    else:
        main()
