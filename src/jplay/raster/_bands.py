"""Which bands of a scene a model wants."""

from dataclasses import dataclass

import numpy as np

from jplay.exceptions import ModelMismatchError

TOLERANCE_NM = 1.0


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
    """

    bands: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    weight: np.ndarray | None = None

    def features(self, X):
        """Spectra of the model's bands from those read."""
        if self.weight is None:
            return X
        weight = self.weight.astype(np.float64 if X.dtype == np.float64 else np.float32)
        return X[:, self.lower] * (1 - weight) + X[:, self.upper] * weight


def select_bands(scene, model, *, resample=False, tolerance=TOLERANCE_NM):
    """Match the bands of a scene with those of a model, or say why it cannot be.

    Where both know their wavelengths, each band of the model takes the scene's nearest one,
    which must be within ``tolerance`` nm and not on the bad-band list. Where that fails and
    ``resample`` is true, spectra are interpolated linearly between the scene's good bands. Where
    wavelengths are unknown, the number of bands decides.

    Parameters
    ----------
    scene : Scene
    model : TrainedModel
    resample : bool, default=False
    tolerance : float
        In nm.

    Returns
    -------
    BandSelection

    Raises
    ------
    ModelMismatchError
    """
    wanted = model.metadata.wavelengths
    if wanted is not None and scene.wavelengths is not None:
        return _by_wavelength(scene, np.asarray(wanted, dtype=float), resample, tolerance)
    if resample:
        missing = "scene" if scene.wavelengths is None else "model"
        raise ModelMismatchError(
            f"`resample` needs wavelengths of both scene and model; the {missing} has none. Give "
            "`wavelengths` to open_scene."
        )
    return _by_number(scene, model)


def _by_wavelength(scene, wanted, resample, tolerance):
    order = np.argsort(scene.wavelengths, kind="stable")
    nearest = order[_nearest(scene.wavelengths[order], wanted)]
    gaps = np.abs(scene.wavelengths[nearest] - wanted)
    if gaps.max() <= tolerance and scene.good_bands[nearest].all():
        return BandSelection(bands=nearest)
    if resample:
        return _interpolation(scene, wanted)
    worst = int(gaps.argmax())
    if gaps[worst] > tolerance:
        raise ModelMismatchError(
            f"The model wants {len(wanted)} bands from {wanted.min():g} to {wanted.max():g} nm; "
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
            f"The model wants bands from {wanted.min():g} to {wanted.max():g} nm; '{scene.name}' "
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
        f"The model wants {n_features} bands, '{scene.name}' has {scene.n_bands} ({len(good)} of "
        "them good). Use the model of this sensor, or give the wavelengths of both and resample."
    )
