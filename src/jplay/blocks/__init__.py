"""Samples that do not fit in memory: Dask arrays, memory maps, Zarr; and graphs over them."""

from jplay.core.blocked import BlockedArray, blocked
from jplay.core.graph import HeatGraph, graph_quality, partition_affinity

__all__ = ["BlockedArray", "HeatGraph", "blocked", "graph_quality", "partition_affinity"]
