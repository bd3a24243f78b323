"""
From polygons to a map
======================

Some fields of a scene are outlined as polygons. A model is fitted to the pixels inside them and
maps all of the scene.
"""

import geopandas
import matplotlib.pyplot as plt
import numpy as np
import rioxarray  # noqa: F401  (adds ``.rio``)
import xarray
from shapely.geometry import box

from jplay.datasets import make_hyperspectral_scene
from jplay.palette import class_colors
from jplay.plotting import false_color, plot_maps
from jplay.raster import fit_scene, predict_scene

scene = make_hyperspectral_scene(60, 80, n_bands=50, n_classes=4, random_state=3)
image = xarray.DataArray(
    scene.cube,
    dims=("y", "x", "wavelength"),
    coords={
        "y": 5_400_000 - 30 * (0.5 + np.arange(60)),
        "x": 500_000 + 30 * (0.5 + np.arange(80)),
        "wavelength": scene.wavelengths,
    },
).rio.write_crs("EPSG:32632")

# %%
# Squares of 6 x 6 pixels that lie within one class, three for every class.
names, shapes, kinds = list(scene.target_names), [], []
for row in range(0, 54, 6):
    for column in range(0, 74, 6):
        inside = scene.ground_truth[row : row + 6, column : column + 6]
        kind = names[inside[0, 0] - 1] if inside.min() else None
        if kind and (inside == inside[0, 0]).all() and kinds.count(kind) < 3:
            left, top = 500_000 + 30 * column, 5_400_000 - 30 * row
            shapes.append(box(left, top - 180, left + 180, top))
            kinds.append(kind)
polygons = geopandas.GeoDataFrame({"class": kinds}, geometry=shapes, crs="EPSG:32632")
print(polygons["class"].value_counts().to_dict())

# %%
# The accuracy is that on whole polygons that were left out.
model = fit_scene(image, polygons, field="class", cv=3, peers=False)
accuracy = model.metadata.accuracy
print(f"{accuracy['method']}: {accuracy['overall_accuracy']:.1%}")
class_map = predict_scene(image, model)

# %%
# Image with the polygons, map, and what is true.
codes = {name: number for number, name in enumerate(names, 1)}
mapped = xarray.zeros_like(class_map)
for number, name in enumerate(model.metadata.class_names, 1):
    mapped = mapped.where(class_map != number, codes[name])
axes = plot_maps(
    {
        "Polygons": false_color(scene.cube, wavelengths=scene.wavelengths),
        "Map": mapped.to_numpy(),
        "Ground truth": scene.ground_truth,
    },
    class_names=names,
)
for shape, kind in zip(shapes, kinds, strict=True):
    left, low, right, high = shape.bounds
    corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
    xs, ys = zip(*corners, strict=True)
    axes[0].plot(
        [(x - 500_000) / 30 - 0.5 for x in xs],
        [(5_400_000 - y) / 30 - 0.5 for y in ys],
        color=class_colors(4)[codes[kind] - 1] / 255,
        linewidth=2,
    )
plt.show()

# %%
# Against everything that is known:
known = scene.ground_truth > 0
print(f"{(mapped.to_numpy() == scene.ground_truth)[known].mean():.1%} of the labelled pixels right")
