"""Results do not depend on the code that BLAS and NumPy have for a processor."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "kernels.py"
# Largest difference of a probability: a hundred times those of benchmarks/results/kernels.md.
ALLOWED = {
    "`JPlay()`": 1e-7,
    "`JPlayCommittee(8)`": 3e-5,
    '`JPlay(solver="paper")`': 5e-5,
}


@pytest.mark.slow
def test_labels_do_not_depend_on_the_kernels():
    spec = importlib.util.spec_from_file_location("kernels", SCRIPT)
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    cases = [(problem, model) for problem in ("digits", "wine") for model in ALLOWED]
    found = kernels.probabilities(cases)
    if len(found) < 2:
        pytest.skip(f"two kernels are needed, this processor and BLAS have {len(found)}")
    for (problem, model), arrays in zip(cases, zip(*found.values(), strict=True), strict=True):
        probability, n_labels = kernels.largest_differences(arrays)
        assert n_labels == 0, (problem, model)
        assert probability < ALLOWED[model], (problem, model)
