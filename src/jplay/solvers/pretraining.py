"""Greedy pre-training: locality preserving projections refined by AutoRULe (Algorithm 2)."""

from dataclasses import replace

from jplay._array_api import namespace, zeros_like_shape
from jplay.numerics.eigen import leading_generalized_eigenvectors
from jplay.solvers.layer import LayerProblem, solve_layer
from jplay.solvers.result import Status
from jplay.solvers.samples import reduced_rows


def locality_preserving_projections(statistics, n_components=None):
    """Largest solutions of ``X^T W X a = lambda X^T D X a`` for centred samples.

    Rows have unit length, and their sign makes the projections of the uncentred samples sum
    to a non-negative number: the non-negativity that follows makes the sign matter. Where that
    sum is zero, as for centred samples, it is the sum weighted by the degrees in the graph.

    Parameters
    ----------
    statistics : Statistics
    n_components : int, default=None
        ``None`` means as many as the samples support.

    Returns
    -------
    theta : array of shape (n_found, n_features)
        ``n_found`` is smaller than ``n_components`` where the samples' rank is.
    """
    xp = namespace(statistics.degree_gram)
    mean = statistics.sample_sum / statistics.n_samples
    cross = statistics.degree_sum[:, None] * mean[None, :]
    shift = cross + cross.mT - statistics.total_degree * (mean[:, None] * mean[None, :])
    degree_gram = statistics.degree_gram - shift
    _, vectors = leading_generalized_eigenvectors(
        # Constant shifts are in the null space of the Laplacian, so only D feels the centring.
        degree_gram - statistics.laplacian_gram,
        degree_gram,
        n_components,
        rtol=_centred_rank_tolerance(statistics.degree_gram, degree_gram),
    )
    theta = vectors.mT / xp.linalg.vector_norm(vectors, axis=0)[:, None]
    sums = theta @ statistics.sample_sum
    # Where the samples are centred these sums are rounding; busier samples then decide.
    largest_sums = xp.linalg.vector_norm(statistics.X_root @ theta.mT, axis=0) * (
        statistics.n_samples**0.5
    )
    weighted_sums = theta @ statistics.degree_sum
    sums = xp.where(xp.abs(sums) > 1e-6 * largest_sums, sums, weighted_sums)
    return xp.where(sums[:, None] < 0, -theta, theta)


def _centred_rank_tolerance(uncentred, centred):
    """Relative tolerance that counts the rounding of the centring as zero."""
    xp = namespace(centred)
    precision = 10 * centred.shape[0] * float(xp.finfo(centred.dtype).eps)
    spread = float(xp.max(xp.abs(centred)))
    return precision * max(1.0, float(xp.max(xp.abs(uncentred))) / spread) if spread else 1.0


def autorule(samples, statistics, theta, *, eta, constraints, reconstruction, options):
    """Refine one projection without labels (Eq. 11) from a given start.

    Parameters
    ----------
    samples : Samples
        The input of the layer.
    statistics : Statistics
        Of the same samples.
    theta : array of shape (n_out, n_in)
    eta : float
        Weight of the manifold term.
    constraints : dict
        ``nonnegative`` and ``unit_ball``.
    reconstruction : bool
    options : dict
        ``schedule``, ``max_iter`` and ``tol`` of the inner loop.

    Returns
    -------
    LayerResult
    """
    X, _ = reduced_rows(statistics.X_root, statistics.Y_root[:, :0])
    problem = LayerProblem(
        X=X,
        laplacian_gram=statistics.laplacian_gram,
        manifold_weight=eta,
        n_constraints=sum(constraints.values()),
        reconstruction=reconstruction,
    )
    constraint_pass = samples.constraint_pass(theta.shape[0], **constraints)
    return solve_layer(problem, constraint_pass, theta, **options)


def padded(theta, n_rows):
    """``theta`` with zero rows appended where the samples supported fewer than asked."""
    missing = n_rows - theta.shape[0]
    if not missing:
        return theta
    xp = namespace(theta)
    return xp.concat([theta, zeros_like_shape((missing, theta.shape[1]), theta)])


def pretrain(samples, statistics, layer_sizes, *, callback=None, **settings):
    """Initialise every layer in turn from the output of the one before (Algorithm 1, lines 3-7).

    Yields nothing of the samples but the projections: a list of :class:`LayerResult`.
    """
    results = []
    for n_out in layer_sizes:
        start = padded(locality_preserving_projections(statistics, n_out), n_out)
        result = autorule(samples, statistics, start, **settings)
        if not result.status.converged:
            message = f"pre-training of layer {len(results) + 1}: {result.status.message}"
            result = replace(result, status=Status(False, message))
        results.append(result)
        if len(results) < len(layer_sizes):
            samples = samples.projected(result.theta)
            statistics = statistics.projected(result.theta)
        if callback is not None:
            callback(len(results), len(layer_sizes))
    return results
