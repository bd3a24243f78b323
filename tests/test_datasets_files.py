"""The layouts in which people keep the data sets: accepted ones, and wrong or truncated ones."""

import hashlib
import warnings

import numpy as np
import pytest
from scipy.io import savemat
from scipy.ndimage import binary_dilation

from jplay.datasets import (
    DATASETS,
    _scenes,
    fetch_ar,
    fetch_extended_yale_b,
    fetch_houston2013,
    fetch_indian_pines,
    fetch_multilabel,
    fingerprint,
)
from jplay.datasets.line_ends import as_line_ends
from jplay.datasets.readers import read_arrays
from jplay.exceptions import CorruptFileError, DatasetNotFoundError

RNG = np.random.default_rng(0)


def write(path, **arrays):
    """Write arrays in the format that the suffix names; ``.mat73`` is MATLAB 7.3 under ``.mat``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    suffix = path.suffix
    if suffix == ".mat":
        savemat(path, arrays, do_compression=True)
    elif suffix == ".mat73":
        path = path.with_suffix(".mat")
        write_mat73(path, arrays)
    elif suffix == ".npz":
        np.savez(path, **arrays)
    else:
        (array,) = arrays.values()
        if suffix == ".npy":
            np.save(path, array)
        else:
            tifffile = pytest.importorskip("tifffile", reason="TIFF needs the extra 'data'")
            tifffile.imwrite(path, array, photometric="minisblack")
    return path


def write_mat73(path, arrays):
    h5py = pytest.importorskip("h5py", reason="MATLAB 7.3 needs the extra 'data'")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file[name] = array.T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512))


def truncate(path, share=0.6):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("JPLAY_MIRROR", raising=False)


@pytest.fixture(scope="module")
def ar_arrays():
    labels = np.repeat(np.arange(1, 101), 7)
    return {
        "NewTrain_DAT": RNG.integers(0, 256, (2580, 700), dtype=np.uint8),
        "NewTest_DAT": RNG.integers(0, 256, (2580, 699), dtype=np.uint8),
        "trainlabels": labels[np.newaxis].astype(np.uint8),
        "testlabels": np.delete(labels, 76 * 7)[np.newaxis].astype(np.uint8),
    }


@pytest.mark.parametrize("suffix", [".mat", ".mat73", ".npz"])
def test_ar_in_every_layout(suffix, ar_arrays, tmp_path):
    write(tmp_path / "ar" / f"AR_DAT{suffix}", **ar_arrays)
    faces = fetch_ar(data_home=tmp_path, dtype=np.float32)
    assert faces.data.shape == (1399, 2580)
    assert faces.data.dtype == faces.images.dtype == np.float32
    column = ar_arrays["NewTest_DAT"][:, 3]
    np.testing.assert_array_equal(faces.images[703], column.reshape(60, 43, order="F"))
    np.testing.assert_array_equal(faces.data[703].reshape(faces.image_shape), faces.images[703])
    np.testing.assert_array_equal(faces.target[faces.test_indices], ar_arrays["testlabels"][0])
    X, y = fetch_ar(data_home=tmp_path, return_X_y=True)
    assert X.shape == (1399, 2580)
    assert y.shape == (1399,)


def test_file_directly_in_the_data_folder_is_found(ar_arrays, tmp_path):
    path = write(tmp_path / "AR_DAT.mat", **ar_arrays)
    assert fetch_ar(data_home=tmp_path).filenames == [str(path)]


@pytest.mark.parametrize("suffix", [".mat", ".mat73", ".npz"])
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.5, 0.999])
def test_truncated_file_is_refused_by_name(suffix, share, ar_arrays, tmp_path):
    path = write(tmp_path / "ar" / f"AR_DAT{suffix}", **ar_arrays)
    truncate(path, share)
    with pytest.raises(CorruptFileError, match=r"AR_DAT.* (cannot be read|should hold)"):
        fetch_ar(data_home=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"NewTrain_DAT": np.zeros((2580, 600), np.uint8)}, "2580 x 700 named NewTrain_DAT"),
        ({"trainlabels": np.full((1, 700), 101)}, "class numbers up to 100"),
        ({"trainlabels": np.full((1, 700), 99.5)}, "class numbers up to 100"),
        ({"trainlabels": np.full((1, 700), np.nan)}, "class numbers up to 100"),
        ({"testlabels": np.eye(1, 699, dtype=int) * 100}, "should label 699 samples"),
    ],
)
def test_wrong_content_is_refused_by_name(change, message, ar_arrays, tmp_path):
    write(tmp_path / "ar" / "AR_DAT.mat", **(ar_arrays | change))
    with pytest.raises(CorruptFileError, match=f"AR_DAT.mat.*{message}"):
        fetch_ar(data_home=tmp_path)


def test_web_page_saved_under_the_name_of_a_file_is_refused(tmp_path):
    path = tmp_path / "extended_yale_b" / "YaleB_32x32.mat"
    path.parent.mkdir()
    path.write_text("<!DOCTYPE html><html><body>404 Not Found</body></html>" * 50)
    with pytest.raises(CorruptFileError, match=r"YaleB_32x32.mat.*cannot be read"):
        fetch_extended_yale_b(data_home=tmp_path)


@pytest.mark.parametrize("name", ["YaleB_32x32.mat", "YaleB_32x32.mat73", "YaleB.npz"])
def test_yale_in_every_layout(name, tmp_path):
    fea = RNG.integers(0, 256, (2414, 1024), dtype=np.uint8)
    gnd = np.minimum(np.arange(2414) // 63, 37)[:, np.newaxis] + 1
    write(tmp_path / "extended_yale_b" / name, fea=fea, gnd=gnd.astype(np.uint8))
    faces = fetch_extended_yale_b(data_home=tmp_path)
    np.testing.assert_array_equal(faces.images[5], fea[5].reshape(32, 32, order="F"))
    np.testing.assert_array_equal(faces.target, gnd.ravel())
    assert len(faces.target_names) == 38


@pytest.fixture
def pines_arrays(monkeypatch):
    """A cube and a ground truth at random, whose fingerprints pass for those of the originals."""
    rng = np.random.default_rng(0)
    truth = np.zeros(145 * 145, dtype=np.uint8)
    truth[rng.permutation(145 * 145)[:10249]] = np.arange(10249) % 16 + 1
    cube = rng.integers(1000, 9000, (145, 145, 220), dtype=np.uint16)
    known = DATASETS["indian_pines"].sha256
    shipped = as_line_ends(without_water(cube))
    monkeypatch.setitem(known, "cube of tensorly", hashlib.sha256(shipped).hexdigest())
    monkeypatch.setitem(known, "ground truth", hashlib.sha256(truth).hexdigest())
    return cube, truth.reshape(145, 145)


def without_water(cube):
    kept = np.r_[0:103, 108:149, 163:219]
    return cube[:, :, kept]


@pytest.mark.parametrize("suffix", [".mat", ".mat73", ".npy", ".tif"])
def test_indian_pines_in_every_layout(suffix, pines_arrays, tmp_path):
    cube, truth = pines_arrays
    folder = tmp_path / "indian_pines"
    corrected = without_water(cube)
    write(folder / f"Indian_pines_corrected{suffix}", indian_pines_corrected=corrected)
    write(folder / f"Indian_pines_gt{suffix}", indian_pines_gt=truth)
    scene = fetch_indian_pines(data_home=tmp_path, split="random", dtype=np.float32)
    np.testing.assert_array_equal(scene.cube, corrected)
    np.testing.assert_array_equal(scene.ground_truth, truth)
    assert scene.data.dtype == np.float32
    assert len(scene.filenames) == 2


@pytest.mark.parametrize("bands_first", [False, True])
def test_indian_pines_of_220_bands_serves_both_forms(bands_first, pines_arrays, tmp_path):
    cube, truth = pines_arrays
    stored = np.moveaxis(cube, -1, 0) if bands_first else cube
    folder = tmp_path / "indian_pines"
    write(folder / "19920612_AVIRIS_IndianPine_Site3.tif", image=stored)
    write(folder / "Indian_pines_gt.mat", indian_pines_gt=truth)
    every = fetch_indian_pines(data_home=tmp_path, n_bands=220, split=None)
    np.testing.assert_array_equal(every.cube, cube)
    assert every.train_indices is None
    kept = fetch_indian_pines(data_home=tmp_path, split=None)
    np.testing.assert_array_equal(kept.cube, without_water(cube))
    assert kept.wavelengths.shape == (200,)
    assert np.isin(kept.wavelengths, every.wavelengths).all()


def test_indian_pines_of_220_bands_says_where_to_get_it(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"Indian_pines\.mat.*10\.4231/R7RX991C"):
        fetch_indian_pines(data_home=tmp_path, n_bands=220)


def mask_pair():
    classes = np.zeros(145 * 145, dtype=np.uint8)
    train, test = classes.copy(), classes.copy()
    places = RNG.permutation(145 * 145)
    train[places[:695]] = np.arange(695) % 16 + 1
    test[places[695:10366]] = np.arange(9671) % 16 + 1
    return train.reshape(145, 145), test.reshape(145, 145)


@pytest.mark.parametrize("suffix", [".tif", ".mat", ".npy"])
def test_indian_pines_masks_are_turned_into_standard_classes(suffix, tmp_path):
    pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")
    train, test = mask_pair()
    write(tmp_path / "indian_pines" / f"IndianTR123_temp123{suffix}", TR=train)
    write(tmp_path / "indian_pines" / f"IndianTE123_temp123{suffix}", TE=test)
    scene = fetch_indian_pines(data_home=tmp_path)
    assert scene.split == "fixed"
    order = [2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 1, 7, 9]
    for mask, label_map in ((train, scene.train_map), (test, scene.test_map)):
        for k, standard in enumerate(order, start=1):
            np.testing.assert_array_equal(mask == k, label_map == standard)
    rows = scene.pixel_indices[scene.train_indices]
    np.testing.assert_array_equal(rows, np.flatnonzero(train))
    np.testing.assert_array_equal(
        scene.data[scene.train_indices], scene.cube.reshape(-1, 200)[rows]
    )


def test_indian_pines_masks_that_overlap_are_refused(tmp_path):
    pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")
    train, test = mask_pair()
    swapped = test.copy()
    swapped.flat[[np.flatnonzero(test)[0], np.flatnonzero(train)[0]]] = [0, 5]
    write(tmp_path / "indian_pines" / "IndianTR123_temp123.npy", TR=train)
    path = write(tmp_path / "indian_pines" / "IndianTE123_temp123.npy", TE=swapped)
    with pytest.raises(CorruptFileError, match="should label different pixels, 1 are in both"):
        fetch_indian_pines(data_home=tmp_path)
    write(path, TE=train)
    with pytest.raises(CorruptFileError, match=r"TE123.*should label 9671 samples, found 695"):
        fetch_indian_pines(data_home=tmp_path)


def test_truncated_tiff_is_refused_by_name(tmp_path):
    pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")
    train, _ = mask_pair()
    for stem in ("IndianTR123_temp123", "IndianTE123_temp123"):
        path = write(tmp_path / "indian_pines" / f"{stem}.tif", mask=train)
    truncate(tmp_path / "indian_pines" / "IndianTR123_temp123.tif")
    with pytest.raises(CorruptFileError, match=r"IndianTR123_temp123\.tif"):
        fetch_indian_pines(data_home=tmp_path)
    path.unlink()
    assert fetch_indian_pines(data_home=tmp_path).split == "random"
    with pytest.raises(DatasetNotFoundError, match=r"IndianTE123_temp123\.tif"):
        fetch_indian_pines(data_home=tmp_path, split="fixed")


def test_indian_pines_without_any_file(tmp_path):
    pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")
    scene = fetch_indian_pines(data_home=tmp_path)
    assert scene.split == "random"
    assert scene.data.shape == (10249, 200)
    assert scene.train_indices.size == 695
    assert scene.target_names[scene.target[0] - 1] == "Corn-mintill"
    spatial = fetch_indian_pines(data_home=tmp_path, split="spatial")
    near_test = binary_dilation(spatial.test_map > 0, np.ones((5, 5)))
    assert not (near_test & (spatial.train_map > 0)).any()
    assert spatial.train_indices.size > 2000
    assert "CC BY 3.0" in scene.licence


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [({"n_bands": 185}, "`n_bands` should be 200"), ({"split": "wild"}, "`split` should be")],
)
def test_indian_pines_refuses_unknown_options(kwargs, message, tmp_path):
    pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")
    with pytest.raises(ValueError, match=message):
        fetch_indian_pines(data_home=tmp_path, **kwargs)


@pytest.fixture
def houston_arrays(monkeypatch):
    """A small image with the true numbers of labelled pixels and bands."""
    shape, rng = (60, 300), np.random.default_rng(0)
    monkeypatch.setattr(_scenes, "_HOUSTON_SHAPE", shape)
    train, test = np.zeros((2, *shape), dtype=np.uint8)
    blocks = np.arange(60)[:, np.newaxis] // 6 * 50 + np.arange(300) // 6
    classes = blocks % 15 + 1
    # Blocks in an order that puts all classes into the training pixels.
    places = np.argsort((7 * blocks % 500).ravel(), kind="stable")
    train.flat[places[:2832]] = classes.ravel()[places[:2832]]
    test.flat[places[2832:15029]] = classes.ravel()[places[2832:15029]]
    cube = rng.integers(0, 5000, (*shape, 144), dtype=np.uint16)
    return cube, train, test


@pytest.mark.parametrize(
    ("cube_name", "train_name", "test_name"),
    [
        ("2013_IEEE_GRSS_DF_Contest_CASI.tif", "TRLabel.mat", "TSLabel.mat"),
        ("Houston.mat", "TRLabel.npy", "TSLabel.tif"),
        (
            "2013_IEEE_GRSS_DF_Contest_CASI_349_1905_144.mat73",
            "2013_IEEE_GRSS_DF_Contest_Samples_TR.tif",
            "2013_IEEE_GRSS_DF_Contest_Samples_VA.tif",
        ),
        ("houston.npy", "TRLabel.mat73", "TSLabel.mat73"),
    ],
)
def test_houston_cube_in_every_layout(cube_name, train_name, test_name, houston_arrays, tmp_path):
    cube, train, test = houston_arrays
    folder = tmp_path / "houston2013"
    write(folder / cube_name, data=cube)
    write(folder / train_name, TRLabel=train)
    write(folder / test_name, TSLabel=test)
    scene = fetch_houston2013(data_home=tmp_path)
    assert scene.split == "fixed"
    np.testing.assert_array_equal(scene.cube, cube)
    np.testing.assert_array_equal(scene.train_map, train)
    np.testing.assert_array_equal(scene.test_map, test)
    np.testing.assert_array_equal(scene.data[scene.train_indices], cube[train > 0])
    np.testing.assert_array_equal(scene.target[scene.test_indices], test[test > 0])


def test_houston_spectra_take_the_place_of_the_cube(houston_arrays, tmp_path):
    cube, train, test = houston_arrays
    folder = tmp_path / "houston2013"
    write(folder / "TRLabel.mat", TRLabel=train)
    write(folder / "TSLabel.mat", TSLabel=test)
    with pytest.raises(DatasetNotFoundError, match=r"2013_IEEE_GRSS_DF_Contest_CASI.*HSI_TrSet"):
        fetch_houston2013(data_home=tmp_path)

    write(folder / "HSI_TrSet.mat", HSI_TrSet=cube[train > 0])
    scene = fetch_houston2013(data_home=tmp_path)
    assert scene.split == "spatial"
    assert scene.cube is None
    np.testing.assert_array_equal(scene.ground_truth, train)
    np.testing.assert_array_equal(scene.data, cube[train > 0])
    with pytest.raises(DatasetNotFoundError, match="HSI_TeSet"):
        fetch_houston2013(data_home=tmp_path, split="fixed")

    write(folder / "HSI_TeSet.mat", HSI_TeSet=cube[test > 0])
    scene = fetch_houston2013(data_home=tmp_path)
    assert scene.split == "fixed"
    np.testing.assert_array_equal(scene.data, cube.reshape(-1, 144)[scene.pixel_indices])


def test_houston_spectra_of_other_shape_are_refused(houston_arrays, tmp_path):
    cube, train, test = houston_arrays
    folder = tmp_path / "houston2013"
    write(folder / "TRLabel.mat", TRLabel=train)
    write(folder / "TSLabel.mat", TSLabel=test)
    write(folder / "HSI_TrSet.mat", HSI_TrSet=cube[train > 0][:, :48])
    with pytest.raises(CorruptFileError, match=r"HSI_TrSet\.mat.*2832 x 144.*\(2832, 48\)"):
        fetch_houston2013(data_home=tmp_path)


@pytest.fixture(scope="module")
def emotions():
    sizes = {"train": 391, "test": 202}
    return {
        part: (RNG.standard_normal((n, 72)).round(3), RNG.integers(0, 2, (n, 6)))
        for part, n in sizes.items()
    }


def write_arff(path, X, Y, *, sparse, labels_first):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.hstack([Y, X] if labels_first else [X, Y])
    relation = "'emotions: -C 6'" if labels_first else "emotions"
    lines = ["% a comment", f"@RELATION {relation}", ""]
    lines += [f"@attribute column{k} numeric" for k in range(table.shape[1])]
    lines += ["", "@DATA"]
    for row in table:
        if sparse:
            entries = [f"{k} {value:g}" for k, value in enumerate(row) if value]
            lines.append("{" + ",".join(entries) + "}")
        else:
            lines.append(",".join(f"{value:g}" for value in row))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("labels_first", [False, True])
def test_multilabel_arff_as_distributed(sparse, labels_first, emotions, tmp_path):
    for part, (X, Y) in emotions.items():
        path = tmp_path / "multilabel" / f"emotions-{part}.arff"
        write_arff(path, X, Y, sparse=sparse, labels_first=labels_first)
    bunch = fetch_multilabel("emotions", data_home=tmp_path)
    for part, rows in (("train", bunch.train_indices), ("test", bunch.test_indices)):
        np.testing.assert_allclose(bunch.data[rows], emotions[part][0])
        np.testing.assert_array_equal(bunch.target[rows], emotions[part][1])


def test_multilabel_npz(emotions, tmp_path):
    arrays = {
        f"{k}_{part}": a for part, p in emotions.items() for k, a in zip("XY", p, strict=True)
    }
    path = write(tmp_path / "multilabel" / "emotions.npz", **arrays)
    X, Y = fetch_multilabel("emotions", data_home=tmp_path, return_X_y=True, dtype=np.float32)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(Y[:391], arrays["Y_train"])
    write(path, **(arrays | {"Y_test": arrays["Y_test"] + 1}))
    with pytest.raises(CorruptFileError, match=r"emotions\.npz.*labels 0 or 1 in Y_test"):
        fetch_multilabel("emotions", data_home=tmp_path)


def test_multilabel_truncated_arff_is_refused_by_name(emotions, tmp_path):
    for part, (X, Y) in emotions.items():
        path = tmp_path / "multilabel" / f"emotions-{part}.arff"
        write_arff(path, X, Y, sparse=False, labels_first=False)
    for share in (0.01, 0.5):
        truncate(path, share)
        with pytest.raises(CorruptFileError, match=r"emotions-test\.arff"):
            fetch_multilabel("emotions", data_home=tmp_path)


def test_multilabel_unknown_name_and_missing_file(tmp_path):
    with pytest.raises(
        ValueError, match="`name` should be one of bibtex, emotions, yeast, got 'cal'"
    ):
        fetch_multilabel("cal", data_home=tmp_path)
    with pytest.raises(DatasetNotFoundError, match=r"mulan.*yeast-train\.arff"):
        fetch_multilabel("yeast", data_home=tmp_path)


def test_fingerprint_does_not_depend_on_the_layout(ar_arrays, tmp_path):
    names = set()
    for suffix in (".mat", ".npz"):
        write(tmp_path / suffix / f"AR_DAT{suffix}", **ar_arrays)
        names.add(fingerprint(fetch_ar(data_home=tmp_path / suffix)))
    assert len(names) == 1


@pytest.mark.parametrize("suffix", [".mat", ".mat73", ".npz", ".npy", ".tif"])
def test_damaged_bytes_lead_to_one_kind_of_error(suffix, tmp_path):
    path = write(tmp_path / f"small{suffix}", small=np.arange(600, dtype=np.uint16).reshape(20, 30))
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    messages = []
    for _ in range(60):
        damaged = np.frombuffer(content, dtype=np.uint8).copy()
        # Headers are short, so half of the damage goes there.
        end = 256 if rng.random() < 0.5 else damaged.size
        damaged[rng.integers(0, end, 8)] = rng.integers(0, 256, 8)
        path.write_bytes(damaged.tobytes())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read_arrays(path)
            except CorruptFileError as error:
                messages.append(str(error))
            except MemoryError:  # a damaged size may ask for terabytes
                pass
    assert messages
    assert all(str(path) in message for message in messages)


def test_unknown_format_and_pickled_objects_are_refused(tmp_path):
    with pytest.raises(CorruptFileError, match=r"notes\.txt' has a format"):
        read_arrays(tmp_path / "notes.txt")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptFileError, match=r"objects\.npy.*cannot be read"):
        read_arrays(tmp_path / "objects.npy")
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    assert read_arrays(tmp_path / "words.npy") == {}
