"""Run the tests of numbers under the BLAS kernels and vector loops of several processors.

Rounding differs between processors, so a tolerance that was chosen on one machine may fail on the
next. OpenBLAS, which the wheels of NumPy and SciPy bring, takes the kernels that the variable
``OPENBLAS_CORETYPE`` names, and NumPy leaves out vector loops that ``NPY_DISABLE_CPU_FEATURES``
names: one machine stands for several.

Usage: ``python tests/kernels.py [other | KERNEL ...]``. Without arguments all kernels that this
processor can run; ``other`` for the first that is not in use here.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent

# Each stands for a kind of machine; the features of the processor that its kernels need.
KERNELS = {
    "Haswell": ("AVX2", "X86_V3"),  # most desktops and laptops, and AMD
    "SkylakeX": ("AVX512_SKX", "X86_V4"),  # servers with AVX-512
    "Nehalem": ("SSE42", "X86_V2"),  # without AVX2
    "Katmai": ("SSE", "X86_V2"),  # the oldest
}
WITHOUT_VECTOR_LOOPS = {"Nehalem"}

# Core, solvers, estimators and oracle, and what writes or maps their results in single precision.
PATTERNS = (
    *("test_core_*.py", "test_numerics_*.py", "test_oracle.py", "test_baselines_*.py"),
    *(
        "test_estimators_*.py",
        "test_multilabel.py",
        "test_semi_supervised.py",
    ),
    *("test_persistence_files.py", "test_raster_confidence.py"),
)
EXAMPLES = TESTS.parent / "src" / "jplay"  # in docstrings, which print figures
# Leaves out scikit-learn's checks, a third of the time: they ask for interfaces.
OPTIONS = ("-q", "-n", "auto", "--dist", "loadgroup")
OPTIONS += ("-m", "not slow", "-k", "not sklearn_contract")

IN_USE = """
import scipy.linalg, threadpoolctl
print(*sorted({pool.get("architecture", "") for pool in threadpoolctl.threadpool_info()}))
"""


def cpu_features():
    """Vector instructions by name: whether this processor has them."""
    return np._core._multiarray_umath.__cpu_features__


def environment(kernel):
    """Variables of a process that takes the kernels of a processor."""
    variables = dict(os.environ, OPENBLAS_CORETYPE=kernel)
    if kernel in WITHOUT_VECTOR_LOOPS:
        loops = np._core._multiarray_umath.__cpu_dispatch__
        present = [name for name in loops if cpu_features().get(name)]
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(present)
    return variables


def kernels_in_use(variables):
    """Kernels that a process with these variables takes."""
    return ended(["-c", IN_USE], variables).stdout.strip()


def ended(arguments, variables):
    """Run Python to its end and return what it said."""
    return subprocess.run(
        [sys.executable, *arguments], env=variables, capture_output=True, text=True, check=False
    )


def can_run(kernel):
    return any(cpu_features().get(name) for name in KERNELS[kernel])


def run(kernel):
    """Run the tests under a kernel and say in one line how they ended, all of it if one failed."""
    variables = environment(kernel)
    name = f"{kernel}, without vector loops" if kernel in WITHOUT_VECTOR_LOOPS else kernel
    if (found := kernels_in_use(variables)) != kernel:
        print(f"{name}: failed, the BLAS of this environment takes {found or 'none by name'}")
        return False
    files = sorted(str(path) for pattern in PATTERNS for path in TESTS.glob(pattern))
    started = time.perf_counter()
    done = ended(["-m", "pytest", *OPTIONS, *files, str(EXAMPLES)], variables)
    output = f"{done.stdout}\n{done.stderr}".strip()
    counts = re.findall(r"\d+ (?:passed|failed|errors?)(?=.* in [\d.]+s)", output)
    seconds = time.perf_counter() - started
    print(f"{name}: {', '.join(counts) or 'failed'} in {seconds:.0f} s", flush=True)
    if done.returncode:
        print(output, flush=True)
    return done.returncode == 0


def main(names):
    """Run the tests under every kernel that is named, and return the exit status."""
    if unknown := set(names) - {*KERNELS, "other"}:
        print(f"Expected names of {[*KERNELS]} or 'other', got {sorted(unknown)}.", file=sys.stderr)
        return 2
    possible = [kernel for kernel in KERNELS if can_run(kernel)]
    if names == ["other"]:
        in_use = kernels_in_use(dict(os.environ))
        names = [kernel for kernel in possible if kernel != in_use][:1]
        if not names:
            print(f"{in_use}: this processor can run no kernels of another one")
    passed = True
    for kernel in names or KERNELS:
        if kernel in possible:
            passed &= run(kernel)
        else:
            print(f"{kernel}: this processor cannot run its kernels", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
