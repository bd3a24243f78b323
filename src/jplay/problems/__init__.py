"""What a fit needs: samples, targets, first layer and graph, from arrays or from blocks.

Every estimator of the J-Play family describes its problem (:func:`described`), has it solved
(:func:`solve`) and stores what comes back. The same three steps serve arrays in memory, arrays
on a GPU, and blocks on disk or on a cluster.
"""

from jplay.problems.problem import FitProblem, described
from jplay.problems.solution import Solution, solve, solve_batch

__all__ = ["FitProblem", "Solution", "described", "solve", "solve_batch"]
