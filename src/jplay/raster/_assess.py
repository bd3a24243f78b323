"""How well a class map agrees with what is known."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay.numerics.metrics import AccuracyReport
from jplay.raster._labels import open_labels
from jplay.raster._open import open_scene


@dataclass(frozen=True, eq=False)
class MapAssessment:
    """Accuracy of a map against reference labels.

    Attributes
    ----------
    report : AccuracyReport
        Over the reference pixels that the map classifies.
    class_names : list of str
        In the order of ``report.labels``.
    n_compared : int
        Reference pixels with a class on the map.
    n_unclassified : int
        Reference pixels without one; not in the report.
    n_excluded : int
        Reference pixels left out on request.
    """

    report: Any
    class_names: list[str]
    n_compared: int
    n_unclassified: int
    n_excluded: int

    def to_dict(self):
        """Plain values, ready for JSON."""
        return {
            **self.report.to_dict(),
            "class_names": self.class_names,
            "n_compared": self.n_compared,
            "n_unclassified": self.n_unclassified,
            "n_excluded": self.n_excluded,
        }


def assess_map(map_path, reference, *, field=None, exclude=None, progress=None):
    """Compare a class map with reference labels.

    Parameters
    ----------
    map_path : str or path-like
        A raster of class codes, 0 where there is none.
    reference : str, path-like, array, GeoDataFrame or Labels
        See :func:`open_labels`. Classes given by name are matched with the names of the map.
    field : str, optional
        Attribute of the polygons with the class.
    exclude : str, path-like or array, optional
        Labels of pixels to leave out, as those the model was trained on.
    progress : callable, optional
        Called with the number of pixels done and of all pixels.

    Returns
    -------
    MapAssessment
    """
    scene = open_scene(map_path)
    if scene.n_bands != 1:
        raise ValueError(
            f"'{map_path}' should be a class map with one band, found {scene.n_bands}. Give the "
            "map that jplay map wrote, not the image."
        )
    on_map = open_labels(map_path, scene)
    truth = open_labels(reference, scene, field=field)
    left_out = None if exclude is None else open_labels(exclude, scene, field=field)
    recode = _matched_by_name(truth, on_map)
    pairs, n_excluded, done = Counter(), 0, 0
    for block in scene.blocks():
        known = recode(truth.read(block))
        if left_out is not None:
            trained = (left_out.read(block) > 0) & (known > 0)
            n_excluded += int(trained.sum())
            known = np.where(trained, 0, known)
        labelled = known > 0
        if labelled.any():
            both = np.stack([known[labelled], on_map.read(block)[labelled]])
            values, counts = np.unique(both, axis=1, return_counts=True)
            for (true, mapped), count in zip(values.T.tolist(), counts.tolist(), strict=True):
                pairs[true, mapped] += count
        done += block.n_pixels
        if progress is not None:
            progress(done, scene.n_pixels)
    return _assessment(pairs, on_map.names | _truth_names(truth, recode), n_excluded, truth.source)


def _truth_names(truth, recode):
    """Names of the reference's classes by the map's codes."""
    return {int(recode(np.array([code]))[0]): name for code, name in truth.names.items()}


def _matched_by_name(truth, on_map):
    """Translate codes of the reference to those of the map where both have names."""
    if not truth.names or not on_map.names:
        return lambda codes: codes
    code_of = {name: code for code, name in on_map.names.items() if code > 0}
    largest = max([0, *truth.names, *on_map.names])
    unknown = iter(range(largest + 1, largest + 1 + len(truth.names)))
    table = {
        code: code_of[name] if name in code_of else next(unknown)
        for code, name in truth.names.items()
    }
    lookup = np.arange(largest + 1)
    for code, matched in table.items():
        lookup[code] = matched

    def recode(codes):
        inside = codes < len(lookup)
        return np.where(inside, lookup[np.where(inside, codes, 0)], codes)

    return recode


def _assessment(pairs, names, n_excluded, source):
    n_unclassified = sum(count for (_, mapped), count in pairs.items() if mapped == 0)
    compared = {pair: count for pair, count in pairs.items() if pair[1] > 0}
    if not compared:
        raise ValueError(
            f"'{source}' has no labelled pixel that the map classifies. Check that both cover the "
            "same place."
        )
    labels = sorted({code for pair in compared for code in pair})
    position = {code: index for index, code in enumerate(labels)}
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (true, mapped), count in compared.items():
        confusion[position[true], position[mapped]] = count
    return MapAssessment(
        report=AccuracyReport.from_confusion(confusion, labels=np.array(labels)),
        class_names=[names.get(code, f"class {code}") for code in labels],
        n_compared=int(confusion.sum()),
        n_unclassified=int(n_unclassified),
        n_excluded=n_excluded,
    )
