"""Downloads that resume after a dropped connection and are checked against a pinned hash."""

import os
from pathlib import Path

from jplay._optional import import_optional
from jplay.exceptions import CorruptFileError, DatasetNotFoundError

_CHUNK = 1 << 16
_TIMEOUT = 30.0
_RETRIES = 2


def download(url, path, sha256):
    """Download ``url`` to ``path`` through pooch; return the path, or None if it is not there.

    The file appears under its name only when its SHA-256 is the pinned one. What a broken
    connection left behind stays in ``<name>.part`` and the next attempt asks the server for the
    rest only.
    """
    pooch = import_optional("pooch", feature="Downloading data sets", extra="data")
    requests = import_optional("requests", feature="Downloading data sets", extra="data")
    fetcher = pooch.create(
        path=path.parent,
        base_url="",
        registry={path.name: f"sha256:{sha256}"},
        urls={path.name: url},
        retry_if_failed=_RETRIES,
    )
    try:
        fetcher.fetch(path.name, downloader=_ResumingDownloader(path))
    except _NoSuchFile:
        return None
    except requests.exceptions.RequestException as error:
        raise DatasetNotFoundError(
            f"'{path.name}' could not be downloaded from {url} ({error}). Try again later, which "
            f"continues where the connection broke, or save the file by hand as {path}."
        ) from error
    except ValueError as error:
        raise CorruptFileError(
            f"'{path.name}' from {url} is not the expected file: its SHA-256 differs from "
            f"{sha256}. Nothing was kept. Try again later, or obtain the file from its official "
            f"source and save it as {path}."
        ) from error
    return path


def _without_links(path, flags):
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


class _NoSuchFile(Exception):
    """The server answered that it does not have the file: asking again would not help."""


class _ResumingDownloader:
    """A downloader in pooch's sense that keeps a partial file next to the target."""

    def __init__(self, target):
        self.part = Path(f"{target}.part")

    def __call__(self, url, output_file, pooch):
        import requests

        if self.part.is_symlink():
            self.part.unlink()  # a link would be followed to a file that is not ours
        offset = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()
                raise requests.exceptions.RequestException("the partial file was unusable")
            if response.status_code == requests.codes.not_found:
                raise _NoSuchFile(url)
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            self._receive(response, mode="ab" if resumed else "wb")
        self.part.replace(output_file)

    def _receive(self, response, mode):
        import requests

        promised = response.headers.get("Content-Length")
        received = 0
        with open(self.part, mode, opener=_without_links) as file:
            for chunk in response.iter_content(_CHUNK):
                file.write(chunk)
                received += len(chunk)
        is_encoded = "Content-Encoding" in response.headers
        if promised is not None and not is_encoded and received != int(promised):
            raise requests.exceptions.ConnectionError(
                f"connection closed after {received} of {promised} bytes"
            )
