"""One canonical correlation tree: growing it and descending it."""

from dataclasses import dataclass

import numpy as np

from jplay.baselines.ccf._canonical import canonical_directions

# In units of the standardized features: smaller differences are rounding, not information.
VARIATION_TOLERANCE = 1e-10


@dataclass(frozen=True)
class TreeSettings:
    """How a tree is grown."""

    n_sampled_features: int
    max_depth: int | None
    min_samples_leaf: int
    projection_bootstrap: bool


@dataclass(frozen=True, eq=False)
class CanonicalCorrelationTree:
    """A grown tree, on standardized features.

    A sample ``z`` at split ``s`` goes to ``children[s, 1]`` if
    ``z[features[s]] @ weights[s] > thresholds[s]`` and to ``children[s, 0]`` otherwise. A
    negative child ``c`` is the leaf ``~c``. The root is split 0, or leaf 0 of a tree without
    splits.

    Attributes
    ----------
    features : ndarray of shape (n_splits, n_sampled_features)
    weights : ndarray of shape (n_splits, n_sampled_features)
    thresholds : ndarray of shape (n_splits,)
    children : ndarray of shape (n_splits, 2)
    leaf_values : ndarray of shape (n_leaves, n_outputs)
    leaf_sizes : ndarray of shape (n_leaves,)
    depth : int
    """

    features: np.ndarray
    weights: np.ndarray
    thresholds: np.ndarray
    children: np.ndarray
    leaf_values: np.ndarray
    leaf_sizes: np.ndarray
    depth: int

    def apply(self, Z):
        """Leaf of each row of the standardized ``Z``; all rows descend a level at a time."""
        n_rows, n_features = Z.shape
        if len(self.thresholds) == 0:
            return np.zeros(n_rows, dtype=np.intp)
        flat = np.ascontiguousarray(Z).ravel()
        children = self.children.ravel()
        leaf = np.empty(n_rows, dtype=np.intp)
        row = np.arange(n_rows)
        split = np.zeros(n_rows, dtype=np.intp)
        while row.size:
            index = self.features.take(split, axis=0)
            index += row[:, np.newaxis] * n_features
            projection = np.einsum("ij,ij->i", flat.take(index), self.weights.take(split, axis=0))
            goes_right = projection > self.thresholds.take(split)
            child = children.take(2 * split + goes_right)
            arrived = child < 0
            leaf[row[arrived]] = ~child[arrived]
            row, split = row[~arrived], child[~arrived]
        return leaf

    def predict(self, Z):
        """Mean target of the leaf of each row, of shape (n_rows, n_outputs)."""
        return self.leaf_values.take(self.apply(Z), axis=0)


def _draw_varying_features(Z, rows, n_sampled, rng):
    """Random features that vary over ``rows``, and their values; fewer if fewer vary."""
    n_features = Z.shape[1]
    features = rng.choice(n_features, n_sampled, replace=False, shuffle=False)
    block = Z[rows[:, np.newaxis], features]
    varies = block.max(axis=0) - block.min(axis=0) > VARIATION_TOLERANCE
    if varies.all():
        return features, block
    # Accepting the first draw only when all of it varies keeps the draw uniform over the
    # subsets of varying features.
    node = Z[rows]
    varying = np.flatnonzero(node.max(axis=0) - node.min(axis=0) > VARIATION_TOLERANCE)
    features = rng.permutation(varying)[:n_sampled]
    return features, node[:, features]


def _two_point_direction(block):
    """Maximum-margin direction between two distinct points, or None if there are more."""
    differs = (block != block[0]).any(axis=1)
    other = block[differs.argmax()]
    if (block[differs] != other).any():
        return None
    return (other - block[0])[:, np.newaxis]


def _directions(block, targets, rows, bootstrap, rng):
    if len(rows) == 2:
        return _two_point_direction(block)
    directions = None
    if bootstrap:
        drawn = rng.integers(0, len(rows), len(rows))
        directions, _ = canonical_directions(block[drawn], *targets.basis(rows[drawn]))
    if directions is None or directions.shape[1] == 0:
        directions, _ = canonical_directions(block, *targets.basis(rows))
    if directions.shape[1] == 1:
        margin = _two_point_direction(block)
        return directions if margin is None else margin
    return directions


def _best_split(Z, targets, rows, settings, rng):
    """Features, weights, threshold and the mask of the right side; None without any gain."""
    features, block = _draw_varying_features(Z, rows, settings.n_sampled_features, rng)
    if len(features) == 0:
        return None
    directions = _directions(block, targets, rows, settings.projection_bootstrap, rng)
    projections = (block @ directions).T
    order = np.argsort(projections, axis=1)
    ordered = projections[np.arange(len(order))[:, np.newaxis], order]

    first, last = settings.min_samples_leaf - 1, len(rows) - settings.min_samples_leaf
    gaps = (ordered[:, 1:] - ordered[:, :-1])[:, first:last]
    extent = np.abs(ordered[:, [0, -1]]).max(axis=1, keepdims=True)
    gains = targets.gains(rows, order)[:, first:last]
    gains[gaps <= VARIATION_TOLERANCE * extent] = 0.0
    best = gains.argmax()
    direction, position = divmod(best, gains.shape[1])
    if not gains[direction, position] > VARIATION_TOLERANCE:
        return None
    position += first
    threshold = 0.5 * (ordered[direction, position] + ordered[direction, position + 1])
    return features, directions[:, direction], threshold, projections[direction] > threshold


def _padded(vectors, width, dtype):
    """Stack vectors of at most ``width`` entries; a split on fewer features has zero weights."""
    rows = np.zeros((len(vectors), width), dtype=dtype)
    for row, vector in zip(rows, vectors, strict=True):
        row[: len(vector)] = vector
    return rows


def grow_tree(Z, targets, settings, *, bagged, seed):
    """Grow one tree on the standardized ``Z``.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_features)
    targets : ClassTargets or LabelTargets
    settings : TreeSettings
    bagged : bool
        Grow on a bootstrap of the samples instead of all of them.
    seed : int

    Returns
    -------
    tree : CanonicalCorrelationTree
    """
    rng = np.random.default_rng(seed)
    n_samples = len(Z)
    rows = rng.integers(0, n_samples, n_samples) if bagged else np.arange(n_samples)
    features, weights, thresholds, children = [], [], [], []
    leaf_values, leaf_sizes = [], []
    deepest = 0
    pending = [(rows, 0, None)]
    while pending:
        rows, depth, parent = pending.pop()
        deepest = max(deepest, depth)
        split = None
        if (
            len(rows) >= 2 * settings.min_samples_leaf
            and (settings.max_depth is None or depth < settings.max_depth)
            and not targets.is_pure(rows)
        ):
            split = _best_split(Z, targets, rows, settings, rng)
        if split is None:
            node = ~len(leaf_values)
            leaf_values.append(targets.leaf_value(rows))
            leaf_sizes.append(len(rows))
        else:
            node = len(thresholds)
            split_features, split_weights, threshold, goes_right = split
            features.append(split_features)
            weights.append(split_weights)
            thresholds.append(threshold)
            children.append([0, 0])
            pending.append((rows[goes_right], depth + 1, (node, 1)))
            pending.append((rows[~goes_right], depth + 1, (node, 0)))
        if parent is not None:
            children[parent[0]][parent[1]] = node
    return CanonicalCorrelationTree(
        features=_padded(features, settings.n_sampled_features, np.intp),
        weights=_padded(weights, settings.n_sampled_features, np.float64),
        thresholds=np.array(thresholds, dtype=np.float64),
        children=np.array(children, dtype=np.intp).reshape(-1, 2),
        leaf_values=np.array(leaf_values),
        leaf_sizes=np.array(leaf_sizes),
        depth=deepest,
    )
