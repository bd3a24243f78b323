"""Samples that do not fit in memory: Dask arrays, memory maps, Zarr; and graphs over them."""

from jplay.scale._containers import BlockedArray, blocked
from jplay.scale._fit import prepared_fit
from jplay.scale._rowwise import rowwise
from jplay.scale._samples import BlockSamples
from jplay.scale.graph import HeatGraph, graph_quality, partition_affinity

__all__ = [
    "BlockSamples",
    "BlockedArray",
    "HeatGraph",
    "blocked",
    "graph_quality",
    "partition_affinity",
    "prepared_fit",
    "rowwise",
]
