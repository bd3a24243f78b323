"""Scenes on the screen: tiles of the image and of the class map, never the whole cube."""

import io
import threading
from collections import OrderedDict

import numpy as np

from jplay.raster import Block, open_scene

TILE = 256
"""Pixels of a tile in each direction, on the screen."""
_N_SAMPLED = 256
_CACHE_TILES = 128
_READ_BYTES = 48 * 2**20
PRESETS = {
    "True colour": (650.0, 550.0, 460.0),
    "Infrared": (860.0, 650.0, 550.0),
    "Short-wave infrared": (2200.0, 1650.0, 860.0),
}
_READS_AT_ONCE = threading.Semaphore(3)


class SceneOnScreen:
    """An open scene, its tiles and its stretch.

    Parameters
    ----------
    path : path-like
    variable : str, optional
        Which array of the file.
    """

    def __init__(self, path, variable=None):
        self.scene = open_scene(path, variable=variable)
        self.height, self.width, self.n_bands = self.scene.shape
        self.good = np.flatnonzero(self.scene.good_bands)
        self._limits = {}
        self._tiles = OrderedDict()
        self._lock = threading.Lock()

    def facts(self):
        """What the page needs to know, as plain values."""
        scene = self.scene
        wavelengths = None if scene.wavelengths is None else scene.wavelengths.tolist()
        return {
            "height": self.height,
            "width": self.width,
            "n_bands": self.n_bands,
            "good": self.good.tolist(),
            "wavelengths": wavelengths,
            "crs": None if scene.crs is None else str(scene.crs),
            "georeferenced": scene.transform is not None,
            "type": str(scene.array.dtype),
            "megabytes": round(scene.nbytes / 2**20, 1),
            "presets": self._presets(),
            "tile": TILE,
            "levels": max(0, int(np.ceil(np.log2(max(self.height, self.width) / TILE)))),
        }

    def _presets(self):
        spread = [int(self.good[int(share * (len(self.good) - 1))]) for share in (0.75, 0.5, 0.25)]
        found = {}
        wavelengths = self.scene.wavelengths
        if wavelengths is not None:
            reach = wavelengths[self.good]
            for name, wanted in PRESETS.items():
                if all(reach.min() - 30 <= nm <= reach.max() + 30 for nm in wanted):
                    found[name] = [int(self.good[np.abs(reach - nm).argmin()]) for nm in wanted]
        return {**found, "Spread over all bands": spread}

    def block(self, level, row, column):
        """Pixels of a tile, and every how many of them it shows."""
        step = 2**level
        size = TILE * step
        block = Block(
            row * size,
            min((row + 1) * size, self.height),
            column * size,
            min((column + 1) * size, self.width),
        )
        if level < 0 or level > 30 or row < 0 or column < 0 or min(block.shape) < 1:
            raise ValueError("The image has no such tile.")
        return block, step

    def read(self, block, bands, step):
        """Spectra and validity, in pieces of rows so that little is in memory at a time."""
        row_bytes = block.shape[1] * len(bands) * self.scene.array.dtype.itemsize
        rows = max(1, _READ_BYTES // row_bytes)
        pieces = []
        with _READS_AT_ONCE:
            for top in range(block.top, block.bottom, rows * step):
                bottom = min(top + rows * step, block.bottom)
                part = Block(top, bottom, block.left, block.right)
                pieces.append(self.scene.read(part, bands, step=step))
        return np.concatenate([X for X, _ in pieces]), np.concatenate([v for _, v in pieces])

    def image_tile(self, level, row, column, bands, percent):
        """Return a tile as PNG: three bands as red, green and blue, without data transparent."""
        key = (level, row, column, tuple(bands), percent)
        with self._lock:
            if key in self._tiles:
                self._tiles.move_to_end(key)
                return self._tiles[key]
        block, step = self.block(level, row, column)
        values, valid = self.read(block, np.asarray(bands), step)
        shape = tuple(-(-size // step) for size in block.shape)
        image = np.empty((*shape, 4), dtype=np.uint8)
        for place, band in enumerate(bands):
            low, high = self.limits(band, percent)
            scaled = (values[:, place].astype(np.float64) - low) * (255.0 / (high - low))
            image[..., place] = np.clip(np.nan_to_num(scaled), 0, 255).reshape(shape)
        image[..., 3] = np.where(valid, 255, 0).reshape(shape)
        png = encode_png(image)
        with self._lock:
            self._tiles[key] = png
            while len(self._tiles) > _CACHE_TILES:
                self._tiles.popitem(last=False)
        return png

    def limits(self, band, percent):
        """Values shown black and full, percentiles of a sample of the band."""
        if band not in self._limits:
            step = max(1, int(np.ceil(max(self.height, self.width) / _N_SAMPLED)))
            whole = Block(0, self.height, 0, self.width)
            values, valid = self.read(whole, np.array([band]), step)
            self._limits[band] = np.sort(values[valid, 0].astype(np.float64))
        sample = self._limits[band]
        if not len(sample):
            return 0.0, 1.0
        low, high = np.percentile(sample, [percent, 100 - percent])
        return float(low), float(high if high > low else low + 1)

    def spectrum(self, row, column):
        """Spectrum of a pixel over the good bands, and whether it has data."""
        if not (0 <= row < self.height and 0 <= column < self.width):
            raise ValueError("This pixel is outside the image.")
        X, valid = self.scene.read(Block(row, row + 1, column, column + 1), self.good)
        return X[0].astype(np.float64), bool(valid[0])

    def class_tile(self, classifier, level, row, column):
        """Class codes and confidence (0 to 255) of a tile, of shape (height, width)."""
        block, step = self.block(level, row, column)
        X, valid = self.read(block, self.good, step)
        shape = tuple(-(-size // step) for size in block.shape)
        codes = np.zeros(len(X), dtype=np.uint8)
        confidence = np.zeros(len(X), dtype=np.uint8)
        if valid.any():
            found, sure = classifier(X[valid])
            codes[valid] = found
            confidence[valid] = np.round(255 * sure)
        return codes.reshape(shape), confidence.reshape(shape)

    def close(self):
        """Close the file."""
        self.scene.close()


def encode_png(image):
    """Encode an image of shape (height, width, 3 or 4), quickly rather than small."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG", compress_level=1)
    return stream.getvalue()
