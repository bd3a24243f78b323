"""How long a person waits: from polygon to map, and for a large scene.

Starts ``jplay app`` and speaks to it as its page does. The first figure is the time from a polygon
that was drawn on Indian Pines to the tile of the new class map, the second the time and memory to
open a scene of 4,000 x 4,000 x 200 (a file with holes) and see it whole.

    python benchmarks/app.py
"""

import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil

FIELDS = [(30, 25, 12), (88, 116, 14), (50, 80, 14)]
N_REPEATS = 7


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_large(Path(folder))
        command = [sys.executable, "-m", "jplay", "app", "--no-browser", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--folder", folder], stderr=subprocess.PIPE, text=True
        )
        try:
            address = urlsplit(re.search(r"http://\S+", process.stderr.readline()).group())
            seconds = polygon_to_map(address)
            print(f"polygon to map: median {np.median(seconds):.2f} s, worst {max(seconds):.2f} s")
            seconds, image = large_scene(address)
            family = [psutil.Process(process.pid)]
            family += family[0].children(recursive=True)
            memory = sum(one.memory_info().rss for one in family) / 2**20
            print(f"4000 x 4000 x 200: open {seconds:.2f} s, image {image:.2f} s, {memory:.0f} MB")
        finally:
            process.terminate()
            process.wait()
            process.stderr.close()


def call(address, method, path, body=None):
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=300)
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"X-JPlay": "1"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(content.decode())
    return json.loads(content) if "json" in answer.getheader("content-type") else content


def polygon_to_map(address):
    base = "/api/sessions/" + call(address, "POST", "/api/sessions", {})["id"]
    call(address, "POST", f"{base}/open", {"example": "indian_pines"})
    found = []
    for number, (left, top, size) in enumerate([*FIELDS, *[FIELDS[-1]] * N_REPEATS]):
        if number < len(FIELDS):
            call(address, "POST", f"{base}/classes", {})
        place = min(number, len(FIELDS) - 1) + 1
        left = left + number - place + 1
        ring = [[left, top], [left + size, top], [left + size, top + size], [left, top + size]]
        started = time.perf_counter()
        shape = {"class": place, "kind": "polygon", "rings": [ring]}
        call(address, "PUT", f"{base}/shapes/s{place}", shape)
        if number == 0:
            continue
        while True:
            progress = call(address, "GET", f"{base}/progress")
            if progress["jobs"]["fit"]["state"] != "running":
                break
            time.sleep(0.05)
        call(address, "GET", f"{base}/map/{progress['fit']}/0/0/0")
        if number >= len(FIELDS):
            found.append(time.perf_counter() - started)
    return found


def write_large(folder):
    (folder / "large.hdr").write_text(
        "ENVI\nsamples = 4000\nlines = 4000\nbands = 200\nheader offset = 0\n"
        "file type = ENVI Standard\ndata type = 2\ninterleave = bil\nbyte order = 0\n"
    )
    with (folder / "large.img").open("wb") as file:
        file.truncate(4000 * 4000 * 200 * 2)
        rng = np.random.default_rng(0)
        for line in range(0, 4000, 16):
            file.seek(line * 200 * 4000 * 2)
            file.write(rng.integers(1, 3000, size=4000 * 60, dtype=np.int16).tobytes())


def large_scene(address):
    started = time.perf_counter()
    base = "/api/sessions/" + call(address, "POST", "/api/sessions", {})["id"]
    call(address, "POST", f"{base}/open", {"path": "large.hdr"})
    opened = time.perf_counter()
    call(address, "GET", f"{base}/image/4/0/0?bands=50,30,10")
    return opened - started, time.perf_counter() - opened


if __name__ == "__main__":
    main()
