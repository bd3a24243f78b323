"""Small scenes in the formats that people have, for the tests of raster and the command line."""

import numpy as np

from jplay.datasets import make_hyperspectral_scene

EPSG = 32632


def make_image(height=48, width=40, n_bands=40, n_classes=4, seed=0):
    """A scene with integer counts, so that every format stores the same numbers."""
    image = make_hyperspectral_scene(
        height, width, n_bands=n_bands, n_classes=n_classes, split=None, random_state=seed
    )
    image.counts = (image.cube * 10_000).clip(1).astype(np.uint16)
    return image


def transform():
    from rasterio.transform import from_origin

    return from_origin(500_000.0, 5_400_000.0, 30.0, 30.0)


def write_tiff(path, bands, *, tags=None, band_wavelengths=None, **profile):
    """``bands`` has shape (n_bands, height, width)."""
    import rasterio

    settings = {"crs": f"EPSG:{EPSG}", "transform": transform(), **profile}
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=len(bands),
        height=bands.shape[1],
        width=bands.shape[2],
        dtype=bands.dtype,
        **settings,
    ) as dataset:
        dataset.write(bands)
        dataset.update_tags(**(tags or {}))
        for number, wavelength in enumerate(
            band_wavelengths if band_wavelengths is not None else (), start=1
        ):
            dataset.update_tags(number, wavelength=str(wavelength), wavelength_units="Nanometers")
    return path


def write_cube(path, image, **profile):
    return write_tiff(
        path,
        image.counts.transpose(2, 0, 1),
        band_wavelengths=image.wavelengths,
        tags={"bbl": listing(~image.absorption_bands * 1)},
        **profile,
    )


def write_labels(path, image):
    return write_tiff(path, image.ground_truth.astype(np.uint8)[np.newaxis], nodata=0)


def write_envi(folder, image, *, interleave="bil", name="scene", extra="", bad_bands=True):
    """Header and data file; returns the header's path."""
    import rasterio

    with rasterio.open(
        folder / f"{name}.img",
        "w",
        driver="ENVI",
        count=image.counts.shape[2],
        height=image.counts.shape[0],
        width=image.counts.shape[1],
        dtype="uint16",
        crs=f"EPSG:{EPSG}",
        transform=transform(),
        interleave=interleave,
    ) as dataset:
        dataset.write(image.counts.transpose(2, 0, 1))
    header = folder / f"{name}.hdr"
    with header.open("a") as file:
        file.write("\nwavelength units = Micrometers\n")
        file.write(f"wavelength = {{{listing(image.wavelengths / 1000)}}}\n")
        if bad_bands:
            file.write(f"bbl = {{{listing(~image.absorption_bands * 1)}}}\n")
        file.write(extra)
    return header


def write_polygons(path, image, *, by_name=True, epsg=4326):
    """One polygon around the largest box of single-class pixels near each class's centre."""
    import geopandas
    from rasterio.features import shapes

    found = [
        (geometry, int(code))
        for geometry, code in shapes(
            image.ground_truth.astype(np.uint8), mask=image.ground_truth > 0, transform=transform()
        )
    ]
    from shapely.geometry import shape

    frame = geopandas.GeoDataFrame(
        {
            "class": [image.target_names[code - 1] if by_name else code for _, code in found],
            "remark": ["" for _ in found],
        },
        geometry=[shape(geometry) for geometry, _ in found],
        crs=EPSG,
    )
    frame.to_crs(epsg).to_file(path, engine="pyogrio")
    return path


def listing(values):
    return ", ".join(str(value) for value in values)
