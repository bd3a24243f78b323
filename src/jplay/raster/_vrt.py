"""Virtual rasters name other files: only local ones may be opened."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

_SOURCES = ("SourceFilename", "SourceDataset", "Source", "Filename", "CutlineDS")
_ELSEWHERE = re.compile(r"/vsi|://", re.IGNORECASE)
"""Parts of names by which GDAL opens what is not a plain file, the network included."""
_DRIVER = re.compile(r"\s*[a-z_][a-z_0-9]+:", re.IGNORECASE)
"""A name that begins with a driver, such as ``WMS:``; one letter is a disk of Windows."""
_SOURCE_DRIVERS = ("GTiff", "JP2OpenJPEG")
"""Drivers that open no further file, see :mod:`jplay.raster._gdal`."""


def check_virtual(path, parents=()):
    """Refuse a virtual raster that leads anywhere but to plain files of this machine.

    Parameters
    ----------
    path : Path
    parents : tuple of Path
        Virtual rasters that led here.

    Raises
    ------
    ValueError
    """
    path = path.resolve()
    if path in parents:
        raise ValueError(f"it leads back to itself by '{path.name}'")
    for element in ElementTree.parse(path).iter():
        texts = [element.text or "", *element.attrib.values()]
        for text in texts:
            if _ELSEWHERE.search(text) and not (element.tag == "MDI" and "/vsi" not in text):
                raise ValueError(f"it names '{text.strip():.80}', which is not a plain file")
        if element.tag in _SOURCES and element.text and len(element) == 0:
            _check_source(path, element, (*parents, path))


def _check_source(path, element, parents):
    from jplay.raster._gdal import open_raster

    name = element.text.strip()
    if name.startswith("<") or _DRIVER.match(name):
        raise ValueError(f"it names '{name:.80}', which is not a plain file")
    relative = element.get("relativeToVRT", "0") == "1"
    source = (path.parent / name) if relative else Path(name)
    if not source.is_file():
        return  # GDAL says that it is missing
    if _leaves(source, path.parent):
        raise ValueError(f"it names '{name:.80}', a link out of its folder")
    with source.open("rb") as file:
        start = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        check_virtual(source, parents)
        return
    for driver in _SOURCE_DRIVERS:
        try:
            open_raster(source, driver).close()
        except OSError:  # of another format
            continue
        except ValueError as error:
            raise ValueError(f"it names '{name:.80}': {error}") from error
        return
    raise ValueError(
        f"it names '{name:.80}', which is neither GeoTIFF nor JPEG 2000. Convert it with "
        "gdal_translate"
    )


def _leaves(file, folder):
    """Whether a file that lies in a folder by its name is a symbolic link out of it."""
    named = Path(os.path.normpath(file.absolute()))
    return named.is_relative_to(folder) and not file.resolve().is_relative_to(folder)
