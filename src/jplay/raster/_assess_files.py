"""An assessment as a table."""

import numpy as np

from jplay._text import csv_text


def assessment_csv(assessment):
    """The confusion matrix with margins, accuracies, intervals and areas as CSV text.

    Parameters
    ----------
    assessment : MapAssessment

    Returns
    -------
    str

    Examples
    --------
    >>> import xarray
    >>> from jplay.raster import assess_map, assessment_csv
    >>> class_map = xarray.DataArray([[1, 1], [1, 2]], dims=("y", "x"))
    >>> assessment_csv(assess_map(class_map, [[1, 1], [2, 2]])).splitlines()[1][:14]
    'class 1,2,0,2,'
    """
    head, *rows = _confusion_rows(assessment)
    low_high = ("lower", "upper")
    head += ["producer's accuracy", *low_high, "user's accuracy", *low_high]
    columns = _accuracy_columns(assessment)
    for number, row in enumerate(rows[:-1]):
        row += [_number(column[number]) for column in columns]
    rows[-1] += ["overall accuracy", *map(_number, _overall(assessment))]
    tables = [[head, *rows]]
    if assessment.areas is not None:
        tables.append(_area_rows(assessment.areas, _number))
    return "\n".join(csv_text(table) for table in tables)


def _confusion_rows(assessment):
    confusion = assessment.report.confusion
    yield ["true \\ mapped", *assessment.class_names, "all"]
    for name, row in zip(assessment.class_names, confusion.tolist(), strict=True):
        yield [name, *row, sum(row)]
    yield ["all", *confusion.sum(axis=0).tolist(), int(confusion.sum())]


def _accuracy_columns(assessment):
    """Producer's accuracy with its interval, then the user's; of the map if it is a sample."""
    areas, report, intervals = assessment.areas, assessment.report, assessment.intervals()
    columns = []
    for name in ("producers_accuracy", "users_accuracy"):
        if areas is None:
            columns += [getattr(report, name), *intervals[name]]
            continue
        places = [areas.classes.index(entry) for entry in assessment.class_names]
        value, half = (getattr(areas, key)[places] for key in (name, f"{name}_half_width"))
        columns += [value, np.maximum(value - half, 0.0), np.minimum(value + half, 1.0)]
    return columns


def _overall(assessment):
    if assessment.areas is None:
        low, high = assessment.intervals()["overall_accuracy"]
        return assessment.report.overall_accuracy, float(low), float(high)
    value, half = (
        assessment.areas.overall_accuracy,
        assessment.areas.overall_accuracy_half_width,
    )
    return value, max(value - half, 0.0), min(value + half, 1.0)


def _area_rows(areas, show):
    yield ["class", f"mapped {areas.unit}", f"estimated {areas.unit}", "plus or minus", "share"]
    rows = zip(
        areas.classes,
        areas.mapped_area,
        areas.area,
        areas.area_half_width,
        areas.area_proportion,
        strict=True,
    )
    for name, *values in rows:
        yield [name, *map(show, values)]


def _number(value):
    return "" if np.isnan(value) else f"{value:.6g}"
