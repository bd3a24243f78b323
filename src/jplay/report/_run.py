"""What a report shows, in memory and as a folder of two files."""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

FORMAT = 1
"""Raised when a folder of an older version can no longer be read."""

RECORD_NAME = "run.json"
ARRAYS_NAME = "run.npz"


@dataclass(frozen=True, eq=False)
class SceneView:
    """An image and its class maps, reduced to what a page can carry.

    Class ``k`` of the maps is the ``k``-th of the run's ``class_names``, counted from 1; 0 is
    unknown.
    """

    false_color: np.ndarray
    """(height, width, 3), dtype uint8."""
    ground_truth: np.ndarray
    """(height, width), dtype uint16."""
    prediction: np.ndarray
    """(height, width), dtype uint16."""
    training: np.ndarray
    """(height, width), 1 where the pixel was a training sample, dtype uint8."""
    spectra: np.ndarray
    """(height / spectrum_step, width / spectrum_step, n_bands) in 255ths of ``value_range``."""
    wavelengths: np.ndarray
    """(n_bands,) in nm, or band numbers where ``has_wavelengths`` is false."""
    value_range: tuple[float, float]
    """The values that 0 and 255 in ``spectra`` stand for."""
    spectrum_step: int = 1
    """Pixels of the maps, in each direction, that share one spectrum."""
    pixel_step: int = 1
    """Pixels of the image, in each direction, that became one pixel of the maps."""
    has_wavelengths: bool = True


@dataclass(frozen=True, eq=False)
class Run:
    """One fit and what was measured of it; every part but the first three may be left out.

    Attributes
    ----------
    title : str
    facts : dict of str to str
        What was run and on what, in the order in which it is shown.
    class_names : list of str
    parameters : dict
        Settings of the model, as plain values.
    scores : list of dict
        Rows of the comparison: ``features``, ``n_features``, ``classifier``,
        ``overall_accuracy``, ``average_accuracy`` and ``kappa``, fractions or None.
    class_figures : dict of str to list of float or None
        By column heading, one figure per class (fractions).
    class_counts : dict of str to list of int
        By column heading, samples per class.
    confusion : ndarray of shape (n_classes, n_classes) or None
        Test samples; rows are true classes.
    depth : list of dict
        ``n_layers`` and one accuracy (fraction) for every classifier.
    objective : dict of str to list of float
        The objective's terms after each iteration.
    residuals : ndarray of shape (n_iter, n_layers) or None
        Distance from the constraints after each iteration, for every layer.
    layer_names : list of str
        One per subspace, the input being the first.
    layer_accuracy : list of float
        Share of the samples shown whose nearest training sample in the subspace has their label.
    planes : ndarray of shape (n_subspaces, n_points, 2) or None
        A plane view of every subspace with the same samples.
    point_labels : ndarray of shape (n_points,) or None
        Positions in ``class_names``.
    reliance : ndarray of shape (n_classes, n_features) or None
        Share of each class's score that rests on each feature.
    feature_positions : ndarray of shape (n_features,) or None
        Wavelengths in nm, or numbers.
    feature_axis : str
        What ``feature_positions`` are.
    image_shape : tuple of int or None
        Where features are pixels of an image.
    scene : SceneView or None
    """

    title: str
    facts: dict[str, str]
    class_names: list[str]
    parameters: dict[str, Any] = field(default_factory=dict)
    scores: list[dict] = field(default_factory=list)
    class_figures: dict[str, list] = field(default_factory=dict)
    class_counts: dict[str, list] = field(default_factory=dict)
    confusion: np.ndarray | None = None
    depth: list[dict] = field(default_factory=list)
    objective: dict[str, list] = field(default_factory=dict)
    residuals: np.ndarray | None = None
    layer_names: list[str] = field(default_factory=list)
    layer_accuracy: list[float] = field(default_factory=list)
    planes: np.ndarray | None = None
    point_labels: np.ndarray | None = None
    reliance: np.ndarray | None = None
    feature_positions: np.ndarray | None = None
    feature_axis: str = "Feature"
    image_shape: tuple[int, int] | None = None
    scene: SceneView | None = None

    def save(self, folder):
        """Write ``run.json`` and ``run.npz`` into ``folder``, each in one step.

        Parameters
        ----------
        folder : str or Path
            Made where it does not exist.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        record, arrays = _split(_shallow(self), "")
        if self.scene is not None:
            record["scene"], scene_arrays = _split(asdict(self.scene), "scene.")
            arrays |= scene_arrays
        with _replacing(folder / ARRAYS_NAME, "wb") as file:
            np.savez_compressed(file, **arrays)
        with _replacing(folder / RECORD_NAME, "w") as file:
            json.dump({"format": FORMAT, **record}, file, indent=1, allow_nan=False)

    @classmethod
    def load(cls, folder):
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        folder : str or Path

        Returns
        -------
        Run
        """
        folder = Path(folder)
        path = folder / RECORD_NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"`folder` should hold {RECORD_NAME}, as `jplay demo` writes it, but {folder} does "
                "not. Name the folder of a run."
            )
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            version = record.pop("format")
            if version != FORMAT:
                raise ValueError(f"it has format {version!r}, this version reads {FORMAT}")
            with (
                open(folder / ARRAYS_NAME, "rb") as file,
                np.load(file, allow_pickle=False) as stored,
            ):
                arrays = dict(stored)
            scene = record.pop("scene", None)
            if scene is not None:
                record["scene"] = SceneView(**_joined(scene, arrays, "scene."))
            return cls(**_joined(record, arrays, ""))
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as error:
            raise ValueError(
                f"{folder} is not a run that this version can read ({error}). Run it again."
            ) from error


def _shallow(run):
    return {part.name: getattr(run, part.name) for part in fields(run) if part.name != "scene"}


def _split(values, prefix):
    """Separate arrays, which go to the NPZ file, from what JSON holds."""
    arrays = {prefix + k: v for k, v in values.items() if isinstance(v, np.ndarray)}
    return {k: v for k, v in values.items() if prefix + k not in arrays}, arrays


def _joined(record, arrays, prefix):
    named = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    return record | {k: v for k, v in named.items() if "." not in k}


class _replacing:
    """Open a file beside ``path`` that takes its place only when all has been written."""

    def __init__(self, path, mode):
        self.path, self.mode = path, mode
        self.partial = path.with_name(path.name + ".part")

    def __enter__(self):
        encoding = None if "b" in self.mode else "utf-8"
        self.file = open(self.partial, self.mode, encoding=encoding)
        return self.file

    def __exit__(self, kind, error, traceback):
        self.file.close()
        if kind is None:
            os.replace(self.partial, self.path)
        else:
            self.partial.unlink()
