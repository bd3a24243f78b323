"""What the solver is given: the samples, their moments and those of their graph, and a start."""

from dataclasses import dataclass
from typing import Any

from jplay.core.arrays import Array, like
from jplay.core.graph import build_heat_graph, sum_over_edges
from jplay.core.samples import Moments, Samples, compute_moments
from jplay.core.scaling import InputMap, fit_inputs
from jplay.core.start import compute_lpp
from jplay.core.targets import Targets


@dataclass(frozen=True)
class Problem:
    """One fit, or a stack of fits with further axes in front."""

    samples: Samples
    moments: Moments
    laplacian_gram: Array
    """``X^T L X``"""
    start: Array
    """(rank, n_inputs) locality preserving projections."""
    input_map: InputMap | None = None
    graph: Any = None
    bandwidth: float | None = None

    @property
    def matrices(self) -> tuple[Array, Array, Array | None, Array]:
        """``A``, ``M``, ``B`` and ``C`` of the inputs, see :mod:`.objective`."""
        moments = self.moments
        return moments.gram, self.laplacian_gram, moments.label_gram, moments.cross


def prepare(
    X: Array, targets: Targets, *, scaling: str | None, graph: Any, n_neighbors: int
) -> Problem:
    """Problem of samples in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    targets : Targets
    scaling : {"standard", "norm"} or None
    graph : sparse matrix of shape (n_samples, n_samples) or None
        ``None`` joins every scaled sample with its nearest neighbours.
    n_neighbors : int
    """
    input_map, inputs = fit_inputs(X, scaling)
    bandwidth = None
    if graph is None:
        graph, bandwidth = build_heat_graph(input_map.rescale(X), n_neighbors)
    weight = None if targets.weight is None else like(targets.weight, inputs)
    samples = Samples.from_arrays(inputs, like(targets.Y, inputs), weight)
    return assemble(samples, sum_over_edges(inputs, graph), input_map, graph, bandwidth)


def assemble(samples: Samples, edge_sums: tuple, *of_inputs: Any) -> Problem:
    """Problem of samples wherever they are, from the moments of their graph."""
    moments = compute_moments(samples)
    start = compute_lpp(*edge_sums, mean=moments.sample_sum / moments.n_samples)
    return Problem(samples, moments, edge_sums[0], start, *of_inputs)
