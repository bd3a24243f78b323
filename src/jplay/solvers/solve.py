"""One entrance to both solvers."""

from collections.abc import Sequence
from typing import Any

from jplay._array_api import Array
from jplay.solvers.alternating import solve_alternating
from jplay.solvers.joint import solve_joint
from jplay.solvers.model import ModelSettings
from jplay.solvers.result import SolverCallback, SolverResult
from jplay.solvers.samples import Samples, Statistics
from jplay.solvers.schedules import FastSchedule, PaperSchedule


def solve(
    samples: Samples,
    layer_sizes: Sequence[int],
    model: ModelSettings,
    schedule: FastSchedule | PaperSchedule,
    *,
    statistics: Statistics | None = None,
    projections: Array | None = None,
    callback: SolverCallback | None = None,
) -> SolverResult:
    """Fit the model by the loop that the schedule describes.

    Parameters
    ----------
    samples : Samples
    layer_sizes : sequence of int
        Output dimension of each layer.
    model : ModelSettings
    schedule : FastSchedule or PaperSchedule
    statistics : Statistics, default=None
        Of the same samples, if the caller has them already.
    projections : array of shape (n_found, n_features), default=None
        Locality preserving projections of the same samples, if the caller has them already: at
        least as many as the first layer has outputs, or all that the samples support.
    callback : callable, default=None
        Called with a :class:`~jplay.solvers.result.SolverProgress` after each (outer) iteration;
        a true value stops.

    Returns
    -------
    SolverResult
    """
    options: dict[str, Any] = {
        "statistics": statistics,
        "projections": projections,
        "callback": callback,
    }
    if isinstance(schedule, FastSchedule):
        return solve_joint(samples, layer_sizes, model, schedule, **options)
    if isinstance(schedule, PaperSchedule):
        return solve_alternating(samples, layer_sizes, model, schedule, **options)
    raise ValueError(
        f"`schedule` should be a FastSchedule or a PaperSchedule, got {schedule!r}. "
        "Each describes one of the two solvers."
    )
