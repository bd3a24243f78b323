"""One file per model: skops for the estimator, JSON for the metadata, a card to read.

A ``.skops`` file is a zip archive. skops describes the estimator as JSON and arrays and, when
loading, constructs only types it trusts by name; nothing in the file is executed. Two entries are
added: ``jplay.json`` with the metadata and a SHA-256 sum of them and of every other entry, and
``README.md``, the model card. ``skops.io.load`` reads the estimator of the same file without
jplay's checks.
"""

import hashlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

import jplay
from jplay import __version__
from jplay._archives import check_archive, check_expansion
from jplay._files import atomic_path
from jplay._optional import import_optional
from jplay._text import some_of
from jplay.estimators import without_training
from jplay.exceptions import (
    CorruptFileError,
    ModelMismatchError,
    ModelVersionWarning,
    UntrustedModelError,
)
from jplay.persistence._card import model_card
from jplay.persistence._model import FORMAT_VERSION, ModelMetadata, TrainedModel, as_trained_model

_FOREIGN_TYPES = ("numpy.dtype", "scipy.sparse._csr.csr_array")
_STATE_PACKAGES = ("jplay.estimators.", "jplay.baselines.")


def is_trusted_type(name: str) -> bool:
    """Whether a model file may hold objects of a type beyond those that skops trusts itself.

    skops trusts the estimators of scikit-learn, NumPy arrays and plain Python values. Of jplay,
    estimators and dataclasses may be part of a model if they are public or belong to the
    packages that fit: they hold parameters and arrays, and none runs code when constructed.

    Parameters
    ----------
    name : str
        Dotted name of the type.
    """
    if name in _FOREIGN_TYPES:
        return True
    module, _, attribute = name.rpartition(".")
    if not module.startswith(_STATE_PACKAGES) and attribute not in jplay.__all__:
        return False
    if not module.startswith("jplay."):
        return False
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and (issubclass(found, BaseEstimator) or is_dataclass(found))


METADATA_ENTRY = "jplay.json"
CARD_ENTRY = "README.md"
SCHEMA_ENTRY = "schema.json"
_LARGEST_MODEL_BYTES = 4 * 2**30
_SMALL_MODEL_BYTES = 64 * 2**20
"""Memory that a file of any size may take."""
_TOLERANCE_NM = 1.0
"""Largest difference of wavelengths that counts as rounding."""
_LARGEST_DOCUMENT_BYTES = 32 * 2**20
"""Of a JSON entry, which takes twenty times as much in memory. A forest of 100 trees has 1.3 MB."""


def save_model(
    model: Any, path: str | os.PathLike, *, metadata: ModelMetadata | None = None
) -> Path:
    """Write a fitted model with its metadata to one ``.skops`` file.

    What only the fit needed stays out, as each estimator declares it: the graph of the training
    samples, the history of the solver (``objective_history_`` is kept). The file appears
    complete or not at all.

    Parameters
    ----------
    model : TrainedModel or fitted estimator
    path : str or path-like
    metadata : ModelMetadata, optional
        For an estimator that comes without.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    UntrustedModelError
        If the model contains something :func:`load_model` would refuse, such as a function.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from jplay import JPlay
    >>> from jplay.persistence import load_model, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> path = save_model(JPlay(3).fit(X, y), Path(tempfile.mkdtemp()) / "iris.skops")
    >>> load_model(path).predict(X[:2])
    array([0, 0])
    """
    skops = _skops()
    if metadata is not None:
        model = TrainedModel(getattr(model, "estimator", model), metadata)
    model = as_trained_model(model)
    content = skops.dumps(without_training(model.estimator), compression=zipfile.ZIP_DEFLATED)
    untrusted = _untrusted(skops, content)
    if untrusted:
        raise UntrustedModelError(
            f"The model contains {', '.join(untrusted)}, which a file that runs no code cannot "
            "carry. Replace it by a plain value: for a function given as `graph`, set "
            "graph=None on the fitted model; for a nearest-neighbour classifier, choose "
            "algorithm='brute'."
        )
    path = Path(path)
    with atomic_path(path) as temporary:
        temporary.write_bytes(_with_entries(content, model))
    return path


def load_model(
    path: str | os.PathLike,
    *,
    feature_names: Sequence[str] | None = None,
    wavelengths: Sequence[float] | None = None,
) -> TrainedModel:
    """Read a model written by :func:`save_model`, after checking it.

    Nothing of the file is executed. It is refused where an entry differs from its checksum,
    where it asks for a type that is trusted neither by skops nor by :func:`is_trusted_type`, or
    where it has another version of the format. Checksums find damage and careless changes;
    they are no signature, so take models from people you trust or sign the file.

    Parameters
    ----------
    path : str or path-like
    feature_names : sequence of str, optional
        Names your data have. Other names, or another order, are an error.
    wavelengths : sequence of float, optional
        Band centres in nm your data have, compared to a tolerance of 1 nm.

    Returns
    -------
    TrainedModel

    Raises
    ------
    CorruptFileError
        If the file is no model, truncated, or of an older or newer format.
    UntrustedModelError
        If it was changed or asks for types that are not trusted.
    ModelMismatchError
        If it was made for other features.

    Warns
    -----
    ModelVersionWarning
        If another version of jplay or scikit-learn wrote it.
    """
    skops = _skops()
    path = Path(path)
    content = _read(path)
    with _open_archive(path, content) as archive:
        document = _checked_document(path, archive)
        _check_arrays(path, archive, len(content))
    untrusted = _untrusted(skops, content, path)
    if untrusted:
        raise UntrustedModelError(
            f"'{path}' asks for {', '.join(untrusted)}, which a model of jplay does not need and "
            "which may run code. It was not loaded; obtain the model again from its maker."
        )
    try:
        metadata = ModelMetadata.from_dict(document["metadata"])
    except ValueError as error:
        raise CorruptFileError(_not_a_model(path, error)) from error
    _warn_of_versions(path, metadata)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the version was compared above
            trusted = skops.get_untrusted_types(data=content)  # each was found trusted above
            model = TrainedModel(skops.loads(content, trusted=trusted), metadata)
    except Exception as error:  # whatever a wrong document leads the constructors to
        raise CorruptFileError(_not_a_model(path, error)) from error
    check_features(model, feature_names=feature_names, wavelengths=wavelengths)
    return model


def check_features(
    model: TrainedModel,
    *,
    feature_names: Sequence[str] | None = None,
    wavelengths: Sequence[float] | None = None,
) -> None:
    """Raise :class:`ModelMismatchError` where data have other features than the model."""
    if feature_names is not None and model.metadata.feature_names is not None:
        expected, got = list(model.metadata.feature_names), [str(name) for name in feature_names]
        if got != expected:
            raise ModelMismatchError(
                f"`feature_names` should be the {len(expected)} of the model, in its order. "
                f"{_difference(expected, got)} Select and order your columns by "
                "`model.metadata.feature_names`."
            )
    if wavelengths is not None and model.metadata.wavelengths is not None:
        centres, given = model.metadata.wavelengths, list(wavelengths)
        if len(centres) != len(given):
            raise ModelMismatchError(
                f"`wavelengths` should be the {len(centres)} of the model, got {len(given)}. Pass "
                "the bands the model uses, or resample."
            )
        gaps = [abs(a - b) for a, b in zip(centres, given, strict=True)]
        worst = max(range(len(gaps)), key=gaps.__getitem__)
        if gaps[worst] > _TOLERANCE_NM:
            raise ModelMismatchError(
                f"`wavelengths` should equal the model's to {_TOLERANCE_NM:g} nm; band {worst} is "
                f"at {given[worst]:g} nm, the model's at {centres[worst]:g} nm. Resample the "
                "spectra."
            )


def _difference(expected, got):
    missing = [name for name in expected if name not in set(got)]
    unknown = [name for name in got if name not in set(expected)]
    if not missing and not unknown:
        first = next(i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b)
        return f"The order differs from position {first}: {got[first]!r}, not {expected[first]!r}."
    parts = []
    if missing:
        parts.append(f"Missing: {some_of(map(repr, missing))}.")
    if unknown:
        parts.append(f"Not known to the model: {some_of(map(repr, unknown))}.")
    return " ".join(parts)


def _skops():
    return import_optional("skops.io", feature="Saving and loading models", extra="persist")


def _untrusted(skops, content, path=None):
    try:
        found = skops.get_untrusted_types(data=content)
    except Exception as error:
        raise CorruptFileError(_not_a_model(path, error)) from error
    return sorted(name for name in set(found) if not is_trusted_type(name))


def _with_entries(content, model):
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CARD_ENTRY, model_card(model))
        # As they will be read: JSON turns tuples into lists.
        metadata = json.loads(json.dumps(model.metadata.to_dict(), allow_nan=False))
        document = {"format": FORMAT_VERSION, "metadata": metadata}
        document["sha256"] = _checksums(archive, document)
        archive.writestr(METADATA_ENTRY, json.dumps(document, indent=1))
    return buffer.getvalue()


def _checksums(archive, document):
    """Sums of every entry, and under its own name of what the document says beside the sums."""
    told = json.dumps([document["format"], document["metadata"]], sort_keys=True)
    sums = {METADATA_ENTRY: hashlib.sha256(told.encode()).hexdigest()}
    for name in archive.namelist():
        if name != METADATA_ENTRY:
            with archive.open(name) as file:
                sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def _read(path):
    content = path.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise CorruptFileError(_not_a_model(path, "it is no zip archive"))
    return content


def _open_archive(path, content):
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except Exception as error:  # a damaged directory raises more than BadZipFile
        raise CorruptFileError(_not_a_model(path, error)) from error
    size = sum(entry.file_size for entry in archive.infolist())
    if size > _LARGEST_MODEL_BYTES:
        raise UntrustedModelError(
            f"'{path}' unpacks to {size / 2**30:.1f} GiB, more than the "
            f"{_LARGEST_MODEL_BYTES / 2**30:.0f} GiB a model may take. It was not loaded."
        )
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise UntrustedModelError(f"'{path}' holds two entries of one name. It was not loaded.")
    for entry in archive.infolist():
        if entry.filename.endswith(".json") and entry.file_size > _LARGEST_DOCUMENT_BYTES:
            raise UntrustedModelError(
                f"'{path}' holds a document '{entry.filename}' of {entry.file_size} bytes, more "
                f"than the {_LARGEST_DOCUMENT_BYTES} one may have. It was not loaded."
            )
    try:
        check_expansion(path, size, len(content), _SMALL_MODEL_BYTES)
    except ValueError as error:
        raise UntrustedModelError(str(error)) from None
    return archive


def _check_arrays(path, archive, stored):
    """Refuse arrays that would take more memory than the archive says."""
    try:
        check_archive(path, archive, stored, _SMALL_MODEL_BYTES)
        check_expansion(path, _mentioned_bytes(archive), stored, _SMALL_MODEL_BYTES)
    except Exception as error:  # of sizes, and whatever a damaged entry leads the readers to
        raise CorruptFileError(_not_a_model(path, error)) from error


def _mentioned_bytes(archive):
    """Size of the arrays that the schema names: each mention is a copy in memory."""
    total = 0
    waiting = [json.loads(archive.read(SCHEMA_ENTRY))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("file") in archive.NameToInfo:
                total += archive.NameToInfo[part["file"]].file_size
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return total


def _checked_document(path, archive):
    if METADATA_ENTRY not in archive.namelist():
        raise CorruptFileError(
            f"'{path}' has no entry {METADATA_ENTRY}: it was not written by jplay's save_model. "
            "If you made it with skops itself, load it with skops.io.load and save it again."
        )
    try:
        document = json.loads(archive.read(METADATA_ENTRY))
        version, expected = int(document["format"]), dict(document["sha256"])
        dict(document["metadata"])
        found = _checksums(archive, document)
    except Exception as error:  # whatever a damaged archive leads zipfile, zlib and json to
        raise CorruptFileError(_not_a_model(path, error)) from error
    if version > FORMAT_VERSION:
        raise CorruptFileError(
            f"'{path}' has format {version}; this jplay {__version__} reads format "
            f"{FORMAT_VERSION}. Install a newer jplay."
        )
    if version < FORMAT_VERSION:
        raise CorruptFileError(
            f"'{path}' has format {version}, which an older jplay wrote; this jplay {__version__} "
            f"reads format {FORMAT_VERSION} only. Fit the model again and save it, or load the "
            "file with the jplay that wrote it."
        )
    changed = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if changed:
        raise UntrustedModelError(
            f"'{path}' was changed after it was written: {some_of(map(repr, changed), 4)} "
            f"{'does' if len(changed) == 1 else 'do'} not match its checksum. It was not loaded; "
            "obtain the model again from its maker."
        )
    return document


def _warn_of_versions(path, metadata):
    from sklearn import __version__ as sklearn_version

    for name, written, here in (
        ("jplay", metadata.jplay_version, __version__),
        ("scikit-learn", metadata.sklearn_version, sklearn_version),
    ):
        if written.split(".")[:2] != here.split(".")[:2]:
            warnings.warn(
                f"'{path}' was written with {name} {written}, this is {here}. Check its "
                "predictions on samples you know, or fit it again.",
                ModelVersionWarning,
                stacklevel=3,
            )


def _not_a_model(path, error):
    name = f"'{path}'" if path is not None else "The model"
    return (
        f"{name} cannot be read as a model ({error}). It is truncated, damaged or of another "
        "format: obtain it again, or write it with jplay fit."
    )
