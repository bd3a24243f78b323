"""Speed on a CUDA device, as ratios within one run.

Run where ``torch.cuda.is_available()``::

    SCIPY_ARRAY_API=1 python benchmarks/gpu.py --output benchmarks/results/gpu.json

``--pixels FILE`` names an NPZ with ``X`` (695, 200) and ``y``: the fixed Indian Pines training
pixels, each divided by its maximum (``python benchmarks/gpu.py --write-pixels FILE`` makes it).
"""

import argparse
import json
import os
import time

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import sklearn


def write_pixels(path):
    from sklearn.preprocessing import normalize

    from jplay.datasets import fetch_indian_pines

    scene = fetch_indian_pines(split="fixed")
    X, y = scene.data[scene.train_indices], scene.target[scene.train_indices]
    np.savez(path, X=normalize(X.astype(float), norm="max"), y=y)


def timed(function, torch, repeats=5):
    """Median seconds of ``function``, the device idle before and after."""
    function()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def pass_against_products(torch, n=1_000_000, d=200, r=100):
    """One iteration's pass over the samples against its two matrix products alone."""
    from jplay.core.samples import Block, ConstraintSplit, Samples

    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.rand((n, d), dtype=torch.float64, device="cuda", generator=generator)
    theta = torch.rand((r, d), dtype=torch.float64, device="cuda", generator=generator) / d
    w = torch.rand((n, r), dtype=torch.float64, device="cuda", generator=generator)
    products = timed(lambda: (X @ theta.mT, w.mT @ X), torch)
    split = ConstraintSplit(Samples([Block(X, X[:, :0], None)]), True, True, relaxation=1.7)
    dual_scale = torch.full((1, 1), 0.95, dtype=torch.float64, device="cuda")
    seconds = timed(lambda: split.update([theta], dual_scale), torch)
    sizes = {"n": n, "d": d, "r": r}
    return sizes | {
        "products_s": products,
        "pass_s": seconds,
        "pass_over_products": seconds / products,
    }


def simulated_pixels(torch, n, d=200, n_classes=16, seed=0, device="cuda"):
    """Mixtures of smooth spectra with noise, scaled by their maximum."""
    generator = torch.Generator(device).manual_seed(seed)
    grid = torch.linspace(0, 1, d, dtype=torch.float64, device=device)
    centers = torch.rand((n_classes, 6, 1), dtype=torch.float64, device=device, generator=generator)
    heights = torch.rand((n_classes, 6, 1), dtype=torch.float64, device=device, generator=generator)
    spectra = 0.2 + (heights * torch.exp(-(((grid - centers) / 0.12) ** 2))).sum(1)
    y = torch.randint(n_classes, (n,), device=device, generator=generator)
    other = torch.randint(n_classes, (n,), device=device, generator=generator)
    mix = 0.3 * torch.rand((n, 1), dtype=torch.float64, device=device, generator=generator)
    X = (1 - mix) * spectra[y] + mix * spectra[other]
    X += 0.03 * torch.randn((n, d), dtype=torch.float64, device=device, generator=generator)
    X = X.clamp(min=1e-3)
    return X / X.max(1, keepdim=True).values, y


def million_pixels(torch, n=1_000_000):
    """A three-layer fit of a million pixels: the graph and the rest apart."""
    from jplay import JPlay
    from jplay.core.graph import heat_graph

    X, y = simulated_pixels(torch, n)
    torch.cuda.synchronize()
    start = time.perf_counter()
    graph, bandwidth = heat_graph(X.float(), 10)
    torch.cuda.synchronize()
    graph_s = time.perf_counter() - start
    start = time.perf_counter()
    with sklearn.config_context(array_api_dispatch=True):
        model = JPlay(20, 3, graph=lambda X: graph).fit(X, y)
        torch.cuda.synchronize()
        fit_s = time.perf_counter() - start
        score = float((model.predict(X[:100_000]) == y[:100_000]).double().mean())
    return {
        "n": n,
        "layer_sizes": model.layer_sizes_,
        "graph_s": graph_s,
        "fit_s": fit_s,
        "total_s": graph_s + fit_s,
        "iterations": model.n_iter_,
        "training_accuracy": score,
        "bandwidth": bandwidth,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }


def agreement(torch, X, y):
    """The same fit on the CPU and on the device."""
    from jplay import HeatGraph, JPlay

    report = {}
    for layers in ([20], [140, 80, 20], [160, 125, 90, 55, 20]):
        start = time.perf_counter()
        host = JPlay(n_layers=layers, graph=HeatGraph(bandwidth=0.1)).fit(X, y)
        host_s = time.perf_counter() - start
        expected = host.transform(X)
        device_X, device_y = torch.asarray(X, device="cuda"), torch.asarray(y, device="cuda")
        with sklearn.config_context(array_api_dispatch=True):
            JPlay(n_layers=layers, graph=HeatGraph(bandwidth=0.1)).fit(device_X, device_y)
            start = time.perf_counter()
            model = JPlay(n_layers=layers, graph=HeatGraph(bandwidth=0.1)).fit(device_X, device_y)
            device_s = time.perf_counter() - start
            Z = model.transform(device_X).cpu().numpy()
        report["-".join(map(str, layers))] = {
            "largest_difference": float(np.abs(Z - expected).max() / np.abs(expected).max()),
            "host_s": host_s,
            "device_s": device_s,
            "iterations": [host.n_iter_, model.n_iter_],
        }
    return report


def cupy_agreement(X, y):
    import cupy

    from jplay import LFDA, LPP, AutoRULe, HeatGraph, JPlay

    report = {}
    for name, make in {
        "JPlay": lambda: JPlay(n_layers=[60, 20], graph=HeatGraph(bandwidth=0.1)),
        "AutoRULe": lambda: AutoRULe(20, graph=HeatGraph(bandwidth=0.1)),
        "LPP": lambda: LPP(10, graph=HeatGraph(bandwidth=0.1)),
        "LFDA": lambda: LFDA(10),
    }.items():
        expected = make().fit(X, y).transform(X)
        with sklearn.config_context(array_api_dispatch=True):
            model = make().fit(cupy.asarray(X), cupy.asarray(y))
            Z = cupy.asnumpy(model.transform(cupy.asarray(X)))
        report[name] = float(np.abs(Z - expected).max())
    return report


def batched_eigh(torch, batch=1250):
    """Stacks of symmetric eigenproblems of a layer's size: as J-Play solves them, by PyTorch."""
    from jplay._array_api import eigh

    report = {}
    for size in (20, 55, 90, 125, 160):
        A = torch.rand((batch, size, size), dtype=torch.float64, device="cuda")
        A = A @ A.mT
        report[size] = {
            "seconds": timed(lambda A=A: eigh(A), torch, repeats=1),
            "torch_s": timed(lambda A=A: torch.linalg.eigh(A), torch, repeats=1),
        }
    return report


def committee(torch, X, y, n=2_000_000):
    """A committee with defaults: fits on host and device, predictions of pixels."""
    from jplay import JPlayCommittee

    def fitted(n_jobs):
        start = time.perf_counter()
        model = JPlayCommittee(n_jobs=n_jobs, random_state=0).fit(X, y)
        return model, time.perf_counter() - start

    report = {"first_fit_by_processes_s": fitted(-1)[1], "fit_by_processes_s": fitted(-1)[1]}
    model, report["fit_by_threads_s"] = fitted(None)
    rows = np.random.default_rng(0).integers(len(X), size=n)
    pixels = torch.asarray(X[rows], dtype=torch.float32, device="cuda")
    device_X, device_y = (torch.asarray(part, device="cuda") for part in (X, y))
    with sklearn.config_context(array_api_dispatch=True):
        torch.cuda.reset_peak_memory_stats()
        for name in ("first_fit_on_device_s", "fit_on_device_s"):
            start = time.perf_counter()
            on_device = JPlayCommittee(random_state=0).fit(device_X, device_y)
            report[name] = time.perf_counter() - start
        report["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        # Labels are where the targets of the fit were: on the device, and on the host.
        found = on_device.predict(pixels[:50_000]).cpu().numpy()
        both = found == model.predict(pixels[:50_000])
        report["labels_as_fitted_on_host"] = float(both.mean())
        report["labels_per_s"] = n / timed(lambda: model.predict(pixels), torch, repeats=2)
        report["probabilities_per_s"] = n / timed(
            lambda: model.predict_proba(pixels), torch, repeats=2
        )
        found = model.predict(pixels[:50_000])
    same = model.predict(X[rows[:50_000]]) == found
    return report | {"labels_as_on_host": float(same.mean())}


def paper_grid(torch, X, y, layer_sizes, n_jobs=None):
    """125 settings of alpha, beta and gamma, ten folds: on the device, or on the host."""
    from sklearn.model_selection import StratifiedKFold

    from jplay import HeatGraph, JPlay, JPlaySearchCV

    values = [1e-2, 1e-1, 1.0, 1e1, 1e2]
    search = JPlaySearchCV(
        {"alpha": values, "beta": values, "gamma": values},
        estimator=JPlay(n_layers=layer_sizes, graph=HeatGraph(bandwidth=0.1)),
        cv=StratifiedKFold(10, shuffle=True, random_state=0),
        device="cuda" if n_jobs is None else None,
        n_jobs=n_jobs,
        refit=False,
    )
    start = time.perf_counter()
    search.fit(X, y)
    return {
        "layer_sizes": layer_sizes,
        "where": "cuda" if n_jobs is None else f"host, {n_jobs} jobs",
        "seconds": time.perf_counter() - start,
        "best_score": float(search.best_score_),
        "best_params": search.best_params_,
        "mean_scores": search.cv_results_["mean_test_score"].tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output")
    parser.add_argument("--pixels")
    parser.add_argument("--write-pixels")
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    if options.write_pixels:
        write_pixels(options.write_pixels)
        return
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA device.")
    record = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "cpus": len(os.sched_getaffinity(0)),
    }
    parts = {
        "pass": lambda: pass_against_products(torch),
        "million": lambda: million_pixels(torch),
        "eigh": lambda: batched_eigh(torch),
    }
    if options.pixels:
        data = np.load(options.pixels)
        X, y = data["X"], data["y"].astype(np.int64)
        deep = [160, 125, 90, 55, 20]
        parts |= {
            "agreement": lambda: agreement(torch, X, y),
            "cupy": lambda: cupy_agreement(X, y),
            "committee": lambda: committee(torch, X, y),
            "grid1": lambda: paper_grid(torch, X, y, [20]),
            "grid3": lambda: paper_grid(torch, X, y, [140, 80, 20]),
            "grid5": lambda: paper_grid(torch, X, y, deep),
            "grid1-host": lambda: paper_grid(torch, X, y, [20], n_jobs=record["cpus"]),
            "grid5-host": lambda: paper_grid(torch, X, y, deep, n_jobs=record["cpus"]),
        }
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        start = time.perf_counter()
        try:
            record[name] = part()
        except Exception as error:  # one part that fails must not lose the others
            import traceback

            traceback.print_exc()
            record[name] = {"error": repr(error)}
        short = {k: v for k, v in record[name].items() if k != "mean_scores"}
        print(name, f"{time.perf_counter() - start:.1f} s", json.dumps(short), flush=True)
        if options.output:
            with open(options.output, "w") as file:
                json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
