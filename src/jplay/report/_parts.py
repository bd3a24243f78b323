"""The parts of a report, and the report that puts them on one page.

A part knows what it shows, not how: the page's template has a block for every class of this module.
"""

import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from jplay import __version__
from jplay._files import atomic_path
from jplay._text import csv_text

CONFIDENCE = 0.95
"""Of all intervals."""
PACKAGES = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Share:
    """A fraction, shown in percent, and the limits of its 95 % interval if they are known.

    Examples
    --------
    >>> from jplay.report import Share
    >>> share = Share.of_counts(5, 5)
    >>> share.text, share.interval
    ('100.0', '56.6–100.0')
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of_counts(cls, right: float, total: float) -> "Share":
        """Return a share of independent samples with Wilson's interval.

        Parameters
        ----------
        right, total : int
        """
        if not total:
            return cls(None)
        limits = binomtest(int(right), int(total)).proportion_ci(CONFIDENCE, method="wilson")
        return cls(float(right / total), float(limits.low), float(limits.high))

    @classmethod
    def mean_of(cls, shares: "Sequence[Share]") -> "Share":
        """Return the mean of shares of different samples.

        Its limits recover the variances of the shares from their own limits (MOVER, Zou and
        Donner 2008).

        Parameters
        ----------
        shares : sequence of Share
            Those without a value are left out.
        """
        known = [share for share in shares if share.value is not None]
        if not known:
            return cls(None)
        table = np.array([(s.value, s.low, s.high) for s in known], dtype=float)
        mean = table[:, 0].mean()
        below, above = (
            np.sqrt(((table[:, 0] - table[:, k]) ** 2).sum()) / len(known) for k in (1, 2)
        )
        return cls(float(mean), float(max(mean - below, 0)), float(min(mean + above, 1)))

    @property
    def text(self) -> str:
        """The value in percent, or a dash."""
        return "–" if self.value is None else f"{100 * self.value:.1f}"

    @property
    def interval(self) -> str:
        """The limits in percent, or nothing."""
        if self.low is None or self.high is None:
            return ""
        return f"{100 * self.low:.1f}–{100 * self.high:.1f}"


@dataclass(frozen=True)
class Headline:
    """A large number on the first screen.

    ``value`` is text with its unit, or a :class:`Share`, which brings its interval along.
    """

    label: str
    value: str | Share
    note: str = ""
    interval: str = ""

    @property
    def number(self) -> str:
        """The value as it is written."""
        return f"{self.value.text} %" if isinstance(self.value, Share) else self.value

    @property
    def limits(self) -> str:
        """The interval in words, or nothing."""
        limits = self.value.interval if isinstance(self.value, Share) else self.interval
        return f"{limits} %" if limits and isinstance(self.value, Share) else limits


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, eq=False)
class Facts:
    """Names and values; ``closed`` if one has to open it first."""

    values: dict[str, Any]
    title: str = ""
    closed: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """A table that can be sorted and downloaded.

    Parameters
    ----------
    title : str
    columns : sequence of str
    rows : sequence of sequence
        Text, whole numbers, floats, :class:`Share` or None.
    note : str, default=""
        What one must know to read it.
    best : int, optional
        Position of a row that stands out.
    digits : dict of str to int, optional
        Digits after the point of a column of floats; 2 by default.
    colored : bool, default=False
        Whether row ``k`` is class ``k`` and shows its colour.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    best: int | None = None
    digits: dict[str, int] = field(default_factory=dict)
    colored: bool = False

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"`rows[{number}]` should have {len(self.columns)} cells, as many as "
                    f"`columns`, got {len(row)}."
                )

    def is_number(self, column: int) -> bool:
        """Whether a column holds figures."""
        return not any(isinstance(row[column], str) for row in self.rows)

    def text(self, column: int, value: Any) -> str:
        """Return a cell as it is shown."""
        if value is None:
            return "–"
        if isinstance(value, Share):
            return value.text
        if isinstance(value, float):
            return f"{value:.{self.digits.get(self.columns[column], 2)}f}"
        return str(value)

    def to_csv(self) -> str:
        """Return the table as comma-separated values; limits of shares are columns."""
        wide = [any(_has_limits(row[k]) for row in self.rows) for k in range(len(self.columns))]
        heading = []
        for name, limits in zip(self.columns, wide, strict=True):
            heading += [name, f"{name} low", f"{name} high"] if limits else [name]
        lines = [heading]
        for row in self.rows:
            cells = []
            for value, limits in zip(row, wide, strict=True):
                share = value if isinstance(value, Share) else None
                cells.append(_plain_cell(share.value, 100) if share else _plain_cell(value))
                if limits:
                    cells += [
                        _plain_cell(v, 100)
                        for v in ((share.low, share.high) if share else (None, None))
                    ]
            lines.append(cells)
        return csv_text(lines)


def _has_limits(value):
    return isinstance(value, Share) and value.low is not None


def _plain_cell(value, factor=1):
    if value is None:
        return ""
    return f"{factor * value:.6g}" if isinstance(value, float) else value


@dataclass(frozen=True)
class LineChart:
    """Lines over common positions.

    Parameters
    ----------
    title : str
    x : sequence of float
    series : dict of str to sequence of float
        By name; what is not finite (or not positive on a logarithmic axis) interrupts a line.
    x_label, y_label : str
        With units.
    log : bool, default=False
        Whether the vertical axis is logarithmic.
    markers : bool, default=False
        Whether to mark the points.
    """

    title: str
    x: Sequence[float]
    series: dict[str, Sequence[float]]
    x_label: str
    y_label: str
    log: bool = False
    markers: bool = False


@dataclass(frozen=True)
class IntervalChart:
    """A point and its interval for every row.

    Parameters
    ----------
    title : str
    rows : dict of str to Share
    x_label : str
    own : str, default=""
        The row that stands out.
    """

    title: str
    rows: dict[str, Share]
    x_label: str = "Accuracy (%)"
    own: str = ""


@dataclass(frozen=True, eq=False)
class Panels:
    """The same samples in several planes, coloured by their class.

    Parameters
    ----------
    planes : sequence of array of shape (n_points, 2)
    labels : array of int of shape (n_points,)
        Positions in ``class_names``.
    class_names : sequence of str
    titles, notes : sequence of str
        Above and below the planes.
    """

    planes: Sequence[np.ndarray]
    labels: np.ndarray
    class_names: Sequence[str]
    titles: Sequence[str]
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images side by side, each with its name.

    ``images`` are by name, (height, width, 3 or 4) and of dtype uint8.
    """

    images: dict[str, np.ndarray]
    alt: str = ""
    small: bool = False


@dataclass(frozen=True, eq=False)
class Strips:
    """A row of colours for every class: how a figure runs over features.

    ``images`` are of shape (1, n_steps, 3 or 4); ``remarks`` stand beside them.
    """

    class_names: Sequence[str]
    images: Sequence[np.ndarray]
    axis: str
    remarks: Sequence[str]


@dataclass(frozen=True, eq=False)
class Confusion:
    """A confusion matrix whose rows are true classes."""

    counts: np.ndarray
    class_names: Sequence[str]


@dataclass(frozen=True, eq=False)
class SceneView:
    """An image and its class maps, reduced to what a page can carry.

    Class ``k`` of the maps is the ``k``-th of the class names, counted from 1; 0 is unknown.
    """

    false_color: np.ndarray
    """(height, width, 3), dtype uint8."""
    ground_truth: np.ndarray
    """(height, width), dtype uint16; all 0 if nothing is known."""
    prediction: np.ndarray
    """(height, width), dtype uint16."""
    training: np.ndarray
    """(height, width), 1 where the pixel was a training sample, dtype uint8."""
    spectra: np.ndarray
    """(height / spectrum_step, width / spectrum_step, n_bands) in 255ths of ``value_range``."""
    wavelengths: np.ndarray
    """(n_bands,) in nm, or band numbers where ``has_wavelengths`` is false."""
    value_range: tuple[float, float]
    """The values that 0 and 255 in ``spectra`` stand for."""
    spectrum_step: int = 1
    """Pixels of the maps, in each direction, that share one spectrum."""
    pixel_step: int = 1
    """Pixels of the image, in each direction, that became one pixel of the maps."""
    has_wavelengths: bool = True
    value_name: str = "Value"
    """What the spectra are, with its unit."""


@dataclass(frozen=True, eq=False)
class ClassMap:
    """A class map that shows the class and the spectrum of a pixel; one per page."""

    scene: SceneView
    class_names: Sequence[str]
    title: str = "Class map"


Part = (
    Text | Facts | Table | LineChart | IntervalChart | Panels | Pictures | Strips | Confusion
    | ClassMap
)  # fmt: skip
"""What a section holds."""


@dataclass(frozen=True, eq=False)
class Section:
    """Parts under a heading, which the navigation lists."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Provenance:
    """When, by what command and with which versions something was made."""

    date: str = ""
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def now(cls, command: str | None = None) -> "Provenance":
        """Write down the present.

        Parameters
        ----------
        command : str, optional
            By default that of the running program if it is ``jplay``.
        """
        program, *arguments = sys.argv or [""]
        if command is None:
            by_us = Path(program).stem == "jplay" or Path(program).parent.name == "jplay"
            command = shlex.join(["jplay", *arguments]) if by_us else ""
        versions = {name: metadata.version(name) for name in PACKAGES}
        return cls(
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            command=command,
            versions={"jplay": __version__, "Python": platform.python_version(), **versions},
        )


@dataclass(frozen=True, eq=False)
class Report:
    """A page of parts, in one HTML file that loads nothing from anywhere.

    Parameters
    ----------
    title : str
    lead : str, default=""
        One or two sentences: what was compared, on what.
    headlines : sequence of Headline
        Three or four large numbers.
    main : Part, optional
        The map or the figure of the first screen.
    sections : sequence of Section
    warnings : sequence of str
        What one must know before one believes the numbers.
    provenance : Provenance, optional
        By default of now.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from jplay.report import Headline, Report, Section, Share, Table
    >>> table = Table("Classes", ["Class", "Recall %"], [["oak", Share.of_counts(18, 20)]])
    >>> report = Report(
    ...     "Trees",
    ...     headlines=[Headline("Overall accuracy", Share.of_counts(18, 20))],
    ...     sections=[Section("Accuracy", [table])],
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     report.write(f"{folder}/report.html").stat().st_size > 1000
    True
    """

    title: str
    lead: str = ""
    headlines: Sequence[Headline] = ()
    main: Part | None = None
    sections: Sequence[Section] = ()
    warnings: Sequence[str] = ()
    provenance: Provenance = field(default_factory=Provenance.now)

    def html(self) -> str:
        """Return the page as text."""
        from jplay.report._page import render

        return render(self)

    def write(self, path: Any) -> Path:
        """Write the page in one step.

        Parameters
        ----------
        path : str or Path
            Its folder is made if it does not exist.

        Returns
        -------
        Path
            The file.
        """
        page, path = self.html(), Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
        return path
