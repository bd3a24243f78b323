"""Accuracy and area from a sample of reference pixels, as remote sensing reports them.

Notation and equation numbers are those of Olofsson, Foody, Herold, Stehman, Woodcock and Wulder
(2014), "Good practices for estimating area and assessing accuracy of land change", Remote Sensing
of Environment 148, 42-57.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri


def wilson_interval(
    successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    r"""Interval of a share by Wilson's score method.

    With :math:`\hat p = k / n` and the normal quantile :math:`z`,

    .. math::
        \frac{\hat p + z^2 / 2n \pm z \sqrt{\hat p (1 - \hat p) / n + z^2 / 4n^2}}{1 + z^2 / n}.

    It stays within 0 and 1 and keeps its level for shares near them.

    Parameters
    ----------
    successes, trials : array-like of int of the same shape
    confidence : float, default=0.95

    Returns
    -------
    low, high : ndarray
        NaN where there were no trials.

    Examples
    --------
    >>> from jplay.raster import wilson_interval
    >>> low, high = wilson_interval(66, 75)
    >>> f"{low:.3f} {high:.3f}"
    '0.787 0.936'
    """
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    z2 = _quantile(confidence) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        share = k / n
        center = share + z2 / (2 * n)
        spread = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2)))
        low, high = (center - spread) / (1 + z2 / n), (center + spread) / (1 + z2 / n)
    # Exact at the ends, where rounding leaves something like 1e-17.
    return np.where(k == 0, 0 * low, low), np.where(k == n, 1 + 0 * high, high)


@dataclass(frozen=True, eq=False)
class AreaEstimates:
    """What a stratified sample tells of the area and the accuracy of every class.

    Half-widths are those of normal confidence intervals: an estimate plus or minus its half-width.
    A figure that the sample does not give is NaN.

    Attributes
    ----------
    classes : list
        In the order of the arrays below.
    confidence : float
        Level of the intervals.
    unit : str
        Of areas: ``"pixels"``, or that of ``pixel_area``.
    mapped_area : ndarray of shape (n_classes,)
        Area of each class on the map, which is biased by the map's errors.
    area, area_half_width : ndarray of shape (n_classes,)
        Estimated area; it corrects for the errors that the sample found.
    area_proportion, area_proportion_half_width : ndarray of shape (n_classes,)
        The same as a share of the whole.
    users_accuracy, users_accuracy_half_width : ndarray of shape (n_classes,)
        Of what the map calls this class, the share that is.
    producers_accuracy, producers_accuracy_half_width : ndarray of shape (n_classes,)
        Of what is this class, the share that the map calls so.
    overall_accuracy, overall_accuracy_half_width : float
        Share of the area that the map has right.
    proportions : ndarray of shape (n_strata, n_classes)
        The error matrix in shares of the area.
    """

    classes: list[Any]
    confidence: float
    unit: str
    mapped_area: np.ndarray
    area: np.ndarray
    area_half_width: np.ndarray
    area_proportion: np.ndarray
    area_proportion_half_width: np.ndarray
    users_accuracy: np.ndarray
    users_accuracy_half_width: np.ndarray
    producers_accuracy: np.ndarray
    producers_accuracy_half_width: np.ndarray
    overall_accuracy: float
    overall_accuracy_half_width: float
    proportions: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; an undefined figure is ``None``."""
        return {
            name: _plain(value.tolist() if isinstance(value, np.ndarray) else value)
            for name, value in vars(self).items()
        }


def estimate_areas(
    counts: ArrayLike,
    mapped_pixels: ArrayLike,
    *,
    classes: Sequence[Any] | None = None,
    strata: Sequence[Any] | None = None,
    pixel_area: float | None = None,
    unit: str = "ha",
    confidence: float = 0.95,
) -> AreaEstimates:
    r"""Estimate areas and accuracies from reference pixels drawn at random within each map class.

    With :math:`n_{ij}` pixels of stratum :math:`i` whose true class is :math:`j`, :math:`n_i` in
    all, and the mapped share :math:`W_i`, the area of class :math:`j` is the share
    :math:`\hat p_{\cdot j} = \sum_i W_i n_{ij} / n_i` (equation 9) with standard error
    :math:`\sqrt{\sum_i W_i^2 \frac{n_{ij}}{n_i} (1 - \frac{n_{ij}}{n_i}) / (n_i - 1)}`
    (equation 10). Overall, user's and producer's accuracy have the variances of equations 5, 6, 7.

    Parameters
    ----------
    counts : array-like of int of shape (n_strata, n_classes)
        Rows are classes of the map, columns true classes.
    mapped_pixels : array-like of int of shape (n_strata,)
        Number of pixels of each class on the whole map.
    classes : sequence of length n_classes, optional
        True classes; 0, 1, ... by default.
    strata : sequence of length n_strata, optional
        Classes of the map, by default ``classes``. A stratum that is no class, such as
        ``"unclassified"``, counts for the area but is never right.
    pixel_area : float, optional
        Area of one pixel in ``unit``; without it areas are in pixels.
    unit : str, default="ha"
    confidence : float, default=0.95

    Returns
    -------
    AreaEstimates

    Examples
    --------
    The example of the paper: deforestation, forest gain, stable forest, stable non-forest.

    >>> from jplay.raster import estimate_areas
    >>> counts = [[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]]
    >>> mapped = [200_000, 150_000, 3_200_000, 6_450_000]
    >>> found = estimate_areas(counts, mapped, pixel_area=0.09)
    >>> f"{found.area[0]:.0f} ± {found.area_half_width[0]:.0f} {found.unit}"
    '21158 ± 6158 ha'
    """
    counts, mapped = np.asarray(counts), np.asarray(mapped_pixels, dtype=float)
    classes = list(range(counts.shape[-1]) if classes is None else classes)
    strata = list(classes if strata is None else strata)
    _check_design(counts, mapped, strata, classes)
    used = mapped > 0
    counts, mapped = counts[used].astype(float), mapped[used]
    strata = [stratum for stratum, is_used in zip(strata, used, strict=True) if is_used]
    n = counts.sum(axis=1)
    weight = mapped / mapped.sum()
    share = counts / n[:, None]
    # Variance of each share within its stratum; the sample is taken for small against the stratum.
    variance = share * (1 - share) / (n - 1)[:, None]
    proportions = weight[:, None] * share
    area = proportions.sum(axis=0)
    area_variance = weight**2 @ variance
    z = _quantile(confidence)
    size = mapped.sum() * (1.0 if pixel_area is None else pixel_area)
    users, users_variance, producers, producers_variance, mapped_share = _per_class(
        strata, classes, weight, share, variance, area
    )
    right = [(row, classes.index(name)) for row, name in enumerate(strata) if name in classes]
    overall = sum(proportions[place] for place in right)
    overall_variance = sum(weight[row] ** 2 * variance[row, column] for row, column in right)
    return AreaEstimates(
        classes=classes,
        confidence=confidence,
        unit="pixels" if pixel_area is None else unit,
        mapped_area=size * mapped_share,
        area=size * area,
        area_half_width=size * z * np.sqrt(area_variance),
        area_proportion=area,
        area_proportion_half_width=z * np.sqrt(area_variance),
        users_accuracy=users,
        users_accuracy_half_width=z * np.sqrt(users_variance),
        producers_accuracy=producers,
        producers_accuracy_half_width=z * np.sqrt(producers_variance),
        overall_accuracy=float(overall),
        overall_accuracy_half_width=float(z * np.sqrt(overall_variance)),
        proportions=proportions,
    )


def _per_class(strata, classes, weight, share, variance, area):
    """User's and producer's accuracy with variances (equations 2, 6, 3, 7), and mapped shares."""
    users, users_variance, producers, producers_variance = np.full((4, len(classes)), np.nan)
    mapped_share = np.zeros(len(classes))
    for column, name in enumerate(classes):
        row = strata.index(name) if name in strata else None
        if row is not None:
            mapped_share[column] = weight[row]
            users[column], users_variance[column] = share[row, column], variance[row, column]
        if area[column] == 0:
            continue
        found = 0.0 if row is None else weight[row] * share[row, column]
        producers[column] = found / area[column]
        terms = (weight**2 * variance[:, column]) * producers[column] ** 2
        if row is not None:
            terms[row] = weight[row] ** 2 * variance[row, column] * (1 - producers[column]) ** 2
        producers_variance[column] = terms.sum() / area[column] ** 2
    return users, users_variance, producers, producers_variance, mapped_share


@dataclass(frozen=True, eq=False)
class SamplePlan:
    """How many reference pixels to draw from each class of a map, and what they will tell.

    Attributes
    ----------
    classes : list
    mapped_pixels, n_pixels : ndarray of int of shape (n_classes,)
        Of the map, and to draw.
    users_accuracy : ndarray of shape (n_classes,)
        Expected ones, from which the plan was made.
    users_accuracy_half_width : ndarray of shape (n_classes,)
        Of the intervals to expect.
    overall_accuracy_half_width : float
        Of the interval to expect.
    confidence : float
    """

    classes: list[Any]
    mapped_pixels: np.ndarray
    n_pixels: np.ndarray
    users_accuracy: np.ndarray
    users_accuracy_half_width: np.ndarray
    overall_accuracy_half_width: float
    confidence: float

    def with_pixels(self, n_pixels: ArrayLike) -> "SamplePlan":
        """The same plan with other numbers of pixels, and what those will tell."""
        return _plan(
            self.classes,
            self.mapped_pixels,
            np.asarray(n_pixels),
            self.users_accuracy,
            self.confidence,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        } | {"n_total": int(self.n_pixels.sum())}


def plan_sample(
    mapped_pixels: ArrayLike,
    *,
    half_width: float = 0.02,
    users_accuracy: ArrayLike = 0.8,
    minimum: int = 50,
    classes: Sequence[Any] | None = None,
    confidence: float = 0.95,
) -> SamplePlan:
    r"""Plan a stratified sample of reference pixels for a given precision of the overall accuracy.

    With expected user's accuracies :math:`U_i` and :math:`S_i = \sqrt{U_i (1 - U_i)}` the total is
    :math:`n = (\sum_i W_i S_i)^2 / (S(\hat O)^2 + \frac{1}{N} \sum_i W_i S_i^2)` (equation 13),
    where :math:`S(\hat O)` is ``half_width`` over the normal quantile. Rare classes get
    ``minimum`` pixels, the others share the rest in proportion to their area.

    Parameters
    ----------
    mapped_pixels : array-like of int of shape (n_classes,)
        Number of pixels of each class on the map.
    half_width : float, default=0.02
        Of the interval wanted for the overall accuracy, as a share.
    users_accuracy : float or array-like of shape (n_classes,), default=0.8
        What you expect; between 0 and 1. One half is the most cautious.
    minimum : int, default=50
        Pixels of each class at least, unless it has fewer.
    classes : sequence of length n_classes, optional
    confidence : float, default=0.95

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from jplay.raster import plan_sample
    >>> plan = plan_sample(
    ...     [200_000, 150_000, 3_200_000, 6_450_000],
    ...     half_width=0.0196, users_accuracy=[0.7, 0.6, 0.9, 0.95], minimum=75,
    ... )
    >>> plan.n_pixels.tolist()
    [75, 75, 163, 328]
    """
    mapped = np.asarray(mapped_pixels)
    if mapped.ndim != 1 or mapped.size == 0 or (mapped < 0).any() or not mapped.sum():
        raise ValueError("`mapped_pixels` should be numbers of pixels of at least one class.")
    if not 0 < half_width < 1:
        raise ValueError(
            f"`half_width` should be between 0 and 1, got {half_width}. Give 0.02 for an overall "
            "accuracy known to 2 percentage points."
        )
    if minimum < 2:
        raise ValueError(f"`minimum` should be at least 2, got {minimum}: one pixel has no spread.")
    expected = np.broadcast_to(np.asarray(users_accuracy, dtype=float), mapped.shape)
    if ((expected <= 0) | (expected >= 1)).any():
        raise ValueError(
            f"`users_accuracy` should be between 0 and 1, got {expected.tolist()}. Give the share "
            "of each mapped class that you expect to be right."
        )
    z, weight = _quantile(confidence), mapped / mapped.sum()
    deviation = np.sqrt(expected * (1 - expected))
    fixed = (half_width / z) ** 2 + weight @ deviation**2 / mapped.sum()
    n_total = int(np.ceil((weight @ deviation) ** 2 / fixed))
    n_pixels = _allocated(n_total, mapped, minimum)
    classes = list(range(len(mapped)) if classes is None else classes)
    return _plan(classes, mapped, n_pixels, expected.copy(), confidence)


def _plan(classes, mapped, n_pixels, expected, confidence):
    """The plan with what these numbers of pixels will tell (equations 5 and 6)."""
    drawn = np.where(n_pixels > 1, n_pixels, np.inf)
    variance = expected * (1 - expected) / (drawn - 1)
    weight, z = mapped / mapped.sum(), _quantile(confidence)
    return SamplePlan(
        classes=classes,
        mapped_pixels=mapped,
        n_pixels=n_pixels,
        users_accuracy=expected,
        users_accuracy_half_width=z * np.sqrt(variance),
        overall_accuracy_half_width=float(z * np.sqrt(weight**2 @ variance)),
        confidence=confidence,
    )


def _allocated(n_total, mapped, minimum):
    """``minimum`` for classes whose share would be less, the rest in proportion to area."""
    least = np.minimum(minimum, mapped)
    rare = np.zeros(len(mapped), dtype=bool)
    while not rare.all():
        rest = max(0, n_total - least[rare].sum())
        shares = np.where(rare, 0.0, mapped) * rest / mapped[~rare].sum()
        below = ~rare & (shares < least)
        if not below.any():
            return np.where(rare, least, np.minimum(np.rint(shares).astype(int), mapped))
        rare |= below
    return least.copy()


def _quantile(confidence):
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` should be between 0 and 1, got {confidence}.")
    # The customary value, which published intervals are made with, instead of 1.959964.
    return 1.96 if confidence == 0.95 else float(ndtri(0.5 + confidence / 2))


def _check_design(counts, mapped, strata, classes):
    if counts.shape != (len(strata), len(classes)) or mapped.shape != (len(strata),):
        raise ValueError(
            f"`counts` should have a row per stratum and a column per class, ({len(strata)}, "
            f"{len(classes)}), and `mapped_pixels` an entry per stratum, got {counts.shape} and "
            f"{mapped.shape}."
        )
    if (counts < 0).any() or (mapped < 0).any() or not mapped.sum():
        raise ValueError("`counts` and `mapped_pixels` should be numbers of pixels, not all zero.")
    for name, n_drawn, size in zip(strata, counts.sum(axis=1), mapped, strict=True):
        if size > 0 and n_drawn < 2:
            raise ValueError(
                f"`counts` should have at least two reference pixels in every class of the map, "
                f"got {n_drawn:g} in {name!r}. Draw more there: its part of the area is unknown."
            )
        if n_drawn > size:
            raise ValueError(
                f"`mapped_pixels` should be at least the number of reference pixels, got {size:g} "
                f"for {n_drawn:g} in {name!r}."
            )


def _plain(value):
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and np.isnan(value) else value
