"""Make the patch that repairs the Indian Pines cube of tensorly, and compare it with other data.

    python benchmarks/pines_patch.py            # write src/jplay/datasets/pines_patch.zlib
    python benchmarks/pines_patch.py --check    # write nothing; figures of the repair

The cube that tensorly ships was converted as text: each byte 0x0D became 0x0A. Values with high
byte 0x0D are therefore 768 too low and have high byte 0x0A, as other values have too. Each of these
doubtful values is predicted from the other bands of its pixel by ridge regression, and raised by
768 if that is nearer to the prediction. Predictions are made again from the raised cube until no
decision changes.

With the data folder (JPLAY_DATA) the result is compared with data that others made from the
original cube: 695 training spectra that the authors of the J-Play paper published
(``indian_pines/authors_train_spectra.mat``; pixels of the training mask in column-major order,
every band scaled to [0, 1] over the scene), and ten simulated bands of Sentinel-2 of all pixels,
which are linear functions of the cube (``transfer/MSI_IndinePine.mat``).
"""

import sys
from pathlib import Path

import numpy as np
from tensorly.datasets import load_indian_pines

from jplay.datasets import fetch_indian_pines
from jplay.datasets._pines_cube import LOST, PATCH, encode_patch, sha256_of
from jplay.datasets.line_ends import LINE_FEED, count_bytes
from jplay.datasets.readers import read_arrays
from jplay.datasets.registry import benchmark_file
from jplay.exceptions import DatasetNotFoundError

RIDGE = 1e-4
MAX_PASSES = 10


def repair(cube):
    """Return the repaired cube, where values were doubtful, and their predictions."""
    shape, values = cube.shape, cube.reshape(-1, cube.shape[-1]).astype(float)
    doubtful = values // 256 == LINE_FEED
    prediction = interpolate(values, doubtful)
    raised = None
    for _ in range(MAX_PASSES):
        nearer = np.abs(prediction - values - LOST) < np.abs(prediction - values)
        previous, raised = raised, doubtful & nearer
        if previous is not None and (raised == previous).all():
            break
        prediction = predict_bands(values + LOST * raised)
    repaired = (values + LOST * raised).astype("<u2").reshape(shape)
    return repaired, doubtful.reshape(shape), prediction.reshape(shape)


def interpolate(values, doubtful):
    """Return the values, with the doubtful ones interpolated between the other bands."""
    bands = np.arange(values.shape[1])
    means = np.array([values[~doubtful[:, b], b].mean() for b in bands])
    filled = values.copy()
    for row, hidden in zip(filled, doubtful, strict=True):
        if hidden.any():
            shape = (row / means)[~hidden]
            row[hidden] = np.interp(bands[hidden], bands[~hidden], shape) * means[hidden]
    return filled


def predict_bands(values):
    """Predict each band from all others by ridge regression, from one inverse for all bands."""
    center, spread = values.mean(0), values.std(0)
    z = (values - center) / spread
    inverse = np.linalg.inv(z.T @ z / len(z) + RIDGE * np.eye(values.shape[1]))
    return (z - z @ inverse / np.diag(inverse)) * spread + center


def lowest_correlation(cube, mask, spectra):
    """Return the lowest correlation of a band with that of the authors' spectra."""
    rows = np.argwhere(mask.T > 0)[:, ::-1]
    ours = cube[rows[:, 0], rows[:, 1]].astype(float)
    return min(np.corrcoef(spectra[:, b], ours[:, b])[0, 1] for b in range(ours.shape[1]))


def unexplained(cube, simulated):
    """Return the largest fraction of a simulated band's variance that the cube leaves."""
    X = np.column_stack([cube.reshape(-1, cube.shape[-1]), np.ones(cube[..., 0].size)])
    Y = simulated.reshape(len(X), -1)
    residuals = Y - X @ np.linalg.lstsq(X, Y)[0]
    return (residuals.var(0) / Y.var(0)).max()


def main(arguments):
    cube = np.asarray(load_indian_pines().tensor).astype("<u2")
    repaired, doubtful, _ = repair(cube)
    counts = count_bytes(cube)
    print("bytes of the shipped cube: " + ", ".join(f"{b:02X} {counts[b]:,}" for b in range(8, 17)))
    print(f"raised: {np.count_nonzero(repaired != cube):,} of {doubtful.sum():,} doubtful values")
    print(f"SHA-256 as shipped: {sha256_of(cube)}\nSHA-256 repaired:   {sha256_of(repaired)}")
    patch = encode_patch(cube, repaired)
    path = Path(__file__).parents[1] / "src" / "jplay" / "datasets" / PATCH
    if "--check" not in arguments:
        path.write_bytes(patch)
    same = "equal to" if patch == path.read_bytes() else "NOT equal to"
    print(f"patch: {len(patch):,} bytes, {same} {path.name}")
    try:
        compare(cube, repaired)
    except DatasetNotFoundError as error:
        print(f"not compared with other data: {error}")


def compare(cube, repaired):
    """Print how well both cubes agree with data that were made from the original."""
    mask = fetch_indian_pines(split="fixed").train_map
    simulated = read_arrays(benchmark_file("transfer/MSI_IndinePine.mat"))["data_MS_HR"]
    spectra = read_arrays(benchmark_file("indian_pines/authors_train_spectra.mat"))["Train_X"]
    for name, values in (("as shipped", cube), ("repaired", repaired)):
        print(
            f"{name}: lowest correlation of a band with the authors' spectra "
            f"{lowest_correlation(values, mask, spectra):.4f}; unexplained variance of a "
            f"simulated band at most {unexplained(values.astype(float), simulated):.1e}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
