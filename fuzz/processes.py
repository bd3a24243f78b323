"""Commands that write, killed at any moment, without space or rights, or two at once."""

import ctypes
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from fuzz.files import _folder, _images, _run, _tables
from fuzz.judging import check

CAPABILITY_VERSION = 0x20080522  # the third, see capget(2)
CAP_DAC_OVERRIDE = 1 << 1
PATIENCE = 120.0


@cache
def _inputs():
    """Files that the commands read, all in one folder."""
    from sklearn.datasets import load_iris

    from jplay import JPlay
    from jplay.persistence import save_model
    from jplay.raster import fit_scene

    folder = _folder() / "inputs"
    folder.mkdir()
    (folder / "iris.csv").write_bytes(_tables()[".csv"])
    X, y = load_iris(return_X_y=True)
    import pandas

    frame = pandas.DataFrame(X, columns=list("abcd"))
    save_model(JPlay(2).fit(frame, y), folder / "iris.skops")
    for name, content in _images()[0].items():
        (folder / name).write_bytes(content)
    labels = np.arange(120).reshape(10, 12) % 3
    save_model(fit_scene(folder / "s.tif", labels, JPlay(2)), folder / "scene.skops")
    run = folder / "run"
    run.mkdir()
    for name, content in _run().items():
        (run / name).write_bytes(content)
    (folder / "own.toml").write_text(
        'name = "own"\ntitle = "Own"\ndataset = {loader = "wine"}\n'
        'methods = [{name = "LDA", kind = "lda"}, {name = "PCA", kind = "pca", '
        'params = {n_components = 3}}]\nclassifiers = [{name = "NN", kind = "nn"}]\n'
        'split = {kind = "per-class", n_train = 8, n_splits = 2}\n'
    )
    return folder


def _commands():
    """Arguments of every command, and what it writes into the output folder."""
    at = _inputs()
    quick = ["--grid", "alpha=1,10", "--cv", "2"]
    few = [
        "--splits",
        "2",
        "--max-layers",
        "1",
        "--only",
        "PCA",
        "--only",
        "LDA",
        "--classifier",
        "NN",
        "--no-figures",
    ]
    return {
        "fit": (["fit", at / "iris.csv", "--target", "species", "-o", "OUT/m.skops"], "m.skops"),
        "tune": (
            ["tune", at / "iris.csv", "--target", "species", "-o", "OUT/m.skops", *quick],
            "m.skops",
        ),
        "predict": (["predict", at / "iris.skops", at / "iris.csv", "-o", "OUT/p.csv"], "p.csv"),
        "map": (
            ["map", at / "s.tif", "--model", at / "scene.skops", "-o", "OUT/map.tif"],
            "map.tif",
        ),
        "report": (["report", at / "run", "-o", "OUT/report.html"], "report.html"),
        "study": (
            ["study", at / "iris.csv", "--n-train", "4", *few, "--resume", "-o", "OUT"],
            "iris/table.csv",
        ),
        "reproduce": (
            ["reproduce", at / "own.toml", "--no-figures", "--resume", "-o", "OUT"],
            "own/table.csv",
        ),
    }


def _said(log):
    """What a command said; a full disk may have cut it short."""
    return log.read_text(encoding="utf-8", errors="replace")


def _arguments(name, out):
    arguments, written = _commands()[name]
    arguments = [str(a).replace("OUT", str(out)) for a in arguments]
    if _has_force(arguments[0]):
        arguments.append("--force")
    return arguments, out / written


@cache
def _has_force(command):
    import typer

    from jplay.cli._app import app

    found = typer.main.get_command(app).commands[command]
    return any("--force" in option.opts for option in found.params)


def _started(arguments, log, limits=None):
    """Start a command in a child of this process, which has imported everything already."""
    from jplay.cli._app import app

    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.setsid()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        if limits is not None:
            limits()
        app(arguments, prog_name="jplay")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _ended(child, patience=PATIENCE):
    """Exit status of a child; one that hangs is killed and is a defect."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    check(False, "the command hangs")
    return None


@contextmanager
def _output():
    with tempfile.TemporaryDirectory(dir=_folder(), prefix="out-") as folder:
        yield Path(folder)


@cache
def _reference(name):
    """Seconds that a command takes undisturbed, and what it then has written."""
    with _output() as out:
        arguments, written = _arguments(name, out)
        started = time.monotonic()
        log = out / "log"
        status = _ended(_started(arguments, log))
        check(status == 0, f"{name} ended with {status}: {log.read_text(errors='replace')[-300:]}")
        return time.monotonic() - started, _essence(written)


def _essence(path):
    """What must be the same whenever a file is complete."""
    if path.suffix == ".skops":
        from jplay.persistence import load_model

        X = np.loadtxt(_inputs() / "iris.csv", delimiter=",", skiprows=1)[:, :4]
        model = load_model(path)
        if hasattr(model.estimator, "feature_names_in_"):
            import pandas

            X = pandas.DataFrame(X, columns=list("abcd"))
        return model.predict(X).tolist()
    if path.name == "table.csv":
        from jplay.experiments._journal import Journal

        counts = Journal(path.parent / "records.jsonl").times_done()
        check(set(counts.values()) == {1}, "a cell was computed twice")
        rows = [line.split(",")[:7] for line in path.read_text().splitlines()]
        return len(counts), rows
    if path.suffix == ".html":
        return path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    return path.read_bytes()


def _check_complete(name, path, old):
    """A file that is there is the old one or a complete new one."""
    if not path.exists():
        check(old is None, f"{name}: the old file is gone")
        return
    if old is not None and path.read_bytes() == old:
        return
    try:
        found = _essence(path)
    except Exception as error:
        check(False, f"{name} left a file that cannot be read: {error}")
    check(found == _reference(name)[1], f"{name} left another result")


def _leftovers(out):
    return [p.name for p in out.rglob("*") if "unfinished" in p.name or p.name.endswith(".tmp")]


def _completed(name, out, log):
    """Run a command to its end and check that nothing else is left."""
    arguments, written = _arguments(name, out)
    status = _ended(_started(arguments, log))
    check(
        status == 0,
        f"{name} after that ended with {status}: {log.read_text(errors='replace')[-300:]}",
    )
    check(_essence(written) == _reference(name)[1], f"{name} after that gives another result")
    check(not _leftovers(out), f"{name} left {_leftovers(out)}")


def _pick(rng):
    names = sorted(_commands())
    return names[rng.integers(len(names))]


def _with_old(rng, written):
    """Perhaps a file of an earlier run, and its content."""
    if rng.random() < 0.5 or written.name == "table.csv":
        return None
    written.write_bytes(b"an earlier file")
    return b"an earlier file"


def attack_kill(rng: np.random.Generator) -> str:
    """Kill a command at a random moment, then run it again."""
    name = _pick(rng)
    seconds, _ = _reference(name)
    with _output() as out, _output() as logs:
        arguments, written = _arguments(name, out)
        old = _with_old(rng, written)
        child = _started(arguments, logs / "log")
        time.sleep(rng.uniform(0, 1.1 * seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if written.name != "table.csv" or written.exists():
            _check_complete(name, written, old)
        _completed(name, out, logs / "log")
    return f"kill {name}"


def attack_full_disk(rng: np.random.Generator) -> str:
    """Let a command write only so many bytes to a file."""
    name = _pick(rng)
    allowed = int(10 ** rng.uniform(0, 4.5))

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, allowed))

    with _output() as out, _output() as logs:
        arguments, written = _arguments(name, out)
        old = _with_old(rng, written)
        status = _ended(_started(arguments, logs / "log", limited))
        said = _said(logs / "log")
        check(status in (0, 2) or allowed < 2000, f"{name} without space: {status}, {said[-300:]}")
        check("Traceback" not in said or allowed < 2000, f"{name} without space: {said[-300:]}")
        if written.name != "table.csv":
            _check_complete(name, written, old)
            check(not _leftovers(out), f"{name} without space left {_leftovers(out)}")
            _completed(name, out, logs / "log")
    return f"full disk, {name}"


def _without_override():
    """Give up root's capability to write where permissions forbid it; an ordinary user has none.

    Another user id would do too, but could not read what it runs if that is under ``/root``.
    """
    if os.geteuid() != 0:
        return
    check(sys.platform == "linux", "root may write anywhere here; run this as an ordinary user")
    library = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, then their upper halves
    check(library.capget(header, sets) == 0, "the capabilities cannot be read")
    for place in range(3):
        sets[place] &= ~CAP_DAC_OVERRIDE
    check(library.capset(header, sets) == 0, "the capability cannot be given up")


def attack_read_only(rng: np.random.Generator) -> str:
    """Run a command whose output folder may not be written."""
    name = _pick(rng)
    with _output() as out, _output() as logs:
        arguments, written = _arguments(name, out)
        old = _with_old(rng, written)
        os.chmod(out, 0o555)
        status = _ended(_started(arguments, logs / "log", _without_override))
        os.chmod(out, 0o755)
        said = _said(logs / "log")
        check(status == 2 and "Traceback" not in said, f"{name}: {status}, {said[-300:]}")
        if old is not None:
            check(written.read_bytes() == old, f"{name} changed a file it may not write")
    return f"read-only, {name}"


def attack_twice(rng: np.random.Generator) -> str:
    """Run a command twice at the same time with the same output."""
    name = _pick(rng)
    with _output() as out, _output() as logs:
        arguments, written = _arguments(name, out)
        children = [_started(arguments, logs / f"log{i}") for i in range(2)]
        statuses = [_ended(child) for child in children]
        said = [_said(logs / f"log{i}") for i in range(2)]
        check(0 in statuses, f"{name} at once: {statuses}, {said[0][-200:]} {said[1][-200:]}")
        for status, text in zip(statuses, said, strict=True):
            check(status in (0, 2) and "Traceback" not in text, f"{name} at once: {text[-300:]}")
        check(_essence(written) == _reference(name)[1], f"{name} at once gives another result")
        check(not _leftovers(out), f"{name} at once left {_leftovers(out)}")
    return f"twice, {name}"


def clean_up() -> None:
    """Remove all files of this process's cases."""
    if _folder.cache_info().currsize:
        shutil.rmtree(_folder(), ignore_errors=True)
