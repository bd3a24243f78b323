"""What a tree needs to know about its targets, for each kind of target.

Every kind answers the same questions about a set of rows: a basis for the canonical
correlations, the gain of each candidate split, whether anything is left to split, and what a leaf
predicts. ``rows`` may repeat a sample.
"""

from dataclasses import dataclass, field

import numpy as np

from jplay.baselines.ccf._canonical import orthonormal_basis

# Bounds the memory of the label counts of all candidate splits of a node.
COUNTS_AT_ONCE = 2**18


def entropy_table(n_samples):
    """Values of n log n for n = 0 .. n_samples."""
    counts = np.arange(n_samples + 1, dtype=np.float64)
    counts[1:] *= np.log(counts[1:])
    return counts


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """One class per sample; the gain is the information gain in nats times the samples."""

    codes: np.ndarray
    n_classes: int
    _n_log_n: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, codes, n_classes):
        # A small integer type lets NumPy sort the classes by radix.
        dtype = np.min_scalar_type(max(n_classes - 1, 0))
        return cls(codes.astype(dtype), n_classes, entropy_table(len(codes)))

    def is_pure(self, rows):
        codes = self.codes[rows]
        return bool((codes == codes[0]).all())

    def leaf_value(self, rows):
        return np.bincount(self.codes[rows], minlength=self.n_classes) / len(rows)

    def basis(self, rows):
        """Scaled class indicators: orthonormal, and the constant vector lies in their span."""
        codes = self.codes[rows]
        counts = np.bincount(codes)
        present = counts > 0
        column = np.cumsum(present) - 1
        basis = np.zeros((len(rows), column[-1] + 1))
        basis[np.arange(len(rows)), column[codes]] = 1 / np.sqrt(counts[codes])
        return basis, column[-1]

    def gains(self, rows, order):
        """Gain of the split after each position of each ordering in ``order``.

        A sample that moves from the right to the left side changes the sum of n_c log n_c in
        the term of its own class only, by an amount that depends on its rank within the class.
        So no table of counts over all classes is needed.
        """
        n_log_n = self._n_log_n
        n_rows = len(rows)
        counts = np.bincount(self.codes[rows])
        ends = np.cumsum(counts)
        rank = np.arange(n_rows) - np.repeat(ends - counts, counts)
        remaining = np.repeat(counts, counts) - rank
        step = n_log_n[rank + 1] - n_log_n[rank] + n_log_n[remaining - 1] - n_log_n[remaining]

        by_class = np.argsort(self.codes[rows][order], axis=1, kind="stable")
        steps = np.empty(order.shape)
        steps[np.arange(len(order))[:, np.newaxis], by_class] = step
        gains = np.cumsum(steps, axis=1)
        left = np.arange(1, n_rows + 1)
        return gains - (n_log_n[left] + n_log_n[n_rows - left] - n_log_n[n_rows])


@dataclass(frozen=True, eq=False)
class LabelTargets:
    """Any number of labels per sample; the gains of the labels add up."""

    indicator: np.ndarray
    _n_log_n: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, indicator):
        return cls(np.asarray(indicator, dtype=np.float64), entropy_table(len(indicator)))

    def is_pure(self, rows):
        labels = self.indicator[rows]
        return bool((labels == labels[0]).all())

    def leaf_value(self, rows):
        return self.indicator[rows].mean(axis=0)

    def basis(self, rows):
        basis = orthonormal_basis(self.indicator[rows])
        return basis, basis.shape[1]

    def gains(self, rows, order):
        n_log_n = self._n_log_n
        n_rows = len(rows)
        labels = self.indicator[rows].astype(np.intp)
        with_label = labels.sum(axis=0)
        # A label that all rows have, or none has, gains nothing.
        undecided = (with_label > 0) & (with_label < n_rows)
        labels, with_label = labels[:, undecided], with_label[undecided]
        n_left = np.arange(1, n_rows + 1)
        size = n_log_n[n_left] + n_log_n[n_rows - n_left] - n_log_n[n_rows]
        before = (n_log_n[with_label] + n_log_n[n_rows - with_label]).sum()
        n_at_once = max(1, COUNTS_AT_ONCE // labels.size)
        gains = np.empty(order.shape)
        for start in range(0, len(order), n_at_once):
            part = slice(start, start + n_at_once)
            left = np.cumsum(labels[order[part]], axis=1)
            right = with_label - left
            after = n_log_n[left] + n_log_n[right]
            after += n_log_n[n_left[:, np.newaxis] - left]
            after += n_log_n[(n_rows - n_left)[:, np.newaxis] - right]
            gains[part] = after.sum(axis=2) - before - len(with_label) * size
        return gains
