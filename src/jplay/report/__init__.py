"""A page about a model in one HTML file that needs nothing else.

A :class:`Report` is made of parts: large numbers, a map, tables, charts, warnings. A program that
fits and measures gathers what there is to show in a :class:`Run` (most easily by
:func:`record_run`), which can be saved to a folder; :func:`compose` arranges it as a report and
:func:`write_report` writes its page. Needs Jinja2 (extra ``report``).
"""

from jplay.report._compose import compose, write_report
from jplay.report._content import Run
from jplay.report._gather import record_model, record_run, scene_view
from jplay.report._parts import (
    ClassMap,
    Confusion,
    Facts,
    Headline,
    IntervalChart,
    LineChart,
    Panels,
    Pictures,
    Provenance,
    Report,
    SceneView,
    Section,
    Share,
    Strips,
    Table,
    Text,
)

__all__ = [
    "ClassMap",
    "Confusion",
    "Facts",
    "Headline",
    "IntervalChart",
    "LineChart",
    "Panels",
    "Pictures",
    "Provenance",
    "Report",
    "Run",
    "SceneView",
    "Section",
    "Share",
    "Strips",
    "Table",
    "Text",
    "compose",
    "record_model",
    "record_run",
    "scene_view",
    "write_report",
]
