"""Names from data in messages and files for people: shown as text, never run."""

import csv
import html
import io
from collections.abc import Iterable
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def markdown_text(value: Any) -> str:
    r"""Text for Markdown: no HTML, no cell or line that ends within it.

    Examples
    --------
    >>> from jplay._text import markdown_text
    >>> markdown_text("<script>|x")
    '&lt;script&gt;\\|x'
    """
    return html.escape(" ".join(str(value).split()), quote=False).replace("|", "\\|")


def some_of(values: Iterable[Any], most: int = 8) -> str:
    """List the first values, and say how many more there are.

    Examples
    --------
    >>> from jplay._text import some_of
    >>> some_of(["oak", "ash"]), some_of(range(12), most=2)
    ('oak, ash', '0, 1 and 10 more')
    """
    texts = [str(value) for value in values]
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def spreadsheet_text(value: Any) -> Any:
    """Value for a cell of CSV: text that a spreadsheet would run gets an apostrophe before it.

    Numbers, and several in one text, stay as they are.

    Examples
    --------
    >>> from jplay._text import spreadsheet_text
    >>> [spreadsheet_text(value) for value in ("=1+1", "-1.5", -1.5, "oak")]
    ["'=1+1", '-1.5', -1.5, 'oak']
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        for part in value.split():
            float(part)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, with nothing in them that a spreadsheet would run."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([spreadsheet_text(value) for value in row] for row in rows)
    return stream.getvalue()
