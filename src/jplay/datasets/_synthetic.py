"""A simulated hyperspectral scene whose truth is known."""

import numpy as np
from sklearn.utils import Bunch, check_random_state

from jplay.datasets._scenes import scene_fields
from jplay.datasets.splits import check_count

_OPEN_FRACTIONS = ("mixing", "illumination", "similarity")
_WATER_VAPOUR_NM = ((1400.0, 45.0), (1900.0, 60.0))


def make_hyperspectral_scene(
    height=64,
    width=64,
    n_bands=100,
    n_classes=6,
    *,
    n_endmembers=None,
    n_regions=None,
    similarity=0.5,
    mixing=0.2,
    blur=1.0,
    label_purity=0.5,
    snr_db=30.0,
    illumination=0.1,
    absorption_depth=0.95,
    wavelength_range=(400.0, 2500.0),
    split="random",
    random_state=None,
    dtype=np.float64,
):
    r"""Simulate a scene of fields by linear mixing of material spectra.

    The spectrum of pixel :math:`p` at wavelength :math:`\lambda` is

    .. math:: x_p(\lambda) = s_p \, t(\lambda) \sum_k a_{pk} m_k(\lambda) + \epsilon_p(\lambda),
              \qquad a_{pk} \ge 0, \quad \sum_k a_{pk} = 1,

    with smooth endmember spectra :math:`m_k`, abundances :math:`a`, illumination :math:`s`, the
    transmission :math:`t` of an atmosphere with water vapour, and white noise :math:`\epsilon`.
    Noise does not pass the atmosphere, so the absorption bands hold little but noise, as in real
    data.

    The image is divided into irregular fields, each of one class. A point-spread function mixes
    neighbouring fields at their borders, and smooth background fields mix all materials everywhere.

    Parameters
    ----------
    height, width : int, default=64
        Size of the image.
    n_bands : int, default=100
        Number of bands, equally spaced over ``wavelength_range``.
    n_classes : int, default=6
        Number of classes; class k is made of endmember k in the main.
    n_endmembers : int, optional
        Number of materials, at least ``n_classes`` (the default). Further ones occur in mixtures
        only.
    n_regions : int, optional
        Number of fields, at least ``n_classes``; three per class by default.
    similarity : float in [0, 1), default=0.5
        How much the materials have in common: 0 for unrelated spectra, near 1 for all but equal.
    mixing : float in [0, 1), default=0.2
        Share of the background mixture in every pixel.
    blur : float, default=1.0
        Standard deviation of the point-spread function in pixels; 0 for sharp borders.
    label_purity : float in [0, 1], default=0.5
        A pixel is labelled where the abundance of its field's material is at least this.
    snr_db : float or None, default=30.0
        Ratio of the mean squares of signal and noise, in decibels; None for no noise.
    illumination : float in [0, 1), default=0.1
        Relative amplitude of the smooth variation of brightness.
    absorption_depth : float in [0, 1], default=0.95
        Share of the light absorbed at 1400 and 1900 nm; 0 for a dry atmosphere.
    wavelength_range : pair of float, default=(400.0, 2500.0)
        First and last wavelength in nm.
    split : {"random", "spatial"} or None, default="random"
        As in :func:`fetch_indian_pines`.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same scene every time.
    dtype : {float64, float32}, default=float64
        Type of ``cube`` and ``data``.

    Returns
    -------
    Bunch
        The fields of :func:`fetch_indian_pines`, and ``endmembers`` (n_endmembers, n_bands) before
        absorption, ``abundances`` (height, width, n_endmembers), ``transmission`` (n_bands,),
        ``absorption_bands`` (n_bands,), true where less than half of the light passes,
        ``illumination`` (height, width), ``noise_std``.

    Examples
    --------
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> scene = make_hyperspectral_scene(48, 40, n_bands=60, n_classes=4, random_state=0)
    >>> scene.cube.shape, scene.endmembers.shape, scene.abundances.shape
    ((48, 40, 60), (4, 60), (48, 40, 4))
    """
    n_endmembers = n_classes if n_endmembers is None else n_endmembers
    n_regions = 3 * n_classes if n_regions is None else n_regions
    _check_scene_parameters(
        height,
        width,
        n_bands,
        n_classes,
        n_endmembers,
        n_regions,
        blur=blur,
        similarity=similarity,
        mixing=mixing,
        label_purity=label_purity,
        illumination=illumination,
        absorption_depth=absorption_depth,
    )
    first, last = wavelength_range
    if not 0.0 < first < last:
        raise ValueError(
            f"`wavelength_range` should be two rising positive numbers, got {wavelength_range!r}. "
            "Give the first and the last wavelength in nm."
        )
    if np.dtype(dtype).kind != "f":
        raise ValueError(
            f"`dtype` should be a floating-point type, got {np.dtype(dtype)}. Choose float64 or "
            "float32."
        )
    rng = check_random_state(random_state)
    shape = (height, width)
    wavelengths = np.linspace(first, last, n_bands)
    endmembers = _smooth_spectra(rng, n_endmembers, n_bands, similarity)
    transmission = _transmission(wavelengths, absorption_depth)
    field_class = _fields(rng, shape, n_classes, n_regions)
    abundances = _abundances(rng, field_class, n_endmembers, mixing, blur)
    brightness = 1.0 + illumination * _bounded(_random_field(rng, shape, max(shape) / 8.0))

    cube = (abundances * brightness[..., np.newaxis]).astype(dtype) @ (
        endmembers * transmission
    ).astype(dtype)
    noise_std = _add_noise(rng, cube, snr_db)
    ground_truth = _label(field_class, abundances, label_purity)
    return Bunch(
        **scene_fields(
            cube=cube,
            ground_truth=ground_truth,
            maps=None,
            split=split,
            random_state=rng,
            target_names=[f"class {k}" for k in range(1, n_classes + 1)],
            wavelengths=wavelengths,
        ),
        endmembers=endmembers,
        abundances=abundances,
        transmission=transmission,
        absorption_bands=transmission < 0.5,
        illumination=brightness,
        noise_std=noise_std,
        DESCR=(
            f"Simulated scene of {height} x {width} pixels, {n_bands} bands, {n_classes} classes, "
            f"{n_endmembers} endmembers in linear mixture, signal-to-noise ratio {snr_db} dB."
        ),
        source="jplay.datasets.make_hyperspectral_scene",
        licence="No rights reserved: simulated data",
        filenames=[],
    )


def _smooth_spectra(rng, n_spectra, n_bands, similarity):
    """Draw reflectances in [0.05, 0.95] that share a common curve to the degree asked for."""
    common = _smooth_curves(rng, 1, n_bands)
    own = _smooth_curves(rng, n_spectra, n_bands)
    return 0.05 + 0.9 / (1.0 + np.exp(-(similarity * common + (1.0 - similarity) * own)))


def _smooth_curves(rng, n_spectra, n_bands):
    """Draw curves as random levels with a few smooth bumps."""
    position = np.linspace(0.0, 1.0, n_bands)
    n_bumps = 6
    centre = rng.uniform(0.0, 1.0, (n_spectra, n_bumps, 1))
    scale = rng.uniform(0.04, 0.25, (n_spectra, n_bumps, 1))
    height = rng.uniform(-1.0, 1.0, (n_spectra, n_bumps, 1))
    bumps = (height * np.exp(-0.5 * ((position - centre) / scale) ** 2)).sum(axis=1)
    level = rng.uniform(-0.8, 0.8, (n_spectra, 1))
    return level + 1.5 * bumps


def _transmission(wavelengths, depth):
    absorbed = sum(
        np.exp(-0.5 * ((wavelengths - centre) / sigma) ** 2) for centre, sigma in _WATER_VAPOUR_NM
    )
    return 1.0 - depth * np.minimum(absorbed, 1.0)


def _random_field(rng, shape, correlation_length):
    """Draw a smooth Gaussian field of mean 0 and variance 1 over the image."""
    from scipy.ndimage import gaussian_filter

    field = gaussian_filter(rng.standard_normal(shape), correlation_length, mode="reflect")
    return (field - field.mean()) / max(field.std(), np.finfo(float).tiny)


def _bounded(field):
    return np.tanh(field)


def _fields(rng, shape, n_classes, n_regions):
    """Return the class (from 0) of each pixel: nearest of random seeds, with bent borders."""
    from scipy.spatial import cKDTree

    height, width = shape
    flat_seeds = rng.choice(height * width, n_regions, replace=False)
    seeds = np.column_stack(np.unravel_index(flat_seeds, shape))
    seed_class = rng.permutation(np.arange(n_regions) % n_classes)
    spacing = np.sqrt(height * width / n_regions)
    bend = [0.2 * spacing * _random_field(rng, shape, spacing / 3.0) for _ in shape]
    rows, columns = np.indices(shape)
    places = np.column_stack([(rows + bend[0]).ravel(), (columns + bend[1]).ravel()])
    _, nearest = cKDTree(seeds).query(places)
    return seed_class[nearest].reshape(shape)


def _abundances(rng, field_class, n_endmembers, mixing, blur):
    """Mix each field's own material with its neighbours' and with a smooth background."""
    from scipy.ndimage import gaussian_filter

    shape = field_class.shape
    own = (field_class[..., np.newaxis] == np.arange(n_endmembers)).astype(np.float64)
    if blur > 0:
        own = np.stack([gaussian_filter(own[..., k], blur) for k in range(n_endmembers)], axis=-1)
    length = max(2.0, max(shape) / 16.0)
    strength = np.exp(
        np.stack([_random_field(rng, shape, length) for _ in range(n_endmembers)], axis=-1)
    )
    background = strength / strength.sum(axis=-1, keepdims=True)
    mixed = (1.0 - mixing) * own + mixing * background
    return mixed / mixed.sum(axis=-1, keepdims=True)


def _add_noise(rng, cube, snr_db):
    """Add white noise in place, row by row of the image, and return its standard deviation."""
    if snr_db is None:
        return 0.0
    noise_std = float(np.sqrt(np.mean(np.square(cube, dtype=np.float64))) * 10 ** (-snr_db / 20))
    for row in cube:
        row += noise_std * rng.standard_normal(row.shape)
    return noise_std


def _label(field_class, abundances, label_purity):
    purity = np.take_along_axis(abundances, field_class[..., np.newaxis], axis=-1)[..., 0]
    ground_truth = np.where(purity >= label_purity, field_class + 1, 0)
    n_classes = field_class.max() + 1
    missing = np.setdiff1d(np.arange(1, n_classes + 1), ground_truth)
    if missing.size:
        raise ValueError(
            f"`label_purity` should leave pixels of every class, got {label_purity} with no pixel "
            f"in classes {missing.tolist()}. Lower it, `mixing` or `blur`, or choose a larger "
            "image."
        )
    return ground_truth


def _check_scene_parameters(
    height, width, n_bands, n_classes, n_endmembers, n_regions, *, blur, **fractions
):
    for name, value, minimum in (
        ("height", height, 2),
        ("width", width, 2),
        ("n_bands", n_bands, 2),
        ("n_classes", n_classes, 2),
        ("n_endmembers", n_endmembers, n_classes),
        ("n_regions", n_regions, n_classes),
    ):
        check_count(name, value, minimum)
    if n_regions > height * width:
        raise ValueError(
            f"`n_regions` should be at most the number of pixels ({height * width}), got "
            f"{n_regions}. Choose fewer regions or classes, or a larger image."
        )
    for name, value in fractions.items():
        if not 0.0 <= value <= 1.0 or (name in _OPEN_FRACTIONS and value == 1.0):
            raise ValueError(
                f"`{name}` should be a fraction between 0 and 1, got {value!r}. Choose a value "
                "inside."
            )
    if not blur >= 0.0:
        raise ValueError(f"`blur` should be at least 0 pixels, got {blur!r}. Use 0 for no blur.")
