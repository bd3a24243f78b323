"""A scene: an image of spectra of which only blocks are ever in memory."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jplay.exceptions import CorruptFileError

_FEW_BANDS = 4
BLOCK_BYTES = 32 * 2**20
"""Samples of one block take at most about this much memory as float32."""


@dataclass(frozen=True)
class Block:
    """A rectangle of pixels: rows ``top`` to ``bottom``, columns ``left`` to ``right``."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def shape(self):
        """Height and width."""
        return self.bottom - self.top, self.right - self.left

    @property
    def n_pixels(self):
        """Number of pixels."""
        height, width = self.shape
        return height * width

    def rasterio_window(self):
        """The same rectangle as rasterio takes it."""
        return ((self.top, self.bottom), (self.left, self.right))


@dataclass(frozen=True, eq=False)
class Scene:
    """An image with a spectrum per pixel, read block by block; made by :func:`open_scene`.

    Attributes
    ----------
    array : xarray.DataArray
        The pixels, lazy where the format allows it.
    dims : tuple of str
        Names of the row, column and band axes of ``array``.
    wavelengths : ndarray of shape (n_bands,) or None
        Band centres in nm.
    good_bands : ndarray of bool of shape (n_bands,)
        False for bands on the bad-band list.
    nodata : float or None
        Value of pixels without data.
    crs : rasterio.crs.CRS or None
    transform : affine.Affine or None
        From pixel to map coordinates.
    source_block : (int, int)
        Rows and columns that the file stores together.
    name : str
        For messages.
    """

    array: Any
    dims: tuple[str, str, str]
    good_bands: np.ndarray
    wavelengths: np.ndarray | None = None
    nodata: float | None = None
    crs: Any = None
    transform: Any = None
    source_block: tuple[int, int] = (1, 0)
    name: str = "scene"
    _closers: tuple = field(default=(), repr=False)
    _masks: tuple = field(default=(), repr=False)
    _read_thinned: Any = field(default=None, repr=False)

    @property
    def shape(self):
        """Height, width and number of bands."""
        return tuple(int(self.array.sizes[dim]) for dim in self.dims)

    @property
    def n_bands(self):
        """Number of bands, bad ones too."""
        return self.shape[2]

    @property
    def n_pixels(self):
        """Height times width."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self):
        """Size of the whole image."""
        return self.n_pixels * self.n_bands * self.array.dtype.itemsize

    def close(self):
        """Close the file."""
        for close in self._closers:
            close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __repr__(self):
        height, width, n_bands = self.shape
        facts = [f"{height} x {width} pixels", f"{n_bands} bands", str(self.array.dtype)]
        n_bad = int((~self.good_bands).sum())
        if n_bad:
            facts.append(f"{n_bad} of them bad")
        if self.wavelengths is not None:
            facts.append(f"{self.wavelengths.min():g} to {self.wavelengths.max():g} nm")
        if self.crs is not None:
            facts.append(str(self.crs))
        return f"<Scene {self.name}: {', '.join(facts)}>"

    def read(self, block, bands=None, *, step=1):
        """Read the spectra of a block.

        Parameters
        ----------
        block : Block
        bands : array of int, optional
            Bands wanted; the good ones by default.
        step : int, default=1
            Read every so many rows and columns only, from overviews if the file has them.

        Returns
        -------
        X : ndarray of shape (n_pixels, n_bands)
            Row-major over the block, in the type of the file.
        valid : ndarray of bool of shape (n_pixels,)
            False where a pixel has no data: a band wanted is not finite or equals ``nodata``, all
            are zero, or the file's mask says so. (Where ``nodata`` is zero a single zero is taken
            for a dark pixel.)
        """
        bands = np.flatnonzero(self.good_bands) if bands is None else bands
        try:
            cube = self._cube(block, bands, step)
        except (OSError, ValueError, RuntimeError, IndexError) as error:
            raise CorruptFileError(
                f"'{self.name}' cannot be read at rows {block.top} to {block.bottom} ({error}). "
                "The file is truncated or damaged: obtain it again."
            ) from error
        X = cube.reshape(len(bands), -1).T
        valid = self.valid(X)
        for mask in self._masks:
            valid &= mask(block).reshape(block.shape)[::step, ::step].ravel()
        return X, valid

    def _cube(self, block, bands, step):
        """Values of shape (n_bands, height, width)."""
        if step > 1 and self._read_thinned is not None:
            return self._read_thinned(block, bands, step)
        y, x, band = self.dims
        part = self.array.isel(
            {y: slice(block.top, block.bottom, step), x: slice(block.left, block.right, step)}
        )
        if len(bands) <= _FEW_BANDS:  # each by itself: what lies between them stays on the disk
            return np.stack([_loaded(part.isel({band: int(one)}), (y, x)) for one in bands])
        cube = _loaded(part, (band, y, x))
        every = len(bands) == len(cube) and np.array_equal(bands, np.arange(len(cube)))
        return cube if every else cube[bands]

    def restricted(self, mask):
        """The scene with pixels taken for missing, too, where a function of a block is false.

        Parameters
        ----------
        mask : callable
            From a :class:`Block` to an array of bool of shape (n_pixels,).
        """
        return replace(self, _masks=(*self._masks, mask))

    def valid(self, X):
        """Which spectra have data, see :meth:`read`."""
        valid = X.any(axis=1)
        if X.dtype.kind == "f":
            # A sum is finite exactly if its terms are, short of overflow, which isfinite settles.
            with np.errstate(invalid="ignore", over="ignore"):
                finite = np.isfinite(X.sum(axis=1, dtype=np.float64))
            if not finite.all():
                finite[~finite] = np.isfinite(X[~finite]).all(axis=1)
                valid &= finite
        if self.nodata:
            valid &= ~(self.nodata == X).any(axis=1)
        return valid

    def blocks(self, block_bytes=BLOCK_BYTES):
        """Rectangles that cover the scene, made of whole stored blocks where they fit.

        Parameters
        ----------
        block_bytes : int
            Maximum number of bytes of a block's samples as float32.

        Returns
        -------
        list of Block
        """
        height, width, n_bands = self.shape
        most = max(1, int(block_bytes) // (4 * n_bands))
        rows, columns = self.source_block
        rows, columns = max(1, min(rows, height)), min(columns or width, width)
        while rows * columns > most and rows > 1:
            rows = (rows + 1) // 2
        columns = min(columns, most)
        if rows * width <= most:
            columns = width
            rows *= max(1, most // (rows * width))
        else:
            columns *= max(1, most // (rows * columns))
        return [
            Block(top, min(top + rows, height), left, min(left + columns, width))
            for top in range(0, height, rows)
            for left in range(0, width, columns)
        ]

    def block_transform(self, block):
        """From pixel of a block to map coordinates."""
        a, b, c, d, e, f = self.transform[:6]
        left, top = block.left, block.top
        return type(self.transform)(a, b, a * left + b * top + c, d, e, d * left + e * top + f)

    def same_grid(self, transform, crs):
        """Whether another raster of this size has the same georeferencing, if both have one."""
        if self.transform is None or transform is None:
            return True
        pixel = max(abs(self.transform.a), abs(self.transform.e), abs(self.transform.b))
        aligned = all(
            abs(mine - other) <= 1e-3 * pixel
            for mine, other in zip(self.transform[:6], transform[:6], strict=True)
        )
        return aligned and (self.crs is None or crs is None or self.crs == crs)


def _loaded(array, dims):
    """Values of a lazy array with its axes in this order."""
    is_dask = type(array.data).__module__.startswith("dask.") if array.chunks else False
    values = array.compute(scheduler="threads") if is_dask else array.compute()
    return values.transpose(*dims).to_numpy()
