"""What a report shows, in memory and as a folder of two files."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from jplay._files import atomic_path
from jplay.datasets.readers import read_npz
from jplay.report._parts import Provenance, SceneView

FORMAT = 3
"""Raised when a folder of an older version can no longer be read."""

PLAIN_NAME = "run.json"
ARRAYS_NAME = "run.npz"


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
        ``overall_accuracy``, ``average_accuracy`` and ``kappa``, fractions or None, and perhaps
        ``seconds`` of the fit.
    judged : str
        Which row of the comparison the map, the figures of the classes and the confusion matrix
        are of; empty for the model itself.
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
    relevance : ndarray of shape (n_classes, n_features) or None
        Share of each feature in what sets each class apart, see
        :func:`jplay.inspection.feature_relevance`.
    feature_positions : ndarray of shape (n_features,) or None
        Wavelengths in nm, or numbers.
    feature_axis : str
        What ``feature_positions`` are.
    feature_names : list of str
        If features have names.
    image_shape : tuple of int or None
        If features are pixels of an image.
    scene : SceneView or None
    remarks : list of str
        What one must know before one believes the figures.
    provenance : Provenance
        When and how it was made.
    """

    title: str
    facts: dict[str, str]
    class_names: list[str]
    parameters: dict[str, Any] = field(default_factory=dict)
    scores: list[dict] = field(default_factory=list)
    judged: str = ""
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
    relevance: np.ndarray | None = None
    feature_positions: np.ndarray | None = None
    feature_axis: str = "Feature"
    feature_names: list[str] = field(default_factory=list)
    image_shape: tuple[int, int] | None = None
    scene: SceneView | None = None
    remarks: list[str] = field(default_factory=list)
    provenance: Provenance = field(default_factory=Provenance.now)

    def save(self, folder):
        """Write ``run.json`` and ``run.npz`` into ``folder``, each in one step.

        Parameters
        ----------
        folder : str or Path
            Made where it does not exist.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        plain, arrays = _apart(_shallow(self), "")
        plain["provenance"] = asdict(self.provenance)
        if self.scene is not None:
            plain["scene"], scene_arrays = _apart(asdict(self.scene), "scene.")
            arrays |= scene_arrays
        text = json.dumps({"format": FORMAT, **plain}, indent=1, allow_nan=False)
        with atomic_path(folder / ARRAYS_NAME) as temporary:
            np.savez_compressed(temporary, **arrays)
        with atomic_path(folder / PLAIN_NAME) as temporary:
            temporary.write_text(text, encoding="utf-8")

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
        path = folder / PLAIN_NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"`folder` should hold {PLAIN_NAME}, as `jplay demo` writes it, but {folder} does "
                "not. Name the folder of a run."
            )
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            version = plain.pop("format")
            if version != FORMAT:
                raise ValueError(f"it has format {version!r}, this version reads {FORMAT}")
            arrays = read_npz(folder / ARRAYS_NAME)
            scene = plain.pop("scene", None)
            if scene is not None:
                plain["scene"] = SceneView(**_joined(scene, arrays, "scene."))
            plain["provenance"] = Provenance(**plain["provenance"])
            return cls(**_joined(plain, arrays, ""))
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:  # whatever a damaged byte leads the readers to
            raise ValueError(
                f"{folder} is not a run that this version can read ({error}). Run it again."
            ) from error


def _shallow(run):
    return {part.name: getattr(run, part.name) for part in fields(run) if part.name != "scene"}


def _apart(values, prefix):
    """Separate arrays, which go to the NPZ file, from what JSON holds."""
    arrays = {prefix + k: v for k, v in values.items() if isinstance(v, np.ndarray)}
    return {k: v for k, v in values.items() if prefix + k not in arrays}, arrays


def _joined(plain, arrays, prefix):
    named = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    return plain | {k: v for k, v in named.items() if "." not in k}
