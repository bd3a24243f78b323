"""Files that an app may open: which kinds, and what it refuses to follow."""

import shutil
import zipfile
from pathlib import Path

TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".xlsx", ".npz")
RASTER_SUFFIXES = (
    *(".hdr", ".img", ".dat", ".bil", ".bip", ".bsq", ".raw", ".tif", ".tiff", ".jp2"),
)
SCENE_SUFFIXES = (
    *RASTER_SUFFIXES,
    *(".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".he5", ".mat", ".zarr"),
)
_MAX_LISTED = 500


def kind_of(path):
    """Return "table" or "scene" by the name of a file."""
    return "table" if path.suffix.lower() in TABLE_SUFFIXES else "scene"


def list_folder(settings, name):
    """Folders and files that can be opened in a folder, or in all folders that were given."""
    if not name:
        folders = [{"name": str(folder), "path": str(folder)} for folder in settings.folders]
        if len(folders) > 1:
            return {"folder": "", "above": None, "folders": folders, "files": []}
        name = str(settings.folders[0])
    folder = settings.find(name)
    if not folder.is_dir():
        raise ValueError(f"'{name}' is no folder.")
    folders, files = [], []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name.lower())[:_MAX_LISTED]:
        suffix = entry.suffix.lower()
        if entry.name.startswith(".") or entry == settings.workspace:
            continue
        if entry.is_dir() and suffix != ".zarr":
            folders.append({"name": entry.name, "path": str(entry)})
        elif suffix in TABLE_SUFFIXES + SCENE_SUFFIXES:
            size = entry.stat().st_size if entry.is_file() else None
            files.append(
                {"name": entry.name, "path": str(entry), "kind": kind_of(entry), "bytes": size}
            )
    above = (
        folder.parent if any(folder.parent.is_relative_to(r) for r in settings.folders) else None
    )
    if above is None and len(settings.folders) > 1:
        above = ""
    return {
        "folder": str(folder),
        "above": None if above is None else str(above),
        "folders": folders,
        "files": files,
    }


def check_source(path):
    """Refuse files that make their reader open other files."""
    suffix = path.suffix.lower()
    if suffix not in SCENE_SUFFIXES + TABLE_SUFFIXES and not path.is_dir():
        raise ValueError(
            f"'{path.name}' is not of a kind that the app opens: ENVI, GeoTIFF, NetCDF, Zarr, "
            "MATLAB, CSV, TSV, Parquet, NPZ."
        )
    if path.is_dir():
        if any(entry.is_symlink() for entry in path.rglob("*")):
            raise ValueError(f"'{path.name}' has links to other files. Copy what they point to.")
        return
    with path.open("rb") as file:
        start = file.read(512)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:4] in (b"<VRT", b"<OGR"):
        raise ValueError(f"'{path.name}' refers to other files. Open those instead.")
    # A header, a data file and what else belongs to the image have the first part of its name.
    for entry in path.parent.iterdir() if suffix in RASTER_SUFFIXES else ():
        belongs = entry.name == path.stem or entry.name.startswith(f"{path.stem}.")
        if belongs and not entry.resolve().is_relative_to(path.parent):
            raise ValueError(f"'{entry.name}' is a link out of its folder. Copy what it points to.")


def safe_name(name):
    """Return the last part of a file name without characters that lead elsewhere."""
    last = Path(str(name).replace("\\", "/")).name
    kept = "".join(one if one.isalnum() or one in "._- ()" else "_" for one in last).strip(". ")
    if not kept:
        raise ValueError("The file needs a name.")
    return kept[-120:]


def unpacked(archive, folder, max_bytes):
    """Unpack an uploaded ZIP file beside it and return the scene or table in it."""
    with zipfile.ZipFile(archive) as content:
        entries = [entry for entry in content.infolist() if not entry.is_dir()]
        if sum(entry.file_size for entry in entries) > max_bytes:
            raise ValueError(f"'{archive.name}' is larger than the upload limit when unpacked.")
        for entry in entries:
            target = (folder / entry.filename).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise ValueError(f"'{archive.name}' has files that would lie outside its folder.")
            target.parent.mkdir(parents=True, exist_ok=True)
            with content.open(entry) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
    archive.unlink()
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".zarr")
    found += [folder] if any(folder.glob(".z*")) or (folder / "zarr.json").exists() else []
    for suffix in (".hdr", *SCENE_SUFFIXES, *TABLE_SUFFIXES):
        found += sorted(path for path in folder.rglob("*") if path.suffix.lower() == suffix)
    if not found:
        raise ValueError(f"'{archive.name}' holds no scene and no table.")
    return found[0]
