"""Size of a workbook, known before its cells are read."""

import re
import zipfile
from xml.parsers import expat

from jplay._archives import check_table

CELL_BYTES = 64
"""Memory of a cell while it is read, empty ones between others included."""
_REFERENCE = re.compile(r"([A-Z]{0,3})([0-9]{0,7})")


def check_workbook(path):
    """Refuse a workbook whose entries or cells take too much memory.

    A few cells far apart make a table as large as the rectangle around them.
    """
    with zipfile.ZipFile(path) as archive:
        check_table(path, sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            with archive.open(entry) as file:
                _check_cells(path, file)


def _check_cells(path, file):
    """Refuse a worksheet by the rectangle of its cells; what is no worksheet has none."""
    row = column = width = 0

    def started(name, attributes):
        nonlocal row, column, width
        tag = name.rpartition(":")[2]
        letters, digits = _REFERENCE.match(attributes.get("r", "")).groups()
        if tag == "row":
            row, column = int(digits) if digits else row + 1, 0
        elif tag == "c":
            column = _number(letters) if letters else column + 1
            width = max(width, column)
        else:
            return
        check_table(path, CELL_BYTES * row * width)

    parser = expat.ParserCreate()
    parser.StartElementHandler = started
    try:
        parser.ParseFile(file)
    except expat.ExpatError:
        return  # an image, or damaged: pandas says so


def _number(letters):
    """Number of a column from its letters."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
