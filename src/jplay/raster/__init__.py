"""Hyperspectral files in, class maps out.

>>> from jplay.raster import fit_scene, map_scene, open_scene  # doctest: +SKIP
>>> scene = open_scene("scene.hdr")  # doctest: +SKIP
>>> model = fit_scene(scene, "labels.tif")  # doctest: +SKIP
>>> map_scene(scene, model, "map.tif")  # doctest: +SKIP
"""

from jplay.raster._assess import MapAssessment, assess_map
from jplay.raster._fit import fit_scene
from jplay.raster._labels import Labels, open_labels
from jplay.raster._map import map_scene, predict_scene
from jplay.raster._open import open_scene
from jplay.raster._scene import Block, Scene

__all__ = [
    "Block",
    "Labels",
    "MapAssessment",
    "Scene",
    "assess_map",
    "fit_scene",
    "map_scene",
    "open_labels",
    "open_scene",
    "predict_scene",
]
