"""Labelled samples of a table or of an image, as ``fit``, ``tune`` and ``study`` take them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jplay.cli._options import Scale, check_exists, parse_bands


@dataclass(frozen=True)
class SampleOptions:
    """What the user says about the samples."""

    source: Path
    target: list[str] | None = None
    samples: str | None = None
    group: str | None = None
    drop: list[str] | None = None
    id: list[str] | None = None
    encode: list[str] | None = None
    impute: str | None = None
    scale: Scale = Scale.AUTO
    labels: Path | None = None
    field: str | None = None
    class_names: str | None = None
    bad_bands: str | None = None
    variable: str | None = None
    max_per_class: int | None = None
    seed: int = 0

    @property
    def is_scene(self):
        return self.labels is not None

    def check(self, *, target_needed=True):
        """Refuse what is missing or does not go together, before anything heavy is imported."""
        if self.is_scene == bool(self.target) and (target_needed or self.is_scene):
            raise ValueError(
                "Give either --target (the column of a table with the class) or --labels "
                f"(labelled pixels of an image) with '{self.source}'."
            )
        foreign = ("samples", "group", "drop", "id", "encode", "impute")
        kind = "an image"
        if not self.is_scene:
            foreign = ("field", "class_names", "bad_bands", "variable", "max_per_class")
            kind = "a table"
        for name in foreign:
            if getattr(self, name):
                raise ValueError(
                    f"--{name.replace('_', '-')} should be left out for {kind} such as "
                    f"'{self.source}'."
                )
        if self.encode and self.scale not in (Scale.AUTO, Scale.COLUMNS):
            raise ValueError(
                f"--scaling should be columns with --encode, got {self.scale.value}: 0/1 columns "
                "are no part of a spectrum."
            )
        if self.is_scene:
            check_exists(self.source, "image")
            check_exists(self.labels, "file of labels")
            parse_bands(self.bad_bands)
        else:
            from jplay.tables import check_table_path

            check_table_path(self.source)

    @property
    def inputs(self):
        """The files that are read."""
        return [self.source, self.labels]


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled samples, and how they are prepared."""

    X: Any
    y: Any
    groups: Any
    group_name: str
    metadata: Any
    origin: str
    norm: str | None
    impute: str | None
    encode: list[str]
    notes: list[str] = field(default_factory=list)

    def estimator(self, method="jplay", **settings):
        """Return a model of the family after the steps that these samples need."""
        from jplay.persistence import default_estimator

        return default_estimator(
            method, norm=self.norm, impute=self.impute, encode=self.encode, **settings
        )


def gather_samples(options, progress=None):
    """Read the samples that the options name."""
    found = _of_scene(options, progress) if options.is_scene else _of_table(options)
    X, y, groups, group_name, metadata, origin, notes = found
    norm, note = _norm(options, X)
    return Samples(
        X,
        y,
        groups,
        group_name,
        metadata,
        origin,
        norm,
        None if options.impute is None else str(options.impute),
        list(options.encode or ()),
        [*notes, note],
    )


def _of_table(options):
    from jplay.persistence import ModelMetadata
    from jplay.tables import read_table

    table = read_table(
        options.source,
        target=options.target,
        samples=options.samples,
        group=options.group,
        drop=options.drop or (),
        ids=options.id or (),
        encode=options.encode or (),
        allow_missing=options.impute is not None,
    )
    metadata = ModelMetadata(
        feature_names=table.feature_names,
        class_names=None if len(options.target) == 1 else list(options.target),
    )
    return table.X, table.y, table.groups, "group", metadata, str(options.source), table.notes


def _of_scene(options, progress):
    from jplay.raster import open_scene, scene_samples

    names = options.class_names.split(",") if options.class_names else []
    bands = parse_bands(options.bad_bands)
    found = scene_samples(
        open_scene(options.source, variable=options.variable, bad_bands=bands),
        options.labels,
        field=options.field,
        class_names={code: name.strip() for code, name in enumerate(names, start=1)},
        max_per_class=options.max_per_class,
        random_state=options.seed,
        progress=progress,
    )
    return found.X, found.y, found.fields, "field", found.metadata, found.source, []


def _norm(options, X):
    """Return by which norm samples are divided, and a sentence about it."""
    from jplay.inspection import choose_scaling

    if options.scale is Scale.COLUMNS:
        return None, "Scaling: each column by itself."
    if options.scale is not Scale.AUTO:
        return options.scale.value, f"Scaling: each sample divided by its {options.scale.value}."
    chosen = choose_scaling(X)
    how = "each sample divided by its maximum" if chosen.by == "rows" else "each column by itself"
    return chosen.norm, f"Scaling: {how}, because {chosen.reason}; --scaling overrides."
