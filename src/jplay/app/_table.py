"""A table on the screen: columns, their roles, and the samples they make."""

import numpy as np

from jplay._text import some_of
from jplay.tables import read_frame

MAX_CLASSES = 200


class TableOnScreen:
    """A table in memory.

    Parameters
    ----------
    path : path-like
    """

    def __init__(self, path):
        self.frame = read_frame(path)

    def facts(self):
        """Columns with what can be said of each, as plain values."""
        columns = []
        for name in self.frame.columns:
            values = self.frame[name]
            columns.append(
                {
                    "name": name,
                    "numeric": values.dtype.kind in "biuf",
                    "n_missing": int(values.isna().sum()),
                    "n_values": int(values.nunique()),
                }
            )
        head = self.frame.head(5).astype(object)
        return {
            "n_rows": len(self.frame),
            "columns": columns,
            "head": [[_text(value) for value in row] for row in head.itertuples(index=False)],
        }

    def guess(self):
        """Guess the roles: the last column with few values is the target."""
        n_rows = len(self.frame)
        few = [
            name
            for name in self.frame.columns
            if 2 <= self.frame[name].nunique() <= min(MAX_CLASSES, max(2, n_rows // 3))
        ]
        return {"target": few[-1] if few else None, "groups": None, "id": None}

    def samples(self, roles):
        """Rows with a target and no missing value, and what was left out.

        Returns
        -------
        dict
            ``X`` (DataFrame), ``y``, ``groups`` (or None), ``rows`` (positions in the table),
            ``features`` and ``notes``.
        """
        target, frame = roles.get("target"), self.frame
        if target not in frame.columns:
            raise ValueError("Choose the column with the class first.")
        others = {target, roles.get("groups"), roles.get("id")}
        kept = [name for name in frame.columns if name not in others]
        features = [name for name in kept if frame[name].dtype.kind in "biuf"]
        if not features:
            raise ValueError("The table has no column of numbers beside the target.")
        notes = []
        texts = [name for name in kept if name not in features]
        if texts:
            notes.append(f"Not used, since they hold text: {some_of(texts)}.")
        empty = [name for name in features if frame[name].isna().all()]
        features = [name for name in features if name not in empty]
        known = frame[target].notna().to_numpy()
        whole = frame[features].notna().all(axis=1).to_numpy()
        if (~whole).any():
            notes.append(f"{int((~whole).sum())} rows with missing numbers are left out.")
        rows = np.flatnonzero(known & whole)
        y = _labels(frame[target].to_numpy()[rows])
        if len(np.unique(y)) < 2:
            raise ValueError(f"Column '{target}' should have at least two classes.")
        if len(np.unique(y)) > MAX_CLASSES:
            raise ValueError(
                f"Column '{target}' has {len(np.unique(y))} different values; a class has several "
                f"rows, and there are at most {MAX_CLASSES}. Choose another column."
            )
        groups = roles.get("groups")
        return {
            "X": frame[features].iloc[rows].astype(np.float64),
            "y": y,
            "groups": None if groups is None else frame[groups].astype(str).to_numpy()[rows],
            "rows": rows,
            "features": features,
            "to_predict": np.flatnonzero(whole),
            "notes": notes,
        }


def _labels(values):
    """Whole numbers as integers, all else as text."""
    try:
        numbers = values.astype(np.float64)
        if (numbers == np.floor(numbers)).all():
            return numbers.astype(np.int64)
    except (TypeError, ValueError):
        pass
    return np.array([str(value) for value in values])


def _text(value):
    return "" if value is None or value != value else str(value)[:60]
