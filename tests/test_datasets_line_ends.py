"""Binary data that were converted as text are noticed, whatever reads them."""

import warnings

import numpy as np
import pytest

from jplay.datasets import (
    fetch_ar,
    fetch_extended_yale_b,
    fetch_houston2013,
    fetch_multilabel,
)
from jplay.datasets.line_ends import as_line_ends, count_bytes, looks_converted
from jplay.datasets.readers import read_arrays
from jplay.exceptions import CorruptFileError

RNG = np.random.default_rng(0)
MESSAGE = "looks as if it had been converted as text"


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("JPLAY_MIRROR", raising=False)


@pytest.fixture(scope="module")
def values():
    return RNG.integers(900, 9000, (60, 50, 100), dtype=np.uint16)


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", "<f4", "<f8"])
def test_conversion_is_noticed_in_every_type(values, dtype):
    stored = values.astype(dtype) if dtype[1] != "f" else np.sqrt(values).astype(dtype)
    assert not looks_converted(stored)
    assert looks_converted(as_line_ends(stored))
    assert looks_converted(np.moveaxis(as_line_ends(stored), 0, -1))


def test_conversion_lowers_values_that_contain_the_byte(values):
    lost = values.astype(int) - as_line_ends(values)
    np.testing.assert_array_equal(lost, 3 * (values & 0xFF == 13) + 768 * (values >> 8 == 13))
    assert set(np.unique(lost)) == {0, 3, 768, 771}


@pytest.mark.parametrize("step", [2, 4, 16])
def test_multiples_are_not_taken_for_converted_data(step):
    assert not looks_converted((RNG.integers(0, 200, 100_000) * step).astype(np.uint16))
    # The mantissa of a 12-bit number leaves the last bit of a byte of its float64 zero.
    assert not looks_converted(RNG.integers(2048, 4096, 100_000).astype(np.float64))


def test_small_files_are_not_judged():
    assert not looks_converted(as_line_ends(RNG.integers(900, 9000, 1000, dtype=np.uint16)))


def test_sixteen_megabytes_are_examined_and_all_parts_of_the_file(tmp_path):
    size = 40 * 2**20
    stored = np.memmap(tmp_path / "large.bin", np.uint8, mode="w+", shape=size)
    stored[size // 2 :] = 7
    counts = count_bytes(stored)
    assert counts.sum() == 16 * 2**20
    assert counts[0] == pytest.approx(counts[7], rel=0.2)


def test_npy_file_warns(values, tmp_path):
    np.save(tmp_path / "cube.npy", as_line_ends(values))
    with pytest.warns(UserWarning, match=rf"cube\.npy' {MESSAGE}"):
        (read,) = read_arrays(tmp_path / "cube.npy").values()
    np.testing.assert_array_equal(read, as_line_ends(values))
    gray = as_line_ends(RNG.integers(0, 256, (300, 300), dtype=np.uint8))
    for array in (values, gray):
        np.save(tmp_path / "cube.npy", array)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_arrays(tmp_path / "cube.npy")


@pytest.mark.parametrize("interleave", ["bil", "bip", "bsq"])
@pytest.mark.parametrize("order", [0, 1])
def test_envi_file_warns(values, interleave, order, tmp_path):
    pytest.importorskip("rioxarray", reason="images need the extra 'raster'")
    spectral = pytest.importorskip("spectral.io.envi", reason="ENVI needs the extra 'raster'")
    from jplay.raster import open_scene

    for name, cube in (("intact", values), ("converted", as_line_ends(values))):
        spectral.save_image(
            str(tmp_path / f"{name}.hdr"),
            cube,
            interleave=interleave,
            byteorder=order,
            ext=interleave,
            dtype=np.uint16,
        )
    with pytest.warns(UserWarning, match=rf"converted\.{interleave}' {MESSAGE}"):
        open_scene(tmp_path / "converted.hdr").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_scene(tmp_path / "intact.hdr").close()


def save(path, **arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)


def faces_ar(folder, convert):
    labels = np.repeat(np.arange(1, 101), 7).astype(np.uint8)
    save(
        folder / "ar" / "AR_DAT.npz",
        NewTrain_DAT=convert(RNG.integers(0, 256, (2580, 700), dtype=np.uint8)),
        NewTest_DAT=convert(RNG.integers(0, 256, (2580, 699), dtype=np.uint8)),
        trainlabels=labels,
        testlabels=np.delete(labels, 76 * 7),
    )
    return fetch_ar


def faces_yale(folder, convert):
    save(
        folder / "extended_yale_b" / "YaleB_32x32.npz",
        fea=convert(RNG.integers(0, 256, (2414, 1024), dtype=np.uint8)),
        gnd=np.minimum(np.arange(2414) // 63, 37) + 1,
    )
    return fetch_extended_yale_b


def labels_yeast(folder, convert):
    sizes = {"train": 1500, "test": 917}
    X = {f"X_{part}": convert(RNG.standard_normal((n, 103))) for part, n in sizes.items()}
    Y = {f"Y_{part}": RNG.integers(0, 2, (n, 14)) for part, n in sizes.items()}
    save(folder / "multilabel" / "yeast.npz", **X, **Y)
    return lambda data_home: fetch_multilabel("yeast", data_home=data_home)


def spectra_houston(folder, convert):
    maps = np.zeros((2, 349 * 1905), dtype=np.uint8)
    places = RNG.permutation(349 * 1905)
    maps[0, places[:2832]] = np.arange(2832) % 15 + 1
    maps[1, places[2832:15029]] = np.arange(12197) % 15 + 1
    (folder / "houston2013").mkdir()
    for name, labels in zip(("TRLabel", "TSLabel"), maps, strict=True):
        np.save(folder / "houston2013" / f"{name}.npy", labels.reshape(349, 1905))
    np.save(folder / "houston2013" / "HSI_TrSet.npy", convert(RNG.random((2832, 144))))
    return lambda data_home: fetch_houston2013(data_home=data_home, split=None)


@pytest.mark.parametrize("make", [faces_ar, faces_yale, labels_yeast, spectra_houston])
def test_converted_data_set_is_refused(make, tmp_path):
    make(tmp_path, lambda array: array)(data_home=tmp_path)
    other = tmp_path / "converted"
    other.mkdir()
    fetch = make(other, as_line_ends)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CorruptFileError, match="were converted as text"):
            fetch(data_home=other)


def test_converted_labels_are_refused(tmp_path):
    """Class 13 becomes class 10, which neither the largest class nor the number of labels shows."""
    fetch = spectra_houston(tmp_path, lambda array: array)
    path = tmp_path / "houston2013" / "TRLabel.npy"
    np.save(path, as_line_ends(np.load(path)))
    with pytest.raises(CorruptFileError, match=r"TRLabel.*all 15 classes, found none of class 13"):
        fetch(data_home=tmp_path)
