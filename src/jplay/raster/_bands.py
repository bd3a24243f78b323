"""Which bands of a scene a model needs."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.preprocessing import Normalizer

from jplay.exceptions import ModelMismatchError

TOLERANCE_NM = 1.0
_FAR = 20.0
"""Scenes of one unit differ less in brightness, reflectance and counts of it more."""
_LOOK_BYTES = 2**22


@dataclass(frozen=True, eq=False)
class BandSelection:
    """Bands to read, and how to turn them into the model's features.

    Attributes
    ----------
    bands : ndarray of int
        Bands to read.
    lower, upper : ndarray of int or None
        Positions among ``bands`` of the neighbours between which each feature lies; None where
        the bands are the features.
    weight : ndarray or None
        Weight of the upper neighbour.
    scale : float
        Factor from the values of the scene to those of the model.
    """

    bands: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    weight: np.ndarray | None = None
    scale: float = 1.0

    def features(self, X):
        """Spectra of the model's bands from those read."""
        if self.scale != 1.0:
            X = X * np.asarray(self.scale, dtype=np.result_type(X.dtype, np.float32))
        if self.weight is None:
            return X
        weight = self.weight.astype(np.float64 if X.dtype == np.float64 else np.float32)
        return X[:, self.lower] * (1 - weight) + X[:, self.upper] * weight


def select_bands(scene, model, *, resample=False, scale=None):
    """Match the bands of a scene with those of a model, or say why it cannot be.

    Where both know their wavelengths, each band of the model takes the scene's nearest one,
    which must be within 1 nm and not on the bad-band list. Where that fails and
    ``resample`` is true, spectra are interpolated linearly between the scene's good bands. A model
    without wavelengths takes bands by their number.

    Parameters
    ----------
    scene : Scene
    model : TrainedModel
    resample : bool, default=False
    scale : float, optional
        Factor from the values of the scene to those of the model. Without it a scene is refused
        whose values are far from those that the model was fitted to, unless the model divides
        every spectrum by its norm.

    Returns
    -------
    BandSelection

    Raises
    ------
    ModelMismatchError
    """
    selection = _selected(scene, model, resample)
    if scale is None:
        _check_unit(scene, model, selection)
        return selection
    if not 0 < scale < np.inf:
        raise ValueError(f"`scale` should be a number above 0, got {scale}.")
    return replace(selection, scale=float(scale))


def _selected(scene, model, resample):
    wanted = model.metadata.wavelengths
    if wanted is not None and scene.wavelengths is not None:
        return _by_wavelength(scene, np.asarray(wanted, dtype=float), resample)
    if resample:
        missing = "scene" if scene.wavelengths is None else "model"
        raise ModelMismatchError(
            f"`resample` needs wavelengths of both scene and model; the {missing} has none. Give "
            "`wavelengths` to open_scene."
        )
    if wanted is not None:
        raise ModelMismatchError(
            f"The model knows the wavelengths of its {len(wanted)} bands, '{scene.name}' has none: "
            "whether its bands are the same cannot be checked. Add the wavelengths to the file, "
            "or give `wavelengths` to open_scene."
        )
    return _by_number(scene, model)


def _by_wavelength(scene, wanted, resample):
    order = np.argsort(scene.wavelengths, kind="stable")
    nearest = order[_nearest(scene.wavelengths[order], wanted)]
    gaps = np.abs(scene.wavelengths[nearest] - wanted)
    if gaps.max() <= TOLERANCE_NM and scene.good_bands[nearest].all():
        return BandSelection(bands=nearest)
    if resample:
        return _interpolation(scene, wanted)
    worst = int(gaps.argmax())
    if gaps[worst] > TOLERANCE_NM:
        raise ModelMismatchError(
            f"The model expects {len(wanted)} bands from {wanted.min():g} to {wanted.max():g} nm; "
            f"'{scene.name}' ({scene.n_bands} bands from {scene.wavelengths.min():g} to "
            f"{scene.wavelengths.max():g} nm) has other wavelengths: nearest to "
            f"{wanted[worst]:g} nm is {scene.wavelengths[nearest[worst]]:g} nm. Resample "
            "(resample=True, --resample), or fit a model to this sensor."
        )
    bad = nearest[~scene.good_bands[nearest]]
    raise ModelMismatchError(
        f"Band {bad[0]} ({scene.wavelengths[bad[0]]:g} nm) of '{scene.name}' is on the bad-band "
        f"list, and the model uses it ({len(bad)} such bands). Resample (resample=True, "
        "--resample) to interpolate from good bands, or open the scene with another bad-band list."
    )


def _nearest(rising, wanted):
    right = np.clip(np.searchsorted(rising, wanted), 1, max(1, len(rising) - 1))
    right = np.minimum(right, len(rising) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(wanted - rising[left] <= rising[right] - wanted, left, right)


def _interpolation(scene, wanted):
    good = np.flatnonzero(scene.good_bands)
    bands = good[np.argsort(scene.wavelengths[good], kind="stable")]
    have = scene.wavelengths[bands]
    spacing = np.median(np.diff(have)) if len(have) > 1 else 0.0
    outside = (wanted < have[0] - spacing) | (wanted > have[-1] + spacing)
    if outside.any() or len(have) < 2:
        raise ModelMismatchError(
            f"The model expects bands from {wanted.min():g} to {wanted.max():g} nm; '{scene.name}' "
            f"reaches from {have[0]:g} to {have[-1]:g} nm. Resampling does not invent spectra "
            "outside of it: fit a model to the common range."
        )
    upper = np.clip(np.searchsorted(have, wanted), 1, len(have) - 1)
    lower = upper - 1
    weight = (wanted - have[lower]) / (have[upper] - have[lower])
    return BandSelection(bands=bands, lower=lower, upper=upper, weight=np.clip(weight, 0.0, 1.0))


def _by_number(scene, model):
    metadata, n_features = model.metadata, model.n_features
    if metadata.band_indices is not None and metadata.n_scene_bands == scene.n_bands:
        return BandSelection(bands=np.asarray(metadata.band_indices, dtype=int))
    good = np.flatnonzero(scene.good_bands)
    if len(good) == n_features:
        return BandSelection(bands=good)
    if scene.n_bands == n_features:
        return BandSelection(bands=np.arange(scene.n_bands))
    raise ModelMismatchError(
        f"The model expects {n_features} bands, '{scene.name}' has {scene.n_bands} ({len(good)} of "
        "them good). Use the model of this sensor, or give the wavelengths of both and resample."
    )


def typical_level(X):
    """Median over spectra of their largest value; tells units apart, not scenes."""
    return float(np.median(np.abs(X).max(axis=1)))


def _check_unit(scene, model, selection):
    """Refuse values that are far from the model's, as reflectance in place of counts."""
    first = model.estimator[0] if hasattr(model.estimator, "steps") else model.estimator
    fitted = model.metadata.training.get("typical_level")
    if not fitted or isinstance(first, Normalizer):
        return
    found = _level_of(scene, selection.bands)
    if found is None or 1 / _FAR < found / fitted < _FAR:
        return
    power = 10.0 ** round(np.log10(fitted / found))
    raise ModelMismatchError(
        f"Spectra of '{scene.name}' reach {found:g}, those that the model was fitted to "
        f"{fitted:g}: they seem to be in another unit. Say by what factor to multiply the scene "
        f"(scale={power:g}, --scale {power:g}), or --scale 1 if the unit is the same."
    )


def _level_of(scene, bands):
    """Level of the first of a few blocks, from the middle of the scene on, that has data."""
    blocks = scene.blocks(_LOOK_BYTES)
    middle = len(blocks) // 2
    for block in [*blocks[middle : middle + 5], *blocks[:5]]:
        X, valid = scene.read(block, bands)
        if valid.any():
            return typical_level(X[valid].astype(np.float64))
    return None
