"""A plain, direct transcription of the paper's two algorithms; samples are rows.

It keeps every split and every multiplier with one row per sample and solves every linear
system anew, as the algorithm boxes say. The library's compressed solver must give the same
iterates; this is what it is compared with, for results and for speed.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Settings:
    """Weights, switches and stopping rules; the defaults are the published ones."""

    alpha: float = 1.0
    beta: float = 0.1
    gamma: float = 0.1
    eta: float = 0.1
    nonnegative: bool = True
    unit_ball: bool = True
    reconstruction: bool = True
    max_iter: int = 1000
    tol: float = 1e-4
    inner_max_iter: int = 1000
    inner_tol: float = 1e-6
    mu: float = 1e-3
    mu_growth: float = 2.0
    mu_max: float = 1e6


def heat_affinity(X, n_neighbors, bandwidth):
    """Dense k-nearest-neighbour graph with heat-kernel weights, ``max(W, W^T)``."""
    squared = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    candidates = squared.copy()
    np.fill_diagonal(candidates, np.inf)
    nearest = np.argsort(candidates, axis=1, kind="stable")[:, :n_neighbors]
    W = np.zeros_like(squared)
    for i, neighbors in enumerate(nearest):
        W[i, neighbors] = np.exp(-squared[i, neighbors] / (2 * bandwidth**2))
    return np.maximum(W, W.T)


def graph_laplacian(affinity):
    """``L = D - W`` of a dense graph."""
    return np.diag(affinity.sum(axis=1)) - affinity


def lpp(X, affinity, n_components):
    """Locality preserving projections by a singular value decomposition of ``D^(1/2) X``."""
    centred = X - X.mean(axis=0)
    root_degrees = np.sqrt(affinity.sum(axis=1))[:, None]
    _, singular, axes = np.linalg.svd(root_degrees * centred, full_matrices=False)
    keep = singular > 1e-10 * singular[0]
    whitener = axes[keep].T / singular[keep]
    values, vectors = np.linalg.eigh(whitener.T @ (centred.T @ (affinity @ centred)) @ whitener)
    theta = (whitener @ vectors[:, np.argsort(-values)[:n_components]]).T
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    theta[(X @ theta.T).sum(axis=0) < 0] *= -1
    return theta


def solve_layer(X, laplacian, theta, weight, settings, *, Y=None, coef=None):
    """Algorithm 2, and with labels its variant for fine-tuning (Eqs. 18 to 20).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_in)
    laplacian : ndarray or sparse array of shape (n_samples, n_samples)
    theta : ndarray of shape (n_out, n_in)
        The start.
    weight : float
        Of the manifold term: ``eta`` in pre-training, ``beta`` in fine-tuning.
    settings : Settings
    Y : ndarray of shape (n_samples, n_outputs), default=None
    coef : ndarray of shape (n_outputs, n_out), default=None
        From this layer's output to the labels; ``None`` without labels.

    Returns
    -------
    theta : ndarray of shape (n_out, n_in)
    n_iter : int
    """
    n_out, n_in = theta.shape
    gram = X.T @ X
    manifold = weight * (X.T @ (laplacian @ X))
    penalty = np.eye(n_in) + gram
    H = X @ theta.T
    G = np.zeros_like(theta)
    dual_H = np.zeros_like(H)
    dual_G = np.zeros_like(G)
    if settings.nonnegative:
        penalty += gram
        Q = np.zeros_like(H)
        dual_Q = np.zeros_like(H)
    if settings.unit_ball:
        penalty += gram
        S = np.zeros_like(H)
        dual_S = np.zeros_like(H)
    mu = settings.mu
    n_iter, converged = 0, False
    while n_iter < settings.inner_max_iter and not converged:
        pull = mu * H + dual_H
        if settings.nonnegative:
            pull += mu * Q + dual_Q
        if settings.unit_ball:
            pull += mu * S + dual_S
        right = pull.T @ X + mu * G + dual_G
        theta = np.linalg.solve(manifold + mu * penalty, right.T).T
        Z = X @ theta.T

        system = mu * np.eye(n_out)
        right = mu * Z - dual_H
        if settings.reconstruction:
            system += G @ G.T
            right += X @ G.T
        if coef is not None:
            system += settings.alpha * (coef.T @ coef)
            right += settings.alpha * (Y @ coef)
        H = np.linalg.solve(system, right.T).T

        if settings.reconstruction:
            G = np.linalg.solve(H.T @ H + mu * np.eye(n_out), H.T @ X + mu * theta - dual_G)
        else:
            G = theta - dual_G / mu

        dual_H += mu * (H - Z)
        dual_G += mu * (G - theta)
        residuals = [np.linalg.norm(H - Z), np.linalg.norm(G - theta)]
        if settings.nonnegative:
            Q = np.maximum(Z - dual_Q / mu, 0)
            dual_Q += mu * (Q - Z)
            residuals.append(np.linalg.norm(Q - Z))
        if settings.unit_ball:
            V = Z - dual_S / mu
            S = V / np.maximum(1, np.linalg.norm(V, axis=1, keepdims=True))
            dual_S += mu * (S - Z)
            residuals.append(np.linalg.norm(S - Z))
        mu = min(settings.mu_growth * mu, settings.mu_max)
        converged = max(residuals) < settings.inner_tol
        n_iter += 1
    return theta, n_iter


def solve_coef(Z, Y, settings):
    """Eq. 17, the ridge regression of the labels on the last subspace."""
    system = settings.alpha * (Z.T @ Z) + settings.gamma * np.eye(Z.shape[1])
    return np.linalg.solve(system, settings.alpha * (Z.T @ Y)).T


def objective(X, Y, laplacian, thetas, coef, settings):
    """Eq. 6."""
    reconstruction = manifold = 0.0
    Z = X
    for theta in thetas:
        previous, Z = Z, Z @ theta.T
        if settings.reconstruction:
            reconstruction += np.linalg.norm(previous - Z @ theta) ** 2
        manifold += np.sum(Z * (laplacian @ Z))
    return 0.5 * (
        reconstruction
        + settings.alpha * np.linalg.norm(Y - Z @ coef.T) ** 2
        + settings.beta * manifold
        + settings.gamma * np.linalg.norm(coef) ** 2
    )


def pretrain(X, affinity, layer_sizes, settings):
    """Algorithm 1, lines 3 to 7: LPP and AutoRULe, layer after layer."""
    laplacian = graph_laplacian(affinity)
    thetas = []
    for n_out in layer_sizes:
        start = lpp(X, affinity, n_out)
        theta, _ = solve_layer(X, laplacian, start, settings.eta, settings)
        thetas.append(theta)
        X = X @ theta.T
    return thetas


def solve_jplay(X, Y, affinity, layer_sizes, settings):
    """Algorithm 1 on a dense graph.

    Returns
    -------
    thetas : list of ndarray of shape (n_out, n_in)
    coef : ndarray of shape (n_outputs, n_components)
    history : list of float
        The objective after each outer iteration.
    """
    laplacian = graph_laplacian(affinity)
    thetas = pretrain(X, affinity, layer_sizes, settings)
    history = []
    while len(history) < settings.max_iter:
        Z = X
        for theta in thetas:
            Z = Z @ theta.T
        coef = solve_coef(Z, Y, settings)
        layer_input = X
        for layer, theta in enumerate(thetas):
            downstream = coef
            for later in reversed(thetas[layer + 1 :]):
                downstream = downstream @ later
            thetas[layer], _ = solve_layer(
                layer_input, laplacian, theta, settings.beta, settings, Y=Y, coef=downstream
            )
            layer_input = layer_input @ thetas[layer].T
        history.append(objective(X, Y, laplacian, thetas, coef, settings))
        if len(history) > 1 and abs(history[-1] - history[-2]) < settings.tol * abs(history[-2]):
            break
    return thetas, coef, history
