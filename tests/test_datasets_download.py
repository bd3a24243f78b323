"""The download path, against a server on this machine that can misbehave."""

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from jplay.datasets import DATASETS, _download, _folder, fetch_ar, fetch_indian_pines
from jplay.datasets._folder import find_file, require_file
from jplay.datasets.registry import DataFile, DatasetEntry
from jplay.exceptions import CorruptFileError, DatasetNotFoundError

pytest.importorskip("pooch", reason="downloads need the extra 'data'")

CONTENT = np.random.default_rng(0).bytes(300_000)
DROPPED_AT = 131_072
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves CONTENT at /sample/blob.npy; ``drops_left`` counts connections yet to break."""

    def __init__(self):
        self.content = CONTENT
        self.drops_left = 0
        self.supports_range = True
        self.ranges = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request):
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if not request.path.endswith("/sample/blob.npy"):
            request.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked and start >= len(self.content):
            request.send_error(416)
            return
        resumed = bool(asked) and self.supports_range
        body = self.content[start:] if resumed else self.content
        request.send_response(206 if resumed else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if self.drops_left:
            self.drops_left -= 1
            body = body[:DROPPED_AT]
        request.wfile.write(body)

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setenv("JPLAY_MIRROR", server.url)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    yield server
    server.close()


def sample_at(url):
    return DatasetEntry(
        name="sample",
        title="Sample",
        source="here",
        licence="none",
        request="Ask for it",
        loader="load_wine",
        n_samples=1,
        n_features=1,
        n_classes=1,
        folder="sample",
        files={"blob": DataFile(("blob",), (".npy",), SHA256, url)},
        layouts=(("blob",),),
    )


@pytest.fixture
def sample():
    return sample_at(None)


def fetch(sample, folder):
    return require_file(sample, "blob", folder)


def test_good_file_is_downloaded_once(server, sample, tmp_path):
    path = fetch(sample, tmp_path)
    assert path == tmp_path / "sample" / "blob.npy"
    assert path.read_bytes() == CONTENT
    assert fetch(sample, tmp_path) == path
    assert server.ranges == [None]
    assert [p.name for p in path.parent.iterdir()] == ["blob.npy"]


def test_registered_address_is_used_without_a_mirror(server, sample, tmp_path, monkeypatch):
    monkeypatch.delenv("JPLAY_MIRROR")
    assert find_file(sample, "blob", tmp_path) is None
    with_address = sample_at(f"{server.url}/elsewhere/sample/blob.npy")
    assert fetch(with_address, tmp_path).read_bytes() == CONTENT


def test_corrupt_file_is_refused_and_not_kept(server, sample, tmp_path):
    server.content = CONTENT[:-1] + b"?"
    with pytest.raises(CorruptFileError, match=r"'blob.npy' from http.*SHA-256 differs"):
        fetch(sample, tmp_path)
    assert list((tmp_path / "sample").iterdir()) == []


def test_dropped_connection_is_resumed_within_one_call(server, sample, tmp_path):
    server.drops_left = 1
    assert fetch(sample, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=131072-"]


def test_dropped_connection_is_resumed_in_a_later_call(server, sample, tmp_path, monkeypatch):
    monkeypatch.setattr(_download, "_RETRIES", 0)
    server.drops_left = 1
    with pytest.raises(DatasetNotFoundError, match=r"could not be downloaded .* Try again later"):
        fetch(sample, tmp_path)
    assert [p.name for p in (tmp_path / "sample").iterdir()] == ["blob.npy.part"]
    assert fetch(sample, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=131072-"]


def test_server_without_ranges_starts_again(server, sample, tmp_path):
    server.drops_left = 1
    server.supports_range = False
    assert fetch(sample, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("size", [50_000, 300_000, 400_000])
def test_useless_partial_file_does_no_harm(server, sample, tmp_path, size):
    part = tmp_path / "sample" / "blob.npy.part"
    part.parent.mkdir()
    part.write_bytes(bytes(size))
    assert fetch(sample, tmp_path).read_bytes() == CONTENT
    assert not part.exists()


def test_unreachable_server_is_named(sample, tmp_path, monkeypatch):
    monkeypatch.setattr(_download, "_RETRIES", 0)
    monkeypatch.setenv("JPLAY_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(DatasetNotFoundError, match=r"'blob.npy' could not be downloaded from http"):
        fetch(sample, tmp_path)


def test_file_unknown_to_the_mirror_is_asked_for_once(server, tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Request the database from its authors"):
        fetch_ar(data_home=tmp_path)
    assert len(server.ranges) == 1


def test_optional_file_unknown_to_the_mirror_is_done_without(server, tmp_path):
    pytest.importorskip("tensorly", reason="the packaged cube comes with the extra 'data'")
    assert fetch_indian_pines(data_home=tmp_path).split == "random"


def test_every_pinned_hash_is_a_sha256():
    hashes = {file.sha256 for entry in DATASETS.values() for file in entry.files.values()} - {None}
    assert len(hashes) >= 9
    assert all(len(bytes.fromhex(value)) == 32 for value in hashes)


def test_pinned_hashes_are_those_of_the_real_files(data_home):
    checked = 0
    for entry in DATASETS.values():
        for file in entry.files.values():
            path = data_home / entry.folder / file.name
            if file.sha256 is not None and path.is_file():
                assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
                checked += 1
    if not checked:
        pytest.skip("real data: no pinned file in the data folder")


def test_folder_is_the_argument_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    import pooch

    monkeypatch.setenv("JPLAY_DATA", str(tmp_path / "variable"))
    assert _folder.get_data_home(tmp_path / "argument") == tmp_path / "argument"
    assert _folder.get_data_home() == tmp_path / "variable"
    monkeypatch.delenv("JPLAY_DATA")
    assert _folder.get_data_home() == pooch.os_cache("jplay")


def test_missing_file_is_described_exactly(tmp_path, monkeypatch):
    monkeypatch.delenv("JPLAY_MIRROR", raising=False)
    with pytest.raises(DatasetNotFoundError) as caught:
        fetch_ar(data_home=tmp_path)
    message = str(caught.value)
    for part in (
        str(tmp_path / "ar" / "AR_DAT.mat"),
        "ohio-state",
        DATASETS["ar"].licence,
        "JPLAY_DATA",
    ):
        assert part in message


@pytest.mark.skipif(os.name == "nt", reason="links need privileges")
def test_partial_file_that_is_a_link_is_not_followed(server, sample, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    part = tmp_path / "sample" / "blob.npy.part"
    part.parent.mkdir()
    part.symlink_to(precious)
    assert fetch(sample, tmp_path).read_bytes() == CONTENT
    assert precious.read_text() == "mine"
