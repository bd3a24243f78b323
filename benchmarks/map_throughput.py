"""Map a scene far larger than its file: megapixels per second beside a plain matrix product.

The scene is a GDAL virtual raster that repeats a small ENVI file down the image, so that
20 gigabytes are read through the ordinary path without 20 gigabytes on disk. The file stays in the
system's page cache: what is measured is the work of decoding, classifying and writing, not a disk.

    OMP_NUM_THREADS=1 python benchmarks/map_throughput.py --gigabytes 20 --probabilities
"""

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rasterio

from jplay.datasets import make_hyperspectral_scene
from jplay.persistence import load_model, save_model
from jplay.raster import fit_scene, map_scene, open_scene

N_BANDS, N_CLASSES, N_COMPONENTS = 200, 16, 20
WIDTH, PIECE_ROWS = 2000, 128


def main():
    arguments = parse()
    if arguments.child:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_piece(folder)
        for gigabytes in (0.5, arguments.gigabytes):
            write_virtual(folder, gigabytes)
            command = [sys.executable, __file__, "--child", str(folder), "--block-mb"]
            wishes = ["--probabilities"] if arguments.probabilities else []
            subprocess.run([*command, str(arguments.block_mb), *wishes], check=True)
    print(f"\nPython {platform.python_version()}, NumPy {np.__version__}, {processor()}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--block-mb", type=int, default=32)
    parser.add_argument(
        "--probabilities", action="store_true", help="write probabilities and confidence, too"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def write_piece(folder):
    """The file that is repeated, and a model fitted to some of its pixels."""
    image = make_hyperspectral_scene(
        PIECE_ROWS, WIDTH, n_bands=N_BANDS, n_classes=N_CLASSES, random_state=0, dtype=np.float32
    )
    counts = (10_000 * image.cube).clip(1, None).astype(np.uint16)
    with rasterio.open(
        folder / "piece.img",
        "w",
        driver="ENVI",
        height=PIECE_ROWS,
        width=WIDTH,
        count=N_BANDS,
        dtype="uint16",
        interleave="bil",
        crs="EPSG:32632",
        transform=rasterio.Affine(5.0, 0.0, 500_000.0, 0.0, -5.0, 5_400_000.0),
    ) as dataset:
        dataset.write(counts.transpose(2, 0, 1))
    model = fit_scene(folder / "piece.hdr", image.ground_truth, max_per_class=50)
    save_model(model, folder / "model.skops")


def write_virtual(folder, gigabytes):
    n_pieces = max(1, round(gigabytes * 1e9 / (2 * N_BANDS * WIDTH * PIECE_ROWS)))
    bands = []
    for band in range(1, N_BANDS + 1):
        sources = "".join(
            "<SimpleSource>"
            f'<SourceFilename relativeToVRT="1" shared="1">piece.img</SourceFilename>'
            f"<SourceBand>{band}</SourceBand>"
            f'<SrcRect xOff="0" yOff="0" xSize="{WIDTH}" ySize="{PIECE_ROWS}"/>'
            f'<DstRect xOff="0" yOff="{PIECE_ROWS * piece}" xSize="{WIDTH}" ySize="{PIECE_ROWS}"/>'
            "</SimpleSource>"
            for piece in range(n_pieces)
        )
        bands.append(f'<VRTRasterBand dataType="UInt16" band="{band}">{sources}</VRTRasterBand>')
    (folder / "scene.vrt").write_text(
        f'<VRTDataset rasterXSize="{WIDTH}" rasterYSize="{PIECE_ROWS * n_pieces}">'
        "<SRS>EPSG:32632</SRS><GeoTransform>500000, 5, 0, 5400000, 0, -5</GeoTransform>"
        f"{''.join(bands)}</VRTDataset>"
    )


def child(arguments):
    """One measurement in a separate process, whose peak memory is that of the measurement."""
    folder, block_bytes = arguments.child, arguments.block_mb * 2**20
    scene, model = open_scene(folder / "scene.vrt"), load_model(folder / "model.skops")
    before = peak_memory()
    started, cpu = time.perf_counter(), time.process_time()
    names = ("probabilities", "confidence") if arguments.probabilities else ()
    wishes = {name: folder / f"{name}.tif" for name in names}
    map_scene(scene, model, folder / "map.tif", block_bytes=block_bytes, **wishes)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = peak_memory()
    megapixels = scene.n_pixels / 1e6
    product = product_rate(scene, block_bytes)
    reading = reading_rate(scene, block_bytes)
    print(
        f"{scene.nbytes / 1e9:6.2f} GB, {megapixels:6.2f} megapixels x {N_BANDS} bands: "
        f"{seconds:6.1f} s ({cpu:.1f} s of CPU), {megapixels / seconds:.2f} megapixels/s, "
        f"{megapixels / cpu:.2f} per CPU second; reading alone {reading:.2f} and the product alone "
        f"{product:.2f} per CPU second (mapping is {megapixels / cpu / product:.2f} of the "
        f"product); peak memory {peak:.0f} MB "
        f"({before:.0f} MB before mapping)",
        flush=True,
    )
    print(
        f"          ENVI file itself: {direct_rate(folder, model):.2f} per CPU second", flush=True
    )


def direct_rate(folder, model, repetitions=4):
    """Megapixels per CPU second if the ENVI file is mapped without the virtual raster."""
    scene = open_scene(folder / "piece.hdr")
    map_scene(scene, model, folder / "piece.tif")
    started = time.process_time()
    for _ in range(repetitions):
        map_scene(scene, model, folder / "piece.tif")
    return repetitions * scene.n_pixels / (time.process_time() - started) / 1e6


def product_rate(scene, block_bytes):
    """Megapixels per CPU second of ``X @ W.T`` from the bands to 20 features, in float32."""
    n_pixels = scene.blocks(block_bytes)[0].n_pixels
    rng = np.random.default_rng(0)
    X = rng.random((n_pixels, N_BANDS), dtype=np.float32)
    W = rng.random((N_COMPONENTS, N_BANDS), dtype=np.float32)
    X @ W.T
    times = []
    for _ in range(15):
        started = time.process_time()
        X @ W.T
        times.append(time.process_time() - started)
    return n_pixels / np.median(times) / 1e6


def reading_rate(scene, block_bytes):
    blocks = scene.blocks(block_bytes)[:10]
    started = time.process_time()
    for block in blocks:
        scene.read(block)
    return sum(block.n_pixels for block in blocks) / (time.process_time() - started) / 1e6


def peak_memory():
    """Maximum of resident megabytes so far; getrusage would count the parent's before the fork."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
