"""Votes of the members of a committee: how they arise, are weighed, and become probabilities."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from jplay._array_api import Array, like, namespace, smallest_per_row, to_numpy

LEAST_VOTE = 1e-3
"""Added to probabilities before they are sharpened: no vote rules out a class."""
LEAST_NEIGHBOR_VOTE = 1e-2
"""The same for votes of a few neighbours, most of which are zero."""


def softmax(scores: Array, sharpness: float = 1.0) -> Array:
    """``exp(sharpness * scores)``, divided by its sum over each row."""
    xp = namespace(scores)
    powers = xp.exp(sharpness * (scores - xp.max(scores, axis=-1, keepdims=True)))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def logistic(outputs: Array, sharpness: float = 8.0) -> Array:
    """Probability of each label by itself from outputs near 0 and 1; one half at one half."""
    xp = namespace(outputs)
    return 1 / (1 + xp.exp(-sharpness * (outputs - 0.5)))


def neighbor_votes(
    squared_distances: Array, Y: Array, n_neighbors: int = 3, sample_weight: Array | None = None
) -> Array:
    """Votes of the nearest training samples, each weighed by one over its distance.

    Parameters
    ----------
    squared_distances : array of shape (n_queries, n_samples)
        Negative ones, from rounding, count as zero.
    Y : array of shape (n_samples, n_classes)
        One-hot labels.
    n_neighbors : int, default=3
        All training samples vote if there are fewer.
    sample_weight : array of shape (n_samples,), default=None
        By which votes are multiplied; positive.

    Returns
    -------
    array of shape (n_queries, n_classes)
        Rows sum to one. A training sample at no distance decides alone.

    Examples
    --------
    >>> import numpy as np
    >>> neighbor_votes(np.array([[1.0, 4.0, 100.0]]), np.eye(2)[[0, 1, 1]], n_neighbors=2).round(3)
    array([[0.667, 0.333]])
    """
    xp = namespace(squared_distances)
    n_neighbors = min(n_neighbors, squared_distances.shape[1])
    nearest, squares = smallest_per_row(squared_distances, n_neighbors)
    distances = xp.sqrt(xp.where(squares > 0, squares, xp.zeros_like(squares)).mT)
    # Relative to the row: its largest distance may itself be zero.
    smallest = float(xp.finfo(distances.dtype).smallest_normal) ** 0.5
    floor = 1e-9 * xp.max(distances, axis=0) + smallest
    weights = 1 / xp.where(distances > floor, distances, floor * xp.ones_like(distances))
    if sample_weight is not None:
        weights = weights * xp.reshape(
            xp.take(sample_weight, xp.reshape(nearest.mT, (-1,)), axis=0), weights.shape
        )
    weights = weights / xp.sum(weights, axis=0)
    votes = weights[0, :, None] * xp.take(Y, nearest[:, 0], axis=0)
    for place in range(1, n_neighbors):
        votes = votes + weights[place, :, None] * xp.take(Y, nearest[:, place], axis=0)
    return votes


def vote_weights(
    held_votes: Array,
    labels: Array,
    pseudo_count: float = 0.3,
    max_iter: int = 500,
    tol: float = 1e-6,
) -> Array:
    r"""Weights of several voters from votes on samples that they have not seen.

    Maximises the likelihood of the mixture :math:`\sum_j w_j p_j(y_i)` under a Dirichlet prior,
    :math:`\sum_i \log \sum_j w_j p_j(y_i) + c \sum_j \log w_j` over the simplex. The problem is
    concave; the steps of the expectation-maximisation algorithm increase it monotonically.

    Parameters
    ----------
    held_votes : array of shape (n_voters, n_samples, n_classes)
    labels : array of int of shape (n_samples,)
    pseudo_count : float, default=0.3
        The ``c`` of the prior: samples that each voter is taken to have explained alone. Pulls
        the weights towards each other, the more so the fewer samples there are.
    max_iter : int, default=500
    tol : float, default=1e-6
        Largest change of a weight at which the iterations end.

    Returns
    -------
    array of shape (n_voters,)
        Positive, sum one.

    Examples
    --------
    >>> import numpy as np
    >>> good, useless = np.eye(2)[[0, 1, 0, 1]], np.full((4, 2), 0.5)
    >>> vote_weights(np.stack([good, useless]), np.array([0, 1, 0, 1])).round(2)
    array([0.88, 0.12])
    """
    xp = namespace(held_votes)
    n_voters, n_samples, _ = held_votes.shape
    column = xp.reshape(xp.astype(labels, xp.int64), (1, n_samples, 1))
    index = xp.broadcast_to(column, (n_voters, n_samples, 1))
    right = xp.take_along_axis(held_votes, index, axis=2)[:, :, 0]
    right = xp.where(right > 0, right, xp.zeros_like(right)) + LEAST_VOTE
    weights = xp.full_like(right[:, 0], 1 / n_voters)
    for _ in range(max_iter):
        shares = weights[:, None] * right
        shares = shares / xp.sum(shares, axis=0)
        updated = (xp.sum(shares, axis=1) + pseudo_count) / (n_samples + n_voters * pseudo_count)
        change = float(xp.max(xp.abs(updated - weights)))
        weights = updated
        if change <= tol:
            break
    return weights


def decided(votes: Array, left: float) -> Array:
    """Whether votes that are still to come, of a weight ``left`` in all, cannot change the labels.

    Each class gets between nothing and all of what is left. A lead of more than that is safe, by
    a margin for rounding.

    Parameters
    ----------
    votes : array of shape (n_samples, n_classes)
    left : float

    Returns
    -------
    array of bool of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> decided(np.array([[0.5, 0.1], [0.4, 0.2]]), 0.3)
    array([ True, False])
    """
    ordered = namespace(votes).sort(votes, axis=1)
    lead = ordered[:, -1] - (ordered[:, -2] if votes.shape[1] > 1 else 0)
    return lead > left + 1e-5


def margin_weights(
    held_votes: Array, labels: Array, ridge: float = 0.02, sample_weight: Array | None = None
) -> Array:
    r"""Weights of several voters from votes on samples that they have not seen.

    Scores :math:`s_i = \sum_j \beta_j p_j(\cdot \mid x_i)` with :math:`\beta_j \ge 0` minimise

    .. math::

        -\sum_i \log \mathrm{softmax}(s_i)_{y_i} + c J \sum_{j=1}^J \beta_j^2 ,

    a convex problem; the weights are :math:`\beta / \sum_j \beta_j`. What counts is by how much the
    right class is ahead, not how sure a voter is: votes that many have cast are cautious, and right
    more often than those of a single one. The ridge keeps the weights near each other, the more so
    the fewer samples there are.

    Parameters
    ----------
    held_votes : array of shape (n_voters, n_samples, n_classes)
    labels : array of int of shape (n_samples,)
    ridge : float, default=0.02
        The :math:`c` of the penalty. From 0.01 to 0.05 the mean accuracy of committees over 22
        problems was the same within 0.05 points.
    sample_weight : array of shape (n_samples,), default=None
        Of the logarithms in the sum.

    Returns
    -------
    array of shape (n_voters,)
        Not negative, sum one.

    Examples
    --------
    >>> import numpy as np
    >>> good, useless = np.eye(2)[[0, 1, 0, 1]], np.full((4, 2), 0.5)
    >>> margin_weights(np.stack([good, useless]), np.array([0, 1, 0, 1])).round(2)
    array([1., 0.])
    """
    votes, rows = to_numpy(held_votes).astype(np.float64), np.arange(held_votes.shape[1])
    labels, n_voters = to_numpy(labels), len(votes)
    weight = np.ones(len(labels)) if sample_weight is None else to_numpy(sample_weight)
    right = votes[:, rows, labels] @ weight

    def loss(beta: np.ndarray) -> tuple[float, np.ndarray]:
        scores = np.tensordot(beta, votes, axes=1)
        logarithms = log_softmax(scores, axis=1)
        shares = weight[:, None] * np.exp(logarithms)
        slopes = np.tensordot(votes, shares, axes=([1, 2], [0, 1])) - right
        value = n_voters * ridge * beta @ beta - weight @ logarithms[rows, labels]
        return value, slopes + 2 * n_voters * ridge * beta

    start = np.full(n_voters, 8 / n_voters)
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * n_voters, tol=1e-10
    ).x
    if not found.any():  # no voter is better than none
        found = start
    return like(found / found.sum(), held_votes)


def sharpened(probabilities: Array, exponent: float) -> Array:
    """Probabilities to a power, normalised; below one they become more cautious."""
    xp = namespace(probabilities)
    return softmax(xp.log(probabilities + LEAST_VOTE), exponent)


def sharpening_exponent(
    probabilities: Array,
    labels: Array,
    stiffness: float = 10.0,
    sample_weight: Array | None = None,
) -> float:
    """Exponent that makes held-out probabilities most likely.

    Minimises ``-sum_i log p_i(y_i)^t / Z_i(t) + stiffness (log t)^2`` over a grid from 1/5 to 5:
    with few samples the exponent stays near one.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes)
    labels : array of int of shape (n_samples,)
    stiffness : float, default=10.0
    sample_weight : array of shape (n_samples,), default=None
        Of the logarithms in the sum.

    Returns
    -------
    float
    """
    xp = namespace(probabilities)
    index = xp.reshape(xp.astype(labels, xp.int64), (-1, 1))

    def loss(exponent: float) -> float:
        right = xp.take_along_axis(sharpened(probabilities, exponent), index, axis=1)[:, 0]
        logarithms = xp.log(right) if sample_weight is None else sample_weight * xp.log(right)
        return -float(xp.sum(logarithms)) + stiffness * np.log(exponent) ** 2

    return min(map(float, np.geomspace(0.2, 5.0, 41)), key=loss)


def shifted_odds(probabilities: Array, exponent: float, offset: float) -> Array:
    """Probabilities of labels by themselves, with odds to a power and times ``exp(offset)``."""
    xp = namespace(probabilities)
    odds = xp.log((probabilities + LEAST_VOTE) / (1 - probabilities + LEAST_VOTE))
    return 1 / (1 + xp.exp(-exponent * odds - offset))


def odds_calibration(
    probabilities: np.ndarray, Y: np.ndarray, stiffness: float = 10.0
) -> tuple[float, float]:
    """Exponent and offset of the odds that make held-out probabilities of labels most likely.

    The mean of many votes on rare labels is too cautious: few exceed one half. Minimises the
    logarithmic loss (Platt 1999), with ``stiffness`` times ``(log exponent)^2 + offset^2`` added.

    Parameters
    ----------
    probabilities, Y : ndarray of shape (n_samples, n_labels)
        ``Y`` of zeros and ones.
    stiffness : float, default=10.0

    Returns
    -------
    exponent, offset : float

    Examples
    --------
    >>> import numpy as np
    >>> cautious, Y = np.full((1000, 1), 0.2), np.repeat([[1], [0]], 500, axis=0)
    >>> exponent, offset = odds_calibration(cautious, Y)
    >>> shifted_odds(cautious[0], exponent, offset).round(1)
    array([0.5])
    """
    odds = np.log((probabilities + LEAST_VOTE) / (1 - probabilities + LEAST_VOTE)).ravel()
    signs = np.where(Y.ravel() > 0.5, 1.0, -1.0)

    def loss(found: np.ndarray) -> tuple[float, np.ndarray]:
        exponent, offset = np.exp(found[0]), found[1]
        margins = signs * (exponent * odds + offset)
        slopes = -signs * expit(-margins)
        value = np.logaddexp(0, -margins).sum() + stiffness * found @ found
        return value, np.array([exponent * (slopes @ odds), slopes.sum()]) + 2 * stiffness * found

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-2, 2), (-5, 5)]).x
    return float(np.exp(found[0])), float(found[1])


def confidence_exponent(
    probabilities: Array, correct: Array, stiffness: float = 10.0, usual: float = 1.0
) -> float:
    """Exponent that makes it most likely that the top class is right as often as it was.

    With the largest probability ``c_i(t)`` of the powers, minimises the sum of ``-log c_i(t)`` over
    samples whose top class is right and of ``-log(1 - c_i(t))`` over the others, plus ``stiffness
    (log t - log usual)^2``, over a grid from 1/5 to 5. Samples of a class that the voters do not
    know count as wrong, which the likelihood of all classes could not express.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes)
    correct : array of bool of shape (n_samples,)
        Whether the class with the largest probability is that of the sample.
    stiffness : float, default=10.0
    usual : float, default=1.0
        Exponent if there are few samples.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> sure = np.array([[0.9, 0.1]] * 100)
    >>> often_wrong = np.arange(100) < 60
    >>> confidence_exponent(sure, often_wrong) < 0.5
    True
    """
    xp = namespace(probabilities)

    def loss(exponent: float) -> float:
        confidence = xp.max(sharpened(probabilities, exponent), axis=1)
        likely = xp.where(correct, confidence, 1 - confidence)
        away = np.log(exponent / usual)
        return -float(xp.sum(xp.log(likely + LEAST_VOTE))) + stiffness * away**2

    return min(map(float, np.geomspace(0.2, 5.0, 41)), key=loss)


def expected_calibration_error(probabilities: Array, labels: Array, n_bins: int = 10) -> float:
    """Mean distance between confidence and accuracy over bins of equal width.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes)
    labels : array of int of shape (n_samples,)
    n_bins : int, default=10

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> sure = np.array([[0.9, 0.1]] * 10)
    >>> round(expected_calibration_error(sure, np.array([0] * 9 + [1])), 12)
    0.0
    >>> round(expected_calibration_error(sure, np.array([0] * 5 + [1] * 5)), 3)
    0.4
    """
    xp = namespace(probabilities)
    confidence = xp.max(probabilities, axis=1)
    chosen = xp.argmax(probabilities, axis=1)
    right = xp.astype(chosen == like(labels, chosen), confidence.dtype)
    bins = xp.astype(xp.floor(confidence * n_bins), xp.int64)
    bins = xp.where(bins < n_bins, bins, n_bins - 1)  # the last bin holds its upper end
    error = 0.0
    for number in range(n_bins):
        gap = xp.where(bins == number, confidence - right, xp.zeros_like(confidence))
        error += abs(float(xp.sum(gap)))
    return error / labels.shape[0]
