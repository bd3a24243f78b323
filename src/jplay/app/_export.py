"""What a person takes away: maps, labels, model, report, commands; and the embedded scene."""

import json
import shlex
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jplay._files import atomic_path
from jplay.app import _tasks
from jplay.app._labels import as_frame, write_geojson
from jplay.app._pictures import SceneOnScreen
from jplay.palette import class_colors
from jplay.persistence import save_model
from jplay.raster import Block, map_scene
from jplay.report import Run, SceneView, write_report
from jplay.tables import write_columns

_REPORT_PIXELS = 500
"""Maximum height and width of the image in the report."""
_REPORT_SPECTRA = 150
_FIELDS_PER_CLASS = 3
_FEWEST_PIXELS = 12


@dataclass(frozen=True, eq=False)
class Order:
    """What to write, and from what."""

    folder: Path
    document: dict
    fit: Any
    accuracy: list
    held_out: Any = None
    label_image: Any = None
    samples: Any = None
    frame: Any = None


def order_of(session, folder):
    """Return the task and its argument that write the results of a session."""
    accuracy = session.accuracy or []
    held_out = next(
        (e for model, e in (session.estimates or []) if model == session.fit.model), None
    )
    common = (folder, dict(session.document), session.fit, accuracy, held_out)
    if session.scene is not None:
        return write_scene_results, Order(*common, label_image=session.label_image())
    samples = session.table.samples(session.document["roles"])
    return write_table_results, Order(*common, samples=samples, frame=session.table.frame)


def write_scene_results(report, order):
    """Write everything about a scene; names of the files are returned."""
    folder, document, fit = order.folder, order.document, order.fit
    on_screen = SceneOnScreen(document["source"], document.get("variable"))
    scene = on_screen.scene
    try:
        report("Writing the class map")
        map_scene(
            scene,
            fit.trained,
            folder / "map.tif",
            confidence=folder / "confidence.tif",
            threshold=document["settings"]["min_confidence"] or None,
            progress=lambda done, total: report("Writing the class map", done, total),
        )
        report("Writing labels and model")
        _write_labels(folder / "labels.tif", order.label_image, document["classes"], scene)
        write_geojson(document, scene, folder / "polygons.geojson")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'crs' was not provided", UserWarning)
            frame = as_frame(document, scene)
            frame.to_file(folder / "polygons.gpkg", engine="pyogrio", layer="labels")
        _save(fit, folder)
        report("Writing the report")
        run = _run_of(order, view=_scene_view(on_screen, order))
        write_report(run, folder / "report.html")
    finally:
        on_screen.close()
    commands = _scene_commands(document, fit.model)
    return _completed(folder, commands)


def write_table_results(report, order):
    """Write everything about a table; names of the files are returned."""
    folder, document, fit, samples = order.folder, order.document, order.fit, order.samples
    roles, frame = document["roles"], order.frame
    report("Writing the predictions")
    rows = samples["to_predict"]
    X = frame[samples["features"]].iloc[rows].astype(np.float64)
    probabilities = fit.trained.estimator.predict_proba(X)
    places = probabilities.argmax(axis=1)
    columns = {roles["id"] or "row": frame[roles["id"]].to_numpy()[rows] if roles["id"] else rows}
    columns[roles["target"]] = frame[roles["target"]].to_numpy()[rows]
    columns["prediction"] = fit.trained.classes[places]
    columns["confidence"] = probabilities[np.arange(len(rows)), places].round(4)
    if order.held_out is not None:
        left_out = np.full(len(frame), "", dtype=object)
        left_out[samples["rows"][order.held_out.rows]] = order.held_out.model.predicted
        columns["prediction_left_out"] = left_out[rows]
    write_columns(folder / "predictions.csv", columns)
    used = frame[[*samples["features"], roles["target"]]].iloc[samples["rows"]]
    write_columns(folder / "samples.csv", {name: used[name].to_numpy() for name in used.columns})
    report("Writing model and report")
    _save(fit, folder)
    write_report(_run_of(order), folder / "report.html")
    return _completed(folder, _table_commands(roles["target"], fit.model))


def _save(fit, folder):
    """Write the model, or why it cannot be: trees have no form that runs no code."""
    if fit.model == "forest":
        text = "A random forest cannot be kept in a model file. Run commands.sh to fit it again."
        (folder / "no-model.txt").write_text(f"{text}\n", encoding="utf-8")
    else:
        save_model(fit.trained, folder / "model.skops")


def _completed(folder, commands):
    """Write the commands and an archive of all files; return their names."""
    (folder / "commands.sh").write_text(commands, encoding="utf-8")
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    with (
        atomic_path(folder / "everything.zip") as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for path in paths:
            archive.write(path, path.name)
    return [path.name for path in paths]


def _write_labels(path, image, classes, scene):
    """Write class codes on the grid of a scene, with names and colours."""
    import rasterio

    place = {} if scene.transform is None else {"transform": scene.transform}
    colors = {one["id"]: tuple(bytes.fromhex(one["color"][1:])) for one in classes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            count=1,
            height=image.shape[0],
            width=image.shape[1],
            dtype="uint8",
            nodata=0,
            crs=scene.crs,
            compress="deflate",
            **place,
        ) as dataset:
            dataset.write(image, 1)
            dataset.write_colormap(1, {code: (*color, 255) for code, color in colors.items()})
            names = {one["id"]: one["name"] for one in classes}
            dataset.update_tags(class_names=json.dumps(names))


def _run_of(order, view=None):
    """What the report shows, from what the page has shown."""
    fit, document = order.fit, order.document
    trained = fit.trained
    names = list(trained.metadata.class_names)
    judged = next((row for row in order.accuracy if row["model"] == fit.model), None)
    facts = {
        "Data": document["title"],
        "Model": _tasks.MODELS[fit.model],
        "Training": f"{len(fit.y)} samples of {len(names)} classes, {fit.seconds:.1f} s",
    }
    if judged is not None:
        low, high = 100 * judged["low"], 100 * judged["high"]
        facts["Accuracy"] = f"{100 * judged['accuracy']:.1f} % ({low:.1f} to {high:.1f} %)"
        facts["Measured by"] = judged["title"]
        facts |= {f"Note {n}": note for n, note in enumerate(judged["notes"], 1)}
    looks = fit.looks()
    relevance = None if fit.relevance is None or len(fit.relevance) != len(names) else fit.relevance
    n_features = trained.n_features
    wavelengths = trained.metadata.wavelengths
    return Run(
        title=f"{document['title']}: {_tasks.MODELS[fit.model]}",
        facts=facts,
        class_names=names,
        parameters={k: str(v) for k, v in trained.final_step.get_params(deep=False).items()},
        scores=[
            {
                "features": row["name"],
                "n_features": n_features,
                "classifier": "built-in",
                "overall_accuracy": row["accuracy"],
                "average_accuracy": row["average_accuracy"],
                "kappa": row["kappa"],
                "seconds": row["seconds"],
            }
            for row in order.accuracy
        ],
        judged=_tasks.MODELS[fit.model] if judged is not None else "",
        confusion=None if judged is None else np.array(judged["confusion"]),
        class_counts={"Training": [int((fit.y == one).sum()) for one in trained.classes]},
        layer_names=list(fit.view.names),
        planes=np.array(looks["planes"], dtype=np.float32),
        point_labels=np.array(looks["labels"], dtype=np.uint16),
        relevance=relevance,
        feature_positions=np.arange(n_features) if wavelengths is None else np.array(wavelengths),
        feature_axis="Feature" if wavelengths is None else "Wavelength (nm)",
        scene=view,
    )


def _scene_view(on_screen, order):
    """Image, labels, map and spectra as small as a page can carry."""
    size = max(on_screen.height, on_screen.width)
    step, apart = -(-size // _REPORT_PIXELS), -(-size // _REPORT_SPECTRA)
    apart = step * -(-apart // step)
    whole = Block(0, on_screen.height, 0, on_screen.width)
    shape = tuple(-(-n // step) for n in whole.shape)
    X, valid = on_screen.read(whole, on_screen.good, step)
    codes = np.zeros(len(X), dtype=np.uint16)
    codes[valid] = np.searchsorted(order.fit.trained.classes, order.fit.classify(X[valid])[0]) + 1
    labels = order.label_image[::step, ::step]
    known = np.isin(labels, order.fit.trained.classes)
    truth = np.where(known, np.searchsorted(order.fit.trained.classes, labels) + 1, 0)
    bands = next(iter(on_screen.facts()["presets"].values()))
    colors = []
    for band in bands:
        low, high = on_screen.limits(band, 2)
        values, _ = on_screen.read(whole, np.array([band]), step)
        colors.append(np.clip((values[:, 0].astype(float) - low) / (high - low), 0, 1))
    cube = X.reshape(*shape, -1)[:: apart // step, :: apart // step].astype(float)
    low, high = float(np.nanmin(cube)), float(np.nanmax(cube))
    wavelengths = on_screen.scene.wavelengths
    return SceneView(
        false_color=np.round(255 * np.stack(colors, axis=-1)).astype(np.uint8).reshape(*shape, 3),
        ground_truth=truth.astype(np.uint16),
        prediction=codes.reshape(shape),
        training=np.zeros(shape, dtype=np.uint8),
        spectra=np.round(255 * (np.nan_to_num(cube) - low) / ((high - low) or 1)).astype(np.uint8),
        wavelengths=on_screen.good if wavelengths is None else wavelengths[on_screen.good],
        value_range=(low, high),
        spectrum_step=apart // step,
        pixel_step=step,
        has_wavelengths=wavelengths is not None,
    )


def _scene_commands(document, model):
    """Return the shell commands that repeat the work, from the files beside them."""
    source = shlex.quote(document["source"])
    variable = f" --variable {shlex.quote(document['variable'])}" if document["variable"] else ""
    most, threshold = (document["settings"][name] for name in ("max_per_class", "min_confidence"))
    if model in ("lda", "forest"):
        return _HEAD + _PYTHON.format(
            threshold=threshold or None,
            source=document["source"],
            labels="labels.tif",
            model=_CODE[model],
            most=most,
            variable=document["variable"],
        )
    threshold = f" --threshold {threshold:g}" if threshold else ""
    return (
        f"{_HEAD}jplay fit {source}{variable} --labels labels.tif --method {model} --scaling max "
        f"--max-per-class {most} --seed 0 -o repeated.skops\n"
        f"jplay map {source}{variable} --model repeated.skops{threshold} "
        "--confidence repeated-confidence.tif -o repeated.tif\n"
    )


def _table_commands(target, model):
    quoted = shlex.quote(target)
    if model in ("lda", "forest"):
        return _HEAD + _PYTHON_TABLE.format(target=target, model=_CODE[model])
    return (
        f"{_HEAD}jplay fit samples.csv --target {quoted} --method {model} --scaling columns "
        f"--seed 0 -o repeated.skops\njplay predict repeated.skops samples.csv --target {quoted} "
        "--with-probabilities -o repeated.csv\n"
    )


_HEAD = "#!/bin/sh\n# Repeats what was done in jplay app, in the folder of this file.\nset -e\n"
_CODE = {
    "lda": (
        "make_pipeline(Normalizer(norm='max'), "
        "LinearDiscriminantAnalysis(solver='eigen', shrinkage='auto'))"
    ),
    "forest": "make_pipeline(Normalizer(norm='max'), RandomForestClassifier(200, random_state=0))",
}
_IMPORTS = """\
python - <<'END'
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
"""
_PYTHON = (
    _IMPORTS
    + """\
from jplay.raster import fit_scene, map_scene, open_scene

scene = open_scene({source!r}, variable={variable!r})
model = fit_scene(scene, {labels!r}, {model}, max_per_class={most})
map_scene(
    scene, model, "repeated.tif", confidence="repeated-confidence.tif", threshold={threshold}
)
END
"""
)
_PYTHON_TABLE = (
    _IMPORTS
    + """\
from jplay.persistence import train_model
from jplay.tables import read_table

table = read_table("samples.csv", target={target!r})
model = train_model(table.X, table.y, {model}[-1])
print(model.predict(table.X))
END
"""
)


# -- the embedded scene


def write_pines(path):
    """Write Indian Pines as a GeoTIFF with wavelengths."""
    import rasterio

    from jplay.datasets import fetch_indian_pines

    pines = fetch_indian_pines(split=None, dtype=np.uint16)
    bands = pines.cube.transpose(2, 0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with (
            atomic_path(path) as temporary,
            rasterio.open(
                temporary,
                "w",
                driver="GTiff",
                count=len(bands),
                height=bands.shape[1],
                width=bands.shape[2],
                dtype="uint16",
            ) as dataset,
        ):
            dataset.write(bands)
            for number, wavelength in enumerate(pines.wavelengths, start=1):
                dataset.update_tags(
                    number, wavelength=str(wavelength), wavelength_units="Nanometers"
                )


def example_fields():
    """Return some fields of the ground truth of Indian Pines: name, colour, kind and rings."""
    from rasterio.features import shapes

    from jplay.datasets import fetch_indian_pines

    pines = fetch_indian_pines(split=None)
    truth = pines.ground_truth.astype(np.uint8)
    fields = {}
    for geometry, code in shapes(truth, mask=truth > 0):
        rings = [ring[:-1] for ring in geometry["coordinates"]]
        fields.setdefault(int(code), []).append(rings)
    colors = class_colors(len(pines.target_names))
    found = []
    for code, places in sorted(fields.items()):
        color = "#{:02x}{:02x}{:02x}".format(*colors[code - 1].tolist())
        for rings in sorted(places, key=lambda rings: -_area(rings[0]))[:_FIELDS_PER_CLASS]:
            if _area(rings[0]) >= _FEWEST_PIXELS:
                found.append((str(pines.target_names[code - 1]), color, "polygon", rings))
    return found


def _area(ring):
    x, y = np.array(ring).T
    return abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
