"""How well a class map agrees with what is known."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from jplay.numerics.metrics import AccuracyReport
from jplay.raster._area import AreaEstimates, estimate_areas, wilson_interval
from jplay.raster._labels import open_labels
from jplay.raster._open import open_scene
from jplay.raster._write import UNCLASSIFIED


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
    matched_by : {"name", "code"}
        How classes of the reference were found on the map.
    areas : AreaEstimates or None
        Areas and accuracies of the whole map, if the reference is a stratified sample.
    confidence : float
        Level of all intervals.
    """

    report: Any
    class_names: list[str]
    n_compared: int
    n_unclassified: int
    n_excluded: int
    matched_by: str
    areas: AreaEstimates | None = None
    confidence: float = 0.95

    def intervals(self):
        """Wilson intervals of the shares among the reference pixels.

        Returns
        -------
        dict
            ``overall_accuracy``, ``producers_accuracy`` and ``users_accuracy``: pairs of lower and
            upper ends. They take the pixels for independent draws; pixels of one field are not, so
            that their true intervals are wider.
        """
        confusion = self.report.confusion
        right = np.diag(confusion)
        return {
            "overall_accuracy": wilson_interval(right.sum(), confusion.sum(), self.confidence),
            "producers_accuracy": wilson_interval(right, confusion.sum(axis=1), self.confidence),
            "users_accuracy": wilson_interval(right, confusion.sum(axis=0), self.confidence),
        }

    def to_dict(self):
        """Plain values, ready for JSON."""
        return {
            **self.report.to_dict(),
            "class_names": self.class_names,
            "n_compared": self.n_compared,
            "n_unclassified": self.n_unclassified,
            "n_excluded": self.n_excluded,
            "matched_by": self.matched_by,
            "confidence": self.confidence,
            "intervals": {
                name: _plain(np.stack(pair, axis=-1)) for name, pair in self.intervals().items()
            },
            "areas": None if self.areas is None else self.areas.to_dict(),
        }


def assess_map(
    map_path,
    reference,
    *,
    field=None,
    exclude=None,
    class_names=None,
    map_names=None,
    match=None,
    by_code=False,
    areas=False,
    confidence=0.95,
    progress=None,
):
    """Compare a class map with reference labels.

    Classes are matched by name, whatever their codes. What is not known to agree is refused: a
    reference without names against a map with names, or a name that the map does not have.

    Parameters
    ----------
    map_path : str, path-like or xarray.DataArray of shape (height, width)
        A raster of class codes, 0 where there is none, or what :func:`predict_scene` returned.
    reference : str, path-like, array, GeoDataFrame or Labels
        See :func:`open_labels`.
    field : str, optional
        Attribute of the polygons with the class.
    exclude : str, path-like or array, optional
        Labels of pixels to leave out, as those the model was trained on.
    class_names, map_names : dict of int to str, optional
        Names of the codes of the reference and of the map, in place of those in the files.
    match : dict of str to str or None, optional
        Classes of the reference that have another name on the map; None for one that is not on
        the map, whose pixels are all counted as wrong.
    by_code : bool, default=False
        Whether codes mean the same on both sides, so that names are not needed.
    areas : bool, default=False
        Whether the reference pixels were drawn at random within each class of the map, as
        ``jplay sample`` draws them; then areas and accuracies of the whole map are estimated, see
        :func:`estimate_areas`.
    confidence : float, default=0.95
        Level of the intervals.
    progress : callable, optional
        Called with the number of pixels done and of all pixels.

    Returns
    -------
    MapAssessment

    Examples
    --------
    >>> import xarray
    >>> from jplay.raster import assess_map
    >>> names = {1: "wood", 2: "town"}
    >>> class_map = xarray.DataArray(
    ...     [[1, 1, 2], [1, 2, 2]], dims=("y", "x"), attrs={"class_names": names}
    ... )
    >>> assessed = assess_map(class_map, [[2, 2, 1], [2, 1, 2]], class_names={1: "town", 2: "wood"})
    >>> assessed.report.confusion.tolist()
    [[3, 1], [0, 2]]
    """
    is_array = hasattr(map_path, "dims") and map_path.ndim == 2
    scene = open_scene(map_path.expand_dims("band", axis=2) if is_array else map_path)
    if scene.n_bands != 1:
        raise ValueError(
            f"'{map_path}' should be a class map with one band, found {scene.n_bands}. Give the "
            "map that jplay map wrote, not the image."
        )
    on_map = open_labels(map_path, scene)
    truth = open_labels(reference, scene, field=field)
    left_out = None if exclude is None else open_labels(exclude, scene, field=field)
    classes = _ClassMatch(
        truth, _as_names(class_names), on_map, _as_names(map_names), match or {}, by_code
    )
    pairs, mapped, n_excluded, done = Counter(), Counter(), 0, 0
    for block in scene.blocks():
        known = truth.read(block)
        if left_out is not None:
            trained = (left_out.read(block) > 0) & (known > 0)
            n_excluded += int(trained.sum())
            known = np.where(trained, 0, known)
        labelled = known > 0
        if areas or labelled.any():
            codes = on_map.read(block)
            _count(pairs, np.stack([known[labelled], codes[labelled]]))
            if areas:
                _count(mapped, codes.reshape(1, -1))
        done += block.n_pixels
        if progress is not None:
            progress(done, scene.n_pixels)
    counts = _named_counts(pairs, classes)
    return _assessment(counts, mapped, classes, n_excluded, truth.source, confidence, scene)


class _ClassMatch:
    """Which class of the reference is which of the map, by name unless codes are said to agree."""

    def __init__(self, truth, class_names, on_map, map_names, match, by_code):
        self.truth, self.on_map = truth, on_map
        self.names = class_names or _own_names(truth)
        self.map_names = map_names or _own_names(on_map) or _made_up_names(on_map, self.names)
        self.by_code = by_code or not (self.names or self.map_names)
        self._match = {_normal(name): other for name, other in match.items()}
        if by_code and not truth.has_codes and not class_names:
            raise ValueError(
                f"'{truth.source}' gives classes by name, so they cannot be compared by code. "
                "Match them by name: give the names of the map's codes."
            )
        if not self.by_code:
            self._check_named()
            self._code_of = _by_name(self.map_names, on_map.source)
            _by_name(self.names, truth.source)
            self._check_match()

    @property
    def unclassified(self):
        """Codes of pixels that the map leaves open."""
        names = self.on_map.names | self.map_names
        return {code for code, name in names.items() if code and _normal(name) == UNCLASSIFIED}

    def map_class(self, code):
        """Name of a code of the map."""
        if self.by_code:
            return self.map_names.get(code, self.names.get(code, f"class {code}"))
        if code not in self.map_names:
            raise ValueError(
                f"Class {code} of the map '{self.on_map.source}' has no name, so it is not known "
                "which class of the reference it is. Name it (map_names, --map-names)."
            )
        return self.map_names[code]

    def true_class(self, code):
        """Name on the map of a code of the reference."""
        if self.by_code:
            self._check_same(code)
            return self.map_class(code)
        if code not in self.names:
            raise ValueError(
                f"Class {code} of '{self.truth.source}' has no name, but {len(self.names)} others "
                "have. Name every class of the reference (class_names, --class-names)."
            )
        name = self.names[code]
        wanted = self._match.get(_normal(name), name)
        if wanted is None:
            return name
        if _normal(wanted) in self._code_of:
            return self.map_names[self._code_of[_normal(wanted)]]
        raise ValueError(
            f"The map has no class '{wanted}', which '{self.truth.source}' has; it has "
            f"{', '.join(sorted(self.map_names.values()))}. Say which of them it is "
            f'(match, --match "{name}=..."), or that it is none (--match "{name}=").'
        )

    def order(self, names):
        """Names by their code on the map, then those that it does not have."""
        code_of = {name: code for code, name in self.map_names.items()}
        return sorted(names, key=lambda name: (code_of.get(name, np.inf), _digits(name), name))

    def _check_named(self):
        lacking = self.truth if not self.names else self.on_map if not self.map_names else None
        if lacking is None:
            return
        option = "class_names, --class-names" if lacking is self.truth else "map_names, --map-names"
        codes_help = (
            " or say that codes mean the same on both sides (by_code=True, --by-code)"
            if self.truth.has_codes
            else ""
        )
        raise ValueError(
            f"'{lacking.source}' has no class names, so it is not known which of its classes is "
            f"which of the other's. Name its codes ({option}){codes_help}."
        )

    def _check_same(self, code):
        mine, other = self.names.get(code), self.map_names.get(code)
        if mine is not None and other is not None and _normal(mine) != _normal(other):
            raise ValueError(
                f"Code {code} is '{mine}' in '{self.truth.source}' and '{other}' on the map: codes "
                "do not mean the same. Leave by_code (--by-code) out, and classes are matched by "
                "name."
            )

    def _check_match(self):
        unknown = set(self._match) - {_normal(name) for name in self.names.values()}
        if unknown:
            raise ValueError(
                f"`match` should name classes of the reference "
                f"({', '.join(sorted(self.names.values()))}), got {sorted(unknown)[0]!r}."
            )


def _normal(name):
    """Names that differ in capitals or spaces only are the same."""
    return " ".join(str(name).replace("_", " ").split()).casefold()


def _digits(name):
    digits = "".join(filter(str.isdigit, name))
    return int(digits) if digits else -1


def _as_names(names):
    return {int(code): str(name) for code, name in (names or {}).items()}


def _own_names(labels):
    """Names of a source's classes; "class 3" for code 3 is no name."""
    names = {code: name for code, name in labels.names.items() if code > 0}
    plain = all(name in (f"class {code}", UNCLASSIFIED) for code, name in names.items())
    return {} if plain and labels.has_codes else names


def _made_up_names(on_map, wanted):
    """Names such as "class 3" of the map's codes, if the reference uses the same."""
    names = {code: name for code, name in on_map.names.items() if code > 0}
    known = {_normal(name) for name in names.values()}
    return names if wanted and all(_normal(name) in known for name in wanted.values()) else {}


def _by_name(names, source):
    code_of = {}
    for code, name in names.items():
        if _normal(name) in code_of:
            raise ValueError(
                f"'{source}' has two classes called '{name}' (codes {code_of[_normal(name)]} and "
                f"{code}). Give every class a name of its own."
            )
        code_of[_normal(name)] = code
    return code_of


def _count(counter, columns):
    values, counts = np.unique(columns, axis=1, return_counts=True)
    for key, count in zip(values.T.tolist(), counts.tolist(), strict=True):
        counter[tuple(key)] += count


def _named_counts(pairs, classes):
    """Counts by true and mapped name; None where the map has no class."""
    counts = Counter()
    open_codes = {0, *classes.unclassified}
    for (true, mapped), count in pairs.items():
        found = None if mapped in open_codes else classes.map_class(mapped)
        counts[classes.true_class(true), found, mapped] += count
    return counts


def _assessment(counts, mapped, classes, n_excluded, source, confidence, scene):
    compared = Counter()
    for (true, found, _), count in counts.items():
        if found is not None:
            compared[true, found] += count
    if not compared:
        raise ValueError(
            f"'{source}' has no labelled pixel that the map classifies. Check that both cover the "
            "same place."
        )
    names = classes.order({name for pair in compared for name in pair})
    position = {name: index for index, name in enumerate(names)}
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    for (true, found), count in compared.items():
        confusion[position[true], position[found]] = count
    return MapAssessment(
        report=AccuracyReport.from_confusion(confusion, labels=np.array(names)),
        class_names=names,
        n_compared=int(confusion.sum()),
        n_unclassified=sum(count for (_, found, _), count in counts.items() if found is None),
        n_excluded=n_excluded,
        matched_by="code" if classes.by_code else "name",
        areas=_areas(counts, mapped, classes, confidence, scene) if mapped else None,
        confidence=confidence,
    )


def _areas(counts, mapped, classes, confidence, scene):
    """Estimates for the whole map, whose classes are the strata of the sample."""
    pixels = {code: count for (code,), count in mapped.items() if code > 0}
    strata = dict.fromkeys(classes.unclassified & set(pixels), UNCLASSIFIED)
    strata |= {code: classes.map_class(code) for code in pixels if code not in strata}
    names = classes.order({true for true, _, _ in counts} | set(strata.values()) - {UNCLASSIFIED})
    codes = sorted(strata)
    sampled = np.zeros((len(codes), len(names)), dtype=np.int64)
    for (true, _, code), count in counts.items():
        if code in strata:
            sampled[codes.index(code), names.index(true)] += count
    return estimate_areas(
        sampled,
        [pixels[code] for code in codes],
        classes=names,
        strata=[strata[code] for code in codes],
        pixel_area=pixel_hectares(scene),
        confidence=confidence,
    )


def pixel_hectares(scene):
    """Area of a pixel in hectares, or None if the coordinate system has no such areas.

    Parameters
    ----------
    scene : Scene

    Returns
    -------
    float or None

    Examples
    --------
    >>> import xarray
    >>> from jplay.raster import open_scene, pixel_hectares
    >>> pixel_hectares(open_scene(xarray.DataArray([[[1.0]]], dims=("y", "x", "band"))))
    """
    if scene.transform is None or scene.crs is None or not scene.crs.is_projected:
        return None
    _, metres = scene.crs.linear_units_factor
    return abs(scene.transform.determinant) * metres**2 / 1e4


def _plain(values):
    return (
        [_plain(row) for row in values]
        if values.ndim > 1
        else [None if np.isnan(value) else float(value) for value in values]
    )
