"""Charts as SVG text, in colours that the page's style sheet sets.

The page styles ``.series-0`` to ``.series-7``; lines differ in dashes as well as in colour.
"""

import math
from html import escape

import numpy as np

from jplay.plotting import within_rim

WIDTH, HEIGHT = 460, 300
WIDE = 520
_SCATTER_SIDE = 300
LEFT, RIGHT, TOP, BOTTOM = 68, 12, 12, 44


def line_chart(chart_id, chart):
    """Draw a :class:`LineChart`; a value without a place interrupts its line."""
    x = np.asarray(chart.x, dtype=float)
    log = chart.log
    values = {name: np.asarray(v, dtype=float) for name, v in chart.series.items()}
    usable = np.concatenate([v[_drawable(v, log)] for v in values.values()] or [np.array([])])
    low, high = (usable.min(), usable.max()) if usable.size else (1.0, 10.0)
    if log:
        low, high = math.log10(low), math.log10(high)
    pad = 0.06 * (high - low) or 0.5
    low, high = low - pad, high + pad
    x_low, x_high = (x.min(), x.max()) if np.ptp(x) > 0 else (x.min() - 0.5, x.min() + 0.5)

    def place(px, py):
        height = math.log10(py) if log else py
        return (
            LEFT + (px - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (height - low) / (high - low) * (HEIGHT - TOP - BOTTOM),
        )

    parts = [_axes(place, x, x_low, x_high, low, high, log, chart.x_label, chart.y_label)]
    for number, v in enumerate(values.values()):
        keep = _drawable(v, log)
        if not keep.any():
            continue
        style = f'series-{number % 8}" data-series="{number}'
        path, pen = "", "M"
        for drawn, *point in zip(keep, x, v, strict=True):
            path += pen + "{:.1f} {:.1f}".format(*place(*point)) if drawn else ""
            pen = "L" if drawn else "M"
        parts.append(f'<path class="line {style}" d="{path}"/>')
        if chart.markers:
            points = [place(*point) for point in zip(x[keep], v[keep], strict=True)]
            dots = "".join(f"M{px:.1f} {py:.1f}h0" for px, py in points)
            parts.append(f'<path class="dots {style}" d="{dots}"/>')
    return _svg(chart_id, chart.title, WIDTH, HEIGHT, "".join(parts))


def interval_chart(chart_id, chart):
    """Draw an :class:`IntervalChart`: a row with a point and a bar for every name."""
    known = {name: share for name, share in chart.rows.items() if share.value is not None}
    limits = [v for s in known.values() for v in (s.value, s.low, s.high) if v is not None]
    low, high = (100 * min(limits), 100 * max(limits)) if limits else (0.0, 100.0)
    pad = max(0.08 * (high - low), 0.5)
    low, high = max(low - pad, 0.0), min(high + pad, 100.0)
    left = min(max((8.4 * len(name) + 24 for name in known), default=0), 0.5 * WIDE)
    row, right, bottom = 30, 56, TOP + 30 * len(known)

    def place(share):
        return left + (100 * share - low) / (high - low) * (WIDE - left - right)

    parts = []
    for tick in _ticks(low, high, 6):
        px = place(tick / 100)
        parts.append(
            f'<path class="grid" d="M{px:.1f} {TOP}V{bottom}"/>'
            f'<text x="{px:.1f}" y="{bottom + 16}" text-anchor="middle">{_number(tick)}</text>'
        )
    for number, (name, share) in enumerate(known.items()):
        py = TOP + row * (number + 0.5)
        own = " own" if name == chart.own else ""
        px = place(share.value)
        if share.interval:
            ends = f"M{place(share.low):.1f} {py}H{place(share.high):.1f}"
            parts.append(f'<path class="whisker{own}" d="{ends}"/>')
        parts.append(
            f'<circle class="estimate{own}" cx="{px:.1f}" cy="{py}" r="5"/>'
            f'<text class="name{own}" x="{left - 12:.0f}" y="{py + 4.5}" text-anchor="end">'
            f"{escape(_cut(name, (left - 20) / 8.2))}</text>"
            f'<text class="name{own}" x="{WIDE - 4}" y="{py + 4.5}" text-anchor="end">'
            f"{share.text}</text>"
        )
    parts.append(
        f'<text x="{(left + WIDE - right) / 2:.0f}" y="{bottom + 36}" text-anchor="middle">'
        f"{escape(chart.x_label)}</text>"
    )
    return _svg(chart_id, chart.title, WIDE, bottom + 44, "".join(parts))


def _cut(name, length):
    return name if len(name) <= length + 1 else f"{name[: int(length) - 1]}…"


def scatter_chart(chart_id, title, points, labels, n_classes):
    """Draw points of several classes in equal units, one path per class.

    Samples far from the middle are drawn closer: they would press all others into a corner.

    Parameters
    ----------
    chart_id, title : str
    points : array of shape (n_points, 2)
    labels : array of int of shape (n_points,)
    n_classes : int

    Returns
    -------
    str
        An ``svg`` element whose paths have ``data-class``.
    """
    shown = within_rim(points)
    size = _SCATTER_SIDE
    placed = size / 2 + shown * [1, -1] * (size / 2 - 8)
    parts = [f'<rect class="frame" x="1" y="1" width="{size - 2}" height="{size - 2}"/>']
    for k in range(n_classes):
        dots = "".join(f"M{px:.0f} {py:.0f}h0" for px, py in placed[labels == k])
        if dots:
            parts.append(f'<path class="point class-{k + 1}" data-class="{k + 1}" d="{dots}"/>')
    return _svg(chart_id, title, size, size, "".join(parts))


def _drawable(values, log):
    return np.isfinite(values) & ((values > 0) if log else True)


def _svg(chart_id, title, width, height, content):
    return (
        f'<svg role="img" aria-labelledby="{chart_id}" viewBox="0 0 {width} {height}">'
        f'<title id="{chart_id}">{escape(title)}</title>{content}</svg>'
    )


def _axes(place, x, x_low, x_high, low, high, log, x_label, y_label):
    bottom = HEIGHT - BOTTOM
    parts = []
    y_ticks = _log_ticks(low, high) if log else _ticks(low, high, 5)
    for tick in y_ticks:
        _, py = place(x_low, tick)
        parts.append(
            f'<path class="grid" d="M{LEFT} {py:.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    x_ticks = x if len(x) <= 8 else _ticks(x_low, x_high, 6)
    for tick in x_ticks:
        px, _ = place(tick, 1.0)
        parts.append(
            f'<text x="{px:.1f}" y="{bottom + 16}" text-anchor="middle">{_number(tick)}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>'
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text x="14" y="{(TOP + bottom) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + bottom) / 2})">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _ticks(low, high, count):
    """Round numbers between two limits."""
    raw = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = scale * next(m for m in (1, 2, 5, 10) if m * scale >= raw)
    first = math.ceil(low / step)
    return [round(n * step, 12) for n in range(first, math.floor(high / step) + 1)]


def _log_ticks(low, high):
    """Powers of ten; with less than two of them between the limits also their multiples."""
    powers = [10.0**n for n in range(math.ceil(low), math.floor(high) + 1)]
    if len(powers) > 6:
        powers = powers[:: math.ceil(len(powers) / 6)]
    if len(powers) >= 2:
        return powers
    decades = range(math.floor(low), math.floor(high) + 1)
    finer = [m * 10.0**n for n in decades for m in (1, 2, 5)]
    found = [value for value in finer if low <= math.log10(value) <= high]
    return found if len(found) >= 2 else [10.0**low, 10.0 ** ((low + high) / 2), 10.0**high]


def _number(value):
    if value and not 1e-3 <= abs(value) < 1e7:
        digits, exponent = f"{value:.0e}".split("e")
        return f"{digits}e{int(exponent)}"
    return f"{value:.7g}"
