"""The page: parts as text, tables, charts and images in one HTML file."""

import base64
import json
import re
import zlib
from functools import singledispatch
from importlib.resources import files
from itertools import groupby
from operator import itemgetter

import numpy as np

from jplay._optional import import_optional
from jplay.palette import BACKGROUND, class_colors
from jplay.report._charts import interval_chart, line_chart, scatter_chart
from jplay.report._parts import (
    ClassMap,
    Confusion,
    Facts,
    IntervalChart,
    LineChart,
    Panels,
    Pictures,
    Share,
    Strips,
    Table,
    Text,
)
from jplay.report._png import png_uri

MAX_TABLE_CLASSES = 30
"""With more classes the confusion matrix is an image."""
SHORT_NAME = 3
"""Letters of a name that can head a column of the confusion matrix."""
GAP = 2.5
"""Bands further apart than this many times the usual distance have others missing in between."""
ERROR_COLORS = {
    "right": (205, 208, 212),
    "wrong": (214, 39, 40),
    "training pixel": (44, 123, 182),
    "not labelled": BACKGROUND,
}


def render(report):
    """Return the HTML text of a :class:`Report`."""
    jinja2 = import_optional("jinja2", feature="The report", extra="report")
    template_folder = files("jplay.report") / "template"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["groupby_runs"] = _runs
    template = environment.from_string((template_folder / "report.html").read_text("utf-8"))
    taken = {"main", "warnings", "provenance"}
    sections = [
        {
            "id": _slug(section.title, taken),
            "title": section.title,
            "parts": [_prepared(part, f"s{n}-{k}") for k, part in enumerate(section.parts)],
        }
        for n, section in enumerate(report.sections)
    ]
    parts = [part for section in report.sections for part in section.parts]
    return template.render(
        report=report,
        main=None if report.main is None else _prepared(report.main, "main-part"),
        sections=sections,
        style=(template_folder / "report.css").read_text("utf-8")
        + _class_style([report.main, *parts]),
        script=(template_folder / "report.js").read_text("utf-8"),
    )


def _runs(parts):
    """Group neighbouring parts of one kind."""
    return [(kind, list(group)) for kind, group in groupby(parts, key=itemgetter("kind"))]


def _slug(title, taken):
    """Return a name for a heading that no other has."""
    base = name = re.sub(r"\W+", "-", title.lower()).strip("-") or "section"
    number = 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    taken.add(name)
    return name


def _prepared(part, part_id):
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(part).__name__).lower()
    return {"kind": kind, "id": part_id, **_content(part, part_id)}


@singledispatch
def _content(part, part_id):
    """Return what the template needs of a part."""
    raise TypeError(f"A section should hold parts of jplay.report, got {type(part).__name__}.")


@_content.register
def _(part: Text, part_id):
    return {"text": part.text}


@_content.register
def _(part: Facts, part_id):
    return {"title": part.title, "values": part.values, "closed": part.closed}


@_content.register
def _(part: Table, part_id):
    numeric = [part.is_number(k) for k in range(len(part.columns))]
    text = part.to_csv()
    return {
        "title": part.title,
        "note": part.note,
        "columns": list(zip(part.columns, numeric, strict=True)),
        "rows": [
            [_cell(part, k, value, numeric[k]) for k, value in enumerate(row)] for row in part.rows
        ],
        "best": part.best,
        "colored": part.colored,
        # A byte order mark tells spreadsheets the encoding.
        "csv": base64.b64encode(text.encode("utf-8-sig")).decode("ascii"),
        "file": f"{_slug(part.title, set())}.csv",
    }


def _cell(table, column, value, numeric):
    share = value if isinstance(value, Share) else None
    number = share.value if share else value
    return {
        "text": table.text(column, value),
        "interval": share.interval if share else "",
        "share": share.value if share else None,
        "value": ("" if number is None else number) if numeric else None,
        "numeric": numeric,
    }


@_content.register
def _(part: LineChart, part_id):
    return {
        "title": part.title,
        "svg": line_chart(f"{part_id}-title", part),
        "names": list(part.series),
    }


@_content.register
def _(part: IntervalChart, part_id):
    return {"title": part.title, "svg": interval_chart(f"{part_id}-title", part)}


@_content.register
def _(part: Panels, part_id):
    notes = list(part.notes) or [""] * len(part.planes)
    return {
        "class_names": part.class_names,
        "panels": [
            {
                "title": title,
                "note": note,
                "svg": scatter_chart(
                    f"{part_id}-{n}", title, plane, part.labels, len(part.class_names)
                ),
            }
            for n, (title, note, plane) in enumerate(
                zip(part.titles, notes, part.planes, strict=True)
            )
        ],
    }


@_content.register
def _(part: Pictures, part_id):
    images = [{"name": name, "uri": png_uri(image)} for name, image in part.images.items()]
    return {"images": images, "alt": part.alt, "small": part.small}


@_content.register
def _(part: Strips, part_id):
    rows = zip(part.class_names, part.images, part.remarks, strict=True)
    return {
        "axis": part.axis,
        "rows": [{"name": name, "uri": png_uri(image), "remark": r} for name, image, r in rows],
    }


@_content.register
def _(part: Confusion, part_id):
    counts = np.asarray(part.counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    small = len(counts) <= MAX_TABLE_CLASSES
    rows = [[part.class_names[k], *map(int, row)] for k, row in enumerate(counts)]
    table = Table("Confusion matrix", ["True class", *part.class_names], rows)
    return {
        **_content(table, part_id),
        "class_names": part.class_names,
        "short": max(map(len, part.class_names), default=0) <= SHORT_NAME,
        "counts": [
            [
                {"count": int(n), "alpha": round(0.55 * float(share), 3)}
                for n, share in zip(row, row_shares, strict=True)
            ]
            for row, row_shares in zip(counts, shares, strict=True)
        ]
        if small
        else None,
        "image": None if small else png_uri(shaded(shares, HEAT)),
    }


@_content.register
def _(part: ClassMap, part_id):
    scene, names = part.scene, list(part.class_names)
    palette = np.vstack([[BACKGROUND], class_colors(max(len(names), 1))]).astype(np.uint8)
    layers = [
        ("color", "False colour", scene.false_color),
        ("prediction", "Class map", palette[scene.prediction]),
    ]
    if scene.ground_truth.any():
        layers[1:1] = [("truth", "Ground truth", palette[scene.ground_truth])]
        layers.append(("errors", "Errors", _error_image(scene)))
    height, width = scene.prediction.shape
    labelled = (scene.ground_truth > 0) & (scene.training == 0)
    data = {
        "height": height,
        "width": width,
        "spectrumStep": scene.spectrum_step,
        "pixelStep": scene.pixel_step,
        "spectrumShape": scene.spectra.shape,
        "low": scene.value_range[0],
        "high": scene.value_range[1],
        "axis": "Wavelength (nm)" if scene.has_wavelengths else "Band",
        "valueName": scene.value_name,
        "wavelengths": [round(float(w), 1) for w in scene.wavelengths],
        "gaps": gaps(scene.wavelengths),
        "classes": names,
        "truth": _packed(scene.ground_truth.astype("<u2")),
        "prediction": _packed(scene.prediction.astype("<u2")),
        "training": _packed(scene.training.astype(np.uint8)),
        # Neighbouring bands are alike, so that differences compress far better.
        "spectra": _packed(np.diff(scene.spectra, axis=2, prepend=np.uint8(0))),
    }
    return {
        "title": part.title,
        "class_names": names,
        "layers": [(key, name, png_uri(image)) for key, name, image in layers],
        "error_colors": {name: f"rgb{color}" for name, color in ERROR_COLORS.items()},
        "height": height,
        "width": width,
        "n_wrong": int((labelled & (scene.ground_truth != scene.prediction)).sum()),
        "n_labelled": int(labelled.sum()),
        "pixel_step": scene.pixel_step,
        # "<" may not occur in a script element.
        "data": json.dumps(data).replace("<", "\\u003c"),
    }


def gaps(positions):
    """Return the numbers of bands before which others are missing."""
    steps = np.abs(np.diff(np.asarray(positions, dtype=float)))
    if not steps.size:
        return []
    return [int(k) + 1 for k in np.flatnonzero(steps > GAP * np.median(steps))]


def _error_image(scene):
    image = np.empty((*scene.ground_truth.shape, 3), dtype=np.uint8)
    image[:] = ERROR_COLORS["not labelled"]
    known = scene.ground_truth > 0
    image[known] = ERROR_COLORS["right"]
    image[known & (scene.ground_truth != scene.prediction)] = ERROR_COLORS["wrong"]
    image[scene.training > 0] = ERROR_COLORS["training pixel"]
    return image


def _packed(array):
    """Deflate an array and write it as base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode("ascii")


HEAT = [[255, 255, 255], [254, 196, 79], [217, 72, 1], [102, 18, 6]]
SIGNED = [[5, 48, 97], [67, 147, 195], [255, 255, 255], [214, 96, 77], [103, 0, 31]]


def shaded(values, stops):
    """Interpolate between colours at equal steps from 0 to 1."""
    steps = np.linspace(0, 1, len(stops))
    channels = [np.interp(values, steps, channel) for channel in np.transpose(stops)]
    return np.round(np.stack(channels, axis=-1)).astype(np.uint8)


def _class_style(parts):
    """Return the colours of as many classes as any part has."""
    counts = [len(part.class_names) for part in parts if hasattr(part, "class_names")]
    counts += [len(part.rows) for part in parts if isinstance(part, Table) and part.colored]
    colors = class_colors(max(max(counts, default=1), 1))
    return "\n".join(
        ".class-{}{{--c:#{:02x}{:02x}{:02x}}}".format(k, *rgb) for k, rgb in enumerate(colors, 1)
    )
