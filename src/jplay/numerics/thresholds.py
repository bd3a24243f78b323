"""Thresholds on label scores that maximise F1."""

import numpy as np


def best_f1_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    """Threshold above which predicting a label gives the largest F1.

    Parameters
    ----------
    scores : ndarray of shape (n,)
    truth : ndarray of shape (n,)
        Zeros and ones.

    Returns
    -------
    float
        Midway between two scores; above all of them if no sample has the label.

    Examples
    --------
    >>> import numpy as np
    >>> best_f1_threshold(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 0, 1, 1]))
    0.25
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(truth[order])
    n_positive = hits[-1]
    if n_positive == 0:
        return float(ranked[0]) + 1.0
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + n_positive)
    # Samples of equal score are predicted alike: only the last of them is a place to cut.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1
    cut = int(np.argmax(f1))
    if cut + 1 == len(ranked):
        return float(ranked[cut]) - 1e-6 * (1 + abs(float(ranked[cut])))
    return float(ranked[cut] + ranked[cut + 1]) / 2
