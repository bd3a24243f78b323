"""Damaged and forged files: models, tables, recipes, runs, images."""

import hashlib
import io
import json
import os
import resource
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from fuzz.judging import check
from jplay import CanonicalCorrelationForestClassifier, JPlay, LiftedJPlay
from jplay.exceptions import CorruptFileError, ModelMismatchError, UntrustedModelError

MAX_GROWTH = 2**30
"""Bytes by which the memory of the process may grow over one file."""


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """A file with bits flipped, bytes replaced, cut, doubled or moved."""
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        size = len(found)
        at = int(rng.integers(size)) if size else 0
        length = int(min(rng.integers(1, 64), size - at)) if size else 0
        match rng.integers(7):
            case 0 if size:
                found[at] ^= 1 << int(rng.integers(8))
            case 1 if size:
                found[at : at + length] = rng.bytes(length)
            case 2:
                del found[at : at + length]
            case 3:
                found[at:at] = found[at : at + length]
            case 4:
                del found[int(rng.integers(size + 1)) :]
            case 5:
                found += rng.bytes(int(rng.integers(1, 64)))
            case _:
                found[at:at] = rng.bytes(length)
    return bytes(found)


def damaged_text(rng: np.random.Generator, text: str) -> str:
    """Text with words replaced by what a parser may stumble over, or lines lost or doubled."""
    lines = text.splitlines()
    odd = [
        "",
        "0",
        "-1",
        "1e999",
        "nan",
        "null",
        "true",
        '"',
        "{",
        "}",
        "[",
        "]",
        "\x00",
        "=",
        "../x",
    ]
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(lines)))
        words = lines[at].split(" ")
        match rng.integers(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[at])
            case 2:
                words[rng.integers(len(words))] = odd[rng.integers(len(odd))]
                lines[at] = " ".join(words)
            case 3:
                lines[at] = lines[at][: int(rng.integers(len(lines[at]) + 1))]
            case _:
                lines[at] = damaged(rng, lines[at].encode()).decode(errors="replace")
        lines = lines or [""]
    return "\n".join(lines) + "\n"


def _growth():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _Memory:
    """Checks that a block takes little memory."""

    def __enter__(self):
        self.before = _growth()

    def __exit__(self, *error):
        grown = _growth() - self.before
        check(grown < MAX_GROWTH, f"memory grew by {grown / 2**20:.0f} MiB")


@cache
def _folder():
    return Path(tempfile.mkdtemp(prefix="jplay-fuzz-"))


@cache
def _models():
    """Some models, each as the bytes of its file with what it answers."""
    from jplay.persistence import save_model

    X, y = load_iris(return_X_y=True)
    made = [
        make_pipeline(Normalizer(norm="max"), JPlay(3)),
        JPlay(2, 2),
        LiftedJPlay(n_landmarks=20, n_coordinates=10, random_state=0),
        CanonicalCorrelationForestClassifier(3, random_state=0),
    ]
    found = []
    for number, model in enumerate(made):
        path = save_model(model.fit(X, y), _folder() / f"model{number}.skops")
        found.append((path.read_bytes(), model.predict_proba(X), model.classes_.tolist()))
    return X, found


def attack_model(rng: np.random.Generator) -> str:
    """A model file that is damaged, or changed with sums that fit."""
    from jplay.persistence import load_model

    X, models = _models()
    content, expected, classes = models[rng.integers(len(models))]
    forged = rng.random() < 0.4
    content = _forged(rng, content) if forged else damaged(rng, content)
    path = _folder() / f"case-{os.getpid()}.skops"
    path.write_bytes(content)
    with _Memory():
        try:
            model = load_model(path)
        except (CorruptFileError, UntrustedModelError, ModelMismatchError):
            raise
        except Exception as error:
            check(False, f"{type(error).__name__} from load_model: {error}")
    if forged:
        return "forged"
    check(np.array_equal(model.estimator.predict_proba(X), expected), "a damaged model answers")
    check(model.metadata.class_names == [str(c) for c in classes], "damaged class names")
    return "harmless"


def _forged(rng, content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = list(entries)[rng.integers(len(entries))]
    if name.endswith(".json"):
        document = json.loads(entries[name])
        _change_json(rng, document)
        entries[name] = json.dumps(document).encode()
    else:
        entries[name] = damaged(rng, entries[name])
    honest = rng.random() < 0.8
    try:
        document = json.loads(entries["jplay.json"])
        told = json.dumps([document["format"], document["metadata"]], sort_keys=True).encode()
        if honest:
            document["sha256"] = {
                n: hashlib.sha256(told if n == "jplay.json" else c).hexdigest()
                for n, c in entries.items()
            }
        entries["jplay.json"] = json.dumps(document).encode()
    except (KeyError, TypeError, ValueError):
        pass  # so much was changed that there is nothing to adapt
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in entries.items():
            archive.writestr(entry, data)
    return buffer.getvalue()


def _change_json(rng, document):
    """Replace, remove or add something deep in a document."""
    odd = [None, -1, 10**30, 1e308, "", "os.system", [], {}, True, "../../x", [[]] * 3]
    part = document
    for _ in range(int(rng.integers(1, 7))):
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if isinstance(part[key], (dict, list)) and rng.random() < 0.8:
            part = part[key]
            continue
        if rng.random() < 0.2:
            del part[key]
        else:
            part[key] = odd[rng.integers(len(odd))]
        return


@cache
def _tables():
    """The content of one table in every format, by suffix."""
    import pandas
    from scipy.io import savemat

    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(species=y)
    folder = _folder()
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "t.parquet", index=False)
    np.savez_compressed(folder / "t.npz", X=X, y=y)
    savemat(folder / "t.mat", {"X": X, "y": y}, do_compression=True)
    return {path.suffix: path.read_bytes() for path in folder.glob("t.*")}


def attack_table(rng: np.random.Generator) -> str:
    """A damaged table: samples that are finite numbers, or an error."""
    from jplay.tables import read_table

    suffixes = sorted(_tables())
    suffix = suffixes[rng.integers(len(suffixes))]
    path = _folder() / f"case-{os.getpid()}{suffix}"
    content = _tables()[suffix]
    if suffix in (".csv", ".tsv") and rng.random() < 0.5:
        path.write_text(damaged_text(rng, content.decode()), encoding="utf-8", errors="replace")
    else:
        path.write_bytes(damaged(rng, content))
    with _Memory():
        table = read_table(path)
    X = np.asarray(table.X)
    check(X.ndim == 2 and X.dtype.kind in "biuf", f"samples of {X.dtype} with shape {X.shape}")
    check(len(table.y) == len(X), "as many targets as samples")
    return suffix


@cache
def _recipes():
    from importlib.resources import files

    from jplay.experiments import available_recipes

    folder = files("jplay.experiments") / "recipes"
    return [(folder / f"{name}.toml").read_text(encoding="utf-8") for name in available_recipes()]


def attack_recipe(rng: np.random.Generator) -> str:
    """A damaged recipe: no name in it leads out of the output folder."""
    from jplay.experiments import load_recipes

    text = damaged_text(rng, _recipes()[rng.integers(len(_recipes()))])
    path = _folder() / f"case-{os.getpid()}.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    for recipe in load_recipes(path):
        names = [recipe.name, *([] if recipe.suite is None else [recipe.suite])]
        for name in names:
            check(Path(name).name == name and name not in (".", ".."), f"name {name!r} is a path")
    return "read"


@cache
def _run():
    """The files of one run by name."""
    from jplay.report import record_run

    X, y = load_iris(return_X_y=True)
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    model = JPlay(2, 2).fit(X[train], y[train])
    folder = _folder() / "run"
    record_run(model, X, y, train=train, test=test, title="Iris").save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def attack_run(rng: np.random.Generator) -> str:
    """A damaged run: a page without scripts from the data, or an error."""
    from jplay.report import write_report

    folder = _folder() / f"run-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    contents = dict(_run())
    name = ("run.json", "run.npz")[rng.integers(2)]
    if name == "run.json" and rng.random() < 0.7:
        document = json.loads(contents[name])
        _change_json(rng, document)
        document["title"] = "<script>steal()</script>"
        contents[name] = json.dumps(document).encode()
    else:
        contents[name] = damaged(rng, contents[name])
    for entry, content in contents.items():
        (folder / entry).write_bytes(content)
    page = write_report(folder, folder / "report.html").read_text(encoding="utf-8")
    check("<script>steal" not in page, "a name of the data became a script")
    return name


@cache
def _images():
    """Files of small scenes, each a set that belongs together; the first is the one to open."""
    import rasterio

    rng = np.random.default_rng(0)
    bands = rng.integers(1, 1000, (6, 10, 12), dtype=np.uint16)
    wavelengths = ", ".join(str(400 + 50 * i) for i in range(6))
    sets = []
    for number, (driver, suffix, options) in enumerate(
        [
            ("GTiff", ".tif", {"compress": "deflate"}),
            ("GTiff", ".tif", {"tiled": True, "blockxsize": 16, "blockysize": 16}),
            ("ENVI", ".img", {"interleave": "bil"}),
            ("ENVI", ".img", {"interleave": "bip"}),
            ("ENVI", ".img", {"interleave": "bsq"}),
        ]
    ):
        folder = _folder() / f"scene{number}"
        folder.mkdir()
        shape = {"count": 6, "height": 10, "width": 12, "dtype": "uint16"}
        path = folder / f"s{suffix}"
        with warnings.catch_warnings():  # these images lie nowhere
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            file = rasterio.open(path, "w", driver=driver, **shape, **options)
        with file:
            file.write(bands)
            if driver == "GTiff":
                file.update_tags(wavelength=f"{{{wavelengths}}}", wavelength_units="nm")
        if driver == "ENVI":
            with (folder / "s.hdr").open("a") as header:
                header.write(f"\nwavelength units = nm\nwavelength = {{{wavelengths}}}\n")
        first = "s.hdr" if driver == "ENVI" else "s.tif"
        contents = {path.name: path.read_bytes() for path in folder.iterdir()}
        sets.append({first: contents.pop(first)} | contents)
    vrt = (
        '<VRTDataset rasterXSize="12" rasterYSize="10"><VRTRasterBand dataType="UInt16" band="1">'
        '<SimpleSource><SourceFilename relativeToVRT="1">s.tif</SourceFilename>'
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>\n"
    )
    sets.append({"s.vrt": vrt.replace("><", ">\n<").encode(), "s.tif": sets[0]["s.tif"]})
    return sets


def attack_image(rng: np.random.Generator) -> str:
    """A damaged image or header: pixels as promised, or an error."""
    from jplay.raster import Block, open_scene

    chosen = _images()[rng.integers(len(_images()))]
    contents = dict(chosen)
    first = next(iter(contents))
    name = first if rng.random() < 0.7 else list(contents)[rng.integers(len(contents))]
    if name.endswith((".hdr", ".vrt")) and rng.random() < 0.8:
        text = damaged_text(rng, contents[name].decode())
        contents[name] = text.encode(errors="replace")
    else:
        contents[name] = damaged(rng, contents[name])
    with tempfile.TemporaryDirectory(dir=_folder()) as folder, _Memory():
        for entry, content in contents.items():
            (Path(folder) / entry).write_bytes(content)
        with open_scene(Path(folder) / first) as scene:
            height, width, n_bands = scene.shape
            check(scene.array.dtype.kind in "buif", f"an image of {scene.array.dtype}")
            if scene.wavelengths is not None:
                check(np.isfinite(scene.wavelengths).all(), "wavelengths that are not finite")
            for block in scene.blocks()[:4]:
                X, valid = scene.read(block, np.arange(n_bands))
                check(X.shape == (block.n_pixels, n_bands), f"{X.shape} for {block}")
                check(np.isfinite(X[valid]).all(), "a valid pixel that is not finite")
            check(isinstance(scene.blocks()[0], Block) and height * width > 0, "an empty image")
    return first
