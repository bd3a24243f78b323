r"""The objective of a whole chain as a function of small matrices.

Every term of Eq. 6 is quadratic in the features :math:`Z_l = Z_{l-1} \Theta_l^T`, so it depends
on the samples through second moments alone: :math:`A = Z^T Z`, :math:`M = Z^T L Z` and
:math:`C = Y^T Z`. Those of a layer's output follow from those of its input,

.. math:: A_l = \Theta_l A_{l-1} \Theta_l^T, \quad M_l = \Theta_l M_{l-1} \Theta_l^T,
          \quad C_l = C_{l-1} \Theta_l^T,

and the samples themselves are not touched again. If labels have weights :math:`S` (zero for
samples without one), the prediction loss has moments of its own, :math:`B = Z^T S Z` and
:math:`C = Y^T S Z`. Of several tasks each has its own weights, and so its own :math:`B`; their
:math:`C` and label projections stand below each other.

All functions take single matrices or stacks of them, one matrix per problem: numbers that
belong to a problem have shape (1, 1) or (n_problems, 1, 1), so that they broadcast.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from jplay._array_api import Array, identity, is_numpy, namespace, solve_positive
from jplay.numerics.eigen import symmetrize
from jplay.numerics.lasso import sparse_rows
from jplay.solvers.model import ModelWeights
from jplay.solvers.samples import Statistics


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of the input ``Z`` of one layer."""

    A: Array
    """``Z^T Z``"""
    M: Array
    """``Z^T L Z``; ``None`` for the last output, which no layer multiplies again."""
    B: tuple[Array, ...]
    """``Z^T S Z`` with the label weights ``S`` of each task; the very array ``A`` if all weigh
    one."""
    C: Array
    """``Y^T S Z``, all tasks below each other."""
    outputs: tuple[slice, ...]
    """Rows of each task in ``C`` and in the label projection."""
    A_diagonal: Array | None = None
    """All there is of ``A`` if features are uncorrelated, as principal components are."""

    @property
    def all_equal(self) -> bool:
        """Whether there is one task, and all samples weigh one in it."""
        return self.B[0] is self.A

    def mapped(self, function: Callable[..., Array], *others: "Moments") -> "Moments":
        """``function`` of each matrix, and of the same of others; ``B`` stays the very ``A``."""
        everyone = (self, *others)
        A = function(*(moments.A for moments in everyone))
        all_equal = all(moments.all_equal for moments in everyone)
        tasks = zip(*(moments.B for moments in everyone), strict=True)
        diagonals = [moments.A_diagonal for moments in everyone]
        return Moments(
            A,
            function(*(moments.M for moments in everyone)),
            (A,) if all_equal else tuple(function(*B) for B in tasks),
            function(*(moments.C for moments in everyone)),
            self.outputs,
            None if any(diagonal is None for diagonal in diagonals) else function(*diagonals),
        )

    def times_A(self, matrix: Array) -> Array:
        """``matrix @ A``"""
        if self.A_diagonal is None:
            return matrix @ self.A
        return matrix * self.A_diagonal[..., None, :]

    def by_task(self, matrix: Array) -> Iterator[tuple[Array, Array]]:
        """``B`` and the rows of a matrix like ``C``, task after task."""
        for B, rows in zip(self.B, self.outputs, strict=True):
            yield B, matrix[..., rows, :]


@dataclass(frozen=True, eq=False)
class Forward:
    """Moments along the chain, and the products that the backward sweep needs again."""

    moments: list[Moments]
    """Of the input of every layer, then of the last output."""
    upstream: list[Array | None]
    """Product of all projections before each layer; ``None`` for the first."""
    thetas: list[Array]
    theta_A: list[Array]
    theta_M: list[Array]
    theta_B: list[tuple[Array, ...]]
    row_gram: list[Array]
    """``Theta Theta^T``"""


def first_moments(statistics: Statistics) -> Moments:
    """Moments of the samples themselves, the input of the first layer."""
    X = statistics.X_root
    A = X.mT @ X
    roots = statistics.label_roots
    ends = list(accumulate((Y.shape[-1] for _, Y in roots), initial=0))
    return Moments(
        A,
        symmetrize(statistics.laplacian_gram),
        tuple(A if X_task is X else X_task.mT @ X_task for X_task, _ in roots),
        namespace(A).concat([Y.mT @ X_task for X_task, Y in roots], axis=-2),
        tuple(slice(start, end) for start, end in pairwise(ends)),
        _diagonal_of(A),
    )


def _diagonal_of(A: Array) -> Array | None:
    """The diagonal of a matrix that has nothing but rounding beside it, else ``None``.

    ``None`` for stacks, whose matrices may differ in that.
    """
    if A.ndim > 2:
        return None
    xp = namespace(A)
    diagonal = xp.linalg.diagonal(A)
    beside = xp.max(xp.abs(A - identity(A.shape[0], A) * diagonal))
    rounding = float(xp.finfo(A.dtype).eps) * A.shape[0] * xp.max(diagonal)
    return diagonal if bool(beside <= rounding) else None


def forward(first: Moments, thetas: Sequence[Array]) -> Forward:
    """Moments of every layer from those of the samples, first layer to last.

    Rounding makes products like ``Theta A Theta^T`` slightly unsymmetric, and eigensolvers read
    one triangle only: each is made symmetric before the next layer multiplies it again. A product
    of a matrix with its own transpose is symmetric, and takes half of the time.
    """
    moments, theta_A, theta_M, theta_B = [first], [], [], []
    upstream: list[Array | None] = [None]
    for layer, theta in enumerate(thetas, 1):
        here = moments[-1]
        theta_A.append(here.times_A(theta))
        theta_M.append(theta @ here.M)
        upstream.append(theta if upstream[-1] is None else theta @ upstream[-1])
        if first.A_diagonal is None:
            A = symmetrize(theta_A[-1] @ theta.mT)
        else:
            root = upstream[-1] * first.A_diagonal[..., None, :] ** 0.5
            A = root @ root.mT
        B: tuple[Array, ...] = (A,)
        if here.all_equal:
            theta_B.append((theta_A[-1],))
        else:
            theta_B.append(tuple(theta @ B_task for B_task in here.B))
            B = tuple(symmetrize(product @ theta.mT) for product in theta_B[-1])
        M = symmetrize(theta_M[-1] @ theta.mT) if layer < len(thetas) else None
        moments.append(Moments(A, M, B, here.C @ theta.mT, here.outputs))
    row_gram = [theta @ theta.mT for theta in thetas]
    return Forward(moments, upstream, list(thetas), theta_A, theta_M, theta_B, row_gram)


def label_coef(last: Moments, model: ModelWeights) -> Array:
    """Label projection from the moments of the last subspace (Eq. 17).

    ``P = alpha C (alpha B + gamma I)^-1`` minimises the prediction loss and the ridge for given
    features, in each task by itself; with a weight on absolute values too, P is sparse. It costs
    next to nothing, so the fast solver always has it up to date.
    """
    parts = [_task_coef(B, C, model) for B, C in last.by_task(last.C)]
    return parts[0] if len(parts) == 1 else namespace(last.A).concat(parts, axis=-2)


def _task_coef(B: Array, C: Array, model: ModelWeights) -> Array:
    unit = identity(B.shape[-1], B)
    # Without a ridge, dependent features make the system singular. 1e-12 of its size is far above
    # the rounding of the moments (1e-16) and far below any ridge that changes a prediction; single
    # precision needs more. The last term keeps the system regular if all features are zero.
    xp = namespace(B)
    share, least = (1e-12, 1e-300) if B.dtype == xp.float64 else (1e-6, 1e-30)
    floor = share * model.alpha * trace(B) + least
    system = model.alpha * B + (model.gamma + floor) * unit
    if model.sparsity:
        return sparse_rows(system, model.alpha * C, model.sparsity)
    return solve_positive(system, model.alpha * C.mT).mT


def trace(matrix: Array) -> Array:
    """Trace that broadcasts against matrices."""
    if is_numpy(matrix):  # several in each iteration, of which the namespace would take the most
        return matrix.trace(axis1=-2, axis2=-1)[..., None, None]
    return namespace(matrix).linalg.trace(matrix)[..., None, None]


def total(matrix: Array) -> Array:
    """Sum of the entries of each matrix, broadcasting against matrices."""
    xp = namespace(matrix)
    return xp.sum(matrix, axis=(-2, -1), keepdims=True)


def weighted_terms(
    chain: Forward, coef: Array, label_square: Array, model: ModelWeights
) -> tuple[Array, Array, Array, Array]:
    r"""The four weighted terms of Eq. 6, in its order.

    With ``K = Theta Theta^T`` the reconstruction loss of one layer (Eq. 7) is
    ``|Z - Z Theta^T Theta|^2 = tr A - 2 tr A' + tr(K A')``, where ``A' = Theta A Theta^T`` are the
    moments of its output. The prediction loss (Eq. 8) is
    ``tr Y^T S Y - 2 tr(P C^T) + tr(P B P^T)``, summed over tasks.

    Parameters
    ----------
    chain : Forward
    coef : array of shape (n_outputs, n_components)
    label_square : array of shape (1, 1)
        ``tr Y^T S Y``, summed over tasks.
    model : ModelWeights
    """
    rebuilt = manifold = 0.0 * label_square
    for layer, theta in enumerate(chain.thetas):
        if model.reconstruction:
            here, ahead = chain.moments[layer], chain.moments[layer + 1]
            overlap = total(chain.row_gram[layer] * ahead.A)
            rebuilt = rebuilt + trace(here.A) - 2 * trace(ahead.A) + overlap
        manifold = manifold + total(theta * chain.theta_M[layer])
    last = chain.moments[-1]
    misfit = label_square - 2 * total(coef * last.C)
    for B, task_coef in last.by_task(coef):
        misfit = misfit + total((task_coef @ B) * task_coef)
    return (
        rebuilt / 2,
        model.alpha / 2 * misfit,
        model.beta / 2 * manifold,
        model.gamma / 2 * total(coef * coef) + model.sparsity * total(abs(coef)),
    )
