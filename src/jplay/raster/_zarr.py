"""Metadata of a Zarr store, checked before anything of it is decoded."""

import json

_MAX_BYTES = 32 * 2**20
_NAMES = (".zmetadata", ".zarray", "zarr.json")


def check_zarr(path):
    """Refuse a store with arrays of Python objects or codecs that unpickle, which may run code.

    Parameters
    ----------
    path : Path
        Folder of the store. Its images are arrays of the first level.

    Raises
    ------
    ValueError
    """
    for folder in (path, *(entry for entry in path.iterdir() if entry.is_dir())):
        for name in _NAMES:
            file = folder / name
            if file.is_file():
                _check_document(path, file)


def _check_document(path, file):
    if file.stat().st_size > _MAX_BYTES:
        raise ValueError(f"'{path}' has metadata of more than {_MAX_BYTES} bytes. It was not read.")
    try:
        pending = [json.loads(file.read_bytes())]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' has metadata that is not JSON ('{file.name}').") from error
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value.values())
            codec = str(value.get("id", value.get("name", ""))).lower()
            if "pickle" in codec or _has_objects(value.get("dtype", value.get("data_type"))):
                raise ValueError(
                    f"'{path}' holds Python objects, which may run code when they are read. Write "
                    "its arrays as numbers, and text with a fixed length."
                )


def _has_objects(dtype):
    if isinstance(dtype, list):
        return any(map(_has_objects, dtype))
    return isinstance(dtype, str) and (dtype.lstrip("|<>=") == "O" or "object" in dtype.lower())
