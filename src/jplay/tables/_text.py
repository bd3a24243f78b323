"""How a text file separates its columns and writes its numbers."""

import codecs
import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
"""In the order of preference if several divide the lines evenly."""
MAX_COLUMNS = 100_000
_HEAD_BYTES = 2**18
_HEAD_LINES = 50
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
_DECIMAL_POINT = re.compile(r"[+-]?\d+\.\d+(e[+-]?\d+)?", re.IGNORECASE)
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class TextFormat:
    """What the first lines of a file tell."""

    header: list[str]
    separator: str
    decimal: str
    encoding: str

    @property
    def note(self):
        """What is unusual about the file, in words, or None."""
        unusual = []
        if self.separator not in ",\t":
            unusual.append(f"columns are separated by {SEPARATORS[self.separator]}")
        if self.decimal == ",":
            unusual.append("numbers have decimal commas")
        if self.encoding == "cp1252":
            unusual.append("text is not UTF-8 and read as Windows-1252")
        return f"Noticed: {', '.join(unusual)}." if unusual else None


def text_format(path):
    """Find out the format of a text file from its first lines."""
    with Path(path).open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if b"\n" not in head and b"\r" not in head:
            head += file.readline(50 * _HEAD_BYTES)
        complete = not file.read(1)
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
    text, encoding = _decoded(head, encoding)
    lines = text.splitlines()
    if not complete and len(lines) > 1:
        lines.pop()  # cut in the middle
    lines = [line for line in lines if line.strip()][:_HEAD_LINES]
    if not lines:
        raise ValueError(f"'{path}' is empty.")
    check_width(path, max(lines[0].count(separator) for separator in SEPARATORS) + 1)
    separator = "\t" if Path(path).suffix.lower() == ".tsv" else _separator(lines)
    rows = list(csv.reader(lines, delimiter=separator))
    header = [name.strip() for name in rows[0]]
    if len(rows) > 1 and all(len(row) == len(header) + 1 for row in rows[1:]):
        # A separator at the end of each line, or row names without a title, as R writes them.
        header.insert(len(header) if not any(row[-1] for row in rows[1:]) else 0, "")
    check_distinct(path, header)
    return TextFormat(header, separator, _decimal(rows[1:], separator), encoding)


def _decoded(head, encoding):
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        return decoder.decode(head), encoding
    except UnicodeDecodeError:
        return head.decode("cp1252", errors="replace"), "cp1252"


def _separator(lines):
    """Return what divides all lines into the same number of columns, more than one."""
    found = {}
    for separator in SEPARATORS:
        sizes = Counter(len(row) for row in csv.reader(lines, delimiter=separator))
        size, times = sizes.most_common(1)[0]
        if size > 1:
            found[separator] = times
    return max(found, key=found.get) if found else ","


def _decimal(rows, separator):
    if separator == ",":
        return "."
    cells = [cell.strip() for row in rows for cell in row]
    if any(_DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return "."
    return "," if any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) else "."


def check_width(path, n_columns):
    """Refuse a table that takes minutes to read."""
    if n_columns > MAX_COLUMNS:
        raise ValueError(
            f"'{path}' has {n_columns} columns, and tables may have {MAX_COLUMNS}: a column costs "
            "more than its numbers. Store it as an array in an NPZ file."
        )


def check_distinct(path, names):
    """Refuse columns that cannot be told apart by their names."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise ValueError(
            f"'{path}' has more than one column {twice[0]!r}. Give every column a name of its own."
        )
