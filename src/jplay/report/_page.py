"""The page: a run's parts as text, tables, charts and images in one HTML file."""

import base64
import json
import os
import zlib
from importlib.resources import files
from pathlib import Path

import numpy as np

from jplay import __version__
from jplay._optional import import_optional
from jplay.plotting import class_colors
from jplay.report._charts import line_chart, scatter_chart
from jplay.report._png import png_uri
from jplay.report._run import Run

MAX_TABLE_CLASSES = 30
"""With more classes the confusion matrix is an image and a list of the commonest confusions."""
UNKNOWN_COLOR = (16, 18, 22)
RIGHT_COLOR, WRONG_COLOR, TRAINING_COLOR = (205, 208, 212), (214, 39, 40), (44, 123, 182)


def write_report(run, path):
    """Write a run as one HTML file that loads nothing from anywhere.

    Parameters
    ----------
    run : Run, str or Path
        A run, or the folder it was saved to.
    path : str or Path
        Where to write the page; its folder is made where it does not exist.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from jplay.report import Run, write_report
    >>> run = Run(title="Nothing yet", facts={"Data": "none"}, class_names=["a", "b"])
    >>> with TemporaryDirectory() as folder:
    ...     write_report(run, f"{folder}/report.html").stat().st_size > 1000
    True
    """
    jinja2 = import_optional("jinja2", feature="The report", extra="report")
    run = run if isinstance(run, Run) else Run.load(run)
    template_folder = files("jplay.report") / "template"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["percent"] = _percent
    template = environment.from_string((template_folder / "report.html").read_text("utf-8"))
    page = template.render(
        run=run,
        version=__version__,
        style=(template_folder / "report.css").read_text("utf-8") + _class_style(run),
        script=(template_folder / "report.js").read_text("utf-8"),
        colors=_hex_colors(run),
        best=_best_score(run),
        class_rows=_class_rows(run),
        confusion=_confusion_parts(run),
        depth=_depth_chart(run),
        depth_columns=[name for name in run.depth[0] if name != "n_layers"] if run.depth else [],
        convergence=_convergence_charts(run),
        subspaces=_subspace_charts(run),
        reliance=_reliance_parts(run),
        scene=_scene_parts(run),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, path)
    return path


def _percent(value, digits=1):
    return "–" if value is None else f"{100 * value:.{digits}f}"


def _rgb(run):
    return np.round(255 * class_colors(max(len(run.class_names), 1))).astype(np.uint8)


def _hex_colors(run):
    return ["#{:02x}{:02x}{:02x}".format(*color) for color in _rgb(run)]


def _class_style(run):
    return "\n".join(f".class-{k}{{--c:{color}}}" for k, color in enumerate(_hex_colors(run), 1))


def _best_score(run):
    rated = [score for score in run.scores if score.get("overall_accuracy") is not None]
    return max(rated, key=lambda score: score["overall_accuracy"], default=None)


def _class_rows(run):
    return [
        {
            "name": name,
            "counts": [column[k] for column in run.class_counts.values()],
            "figures": [column[k] for column in run.class_figures.values()],
        }
        for k, name in enumerate(run.class_names)
    ]


def _confusion_parts(run):
    if run.confusion is None:
        return None
    counts = np.asarray(run.confusion)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:10]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    return {
        "rows": [
            [
                {"count": int(n), "alpha": round(0.55 * float(share), 3)}
                for n, share in zip(row, row_shares, strict=True)
            ]
            for row, row_shares in zip(counts, shares, strict=True)
        ]
        if len(counts) <= MAX_TABLE_CLASSES
        else None,
        "image": png_uri(_heat(shares)) if len(counts) > MAX_TABLE_CLASSES else None,
        "pairs": [
            {
                "truth": run.class_names[i],
                "prediction": run.class_names[j],
                "count": int(wrong[i, j]),
                "share": float(shares[i, j]),
            }
            for i, j in pairs
            if wrong[i, j]
        ],
    }


def _heat(values):
    """Return values between 0 and 1 as an image from white over orange to dark red."""
    stops = np.array([[255, 255, 255], [254, 196, 79], [217, 72, 1], [102, 18, 6]], dtype=float)
    position = np.clip(values, 0, 1) * (len(stops) - 1)
    channels = [np.interp(position, np.arange(len(stops)), stops[:, c]) for c in range(3)]
    return np.round(np.stack(channels, axis=-1)).astype(np.uint8)


def _depth_chart(run):
    if not run.depth:
        return None
    names = [name for name in run.depth[0] if name != "n_layers"]
    series = {
        name: [np.nan if p[name] is None else 100 * p[name] for p in run.depth] for name in names
    }
    depths = [point["n_layers"] for point in run.depth]
    chart = line_chart(
        "chart-depth",
        "Overall accuracy against the number of layers",
        depths,
        series,
        x_label="Layers (0: the samples themselves)" if 0 in depths else "Layers",
        y_label="Overall accuracy %",
        markers=True,
    )
    return {"chart": chart, "names": names}


def _convergence_charts(run):
    charts = []
    if run.objective:
        total = np.sum([np.asarray(v) for v in run.objective.values()], axis=0)
        # The samples' own size is most of it: only a linear axis shows the descent.
        charts.append(_over_iterations("objective", "Objective", {"objective": total}, log=False))
        charts.append(_over_iterations("terms", "Weighted terms of the objective", run.objective))
    if run.residuals is not None and len(run.residuals):
        series = {f"layer {k}": v for k, v in enumerate(np.asarray(run.residuals).T, 1)}
        charts.append(_over_iterations("residuals", "Distance from the constraints", series))
    return charts


def _over_iterations(name, title, series, *, log=True):
    iterations = np.arange(1, len(next(iter(series.values()))) + 1)
    chart = line_chart(
        f"chart-{name}",
        f"{title} over the iterations",
        iterations,
        series,
        x_label="Iteration",
        y_label="",
        log=log,
    )
    return {"title": title, "chart": chart, "names": list(series)}


def _subspace_charts(run):
    if run.planes is None:
        return []
    return [
        {
            "title": name,
            "accuracy": run.layer_accuracy[number] if run.layer_accuracy else None,
            "chart": scatter_chart(
                f"chart-layer-{number}",
                f"{name}, test samples in a plane",
                plane,
                run.point_labels,
                len(run.class_names),
            ),
        }
        for number, (name, plane) in enumerate(zip(run.layer_names, run.planes, strict=True))
    ]


def _reliance_parts(run):
    if run.reliance is None:
        return None
    shares = np.asarray(run.reliance)
    strength = shares / np.maximum(shares.max(axis=1, keepdims=True), 1e-30)
    positions = np.asarray(run.feature_positions)
    parts = {
        "top": [
            {"name": name, "features": _strongest(row, positions, run.feature_axis)}
            for name, row in zip(run.class_names, shares, strict=True)
        ],
        "first": f"{positions[0]:.0f}",
        "last": f"{positions[-1]:.0f}",
    }
    if run.image_shape is not None:
        parts["images"] = [
            {"name": name, "uri": png_uri(_heat(row.reshape(run.image_shape)))}
            for name, row in zip(run.class_names, strength, strict=True)
        ]
    else:
        parts["bars"] = [
            {"name": name, "uri": png_uri(_heat(row[None, :]))}
            for name, row in zip(run.class_names, strength, strict=True)
        ]
    return parts


def _strongest(shares, positions, axis, count=3):
    """Name the strongest features that are not neighbours of a stronger one."""
    gap = max(len(shares) // 20, 1)
    found = []
    for place in np.argsort(-shares, kind="stable"):
        if all(abs(place - other) > gap for other in found):
            found.append(place)
        if len(found) == count:
            break
    unit = " nm" if "nm" in axis else ""
    return ", ".join(f"{positions[place]:.0f}{unit}" for place in found)


def _scene_parts(run):
    scene = run.scene
    if scene is None:
        return None
    palette = np.vstack([[UNKNOWN_COLOR], _rgb(run)]).astype(np.uint8)
    layers = [
        ("color", "False colour", scene.false_color),
        ("truth", "Ground truth", palette[scene.ground_truth]),
        ("prediction", "Prediction", palette[scene.prediction]),
        ("errors", "Errors", _error_image(scene)),
    ]
    height, width = scene.ground_truth.shape
    labelled = (scene.ground_truth > 0) & (scene.training == 0)
    data = {
        "height": height,
        "width": width,
        "spectrumStep": scene.spectrum_step,
        "pixelStep": scene.pixel_step,
        "spectrumShape": scene.spectra.shape,
        "low": scene.value_range[0],
        "high": scene.value_range[1],
        "axis": "nm" if scene.has_wavelengths else "band",
        "wavelengths": [round(float(w), 1) for w in scene.wavelengths],
        "classes": run.class_names,
        "truth": _packed(scene.ground_truth.astype("<u2")),
        "prediction": _packed(scene.prediction.astype("<u2")),
        "training": _packed(scene.training.astype(np.uint8)),
        # Neighbouring bands are alike, so that differences compress far better.
        "spectra": _packed(np.diff(scene.spectra, axis=2, prepend=np.uint8(0))),
    }
    return {
        "layers": [(key, name, png_uri(image)) for key, name, image in layers],
        "height": height,
        "width": width,
        "n_wrong": int((labelled & (scene.ground_truth != scene.prediction)).sum()),
        "n_labelled": int(labelled.sum()),
        "pixel_step": scene.pixel_step,
        # "<" may not occur in a script element.
        "data": json.dumps(data).replace("<", "\\u003c"),
    }


def _error_image(scene):
    image = np.empty((*scene.ground_truth.shape, 3), dtype=np.uint8)
    image[:] = UNKNOWN_COLOR
    known = scene.ground_truth > 0
    image[known] = RIGHT_COLOR
    image[known & (scene.ground_truth != scene.prediction)] = WRONG_COLOR
    image[scene.training > 0] = TRAINING_COLOR
    return image


def _packed(array):
    """Deflate an array and write it as base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode("ascii")
