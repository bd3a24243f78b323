"""Hyperspectral files in, class maps out.

>>> from jplay.raster import fit_scene, map_scene, open_scene  # doctest: +SKIP
>>> scene = open_scene("scene.hdr")  # doctest: +SKIP
>>> model = fit_scene(scene, "labels.tif")  # doctest: +SKIP
>>> map_scene(scene, model, "map.tif")  # doctest: +SKIP
"""

from jplay.raster._area import (
    AreaEstimates,
    SamplePlan,
    estimate_areas,
    plan_sample,
    wilson_interval,
)
from jplay.raster._assess import MapAssessment, assess_map, pixel_hectares
from jplay.raster._assess_files import assessment_csv
from jplay.raster._fit import SceneSamples, fit_scene, scene_samples
from jplay.raster._labels import Labels, open_labels
from jplay.raster._map import map_scene, predict_scene
from jplay.raster._open import open_scene
from jplay.raster._sample import ReferenceSample, draw_sample
from jplay.raster._scene import Block, Scene

__all__ = [
    "AreaEstimates",
    "Block",
    "Labels",
    "MapAssessment",
    "ReferenceSample",
    "SamplePlan",
    "Scene",
    "SceneSamples",
    "assess_map",
    "assessment_csv",
    "draw_sample",
    "estimate_areas",
    "fit_scene",
    "map_scene",
    "open_labels",
    "open_scene",
    "pixel_hectares",
    "plan_sample",
    "predict_scene",
    "scene_samples",
    "wilson_interval",
]
