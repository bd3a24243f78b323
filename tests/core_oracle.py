"""Plain NumPy definitions that fitted models are compared with: scaling, Eq. 6, decision rule."""

from dataclasses import dataclass

import numpy as np

import plain_transcription as plain


def scaled(X, scaling="standard"):
    """Samples as the first layer gets them."""
    X = np.asarray(X, dtype=np.float64)
    if scaling is None:
        return X
    if scaling == "norm":
        return X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    centered = X - X.mean(axis=0)
    deviation = X.std(axis=0)
    varies = np.ptp(X, axis=0) > 0
    # No feature reaches farther than two of its scales from its mean.
    spread = np.maximum(deviation, np.abs(centered).max(axis=0) / 2)
    relative = np.where(varies, deviation / np.where(varies, spread, 1), 0.0)
    scale = varies / np.where(varies, spread, 1) / (np.linalg.norm(relative) or 1.0)
    return centered * scale


@dataclass
class Chain:
    """A fitted chain over plain arrays: the input of the first layer, and every projection."""

    X: np.ndarray
    thetas: list

    @classmethod
    def of(cls, model, X):
        """The chain of a fitted estimator, with its constant feature if its map is affine."""
        S = scaled(X, getattr(model, "scaling", None))
        first = np.asarray(model.transform_layers(X)[0], dtype=np.float64)
        thetas = [np.asarray(theta, dtype=np.float64) for theta in model.projections_]
        on_scaled = thetas[0] / np.where(model.feature_scale_ > 0, model.feature_scale_, 1)
        linear = S @ on_scaled.T
        offset = (first - linear).mean(axis=0)
        if np.abs(model.first_intercept_).max() > 0:
            constant = np.linalg.norm(S, axis=1).max()
            S = np.column_stack([S, np.full(len(S), constant)])
            on_scaled = np.column_stack([on_scaled, offset / constant])
        return cls(S, [on_scaled, *thetas[1:]])

    @property
    def layers(self):
        """Features of every layer."""
        features, Z = [], self.X
        for theta in self.thetas:
            Z = Z @ theta.T
            features.append(Z)
        return features

    def terms(self, Y, coef, affinity, model, weight=None):
        """The terms of Eq. 6, each with its factor: reconstruction, prediction, manifold, ridge."""
        laplacian = plain.graph_laplacian(affinity.toarray())
        weight = np.ones(len(Y)) if weight is None else weight
        reconstruction = manifold = 0.0
        Z = self.X
        for theta in self.thetas:
            before, Z = Z, Z @ theta.T
            reconstruction += 0.5 * np.sum((before - Z @ theta) ** 2)
            manifold += 0.5 * model.beta * np.sum(Z * (laplacian @ Z))
        prediction = 0.5 * model.alpha * np.sum(weight[:, None] * (Y - Z @ coef.T) ** 2)
        ridge, absolute = getattr(model.gamma, "ridge", model.gamma), 0.0
        if model.gamma is not ridge:
            absolute = model.gamma.absolute
        penalty = 0.5 * ridge * np.sum(coef**2) + absolute * np.abs(coef).sum()
        return np.array(
            [reconstruction if model.reconstruction else 0.0, prediction, manifold, penalty]
        )


def indicators(y):
    """One-hot rows, zero for the marker -1; an indicator matrix stays."""
    y = np.asarray(y)
    if y.ndim == 2:
        return np.where(y == -1, 0, y).astype(float)
    classes = np.unique(y[y != -1]) if y.dtype.kind in "if" else np.unique(y)
    return (y[:, None] == classes).astype(float)


def objective(model, X, y, weight=None):
    """Eq. 6 at a fitted model."""
    terms = Chain.of(model, X).terms(
        indicators(y), np.asarray(model.coef_, float), model.affinity_, model, weight
    )
    return terms.sum()


def make_classes(n_samples=60, n_features=6, n_classes=3, seed=0, noise=0.5):
    """Non-negative samples around one prototype per class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    return rng.random((n_classes, n_features))[y] + noise * rng.random((n_samples, n_features)), y
