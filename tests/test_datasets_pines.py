"""The Indian Pines cube is repaired, recognized as the original, or refused; no file is needed."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from jplay.datasets import DATASETS, _pines_cube, fetch_indian_pines
from jplay.datasets.line_ends import as_line_ends, looks_converted
from jplay.exceptions import CorruptFileError

pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")

PINES = DATASETS["indian_pines"]
REPAIRED = "70c3c9700f3f552d2db98ccbc85d7e5af804ac45b2d746f5b83ba1b9c98bfc71"


@pytest.fixture(autouse=True)
def no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    monkeypatch.delenv("JPLAY_MIRROR", raising=False)


@pytest.fixture(scope="module")
def shipped():
    from tensorly.datasets import load_indian_pines

    return np.asarray(load_indian_pines().tensor).astype("<u2")


@pytest.fixture(scope="module")
def repaired():
    return fetch_indian_pines(split=None, dtype="<u2").cube


def save_cube(tmp_path, cube):
    path = tmp_path / "indian_pines" / "Indian_pines_corrected.npy"
    path.parent.mkdir(exist_ok=True)
    np.save(path, cube)
    return path


def test_cube_has_one_fingerprint(repaired):
    assert repaired.shape == (145, 145, 200)
    assert hashlib.sha256(repaired.tobytes()).hexdigest() == REPAIRED


def test_values_are_raised_where_the_high_byte_may_have_been_lost(shipped, repaired):
    if not looks_converted(shipped):
        pytest.skip("the installed tensorly ships another cube")
    raised = repaired != shipped
    assert np.count_nonzero(raised) == 116_644
    assert set(repaired[raised] - shipped[raised]) == {768}
    assert set(repaired[raised] >> 8) == {0x0D}
    np.testing.assert_array_equal(as_line_ends(repaired), shipped)


@pytest.mark.parametrize("baseline", [b for b in PINES.baselines if b.options["split"] == "random"])
def test_nearest_neighbor_has_the_documented_accuracy_on_the_random_split(baseline):
    found = baseline.measure(PINES.load(**baseline.options))
    assert found == pytest.approx(66.45, abs=0.05)
    assert found == pytest.approx(baseline.expected, abs=baseline.tolerance)


def test_cube_of_tensorly_in_the_data_folder_is_repaired(shipped, repaired, tmp_path):
    path = save_cube(tmp_path, shipped)
    scene = fetch_indian_pines(split=None)
    assert scene.filenames == [str(path)]
    np.testing.assert_array_equal(scene.cube, repaired)


def test_repaired_cube_in_the_data_folder_is_taken(repaired, tmp_path):
    save_cube(tmp_path, repaired.astype(float))
    np.testing.assert_array_equal(fetch_indian_pines(split=None).cube, repaired)


def an_original(repaired):
    """Return a cube that the conversion turns into the shipped one, as the original does."""
    original = repaired.copy()
    low = np.argwhere(original & 0xFF == 0x0A)[::3]
    original[tuple(low.T)] += 3
    return original


def test_original_is_recognized_and_taken_as_it_is(repaired, tmp_path):
    original = an_original(repaired)
    assert np.count_nonzero(original != repaired) > 10_000
    save_cube(tmp_path, original)
    np.testing.assert_array_equal(fetch_indian_pines(split=None).cube, original)


def test_original_inside_another_tensorly_is_recognized(repaired, monkeypatch):
    truth = fetch_indian_pines(split=None).ground_truth
    original = an_original(repaired)
    monkeypatch.setattr("jplay.datasets._scenes._packaged_pines", lambda: (original, truth))
    np.testing.assert_array_equal(fetch_indian_pines(split=None).cube, original)


@pytest.mark.parametrize("change", ["one value", "rescaled", "half repaired", "other scene"])
def test_other_cubes_are_refused(change, shipped, repaired, tmp_path):
    cube = {
        "one value": lambda: np.where(np.arange(200) == 7, repaired + 1, repaired),
        "rescaled": lambda: repaired / repaired.max(),
        "half repaired": lambda: np.where(np.arange(200) < 20, repaired, shipped),
        "other scene": lambda: as_line_ends(
            np.random.default_rng(0).integers(900, 9000, shipped.shape, dtype=np.uint16)
        ),
    }[change]()
    path = save_cube(tmp_path, cube)
    with pytest.raises(CorruptFileError, match="should be the original of 145 x 145 x 200") as said:
        fetch_indian_pines(split=None)
    assert str(path) in str(said.value)


def with_water(cube):
    every = np.random.default_rng(0).integers(900, 1200, (145, 145, 220), dtype=np.uint16)
    every[:, :, np.r_[0:103, 108:149, 163:219]] = cube
    return every


def test_cube_of_220_bands_is_compared_without_the_water_bands(shipped, repaired, tmp_path):
    path = tmp_path / "indian_pines" / "Indian_pines.npy"
    path.parent.mkdir()
    original = with_water(an_original(repaired))
    np.save(path, original)
    np.testing.assert_array_equal(fetch_indian_pines(n_bands=220, split=None).cube, original)
    np.save(path, with_water(shipped))
    np.testing.assert_array_equal(fetch_indian_pines(split=None).cube, repaired)
    with pytest.raises(CorruptFileError, match="only 200 of its bands can be repaired"):
        fetch_indian_pines(n_bands=220, split=None)


@pytest.mark.parametrize("patch", ["registry.py", "none.zlib"])
def test_damaged_patch_is_named(patch, shipped, monkeypatch):
    if not looks_converted(shipped):
        pytest.skip("the installed tensorly ships another cube")
    monkeypatch.setattr(_pines_cube, "PATCH", patch)
    with pytest.raises(CorruptFileError, match="Install jplay again"):
        fetch_indian_pines(split=None)


def test_ground_truth_that_is_another_is_refused(tmp_path):
    truth = fetch_indian_pines(split=None).ground_truth
    path = tmp_path / "indian_pines" / "Indian_pines_gt.npy"
    path.parent.mkdir()
    np.save(path, truth.T.astype(np.uint8))
    with pytest.raises(CorruptFileError, match=r"Indian_pines_gt.*should be the standard one"):
        fetch_indian_pines(split=None)


def test_script_makes_the_patch_that_is_shipped(shipped, monkeypatch):
    from pathlib import Path

    script = Path(__file__).parents[1] / "benchmarks" / "pines_patch.py"
    if not looks_converted(shipped):
        pytest.skip("the installed tensorly ships another cube")
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=True
    )
    assert "raised: 116,644 of 246,321 doubtful values" in done.stdout
    assert f"SHA-256 repaired:   {REPAIRED}" in done.stdout
    assert "not compared with other data" in done.stdout
