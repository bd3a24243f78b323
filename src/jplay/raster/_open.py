"""Open image files of the formats in which scenes come."""

import math
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from jplay._archives import SMALL_FILE_BYTES, check_expansion, check_table
from jplay._hdf5 import open_hdf5
from jplay._optional import import_optional
from jplay.datasets.line_ends import warn_if_converted
from jplay.exceptions import CorruptFileError, MissingDependencyError
from jplay.raster._scene import Scene
from jplay.raster._vrt import check_virtual
from jplay.raster._zarr import check_zarr

_THINNED_CACHE_BYTES = 64 * 2**20
_DRIVERS = {".img": "HFA", ".jp2": "JP2OpenJPEG", ".vrt": "VRT"}
_ROW_NAMES = ("y", "lat", "latitude", "row", "rows", "line", "lines", "height", "downtrack")
_COLUMN_NAMES = (
    *("x", "lon", "longitude", "column", "columns", "col", "sample", "samples", "width"),
    "crosstrack",
)
_BAND_NAMES = (
    *("band", "bands", "wavelength", "wavelengths", "channel", "channels", "spectral", "lambda"),
    *("wl", "b"),
)
_IN_NANOMETRES = {
    "nanometer": 1.0,
    "nanometers": 1.0,
    "nanometre": 1.0,
    "nanometres": 1.0,
    "nm": 1.0,
    "micrometer": 1000.0,
    "micrometers": 1000.0,
    "micrometre": 1000.0,
    "micrometres": 1000.0,
    "microns": 1000.0,
    "micron": 1000.0,
    "um": 1000.0,
    "µm": 1000.0,
    "angstrom": 0.1,
    "angstroms": 0.1,
    "m": 1e9,
    "meter": 1e9,
    "meters": 1e9,
}
_NO_UNIT = ("", "1", "index", "none", "unknown")


def open_scene(source, *, variable=None, wavelengths=None, bad_bands=None, nodata=None):
    """Open a hyperspectral image without reading its pixels.

    Parameters
    ----------
    source : str, path-like, xarray.DataArray or Scene
        An ENVI header or data file (``.hdr``, ``.img``, ``.dat``, ...), a GeoTIFF, a NetCDF file,
        a Zarr store, a MATLAB file, or an array with row, column and band axes. MATLAB files up
        to version 7 are read as a whole, since their format cannot be read in parts; all others
        lazily.
    variable : str, optional
        Which array of a NetCDF, Zarr or MATLAB file; needed where several could be the image.
    wavelengths : array-like of shape (n_bands,), optional
        Band centres in nm, in place of the file's.
    bad_bands : sequence of int, optional
        Numbers (from 0) of bands to leave out, in place of the file's bad-band list.
    nodata : float, optional
        Value of pixels without data, in place of the file's.

    Returns
    -------
    Scene

    Examples
    --------
    >>> import xarray
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> from jplay.raster import open_scene
    >>> cube = make_hyperspectral_scene(20, 30, n_bands=40, random_state=0).cube
    >>> open_scene(xarray.DataArray(cube, dims=("y", "x", "band"))).shape
    (20, 30, 40)
    """
    if isinstance(source, Scene):
        return source
    if hasattr(source, "dims") and hasattr(source, "isel"):
        scene = _from_array(source, name=source.name or "array")
    else:
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(
                f"The scene '{path}' does not exist. Check the name, or give the full path."
            )
        scene = _opener(path)(path, variable)
    return _with_overrides(scene, wavelengths, bad_bands, nodata)


def _opener(path):
    suffix = path.suffix.lower()
    if suffix in (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".he5"):
        return _open_netcdf
    if suffix == ".zarr" or (path.is_dir() and any(path.glob(".z*"))):
        return _open_zarr
    if suffix == ".mat":
        return _open_matlab
    return _open_raster


def _with_overrides(scene, wavelengths, bad_bands, nodata):
    changes = {}
    if wavelengths is not None:
        changes["wavelengths"] = _checked_wavelengths(wavelengths, scene.n_bands)
    if bad_bands is not None:
        bad = np.asarray(list(bad_bands), dtype=int)
        if bad.size and (bad.min() < 0 or bad.max() >= scene.n_bands):
            raise ValueError(
                f"`bad_bands` should be numbers from 0 to {scene.n_bands - 1}, got "
                f"{bad.min()} to {bad.max()}. The first band has number 0."
            )
        changes["good_bands"] = ~np.isin(np.arange(scene.n_bands), bad)
    if nodata is not None:
        changes["nodata"] = float(nodata)
    scene = replace(scene, **changes) if changes else scene
    if scene.array.dtype.kind not in "buif":
        raise ValueError(
            f"'{scene.name}' should hold real numbers, found {scene.array.dtype}. Convert it, for "
            "example to the magnitude of complex numbers."
        )
    if scene.wavelengths is not None and not np.isfinite(scene.wavelengths).all():
        n_missing = int((~np.isfinite(scene.wavelengths)).sum())
        raise CorruptFileError(
            f"'{scene.name}' lacks the wavelength of {n_missing} of {scene.n_bands} bands. Correct "
            "the file, or give `wavelengths` to open_scene."
        )
    if not scene.good_bands.any():
        raise ValueError(f"'{scene.name}' has no good band: all are on the bad-band list.")
    return scene


def _checked_wavelengths(wavelengths, n_bands):
    wavelengths = np.asarray(wavelengths, dtype=float)
    if wavelengths.shape != (n_bands,) or not np.isfinite(wavelengths).all():
        raise ValueError(
            f"`wavelengths` should be {n_bands} finite numbers, one per band, got shape "
            f"{wavelengths.shape}. Give the band centres in nm."
        )
    return wavelengths


def _open_raster(path, variable):
    import_optional("rasterio", feature="Reading image files", extra="raster")
    from jplay.raster._envi import envi_array
    from jplay.raster._gdal import SELF_CONTAINED, open_raster, raster_array, sidecar_facts

    header = envi_header(path)
    data_path, driver = raster_source(path, header)
    try:
        if driver == "VRT":
            check_virtual(data_path)
        with open_raster(data_path, driver) as dataset:
            facts = _raster_facts(dataset)
            unpacked = _block_bytes(dataset)
            several = bool(dataset.subdatasets)
        thinned = close = None
        if header is not None and header.image is not None:
            array = envi_array(header.image)
        else:
            array, close = raster_array(data_path, driver)
            if driver in SELF_CONTAINED:
                thinned = partial(_read_thinned, data_path, driver)
    except PermissionError:
        raise
    except Exception as error:  # rasterio raises whatever a damaged byte leads to
        raise CorruptFileError(
            f"'{path}' cannot be opened as an image ({error}). Expected ENVI, GeoTIFF, NetCDF, "
            "Zarr or MATLAB; the file is damaged or of another kind."
        ) from error
    if several:
        raise CorruptFileError(
            f"'{path}' holds several images. Extract the one you want, for example with "
            "gdal_translate."
        )
    if driver != "VRT":  # its blocks are those of other files
        check_table(data_path, unpacked)
    if header is not None:
        _examine_bytes(header)
        facts = facts | header.facts(facts["n_bands"])
    for name, value in sidecar_facts(data_path).items():
        if facts[name] is None:
            facts[name] = value
    n_bands = facts.pop("n_bands")
    good = facts.pop("good_bands")
    masks = (partial(_file_mask, data_path, driver),) if facts.pop("has_mask") else ()
    return Scene(
        array=array,
        dims=("y", "x", "band"),
        good_bands=np.ones(n_bands, dtype=bool) if good is None else good,
        name=str(path),
        _closers=() if close is None else (close,),
        _masks=masks,
        _read_thinned=thinned,
        **facts,
    )


def _block_bytes(dataset):
    """Memory of the largest block that GDAL unpacks at a time, of all bands if they alternate."""
    pixels = max(math.prod(shape) for shape in dataset.block_shapes)
    n_bands = dataset.count if str(dataset.interleaving).endswith("pixel") else 1
    name = dataset.dtypes[0]
    itemsize = 8 if name.startswith("complex_int") else np.dtype(name).itemsize
    return pixels * n_bands * itemsize


def _read_thinned(path, driver, block, bands, step):
    """Read every so many rows and columns, from overviews if the file has them."""
    from jplay.raster._gdal import closed_env, open_raster

    shape = tuple(-(-size // step) for size in block.shape)
    with (
        closed_env(driver, GDAL_CACHEMAX=_THINNED_CACHE_BYTES),
        open_raster(path, driver) as dataset,
    ):
        return dataset.read(
            [int(band) + 1 for band in bands],
            window=block.rasterio_window(),
            out_shape=(len(bands), *shape),
        )


def raster_source(path, header):
    """File to open and the one driver that may: a file of another kind is not guessed at."""
    if header is not None:
        return header.data_path, "ENVI"
    return path, _DRIVERS.get(path.suffix.lower(), "GTiff")


def _raster_facts(dataset):
    from jplay.raster._gdal import SELF_CONTAINED

    # The blocks of a virtual raster are not those of its files: whole rows suit most of them.
    stored = (1, dataset.width) if dataset.driver == "VRT" else dataset.block_shapes[0]
    georeferenced = dataset.crs is not None or not dataset.transform.is_identity
    tags, envi = dataset.tags(), dataset.tags(ns="ENVI")
    return {
        "n_bands": dataset.count,
        "has_mask": dataset.driver in SELF_CONTAINED
        and any(flag.name == "per_dataset" for flag in dataset.mask_flag_enums[0]),
        "wavelengths": _tagged_wavelengths(dataset, {**tags, **envi}),
        "good_bands": _good_bands(_number_list(envi.get("bbl", tags.get("bbl"))), dataset.count),
        "nodata": None if dataset.nodata is None else float(dataset.nodata),
        "crs": dataset.crs,
        "transform": dataset.transform if georeferenced else None,
        "source_block": tuple(int(size) for size in stored),
    }


def _file_mask(path, driver, block):
    """Which pixels of a block the mask of a raster file keeps."""
    from jplay.raster._gdal import closed_env, open_raster

    with closed_env(driver), open_raster(path, driver) as dataset:
        return dataset.read_masks(1, window=block.rasterio_window()).ravel() > 0


def _tagged_wavelengths(dataset, tags):
    """Wavelengths from a tag of the file, or from a tag of every band."""
    unit = tags.get("wavelength_units")
    values = _number_list(tags.get("wavelength"))
    if values is not None and len(values) == dataset.count:
        return _nanometres(values, unit)
    per_band = []
    for band in range(1, dataset.count + 1):
        imagery = dataset.tags(band, ns="IMAGERY")
        own = {name.lower(): value for name, value in dataset.tags(band).items()}
        if "CENTRAL_WAVELENGTH_UM" in imagery:
            value, own_unit = imagery["CENTRAL_WAVELENGTH_UM"], "um"
        elif "wavelength" in own:
            value, own_unit = own["wavelength"], own.get("wavelength_units", unit)
        else:
            return None
        numbers = _number_list(value)
        if numbers is None or len(numbers) != 1:
            return None
        per_band.append(_nanometres(numbers, own_unit)[0])
    return np.array(per_band)


def _number_list(text):
    if text is None:
        return None
    try:
        return np.array([float(part) for part in str(text).strip("{} \n").split(",")])
    except ValueError:
        return None


def _nanometres(values, unit=None):
    """Convert to nm; a unit that is not given is guessed from the size of the numbers."""
    values = np.asarray(values, dtype=float)
    _check_length_unit(unit)
    factor = _IN_NANOMETRES.get(str(unit).strip().lower()) if unit else None
    if factor is None:
        finite = values[np.isfinite(values)]
        factor = 1000.0 if finite.size and finite.max() < 100.0 else 1.0
    return values * factor


def _check_length_unit(unit):
    """Refuse wavelengths in a unit such as wavenumbers, which would be taken for others."""
    known = (*_IN_NANOMETRES, *_NO_UNIT)
    if unit is not None and str(unit).strip().lower() not in known:
        raise ValueError(
            f"`wavelengths` should be in nm, µm, angstroms or m, got the unit {str(unit)[:40]!r}. "
            "Convert them in the file."
        )


def _good_bands(flags, n_bands):
    if flags is None or len(flags) != n_bands:
        return None
    return np.asarray(flags, dtype=float) != 0


class _EnviHeader:
    """What an ENVI header says of the bands, read by the package spectral."""

    def __init__(self, path, image, entries):
        self.path, self.data_path, self.entries = path, Path(image.filename), entries
        compressed = str(entries.get("file compression", "0")).strip() != "0"
        self.image = None if compressed else image

    def facts(self, n_bands):
        found = {}
        wavelengths = self._numbers("wavelength", n_bands)
        if wavelengths is not None:
            found["wavelengths"] = _nanometres(wavelengths, self.entries.get("wavelength units"))
        flags = self._numbers("bbl", n_bands)
        if flags is not None:
            found["good_bands"] = _good_bands(flags, n_bands)
        nodata = _number_list(self.entries.get("data ignore value"))
        if nodata is not None:
            found["nodata"] = float(nodata[0])
        return found

    def _numbers(self, name, n_bands):
        values = self.entries.get(name)
        if values is None:
            return None
        try:
            numbers = np.array([float(value) for value in values])
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if len(numbers) != n_bands:
            raise CorruptFileError(
                f"'{self.path}' should list {n_bands} numbers under '{name}', one per band, found "
                f"{len(numbers)}. Correct the header."
            )
        return numbers


def envi_header(path):
    """Return the header of an ENVI file, given either of its two files, or None."""
    header = _header_path(path)
    if header is None:
        return None
    spectral = import_optional("spectral.io.envi", feature="Reading ENVI headers", extra="raster")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entries = spectral.read_envi_header(str(header))
            image = spectral.open(str(header), None if path == header else str(path))
    except Exception as error:  # spectral raises whatever a wrong header leads it to
        raise CorruptFileError(
            f"'{header}' cannot be read as an ENVI header ({error}). It is damaged, of another "
            "kind, or its data file is missing."
        ) from error
    _check_layout(header, entries)
    found = _EnviHeader(header, image, entries)
    if found.image is not None:
        _check_size(image, found.data_path)
    return found


def _check_layout(path, entries):
    """Refuse a layout that ENVI does not have: readers would take it for one of the others."""
    layouts = {"interleave": ("bil", "bip", "bsq"), "byte order": ("0", "1")}
    for name, known in layouts.items():
        value = str(entries.get(name, known[0])).strip().lower()
        if value not in known:
            raise CorruptFileError(
                f"'{path}' should have one of {', '.join(known)} as '{name}', found {value!r:.40}. "
                "Correct the header."
            )


def _header_path(path):
    if path.suffix.lower() == ".hdr":
        return path
    if path.suffix.lower() in (".tif", ".tiff", ".vrt", ".jp2"):
        return None
    for candidate in (path.with_suffix(".hdr"), path.with_name(path.name + ".hdr")):
        if candidate.is_file():
            return candidate
    return None


def _examine_bytes(header):
    """Warn if an uncompressed ENVI file looks as if it had been converted as text."""
    if header.image is not None:
        stored = np.memmap(header.data_path, np.uint8, mode="r", offset=header.image.offset)
        warn_if_converted(header.data_path, stored, header.image.sample_size)


def _check_size(image, data_path):
    """Refuse a data file shorter than its header says; GDAL would read zeros past the end."""
    needed = image.offset + image.nrows * image.ncols * image.nbands * image.sample_size
    size = data_path.stat().st_size
    if size < needed:
        raise CorruptFileError(
            f"'{data_path}' has {size} bytes, its header promises {needed}. The file is "
            "truncated: obtain it again."
        )


def _open_netcdf(path, variable):
    with path.open("rb") as file:
        is_classic = file.read(3) == b"CDF"
    if is_classic:
        opener = partial(_xarray().open_dataset, path, engine="scipy", decode_coords="all")
        return _open_dataset(path, variable, opener)
    return _open_dataset(
        path, variable, partial(_hdf5_dataset, open_hdf5(path, extra="raster"), decode_coords="all")
    )


def _hdf5_dataset(file, phony_dims=None, **options):
    """The data set of an open HDF5 file, which it closes."""
    h5netcdf = import_optional("h5netcdf", feature="Reading HDF5 images", extra="raster")
    try:
        content = h5netcdf.File(file, "r", phony_dims=phony_dims, decode_vlen_strings=True)
        store = _xarray().backends.H5NetCDFStore(content)
        dataset = _xarray().open_dataset(store, **options)
    except BaseException:
        file.close()
        raise
    dataset.set_close(file.close)
    return dataset


def _open_zarr(path, variable):
    import_optional("zarr", feature="Reading Zarr stores", extra="raster")
    check_zarr(path)
    opener = partial(
        _xarray().open_dataset, path, engine="zarr", consolidated=None, decode_coords="all"
    )
    return _open_dataset(path, variable, opener)


def _open_dataset(path, variable, opener):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = opener(cache=False)
    except MissingDependencyError:
        raise
    except Exception as error:
        raise CorruptFileError(
            f"'{path}' cannot be opened as {path.suffix or 'a data set'} ({error}). It is "
            "truncated, damaged or of another kind."
        ) from error
    images = {str(name): array for name, array in dataset.items() if _is_image(array)}
    array = _pick(path, images, variable)
    _check_chunks(path, array)
    scene = _from_array(array, name=str(path), dataset=dataset)
    return _closed_by(scene, dataset.close)


def _check_chunks(path, array):
    """Refuse an image whose chunks, which are unpacked as a whole, take too much memory."""
    encoding = array.encoding
    sizes = encoding.get("chunksizes") or encoding.get("chunks") or ()
    size = math.prod(sizes) * array.dtype.itemsize if sizes else 0
    if path.is_dir():
        check_expansion(path, size, 0, SMALL_FILE_BYTES)
    else:
        check_table(path, size)


def _is_image(array):
    return array.ndim == 3 and array.dtype.kind in "uif"


def _pick(path, images, variable):
    if variable is not None:
        if variable not in images:
            raise ValueError(
                f"`variable` should be one of {', '.join(sorted(images)) or 'none'} (the "
                f"three-dimensional arrays of '{path}'), got {variable!r}."
            )
        return images[variable]
    if not images:
        raise CorruptFileError(f"'{path}' holds no three-dimensional numeric array.")
    if len(images) > 1:
        raise ValueError(
            f"'{path}' holds several images: {', '.join(sorted(images))}. Name one as `variable`."
        )
    return next(iter(images.values()))


def _open_matlab(path, variable):
    from jplay.datasets.readers import is_mat73, read_arrays

    if not is_mat73(path):
        images = {name: value for name, value in read_arrays(path).items() if value.ndim == 3}
        cube = _pick(path, images, variable)
        return _from_array(_xarray().DataArray(cube, dims=("y", "x", "band")), name=str(path))
    file = open_hdf5(path, extra="raster")
    try:
        dataset = _hdf5_dataset(file, phony_dims="sort", cache=False, decode_cf=False)
    except MissingDependencyError:
        raise
    except Exception as error:
        raise CorruptFileError(f"'{path}' cannot be read as MATLAB 7.3 ({error}).") from error
    images = {str(name): array for name, array in dataset.items() if _is_image(array)}
    array = _pick(path, images, variable)
    _check_chunks(path, array)
    # MATLAB stores columns first, so HDF5 shows every axis in reverse.
    renamed = array.rename(dict(zip(array.dims, ("band", "x", "y"), strict=True)))
    return _closed_by(_from_array(renamed, name=str(path)), dataset.close)


def _closed_by(scene, close):
    return replace(scene, _closers=(*scene._closers, close))


def _xarray():
    return import_optional("xarray", feature="Reading image files", extra="raster")


def _from_array(array, name, dataset=None):
    dims = _image_dims(array)
    _, _, band = dims
    n_bands = array.sizes[band]
    crs, transform = _georeferencing(array, dims)
    return Scene(
        array=array,
        dims=dims,
        good_bands=_array_good_bands(array, dataset, band, n_bands),
        wavelengths=_array_wavelengths(array, dataset, band),
        nodata=_array_nodata(array),
        crs=crs,
        transform=transform,
        source_block=_array_block(array, dims),
        name=str(name),
    )


def _image_dims(array):
    if len(array.dims) != 3:
        raise ValueError(
            f"`source` should have three axes (rows, columns, bands), got {tuple(array.dims)}. "
            "Select one image first."
        )
    found = []
    for role, names in (("row", _ROW_NAMES), ("column", _COLUMN_NAMES), ("band", _BAND_NAMES)):
        matches = [dim for dim in array.dims if str(dim).lower() in names]
        if len(matches) != 1:
            raise ValueError(
                f"`source` should have one {role} axis named like {', '.join(names[:3])}, got the "
                f"axes {tuple(array.dims)}. Rename them to ('y', 'x', 'band')."
            )
        found.append(matches[0])
    return tuple(found)


def _beside(array, dataset, names, band):
    """Find a variable along the band axis beside the image, by one of its usual names."""
    places = [array.coords, *([dataset.variables] if dataset is not None else [])]
    for place in places:
        for name, values in place.items():
            if str(name).lower() in names and tuple(values.dims) == (band,):
                return values
    return None


def _array_wavelengths(array, dataset, band):
    found = _beside(array, dataset, ("wavelength", "wavelengths", "wl"), band)
    if found is not None and found.dtype.kind in "uif":
        return _nanometres(found.values, found.attrs.get("units"))
    values = array.attrs.get("wavelengths", array.attrs.get("wavelength"))
    if values is None or isinstance(values, str) or np.size(values) != array.sizes[band]:
        return None
    return _nanometres(values, array.attrs.get("wavelength_units"))


def _array_good_bands(array, dataset, band, n_bands):
    found = _beside(array, dataset, ("bbl", "good_wavelengths", "good_bands"), band)
    flags = array.attrs.get("bbl") if found is None else found.values
    if flags is not None and np.size(flags) == n_bands:
        return np.asarray(flags).astype(float) != 0
    return np.ones(n_bands, dtype=bool)


def _array_nodata(array):
    value = array.attrs.get("_FillValue", array.attrs.get("nodata"))
    return None if value is None or np.isnan(value) else float(value)


def _georeferencing(array, dims):
    y, x, _ = dims
    try:
        import rioxarray  # noqa: F401  adds the accessor .rio
    except ImportError:
        return None, None
    from rioxarray.exceptions import RioXarrayError

    spatial = array.rio.set_spatial_dims(x_dim=x, y_dim=y)
    crs = spatial.rio.crs
    has_coordinates = x in array.coords and y in array.coords
    stored = array.encoding.get("grid_mapping", array.attrs.get("grid_mapping", "spatial_ref"))
    has_stored = stored in array.coords and "GeoTransform" in array.coords[stored].attrs
    if not has_coordinates and not has_stored:
        return crs, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return crs, spatial.rio.transform()
    except (RioXarrayError, ValueError, TypeError):  # irregular coordinates have no transform
        return crs, None


def _array_block(array, dims):
    y, x, _ = dims
    if array.chunks is not None:
        chunks = dict(zip(array.dims, array.chunks, strict=True))
        return max(chunks[y]), max(chunks[x])
    preferred = array.encoding.get("preferred_chunks") or {}
    return int(preferred.get(y, 1)), int(preferred.get(x, 0))
