"""Speed on the CPU, as ratios within one run; ``make bench-full``.

    python benchmarks/run.py [--only PART ...]

Writes ``benchmarks/results/cpu.json`` and ``cpu.md`` with plots beside them. Parts that need data
sets which are not in the data folder say so and are left out.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse
import sklearn
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "tests"))

PUBLISHED = {"beta": 0.1, "scaling": None, "whiten": False}
"""The model of the paper, which the plain transcription solves too."""


def best_of(function, repeats=3):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def simulated(n, d, r, seed=0):
    """Positive samples, one-hot labels and a ring graph: only sizes matter here."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    Y = np.eye(10)[rng.integers(10, size=n)]
    offsets = np.arange(1, 6)
    rows = np.repeat(np.arange(n), len(offsets))
    columns = (rows + np.tile(offsets, n)) % n
    half = scipy.sparse.csr_array((np.full(len(rows), 0.5), (rows, columns)), shape=(n, n))
    theta = rng.random((r, d)) / d
    return X, Y, (half + half.T).tocsr(), theta


def layer_times(n, d, r, threads, n_iter):
    """Seconds per iteration of one layer problem: compressed, plain, and its two products."""
    import plain_transcription as plain
    from jplay import PaperSolver
    from jplay.core.objective import Objective
    from jplay.core.paper import compress_samples, solve_layer
    from jplay.core.problem import prepare
    from jplay.core.targets import encode_targets

    X, Y, affinity, theta = simulated(n, d, r)
    coef = np.random.default_rng(1).random((Y.shape[1], r))
    laplacian = scipy.sparse.diags_array(affinity.sum(axis=1)) - affinity
    w = np.random.default_rng(2).random((n, r))
    with threadpool_limits(threads, "blas"):
        products = best_of(lambda: (X @ theta.T, w.T @ X))
        targets = encode_targets(Y.argmax(axis=1))
        with prepare(X, targets, graph=affinity, n_components=r) as problem:
            layer, objective = compress_samples(problem), Objective(alpha=1.0)

            def compressed(iterations):
                options = PaperSolver(inner_max_iter=iterations, inner_tol=1e-300)
                return solve_layer(layer, theta, 0.1, objective, options, P=coef)

            short, long = best_of(lambda: compressed(2)), best_of(lambda: compressed(2 + n_iter))
        settings = plain.Settings(inner_max_iter=n_iter, inner_tol=0.0)
        transcription = best_of(
            lambda: plain.solve_layer(X, laplacian, theta, 0.1, settings, Y=Y, coef=coef), 1
        )
    per_iteration = (long - short) / n_iter
    return {
        "n": n,
        "d": d,
        "r": r,
        "threads": threads,
        "compressed_s": per_iteration,
        "plain_s": transcription / n_iter,
        "products_s": products,
        "plain_over_compressed": transcription / n_iter / per_iteration,
        "compressed_over_products": per_iteration / products,
    }


def compressed():
    return [layer_times(50_000, 200, 100, threads, 5) for threads in (1, 2)]


def small():
    """Whole fits of the published schedule at n = 695, layers 140, 80, 20."""
    import plain_transcription as plain
    from jplay import JPlay, PaperSolver

    X, Y, affinity, _ = simulated(695, 200, 20)
    X, y = normalize(X, norm="max"), Y.argmax(axis=1)
    layers = [140, 80, 20]
    rows = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            model = JPlay(
                n_layers=layers,
                graph=affinity,
                solver=PaperSolver(max_iter=3, tol=0.0),
                **PUBLISHED,
            )
            ours = best_of(lambda model=model: model.fit(X, y))
            settings = plain.Settings(max_iter=3, tol=0.0)
            dense = affinity.toarray()
            theirs = best_of(lambda s=settings, a=dense: plain.solve_jplay(X, Y, a, layers, s), 1)
        rows.append(
            {"threads": threads, "compressed_s": ours, "plain_s": theirs, "ratio": theirs / ours}
        )
    return rows


MEMORY_PROGRAM = """
import json, resource, sys, tracemalloc
sys.path.insert(0, {benchmarks!r})
from run import PUBLISHED, schedule, simulated
from jplay import JPlay
n, d, r, solver, max_iter, dtype = {arguments!r}
X, Y, affinity, _ = simulated(n, d, r)
X, y = X.astype(dtype, copy=False), Y.argmax(axis=1)
model = {{}} if solver == "fast" else PUBLISHED
few = slice(0, 300)
JPlay(r, graph=affinity[few, few], solver=schedule(solver, 1), **model).fit(X[few], y[few])
import time
tracemalloc.start()
start = time.process_time()
JPlay(r, graph=affinity, solver=schedule(solver, max_iter), **model).fit(X, y)
seconds = time.process_time() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(dict(n=n, d=d, r=r, dtype=dtype, solver=solver, processor_s=seconds,
                      peak_gib=after / 2**20,
                      extra_gib=tracemalloc.get_traced_memory()[1] / 2**30,
                      allowed_gib=4 * n * r * 8 / 2**30)))
"""


def schedule(solver, max_iter):
    """A schedule by the name of its solver that ends after some iterations, inner ones too."""
    from jplay import FastSolver, PaperSolver

    if solver == "fast":
        return FastSolver(max_iter=max_iter)
    return PaperSolver(max_iter=max_iter, inner_max_iter=max_iter)


def in_new_process(n, d, r, solver, max_iter, dtype="float64"):
    """Time and memory of a fit with a given graph, of the default or the published model."""
    arguments = n, d, r, solver, max_iter, dtype
    program = MEMORY_PROGRAM.format(benchmarks=str(Path(__file__).parent), arguments=arguments)
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
    )
    return json.loads(output.stdout)


def memory():
    """Peak memory of a fit beyond the samples, against four (n_samples, n_out) arrays."""
    return [in_new_process(200_000, 200, 100, solver, 3) for solver in ("fast", "paper")]


def scaling():
    """Fit time against n at fixed iterations, and a million samples in both precisions."""
    rows = [in_new_process(n, 200, 30, "fast", 20) for n in (10_000, 100_000, 1_000_000)]
    slope = np.polyfit(
        np.log([row["n"] for row in rows]), np.log([row["processor_s"] for row in rows]), 1
    )[0]
    single = in_new_process(1_000_000, 200, 30, "fast", 20, "float32")
    return {"rows": rows, "log_log_slope": float(slope), "single": single}


def transform():
    """``transform`` and ``predict`` of a million rows against the matrix products alone."""
    from jplay import FastSolver, JPlay

    X, Y, _, _ = simulated(1_000_000, 200, 20)
    few = slice(0, 500)
    model = JPlay(20, 1, solver=FastSolver(max_iter=20)).fit(X[few], Y[few].argmax(axis=1))
    maps = np.ascontiguousarray(model.components_.T)
    both = np.ascontiguousarray(model.mean_rule_coef_.T)
    product = best_of(lambda: X @ maps)
    two = best_of(lambda: (X @ maps) @ both)
    return {
        "product_s": product,
        "transform_s": best_of(lambda: model.transform(X)),
        "predict_s": best_of(lambda: model.predict(X)),
        "two_products_s": two,
    }


def face_problem(name):
    from jplay.datasets import fetch_ar, fetch_extended_yale_b, split_per_class

    if name == "AR":
        bunch = fetch_ar()
        train, test, size, last = bunch.train_indices, bunch.test_indices, 300, 210
    else:
        bunch = fetch_extended_yale_b()
        train, test = split_per_class(bunch.target, n_train=10, small=10, random_state=0)
        size, last = 380, 170
    X = normalize(bunch.data.astype(float), norm="max")
    basis = np.linalg.svd(X[train], full_matrices=False)[2][:size].T
    return X[train] @ basis, bunch.target[train], X[test] @ basis, bunch.target[test], 1.0, last


def scene_problem():
    from jplay.datasets import fetch_indian_pines

    bunch = fetch_indian_pines(split="fixed")
    X = normalize(bunch.data.astype(float), norm="max")
    train, test = bunch.train_indices, bunch.test_indices
    return X[train], bunch.target[train], X[test], bunch.target[test], 0.1, 20


def solvers():
    """The fast solver against the published schedule on three data sets at three depths."""
    from jplay import HeatGraph, JPlay

    makers = {
        "Indian Pines": scene_problem,
        "AR": lambda: face_problem("AR"),
        "Extended Yale-B": lambda: face_problem("Extended Yale-B"),
    }
    rows = []
    for data, make in makers.items():
        X, y, X_test, y_test, bandwidth, last = make()
        for depth in (1, 3, 5):
            sizes = [int(s // 5 * 5) for s in np.linspace(X.shape[1], last, depth + 1)[1:]]
            settings = {**PUBLISHED, "n_layers": sizes, "graph": HeatGraph(bandwidth=bandwidth)}
            row = {"data": data, "depth": depth}
            for solver in ("paper", "fast"):
                start = time.perf_counter()
                model = JPlay(solver=solver, **settings).fit(X, y)
                seconds = time.perf_counter() - start
                neighbor = KNeighborsClassifier(1).fit(model.transform(X), y)
                features = model.transform_layers(X)
                row[solver] = {
                    "seconds": seconds,
                    "objective": float(model.objective_history_[-1]),
                    "iterations": model.n_iter_,
                    "nearest_neighbor": neighbor.score(model.transform(X_test), y_test),
                    "projection": model.set_params(decision="projection").score(X_test, y_test),
                    "lowest_feature": float(min(Z.min() for Z in features)),
                    "largest_norm": float(max(np.linalg.norm(Z, axis=1).max() for Z in features)),
                }
            row["fast"] |= time_to_target(row["paper"]["objective"], settings, X, y, X_test, y_test)
            row["paper"]["curve"] = [
                stopped("paper", settings, X, y, X_test, y_test, max_iter) for max_iter in (1, 2)
            ]
            row["speedup_to_target"] = row["paper"]["seconds"] / row["fast"]["target_s"]
            row["speedup_to_end"] = row["paper"]["seconds"] / row["fast"]["seconds"]
            rows.append(row)
            print(json.dumps(row), flush=True)
    ratios = [row["speedup_to_target"] for row in rows]
    ends = [row["speedup_to_end"] for row in rows]
    return {
        "rows": rows,
        "geometric_mean_to_target": float(np.exp(np.mean(np.log(ratios)))),
        "geometric_mean_to_end": float(np.exp(np.mean(np.log(ends)))),
    }


def deep():
    """Five layers on two graphs, with and without the iterations on the first layer alone."""
    from jplay import FastSolver, HeatGraph, JPlay

    at_once = FastSolver(first_layer_iter=0)
    schedules = {"first layer first": FastSolver(), "all layers at once": at_once}
    rows = []
    for data in ("AR", "Extended Yale-B"):
        X, y, X_test, y_test, bandwidth, last = face_problem(data)
        sizes = [int(s // 5 * 5) for s in np.linspace(X.shape[1], last, 6)[1:]]
        for width, (name, solver) in product((bandwidth, "median"), schedules.items()):
            graph = HeatGraph(bandwidth=width)
            model = JPlay(n_layers=sizes, graph=graph, solver=solver, alpha=1.0, **PUBLISHED)
            with threadpool_limits(1, "blas"):
                start = time.process_time()
                model.fit(X, y)
                seconds = time.process_time() - start
            neighbor = KNeighborsClassifier(1).fit(model.transform(X), y)
            rows.append(
                {
                    "data": data,
                    "bandwidth": width,
                    "start": name,
                    "processor_s": seconds,
                    "iterations": model.n_iter_,
                    "objective": float(model.objective_history_[-1]),
                    "nearest_neighbor": neighbor.score(model.transform(X_test), y_test),
                }
            )
    return rows


def stopped(solver, settings, X, y, X_test, y_test, max_iter):
    """Seconds, objective, lowest feature and 1-NN accuracy of a fit stopped early."""
    from jplay import FastSolver, JPlay, PaperSolver

    kind = {"fast": FastSolver, "paper": PaperSolver}[solver]
    start = time.perf_counter()
    model = JPlay(**settings, solver=kind(max_iter=max_iter)).fit(X, y)
    seconds = time.perf_counter() - start
    neighbor = KNeighborsClassifier(1).fit(model.transform(X), y)
    return [
        seconds,
        float(model.objective_history_[-1]),
        float(min(Z.min() for Z in model.transform_layers(X))),
        neighbor.score(model.transform(X_test), y_test),
    ]


def time_to_target(target, settings, X, y, X_test, y_test):
    """Time until the fast solver, stopped and repaired, is feasible at the target objective.

    Tries growing numbers of iterations; the time is that of the whole fit that reached it.
    """
    curve, found = [], {"target_s": float("inf"), "target_iterations": None}
    for max_iter in (5, 7, 10, 14, 20, 28, 40, 56):
        curve.append(stopped("fast", settings, X, y, X_test, y_test, max_iter))
        seconds, objective, lowest, _ = curve[-1]
        if found["target_iterations"] is None and objective <= target and lowest >= -1e-6:
            found = {"target_s": seconds, "target_iterations": max_iter}
    return {**found, "curve": curve}


def sweeps():
    """Seconds of a fit of 20 iterations against each size, the others as in the first row."""
    from jplay import FastSolver, JPlay

    def fit(n=5_000, d=100, r=20, depth=1, threads=1):
        X, Y, affinity, _ = simulated(n, d, r)
        model = JPlay(r, depth, graph=affinity, solver=FastSolver(max_iter=20), **PUBLISHED)
        with threadpool_limits(threads, "blas"):
            return best_of(lambda: model.fit(X, Y.argmax(axis=1)), 2)

    return {
        "n": {n: fit(n=n) for n in (1_000, 5_000, 20_000, 80_000)},
        "d": {d: fit(d=d) for d in (25, 50, 100, 200, 400)},
        "r": {r: fit(r=r) for r in (5, 10, 20, 40, 80)},
        "depth": {depth: fit(depth=depth) for depth in (1, 2, 3, 5, 7)},
        "threads": {threads: fit(n=80_000, threads=threads) for threads in (1, 2)},
    }


def peers():
    """A fit beside other linear reductions of the same data."""
    from sklearn.cross_decomposition import PLSRegression
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    from jplay import JPlay

    X, y = load_digits(return_X_y=True)
    X = normalize(X, norm="max")
    Y = np.eye(10)[y]
    with threadpool_limits(1, "blas"):
        return {
            "JPlay, 1 layer": best_of(lambda: JPlay(20, 1).fit(X, y)),
            "JPlay, 3 layers": best_of(lambda: JPlay(20, 3).fit(X, y)),
            "PCA": best_of(lambda: PCA(20).fit(X)),
            "LDA": best_of(lambda: LinearDiscriminantAnalysis().fit(X, y)),
            "PLS": best_of(lambda: PLSRegression(20).fit(X, Y), 1),
            "NCA": best_of(lambda: NeighborhoodComponentsAnalysis(20, max_iter=50).fit(X, y), 1),
        }


PARTS = {
    "compressed": compressed,
    "small": small,
    "memory": memory,
    "transform": transform,
    "scaling": scaling,
    "sweeps": sweeps,
    "solvers": solvers,
    "deep": deep,
    "peers": peers,
}


def environment():
    described = Path("/proc/cpuinfo")  # of Linux alone
    model = next(
        (
            line.split(":")[1].strip()
            for line in (described.read_text().splitlines() if described.is_file() else [])
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def write_page(record, folder):
    lines = ["# Speed on the CPU", "", "Made by `benchmarks/run.py`. Hardware and versions:", ""]
    lines += [f"- {key}: {value}" for key, value in record["environment"].items()]
    for row in record.get("compressed", []) + record.get("compressed_again", []):
        lines += [
            "",
            f"Layer problem, n = {row['n']}, d = {row['d']}, r = {row['r']}, {row['threads']} "
            f"thread(s): {row['plain_over_compressed']:.1f} times faster than the plain "
            f"transcription, {row['compressed_over_products']:.2f} times its two products.",
        ]
    for row in record.get("small", []) + record.get("small_again", []):
        lines += ["", f"n = 695, {row['threads']} thread(s): {row['ratio']:.2f} times faster."]
    for row in record.get("memory", []):
        model = "default" if row["solver"] == "fast" else "published"
        lines += [
            "",
            f"Memory of a fit, {model} model, n = {row['n']}: {row['extra_gib']:.2f} GiB "
            f"beyond samples and graph, four (n, r) arrays are {row['allowed_gib']:.2f} GiB.",
        ]
    if "transform" in record:
        t = record["transform"]
        lines += [
            "",
            f"A million rows: transform {t['transform_s'] / t['product_s']:.2f} times one product, "
            f"predict {t['predict_s'] / t['two_products_s']:.2f} times its two.",
        ]
    if "scaling" in record:
        s = record["scaling"]
        last = s["rows"][-1]
        lines += [
            "",
            f"Fit time grows as n to the {s['log_log_slope']:.2f}; a million samples with the "
            f"default scaling: {last['processor_s']:.0f} s of processor time, peak "
            f"{last['peak_gib']:.1f} GiB, of which the fit takes {last['extra_gib']:.2f} GiB "
            f"beyond samples and graph "
            f"({s['single']['extra_gib']:.2f} GiB in single precision).",
        ]
    if "solvers" in record:
        lines += [
            "",
            "| data | depth | paper s | fast s to paper's objective | fast s to its end | "
            "objective, fast - paper | 1-NN paper | 1-NN fast |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in record["solvers"]["rows"]:
            paper, fast = row["paper"], row["fast"]
            lines.append(
                f"| {row['data']} | {row['depth']} | {paper['seconds']:.2f} | "
                f"{fast['target_s']:.2f} | {fast['seconds']:.2f} | "
                f"{fast['objective'] - paper['objective']:+.1f} | "
                f"{100 * paper['nearest_neighbor']:.2f} | {100 * fast['nearest_neighbor']:.2f} |"
            )
        lines += [
            "",
            f"Geometric means: {record['solvers']['geometric_mean_to_target']:.1f} times less time "
            f"to the published schedule's objective, "
            f"{record['solvers']['geometric_mean_to_end']:.1f} times less until it ends by itself.",
        ]
    if "deep" in record:
        lines += [
            "",
            "| five layers | kernel width | start | processor s | iterations | objective | 1-NN |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {row['data']} | {row['bandwidth']} | {row['start']} | {row['processor_s']:.1f} | "
            f"{row['iterations']} | {row['objective']:.1f} | {100 * row['nearest_neighbor']:.2f} |"
            for row in record["deep"]
        ]
    if "sweeps" in record:
        lines += [
            "",
            "Seconds of a fit of 20 iterations (n = 5000, d = 100, r = 20, one layer unless said):",
        ]
        for name, values in record["sweeps"].items():
            row = ", ".join(f"{key}: {value:.3f}" for key, value in values.items())
            lines += ["", f"- against {name}: {row}"]
    if "peers" in record:
        lines += ["", "| method on digits (1797 x 64) | s |", "|---|---|"]
        lines += [f"| {name} | {value:.3f} |" for name, value in record["peers"].items()]
    (folder / "cpu.md").write_text("\n".join(lines) + "\n")


def plot(record, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = record.get("solvers", {}).get("rows", [])
    if not rows:
        return
    figure, axes = plt.subplots(3, 6, figsize=(20, 9), layout="constrained")
    for (i, row), pair in zip(enumerate(rows), axes.reshape(9, 2), strict=False):
        for column, (ax, name) in enumerate(zip(pair, ("objective", "1-NN accuracy"), strict=True)):
            for solver, marker in (("fast", "o-"), ("paper", "x--")):
                end = row[solver]
                points = [[p[0], p[1], p[3]] for p in end["curve"]]
                points.append([end["seconds"], end["objective"], end["nearest_neighbor"]])
                points = np.array(sorted(points))
                shift = row["paper"]["objective"] if column == 0 else 0.0
                ax.plot(points[:, 0], points[:, 1 + column] - shift, marker, label=solver)
            ax.set(xscale="log", title=f"{row['data']}, depth {row['depth']}: {name}")
            if column == 0:
                ax.set_yscale("symlog")
            if i == 0:
                ax.legend(frameon=False)
    for ax in axes[-1]:
        ax.set_xlabel("seconds")
    figure.savefig(folder / "cpu_solvers.png", dpi=70)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS))
    parser.add_argument("--output-dir", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.output_dir.mkdir(exist_ok=True)
    path = options.output_dir / "cpu.json"
    record = json.loads(path.read_text()) if options.only and path.exists() else {}
    record["environment"] = environment()
    for name in options.only or PARTS:
        try:
            record[name] = PARTS[name]()
        except FileNotFoundError as error:
            print(name, "left out:", error)
            continue
        print(name, json.dumps(record[name], default=str)[:2000], flush=True)
        path.write_text(json.dumps(record, indent=1))
    write_page(record, options.output_dir)
    plot(record, options.output_dir)


if __name__ == "__main__":
    main()
