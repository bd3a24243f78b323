"""A run as one HTML file that needs nothing else to be looked at.

A program fits and measures, gathers what there is to show in a :class:`Run` (most easily by
:func:`record_run`), saves it to a folder, and :func:`write_report` turns it into a page with
tables, charts and an interactive class map. Needs Jinja2 (extra ``report``).
"""

from jplay.report._page import write_report
from jplay.report._record import record_run
from jplay.report._run import Run, SceneView

__all__ = ["Run", "SceneView", "record_run", "write_report"]
