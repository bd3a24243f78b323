"""One file per model: skops for the estimator, JSON for the metadata, a card to read.

A ``.skops`` file is a zip archive. skops describes the estimator as JSON and arrays and, when
loading, constructs only types it trusts by name; nothing in the file is executed. Two entries are
added: ``jplay.json`` with the metadata and a SHA-256 sum of every other entry, and ``README.md``,
the model card. ``skops.io.load`` reads the estimator of the same file without jplay's checks.
"""

import copy
import hashlib
import io
import json
import warnings
import zipfile
from pathlib import Path

from jplay import __version__
from jplay._optional import import_optional
from jplay.exceptions import (
    CorruptFileError,
    ModelMismatchError,
    ModelVersionWarning,
    UntrustedModelError,
)
from jplay.persistence._atomic import atomic_path
from jplay.persistence._card import model_card
from jplay.persistence._model import FORMAT_VERSION, ModelMetadata, TrainedModel, as_trained_model

TRUSTED_TYPES = (
    "jplay.estimators._autorule.AutoRULe",
    "jplay.estimators._jplay.JPlay",
    "jplay.estimators._lfda.LFDA",
    "jplay.estimators._lpp.LPP",
    "jplay.estimators._lsdr.LSDR",
    "jplay.estimators._lsqmid.LSQMID",
    "jplay.estimators._npe.NPE",
    "jplay.forest._estimators.CanonicalCorrelationForestClassifier",
    "jplay.forest._estimators.CanonicalCorrelationForestRegressor",
    "jplay.forest._tree.CanonicalCorrelationTree",
    "scipy.sparse._csr.csr_array",
)
"""Types a model file may contain beyond those that skops trusts itself.

skops trusts the estimators of scikit-learn, NumPy arrays and plain Python values. The types here
only hold parameters and arrays: none runs code when it is constructed.
"""

METADATA_ENTRY = "jplay.json"
CARD_ENTRY = "README.md"
_TRAINING_ONLY = ("affinity_", "result_", "_skl_callbacks")
_LARGEST_MODEL_BYTES = 4 * 2**30


def save_model(model, path, *, metadata=None):
    """Write a fitted model with its metadata to one ``.skops`` file.

    What only the fit needed stays out: the graph of the training samples (``affinity_``) and the
    history of the solver (``result_``; ``objective_history_`` is kept). The file appears
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
    content = skops.dumps(_without_training(model.estimator), compression=zipfile.ZIP_DEFLATED)
    untrusted = _untrusted(skops, content)
    if untrusted:
        raise UntrustedModelError(
            f"The model contains {', '.join(untrusted)}, which a file that runs no code cannot "
            "carry. Replace it by a plain value: for a function given as `affinity`, set "
            "affinity='heat' on the fitted model; for a nearest-neighbour classifier, choose "
            "algorithm='brute'; of a search, save `best_estimator_`."
        )
    path = Path(path)
    with atomic_path(path) as temporary:
        temporary.write_bytes(_with_entries(content, model))
    return path


def load_model(path, *, feature_names=None, wavelengths=None):
    """Read a model written by :func:`save_model`, after checking it.

    Nothing of the file is executed. It is refused where an entry differs from its checksum,
    where it asks for a type that is neither in :data:`TRUSTED_TYPES` nor trusted by skops, or
    where a later version of the format is needed. Checksums find damage and careless changes;
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
        If the file is no model, or truncated.
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
    untrusted = _untrusted(skops, content, path)
    if untrusted:
        raise UntrustedModelError(
            f"'{path}' asks for {', '.join(untrusted)}, which a model of jplay does not need and "
            "which may run code. It was not loaded; obtain the model again from its maker."
        )
    metadata = ModelMetadata.from_dict(document["metadata"])
    _warn_of_versions(path, metadata)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the version was compared above
            model = TrainedModel(skops.loads(content, trusted=list(TRUSTED_TYPES)), metadata)
    except Exception as error:  # whatever a wrong document leads the constructors to
        raise CorruptFileError(_not_a_model(path, error)) from error
    check_features(model, feature_names=feature_names, wavelengths=wavelengths)
    return model


def check_features(model, *, feature_names=None, wavelengths=None, tolerance=1.0):
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
        expected, got = model.metadata.wavelengths, list(wavelengths)
        if len(expected) != len(got):
            raise ModelMismatchError(
                f"`wavelengths` should be the {len(expected)} of the model, got {len(got)}. Pass "
                "the bands the model uses, or resample."
            )
        gaps = [abs(a - b) for a, b in zip(expected, got, strict=True)]
        worst = max(range(len(gaps)), key=gaps.__getitem__)
        if gaps[worst] > tolerance:
            raise ModelMismatchError(
                f"`wavelengths` should equal the model's to {tolerance:g} nm; band {worst} is at "
                f"{got[worst]:g} nm, the model's at {expected[worst]:g} nm. Resample the spectra."
            )


def _difference(expected, got):
    missing = [name for name in expected if name not in set(got)]
    unknown = [name for name in got if name not in set(expected)]
    if not missing and not unknown:
        first = next(i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b)
        return f"The order differs from position {first}: {got[first]!r}, not {expected[first]!r}."
    parts = []
    if missing:
        parts.append(f"Missing: {_listing(missing)}.")
    if unknown:
        parts.append(f"Not known to the model: {_listing(unknown)}.")
    return " ".join(parts)


def _listing(names, most=8):
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _skops():
    return import_optional("skops.io", feature="Saving and loading models", extra="persist")


def _untrusted(skops, content, path=None):
    try:
        found = skops.get_untrusted_types(data=content)
    except Exception as error:
        raise CorruptFileError(_not_a_model(path, error)) from error
    return sorted(set(found) - set(TRUSTED_TYPES))


def _without_training(estimator):
    slim = copy.copy(estimator)
    if hasattr(slim, "steps"):
        slim.steps = [(name, _without_training(step)) for name, step in slim.steps]
    for name in _TRAINING_ONLY:
        if name in getattr(slim, "__dict__", ()):
            del vars(slim)[name]
    return slim


def _with_entries(content, model):
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CARD_ENTRY, model_card(model))
        document = {
            "format": FORMAT_VERSION,
            "metadata": model.metadata.to_dict(),
            "sha256": _checksums(archive),
        }
        archive.writestr(METADATA_ENTRY, json.dumps(document, indent=1, allow_nan=False))
    return buffer.getvalue()


def _checksums(archive):
    return {
        name: hashlib.sha256(archive.read(name)).hexdigest()
        for name in archive.namelist()
        if name != METADATA_ENTRY
    }


def _read(path):
    content = path.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise CorruptFileError(_not_a_model(path, "it is no zip archive"))
    return content


def _open_archive(path, content):
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
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
    return archive


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
        found = _checksums(archive)
    except Exception as error:  # whatever a damaged archive leads zipfile, zlib and json to
        raise CorruptFileError(_not_a_model(path, error)) from error
    if version > FORMAT_VERSION:
        raise CorruptFileError(
            f"'{path}' has format {version}; this jplay {__version__} reads up to "
            f"{FORMAT_VERSION}. Install a newer jplay."
        )
    changed = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if changed:
        raise UntrustedModelError(
            f"'{path}' was changed after it was written: {_listing(changed, 4)} "
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
