"""Pixels of ENVI files through the memory map of the package spectral.

GDAL reads such files band by band, which for bands interleaved by pixel means the whole file once
per band. A memory map of the block that is wanted reads every byte once. It is made anew for each
block, so that pages of earlier blocks do not stay with the process.
"""

import numpy as np
import spectral
from xarray import DataArray
from xarray.backends import BackendArray
from xarray.core import indexing

_AXES = {
    spectral.BIL: ("y", "band", "x"),
    spectral.BIP: ("y", "x", "band"),
    spectral.BSQ: ("band", "y", "x"),
}


class EnviArray(BackendArray):
    """Lazy array over an image of spectral, in the order of the file.

    Parameters
    ----------
    image : spectral.io.spyfile.SpyFile
    """

    def __init__(self, image):
        self._image = image
        sizes = {"y": image.nrows, "x": image.ncols, "band": image.nbands}
        self.dims = _AXES[image.interleave]
        self.shape = tuple(sizes[dim] for dim in self.dims)
        self.dtype = np.dtype(image.dtype)

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def _read(self, key):
        mapped = self._image.open_memmap(interleave="source", writable=False)
        return np.array(mapped[key])


def envi_array(image):
    """Return an image of spectral as a lazy ``DataArray``."""
    backend = EnviArray(image)
    return DataArray(indexing.LazilyIndexedArray(backend), dims=backend.dims)
