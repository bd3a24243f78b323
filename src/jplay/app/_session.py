"""One person's work on one scene or table: labels on disk as they are drawn, fits, results."""

import json
import re
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from jplay._files import atomic_path
from jplay.app import _export, _tasks
from jplay.app._files import check_source, kind_of, unpacked
from jplay.app._jobs import Job
from jplay.app._labels import (
    FEW_PIXELS,
    MAX_CLASSES,
    MAX_SHAPES,
    checked_class,
    checked_shape,
    read_pixels,
    read_shapes,
)
from jplay.app._pictures import SceneOnScreen
from jplay.app._table import TableOnScreen
from jplay.datasets import draw_per_class
from jplay.exceptions import CorruptFileError
from jplay.persistence import ModelMetadata

FORMAT = 1
FILE_NAME = "session.json"
PINES_NAME = "indian_pines.tif"
MAX_LIVE = 64
_SESSION = re.compile(r"[0-9a-f]{32}")
_N_POINTS = 1500
DEFAULT_SETTINGS = {"model": "jplay", "auto": True, "max_per_class": 200, "min_confidence": 0.0}


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model, its training samples and what the page shows of it."""

    number: int
    model: str
    seconds: float
    trained: Any
    view: Any
    relevance: Any
    X: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    columns: np.ndarray | None = None

    def classify(self, X):
        """Labels of samples and the probability of each."""
        X = np.asarray(X, dtype=np.float64 if X.dtype == np.float64 else np.float32)
        probabilities = self.trained.estimator.predict_proba(X)
        places = probabilities.argmax(axis=1)
        return self.trained.classes[places], probabilities[np.arange(len(X)), places]

    def facts(self):
        """Plain values for the page."""
        metadata = self.trained.metadata
        return {
            "number": self.number,
            "model": self.model,
            "model_name": _tasks.MODELS[self.model],
            "seconds": round(self.seconds, 2),
            "classes": self.trained.classes.tolist(),
            "class_names": metadata.class_names,
            "n_samples": len(self.y),
            "layers": self.view.names,
        }

    def looks(self):
        """Class means, what classes rely on, and the training samples in every subspace."""
        classes = self.trained.classes
        shown = np.linspace(0, len(self.y) - 1, min(_N_POINTS, len(self.y))).astype(int)
        X = np.asarray(self.X)
        planes = self.view.planes(self.X.iloc[shown] if hasattr(self.X, "iloc") else X[shown])
        return {
            "means": [_short(X[self.y == one].mean(axis=0)) for one in classes],
            "relevance": None if self.relevance is None else [_short(r) for r in self.relevance],
            "planes": [_short(plane) for plane in planes],
            "labels": np.searchsorted(classes, self.y[shown]).tolist(),
            "features": self.trained.metadata.feature_names,
            "rows": self.rows[shown].tolist(),
            "columns": None if self.columns is None else self.columns[shown].tolist(),
        }


def _short(values):
    """Numbers with the five digits that a screen can show."""
    return (
        [[float(f"{x:.5g}") for x in row] for row in values]
        if np.ndim(values) == 2
        else [float(f"{x:.5g}") for x in values]
    )


class Session:
    """State of one tab; every public method may be called from any thread.

    Parameters
    ----------
    home : Home
    identifier : str
    document : dict
        As :meth:`_saved` writes it.
    """

    def __init__(self, home, identifier, document):
        self.home, self.identifier, self.document = home, identifier, document
        self.folder = home.settings.workspace / identifier
        self.scene = self.table = self.fit = self.accuracy = self.estimates = None
        self.jobs = {}
        self.revision = 0
        self.lock = threading.RLock()
        self._pixels = {}

    # -- opening

    def open(self, request):
        """Open a scene or table: ``example``, ``path`` or ``upload``, perhaps ``variable``."""
        if request.get("example"):
            path, title = self.home.pines(), "Indian Pines"
        elif request.get("upload"):
            path = self._uploaded(str(request["upload"]))
            title = path.name
        else:
            path = self.home.settings.find(str(request.get("path") or ""))
            title = path.name
        variable = request.get("variable") or None
        with self.lock:
            self._show(path, variable)
            self.document |= {
                "source": str(path),
                "variable": variable,
                "title": title,
                "kind": "table" if self.table is not None else "scene",
            }
            if self.table is not None:
                self.document["roles"] = self.table.guess()
            self._saved()
        return self.state()

    def reopen(self):
        """Open again what the session had open when it was saved."""
        with self.lock:
            if self.scene is None and self.table is None and self.document.get("source"):
                path = Path(self.document["source"])
                own = path.is_relative_to(self.folder) or path == self.home.settings.workspace / (
                    PINES_NAME
                )
                path = path.resolve(strict=True) if own else self.home.settings.find(str(path))
                self._show(path, self.document.get("variable"))
                if self.document["kind"] == "scene" and self.document["settings"]["auto"]:
                    self._refit()

    def _show(self, path, variable):
        check_source(path)
        self.close()
        if kind_of(path) == "table":
            self.table = TableOnScreen(path)
            return
        try:
            self.scene = SceneOnScreen(path, variable)
        except CorruptFileError:
            if path.suffix.lower() != ".mat":
                raise
            self.table = TableOnScreen(path)  # MATLAB files hold either

    def _uploaded(self, name):
        folder = self.folder / "uploads"
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.exists():
            raise ValueError(f"'{name}' was not uploaded.")
        if path.suffix.lower() == ".zip":
            return unpacked(path, folder, self.home.settings.max_upload)
        return path

    def close(self):
        """Forget what is open; the file on disk stays."""
        for job in self.jobs.values():
            job.cancel()
        if self.scene is not None:
            self.scene.close()
        self.scene = self.table = self.fit = self.accuracy = self.estimates = None
        self._pixels = {}

    def _saved(self):
        """Write the document; it is complete on the disk when this returns."""
        self.revision += 1
        self.document["changed"] = time.time()
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(self.folder / FILE_NAME) as temporary:
            temporary.write_text(json.dumps(self.document), encoding="utf-8")

    # -- what the page shows

    def state(self):
        """Everything the page needs, as plain values."""
        with self.lock:
            document = self.document
            found = {
                "id": self.identifier,
                "revision": self.revision,
                "kind": document.get("kind"),
                "title": document.get("title"),
                "source": document.get("source"),
                "settings": document["settings"],
                "models": _tasks.MODELS,
                "fit": None if self.fit is None else self.fit.facts(),
                "accuracy": self.accuracy,
                "jobs": {kind: job.facts() for kind, job in self.jobs.items()},
            }
            if self.scene is not None:
                found |= {
                    "scene": self.scene.facts(),
                    "classes": document["classes"],
                    "shapes": document["shapes"],
                    "has_example": self._is_pines(),
                    **self._counts(),
                }
            if self.table is not None:
                found |= {"table": self.table.facts(), "roles": document["roles"]}
            return found

    def progress(self):
        """What changes while work is under way."""
        with self.lock:
            return {
                "revision": self.revision,
                "fit": None if self.fit is None else self.fit.number,
                "jobs": {kind: job.facts() for kind, job in self.jobs.items()},
            }

    def _is_pines(self):
        return Path(self.document["source"]).name == PINES_NAME

    # -- labels

    def add_class(self, values):
        """Add a class and return it."""
        with self._labels() as labels:
            if len(labels["classes"]) >= MAX_CLASSES:
                raise ValueError(f"There are at most {MAX_CLASSES} classes.")
            number = max((one["id"] for one in labels["classes"]), default=0) + 1
            if number > MAX_CLASSES:
                number = min(
                    set(range(1, MAX_CLASSES + 1)) - {one["id"] for one in labels["classes"]}
                )
            labels["classes"].append(self._unlike_others(checked_class(values, number)))
        return self.state()

    def change_class(self, number, values):
        """Rename or recolour a class."""
        with self._labels() as labels:
            place = self._class_place(number)
            merged = labels["classes"][place] | values
            labels["classes"][place] = self._unlike_others(checked_class(merged, number))
        return self.state()

    def delete_class(self, number):
        """Delete a class and its shapes."""
        with self._labels() as labels:
            del labels["classes"][self._class_place(number)]
            n_before = len(labels["shapes"])
            labels["shapes"] = [one for one in labels["shapes"] if one["class"] != number]
            if len(labels["shapes"]) < n_before:
                self._refit_if_wanted()
        return self.state()

    def _unlike_others(self, one):
        """Return a class, or refuse it if another one has its name."""
        for other in self.document["classes"]:
            if other["name"] == one["name"] and other["id"] != one["id"]:
                raise ValueError(f"There is a class named {one['name']!r} already.")
        return one

    def _class_place(self, number):
        for place, one in enumerate(self.document["classes"]):
            if one["id"] == number:
                return place
        raise ValueError("There is no such class any more.")

    def put_shape(self, identifier, values):
        """Add a shape, or replace the one of this name."""
        with self._labels() as labels:
            size = self.scene.height, self.scene.width
            shape = checked_shape(identifier, values, labels["classes"], *size)
            places = [n for n, one in enumerate(labels["shapes"]) if one["id"] == identifier]
            if places:
                labels["shapes"][places[0]] = shape
            elif len(labels["shapes"]) >= MAX_SHAPES:
                raise ValueError(f"There are at most {MAX_SHAPES} shapes.")
            else:
                labels["shapes"].append(shape)
            self._refit_if_wanted()
        return self.state()

    def delete_shape(self, identifier):
        """Delete a shape; nothing happens if it is gone already."""
        with self._labels() as labels:
            labels["shapes"] = [one for one in labels["shapes"] if one["id"] != identifier]
            self._refit_if_wanted()
        return self.state()

    def import_labels(self, path):
        """Add the polygons and points of a file; those outside the image are left out."""
        with self._labels():
            n_outside = self._add_shapes(read_shapes(path, self.scene.scene))
        return self.state() | {"n_outside": n_outside}

    def add_example(self):
        """Add some fields of the embedded scene's ground truth."""
        if not self._is_pines():
            raise ValueError("Only the embedded scene has example labels.")
        with self._labels():
            self._add_shapes(_export.example_fields())
        return self.state()

    def _add_shapes(self, found):
        labels, n_outside = self.document, 0
        numbers = {one["name"]: one["id"] for one in labels["classes"]}
        for name, color, kind, rings in found:
            if name not in numbers:
                if len(labels["classes"]) >= MAX_CLASSES:
                    raise ValueError(f"The file has more than {MAX_CLASSES} classes.")
                number = max(numbers.values(), default=0) + 1
                made = checked_class({"name": name, "color": color}, number)
                labels["classes"].append(made)
                numbers[name] = numbers[made["name"]] = number
            values = {"class": numbers[name], "kind": kind, "rings": rings}
            size = self.scene.height, self.scene.width
            try:
                shape = checked_shape(secrets.token_hex(6), values, labels["classes"], *size)
            except ValueError:
                n_outside += 1
            else:
                labels["shapes"].append(shape)
        if len(labels["shapes"]) > MAX_SHAPES:
            raise ValueError(f"There are at most {MAX_SHAPES} shapes.")
        if n_outside == len(found):
            raise ValueError("No polygon or point of the file lies inside the image.")
        self._refit_if_wanted()
        return n_outside

    def _labels(self):
        """Change the labels: saved if all went well, as they were if not."""
        return _Change(self)

    def _samples_of(self, shape):
        key = shape["id"]
        rings = json.dumps(shape["rings"])
        if key not in self._pixels or self._pixels[key][0] != rings:
            self._pixels[key] = rings, read_pixels(self.scene, shape)
        return self._pixels[key][1]

    def _gathered(self):
        """Pixels of all shapes by position; where shapes overlap, the later one counts."""
        shapes = self.document["shapes"]
        live = {one["id"] for one in shapes}
        self._pixels = {key: value for key, value in self._pixels.items() if key in live}
        parts = [self._samples_of(shape) for shape in shapes]
        lengths = [len(rows) for rows, _, _ in parts]
        rows, columns = (
            np.concatenate([part[k] for part in parts] or [[]]).astype(int) for k in (0, 1)
        )
        group = np.repeat(np.arange(len(shapes)), lengths)
        code = np.repeat([shape["class"] for shape in shapes], lengths).astype(int)
        flat = rows * self.scene.width + columns
        kept = len(flat) - 1 - np.unique(flat[::-1], return_index=True)[1]
        overlap = _overlaps(flat, code)
        return parts, group[kept], code[kept], rows[kept], columns[kept], kept, overlap

    def _counts(self):
        """Pixels and fields per class, and what to know about them."""
        classes = {one["id"]: one["name"] for one in self.document["classes"]}
        counts = {number: {"pixels": 0, "fields": 0} for number in classes}
        if not self.document["shapes"]:
            return {"counts": counts, "notes": []}
        _, group, code, *_, overlap = self._gathered()
        notes = []
        for number, name in classes.items():
            mine = code == number
            counts[number] = {"pixels": int(mine.sum()), "fields": len(np.unique(group[mine]))}
            if 0 < counts[number]["pixels"] < FEW_PIXELS:
                notes.append(f"{name}: too few pixels ({counts[number]['pixels']}). Draw more.")
            elif counts[number]["fields"] == 1:
                notes.append(
                    f"{name}: one field only. Draw a second one, so that it can be tested."
                )
        for (one, other), n in overlap.items():
            notes.append(
                f"{classes[one]} and {classes[other]} overlap in {n} pixels, where the later shape "
                "counts."
            )
        return {"counts": counts, "notes": notes}

    def samples(self):
        """Training pixels in row-major order, at most so many of each class."""
        parts, group, code, rows, columns, kept, _ = self._gathered()
        most = self.document["settings"]["max_per_class"]
        if len(np.unique(code)) < 2:
            raise ValueError("Draw at least two classes first.")
        X = np.concatenate([part[2] for part in parts])[kept]
        drawn = draw_per_class(code, most, random_state=0)
        return {
            "X": X[drawn],
            "y": code[drawn].astype(np.int64),
            "groups": group[drawn],
            "rows": rows[drawn],
            "columns": columns[drawn],
        }

    def label_image(self):
        """Class codes of the drawn pixels, of shape (height, width)."""
        image = np.zeros((self.scene.height, self.scene.width), dtype=np.uint8)
        _, _, code, rows, columns, _, _ = self._gathered()
        image[rows, columns] = code
        return image

    # -- work in the background

    def change_settings(self, values):
        """Change model and the like; a fit follows if it is wanted at once."""
        with self.lock:
            settings = self.document["settings"]
            before = dict(settings)
            settings |= _checked_settings(values)
            self._saved()
            if any(before[name] != settings[name] for name in ("model", "max_per_class")):
                self._refit_if_wanted()
        return self.state()

    def choose_roles(self, values):
        """Say which columns of a table are target, groups and id."""
        with self.lock:
            self._need("table")
            roles = {name: values.get(name) or None for name in ("target", "groups", "id")}
            known = set(self.table.frame.columns)
            for name, column in roles.items():
                if column is not None and column not in known:
                    raise ValueError(f"The table has no column {column!r} to be the {name}.")
            chosen = [column for column in roles.values() if column is not None]
            if len(set(chosen)) < len(chosen):
                raise ValueError("Target, groups and id should be different columns.")
            self.document["roles"] = roles
            self.fit = self.accuracy = self.estimates = None
            self._saved()
        return self.state()

    def _need(self, what):
        if getattr(self, what) is None:
            raise ValueError(f"Open a {what} first.")

    def start_fit(self):
        """Fit the chosen model, in place of a fit that is under way."""
        with self.lock:
            if self.scene is None and self.table is None:
                raise ValueError("Open a scene or a table first.")
            self._refit()
        return self.progress()

    def _refit_if_wanted(self):
        classes = {shape["class"] for shape in self.document["shapes"]}
        if self.document["settings"]["auto"] and len(classes) > 1:
            self._refit()

    def _refit(self):
        model = self.document["settings"]["model"]
        self._start("fit", self._fitted, self._keep_fit, self.home.seconds.get(model))

    def _start(self, kind, work, finish, expected=None):
        if kind in self.jobs:
            self.jobs[kind].cancel()
        job = Job(kind, work, lambda result: self._finished(job, finish, result), expected)
        self.jobs[kind] = job
        job.start()

    def _finished(self, job, finish, result):
        with self.lock:
            if self.jobs.get(job.kind) is job:
                finish(result)
                self.revision += 1

    def _run(self, job, task, *args):
        return self.home.pool.run(task, *args, report=job.report, cancelled=job.cancelled)

    def _training(self):
        """Samples, scaling, metadata and source of a fit, of the scene or the table."""
        with self.lock:
            if self.scene is None and self.table is None:
                raise ValueError("Open a scene or a table first.")
            settings = dict(self.document["settings"])
            if self.table is not None:
                samples = self.table.samples(self.document["roles"])
                return samples, settings, None, ModelMetadata(feature_names=samples["features"])
            samples = self.samples()
            scene, good = self.scene.scene, self.scene.good
            named = {one["id"]: one for one in self.document["classes"]}
            chosen = [named[int(number)] for number in np.unique(samples["y"])]
            wavelengths = scene.wavelengths
            metadata = ModelMetadata(
                class_names=[one["name"] for one in chosen],
                class_colors=[list(bytes.fromhex(one["color"][1:])) for one in chosen],
                wavelengths=None if wavelengths is None else wavelengths[good].tolist(),
                band_indices=good.tolist(),
                n_scene_bands=scene.n_bands,
            )
            return samples, settings, "max", metadata

    def _fitted(self, job):
        job.report("Reading spectra")
        samples, settings, norm, metadata = self._training()
        started = time.monotonic()
        model = settings["model"]
        source = f"{self.document['title']}, labels drawn in jplay app"
        trained, view, relevance = self._run(
            job, _tasks.fit, samples["X"], samples["y"], model, norm, metadata, source
        )
        seconds = time.monotonic() - started
        self.home.seconds[model] = seconds
        return Fit(
            job.number, model, seconds, trained, view, relevance, samples["X"], samples["y"],
            samples["rows"], samples.get("columns"),
        )  # fmt: skip

    def _keep_fit(self, fit):
        self.fit = fit

    def start_judging(self, models):
        """Estimate the accuracy of models; all of them for a comparison."""
        unknown = [name for name in models if name not in _tasks.MODELS]
        if unknown or not models:
            raise ValueError(f"`models` should be among {', '.join(_tasks.MODELS)}.")
        with self.lock:
            self._start("accuracy", lambda job: self._judged(job, models), self._keep_accuracy)
        return self.progress()

    def _judged(self, job, models):
        samples, _, norm, metadata = self._training()
        classes, places = np.unique(samples["y"], return_inverse=True)
        names = np.array(metadata.class_names or [str(one) for one in classes])
        X, groups = samples["X"], samples["groups"]
        unit = "field" if self.table is None else "group"
        found = self._run(job, _tasks.judge, X, names[places], groups, unit, models, norm)
        return [_judgement(model, e, names[places], names) for model, e in found], found

    def _keep_accuracy(self, result):
        self.accuracy, self.estimates = result

    def start_export(self):
        """Write everything that can be exported."""
        with self.lock:
            if self.fit is None:
                raise ValueError("Fit a model first.")
            folder = self.folder / "results"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            order = _export.order_of(self, folder)
            self._start("export", lambda job: self._run(job, *order), self._keep_export)
        return self.progress()

    def _keep_export(self, names):
        self.exported = names

    def results(self):
        """Names and sizes of the files that were written."""
        folder = self.folder / "results"
        return [
            {"name": path.name, "bytes": path.stat().st_size}
            for path in sorted(folder.glob("*"))
            if path.is_file() and not path.name.startswith(".")
        ]

    def cancel(self, kind):
        """End work that is under way."""
        with self.lock:
            if kind in self.jobs:
                self.jobs[kind].cancel()
        return self.progress()

    # -- looks

    def pixel(self, row, column):
        """Spectrum, class, probabilities and place in the subspaces of a pixel."""
        self._need("scene")
        spectrum, valid = self.scene.spectrum(row, column)
        found = {"row": row, "column": column, "spectrum": _short(spectrum), "valid": valid}
        fit = self.fit
        if fit is not None and valid:
            probabilities = fit.trained.estimator.predict_proba(spectrum[np.newaxis])[0]
            planes = fit.view.planes(spectrum[np.newaxis])[:, 0]
            found |= {
                "fit": fit.number,
                "probabilities": _short(probabilities),
                "planes": _short(planes),
            }
        return found

    def map_tile(self, number, level, row, column):
        """Codes, confidence and drawn labels of a tile, one byte each per pixel."""
        self._need("scene")
        fit = self.fit
        if fit is None or fit.number != number:
            raise LookupError("A newer map is on its way.")
        codes, confidence = self.scene.class_tile(fit.classify, level, row, column)
        block, step = self.scene.block(level, row, column)
        labels = np.zeros(codes.shape, dtype=np.uint8)
        with self.lock:
            _, _, code, rows, columns, _, _ = self._gathered()
        inside = (rows >= block.top) & (rows < block.bottom)
        inside &= (columns >= block.left) & (columns < block.right)
        places = (rows[inside] - block.top) // step, (columns[inside] - block.left) // step
        labels[places] = code[inside]
        return codes.shape, codes.tobytes() + confidence.tobytes() + labels.tobytes()


class _Change:
    """A change of the labels that is saved as a whole, or not made at all."""

    def __init__(self, session):
        self._session = session

    def __enter__(self):
        session = self._session
        session.lock.acquire()
        try:
            session._need("scene")
        except ValueError:
            session.lock.release()
            raise
        document = session.document
        self._before = [dict(one) for one in document["classes"]], list(document["shapes"])
        return document

    def __exit__(self, kind, *error):
        session = self._session
        try:
            if kind is None:
                session._saved()
            else:
                session.document["classes"], session.document["shapes"] = self._before
        finally:
            session.lock.release()


def _overlaps(flat, code):
    """Pixels that shapes of two classes share, by pair of classes."""
    pairs = np.unique(np.column_stack([flat, code]), axis=0)
    found = {}
    for first in np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0]):
        pair = int(pairs[first, 1]), int(pairs[first + 1, 1])
        found[pair] = found.get(pair, 0) + 1
    return found


def _checked_settings(values):
    found = {}
    if "model" in values:
        if values["model"] not in _tasks.MODELS:
            raise ValueError(f"`model` should be one of {', '.join(_tasks.MODELS)}.")
        found["model"] = values["model"]
    if "auto" in values:
        found["auto"] = bool(values["auto"])
    if "max_per_class" in values:
        found["max_per_class"] = min(max(int(values["max_per_class"]), 2), 10_000)
    if "min_confidence" in values:
        found["min_confidence"] = min(max(float(values["min_confidence"]), 0.0), 1.0)
    return found


def _judgement(model, estimate, y, names):
    """An estimate of accuracy as plain values, with its confusion table."""
    row = estimate.model
    confusion = confusion_matrix(y[estimate.rows], row.predicted, labels=names)
    return {
        "model": model,
        "name": row.name,
        "accuracy": row.accuracy,
        "low": row.low,
        "high": row.high,
        "average_accuracy": row.average_accuracy,
        "kappa": row.kappa,
        "seconds": round(row.seconds, 2),
        "folds": estimate.folds,
        "title": estimate.title,
        "notes": estimate.notes,
        "classes": names.tolist(),
        "confusion": confusion.tolist(),
    }


class Home:
    """All sessions of an app.

    Parameters
    ----------
    settings : AppSettings
    pool : WorkerPool
    """

    def __init__(self, settings, pool):
        self.settings, self.pool = settings, pool
        self.seconds = {}
        self._sessions = OrderedDict()
        self._lock = threading.Lock()
        settings.make_workspace()

    def create(self):
        """Return a new session."""
        identifier = secrets.token_hex(16)
        document = {
            "format": FORMAT,
            "source": None,
            "classes": [],
            "shapes": [],
            "settings": dict(DEFAULT_SETTINGS),
        }
        return self._kept(Session(self, identifier, document))

    def get(self, identifier):
        """Return a session, from memory or from the disk."""
        if not _SESSION.fullmatch(identifier):
            raise LookupError("There is no such session.")
        with self._lock:
            session = self._sessions.get(identifier)
            if session is not None:
                self._sessions.move_to_end(identifier)
                return session
        document = _read_document(self.settings.workspace / identifier / FILE_NAME)
        if document is None:
            raise LookupError("There is no such session, or its file cannot be read.")
        document["settings"] = DEFAULT_SETTINGS | document["settings"]
        session = self._kept(Session(self, identifier, document))
        session.reopen()
        return session

    def _kept(self, session):
        with self._lock:
            session = self._sessions.setdefault(session.identifier, session)
            crowd = list(self._sessions.values())[:-MAX_LIVE]
            for other in crowd:
                del self._sessions[other.identifier]
        for other in crowd:
            other.close()
        return session

    def recent(self, known=()):
        """Saved work, the latest first: all of it, or in a shared app what the client knows."""
        found = []
        for path in self.settings.workspace.glob(f"*/{FILE_NAME}"):
            if self.settings.is_shared and path.parent.name not in known:
                continue
            document = _read_document(path)
            if document is not None and document.get("source"):
                found.append(
                    {
                        "id": path.parent.name,
                        "title": document.get("title"),
                        "source": document["source"],
                        "changed": document.get("changed", 0),
                        "n_shapes": len(document["shapes"]),
                        "kind": document.get("kind"),
                    }
                )
        return sorted(found, key=lambda one: -one["changed"])[:20]

    def pines(self):
        """Write the embedded scene to the workspace once and return its file."""
        path = self.settings.workspace / PINES_NAME
        with self._lock:
            if not path.exists():
                _export.write_pines(path)
        return path

    def close(self):
        """End all work."""
        for session in list(self._sessions.values()):
            for job in session.jobs.values():
                job.cancel()
        self.pool.close()


def _read_document(path):
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return document if document["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
