"""Talk to the app of the browser: in this process without a socket, or to one that was started."""

import asyncio
import http.client
import json
import re
import subprocess
import sys
import time
from contextlib import closing
from urllib.parse import urlsplit

OWN_PAGE = {"x-jplay": "1"}


class Answer:
    def __init__(self, status, headers, content):
        self.status, self.headers, self.content = status, headers, content

    @property
    def json(self):
        return json.loads(self.content)


def ask(app, method, path, body=None, headers=None, *, host="127.0.0.1:8765"):
    """Send one request to an ASGI application; ``headers`` are those of the app's page if None."""
    content = (
        body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    )
    parts = urlsplit(path)
    given = {"host": host, **(OWN_PAGE if headers is None else headers)}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "root_path": "",
        "query_string": parts.query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
    }
    sent = []
    coming = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive():
        if not coming:
            await asyncio.Event().wait()  # the client stays
        return coming.pop()

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:]))


class Session:
    """One tab: what it sends and gets."""

    def __init__(self, send, request=None, identifier=None):
        self._send = send
        self.id = identifier or self._value("POST", "/api/sessions")["id"]
        self.base = f"/api/sessions/{self.id}"
        self.state = self.call("POST", "/open", request) if request else self.call("GET", "")

    def _value(self, method, path, body=None):
        answer = self._send(method, path, body)
        assert answer.status == 200, answer.content
        return answer.json

    def try_to(self, method, path, body=None):
        return self._send(method, self.base + path, body)

    def call(self, method, path, body=None):
        return self._value(method, self.base + path, body)

    def draw(self, name, number, corners):
        shape = {"class": number, "kind": "polygon", "rings": [corners]}
        return self.call("PUT", f"/shapes/{name}", shape)

    def work(self, kind, body=None, seconds=120):
        """Start work and wait for its end; return what is said of it."""
        self.call("POST", f"/{kind}", body or {})
        return self.wait(kind, seconds)

    def wait(self, kind, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            progress = self.call("GET", "/progress")
            if progress["jobs"][kind]["state"] != "running":
                return progress["jobs"][kind]
            time.sleep(0.02)
        raise TimeoutError(f"{kind} did not end")


def box(left, top, size):
    return [
        [left, top], [left + size, top], [left + size, top + size], [left, top + size]
    ]  # fmt: skip


class Started:
    """The command ``jplay app`` in a process of its own."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "jplay", "app", "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)], stderr=subprocess.PIPE, text=True
        )
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.search(r"http://\S+", line):
                break
        else:
            raise AssertionError("".join(lines))
        self.address = found.group()
        self.parts = urlsplit(self.address)

    def send(self, method, path, body=None, headers=None):
        content = body if isinstance(body, bytes) or body is None else json.dumps(body)
        # Closed if the server is killed meanwhile as well.
        with closing(
            http.client.HTTPConnection(self.parts.hostname, self.parts.port, timeout=120)
        ) as connection:
            connection.request(method, path, content, OWN_PAGE if headers is None else headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait(20)
        self.process.stderr.close()
