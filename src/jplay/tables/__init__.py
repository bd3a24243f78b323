"""Samples in files: one reader and one writer for every command that takes a table."""

from jplay.tables._reading import (
    SampleTable,
    check_table_path,
    did_you_mean,
    iter_table,
    read_frame,
    read_table,
)
from jplay.tables._writing import check_written_path, write_columns

__all__ = [
    "SampleTable",
    "check_table_path",
    "check_written_path",
    "did_you_mean",
    "iter_table",
    "read_frame",
    "read_table",
    "write_columns",
]
