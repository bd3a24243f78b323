"""``jplay info``: what is installed, how many threads there are, and which data sets are found."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from jplay import __version__
from jplay._optional import install_command
from jplay.cli._output import JsonFlag, print_json, results_console

REQUIRED_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
    "array-api-compat",
)
OPTIONAL_PACKAGES = {
    "cli": ("typer", "rich"),
    "plot": ("matplotlib",),
    "report": ("jinja2",),
    "data": ("tensorly", "pooch", "requests", "h5py", "tifffile"),
    "table": ("openpyxl", "pandas", "pyarrow"),
    "persist": ("skops",),
    "onnx": ("onnx", "onnxruntime"),
    "raster": (
        "rasterio",
        "rioxarray",
        "xarray",
        "spectral",
        "geopandas",
        "h5netcdf",
        "h5py",
        "zarr",
    ),
    "other": ("torch", "cupy", "dask"),
}


def info(json: JsonFlag = False):
    """Show versions, optional packages, threads and the data sets that are found.

    For example:

      jplay info

      jplay info --json
    """
    facts = collect_facts()
    if json:
        print_json(facts)
    else:
        _print_facts(facts)


def collect_facts():
    """Return everything the command shows as plain values."""
    return {
        "jplay": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in REQUIRED_PACKAGES},
        "optional_packages": {
            name: {"version": _version(name), "extra": None if extra == "other" else extra}
            for extra, names in OPTIONAL_PACKAGES.items()
            for name in names
        },
        "threads": _threads(),
        "data": _data(),
    }


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        # Some packages are distributed under other names, as cupy is under cupy-cuda12x.
        distributions = _distributions().get(package)
        return version(distributions[0]) if distributions else None


@cache
def _distributions():
    return packages_distributions()


def _threads():
    import scipy.linalg  # noqa: F401  loads the libraries that are asked below
    from threadpoolctl import threadpool_info

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpus": usable,
        "libraries": [
            {
                "name": pool["internal_api"],
                "version": pool["version"],
                "threads": pool["num_threads"],
            }
            for pool in threadpool_info()
        ],
    }


def _data():
    from jplay.datasets import get_data_home
    from jplay.exceptions import MissingDependencyError

    try:
        home = get_data_home()
    except MissingDependencyError as error:
        return {"folder": None, "remark": str(error), "sets": _places(in_folder=False)}
    return {"folder": str(home), "exists": home.is_dir(), "sets": _places(in_folder=True)}


def _places(*, in_folder):
    """Say for every data set with which package it comes, or how many of its files are found."""
    from jplay.datasets import DATASETS

    found = {}
    for entry in DATASETS.values():
        places = []
        if entry.is_packaged:
            places.append(f"with {'scikit-learn' if entry.package == 'sklearn' else entry.package}")
        files = entry.found_files() if in_folder else None
        if files:
            number = "1 file" if len(files) == 1 else f"{len(files)} files"
            places.append(f"{number} in {files[0].parent}")
        found[entry.name] = ", ".join(places) or None
    return found


def _print_facts(facts):
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("jplay", facts["jplay"])
    table.add_row("Python", f"{facts['python']} on {facts['platform']}")
    for name, installed in facts["packages"].items():
        table.add_row(name, installed or "missing")
    table.add_section()
    for name, package in facts["optional_packages"].items():
        hint = install_command(package["extra"]) if package["extra"] else "optional"
        table.add_row(name, package["version"] or f"[dim]not installed ({hint})[/dim]")
    table.add_section()
    pools = ", ".join(
        f"{pool['name']} {pool['version'] or ''} with {pool['threads']}"
        for pool in facts["threads"]["libraries"]
    )
    table.add_row("Threads", f"{facts['threads']['cpus']} processors; {pools or 'no pools'}")
    data = facts["data"]
    if data["folder"] is None:
        table.add_row("Data folder", data["remark"])
    else:
        table.add_row("Data folder", data["folder"] + ("" if data["exists"] else " (not there)"))
    for name, place in data["sets"].items():
        table.add_row(f"  {name}", place or "[dim]not found[/dim]")
    results_console().print(table)
