"""Files appear complete or not at all, and nothing is left behind."""

import os
import subprocess
import sys

import pytest

from jplay._files import atomic_path


def test_atomic_path_leaves_the_old_file_after_an_error(tmp_path):
    target = tmp_path / "result.txt"
    target.write_text("old")

    def interrupted():
        with atomic_path(target) as temporary:
            temporary.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.txt"]


def test_atomic_path_names_the_missing_folder(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match="missing"), atomic_path(missing / "a.txt"):
        pass
    with pytest.raises(IsADirectoryError, match="is a folder"), atomic_path(tmp_path):
        pass


def test_atomic_path_moves_what_a_writer_put_beside_the_file(tmp_path):
    with atomic_path(tmp_path / "map.tif") as temporary:
        temporary.write_text("pixels")
        temporary.with_name("map.tif.aux.xml").write_text("names")
        temporary.with_name("draft.tif").write_text("left behind")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.tif", "map.tif.aux.xml"]


_KILLED = """
import os, signal, sys
from jplay._files import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL and file locks")
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    target = tmp_path / "result.txt"
    target.write_text("old")
    subprocess.run([sys.executable, "-c", _KILLED, str(target)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    assert target.read_text() == "old"
    with atomic_path(tmp_path / "first.txt") as first:
        first.write_text("still at work")
        with atomic_path(tmp_path / "other.txt") as other:
            other.write_text("complete")
        assert first.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "first.txt",
        "other.txt",
        "result.txt",
    ]


def test_names_with_brackets_and_stars_move_only_their_own_parts(tmp_path):
    with atomic_path(tmp_path / "a[b]*.txt") as temporary:
        temporary.write_text("text")
        temporary.with_name("a[b]*.txt.aux.xml").write_text("names")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a[b]*.txt", "a[b]*.txt.aux.xml"]
