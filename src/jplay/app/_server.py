"""The server: who may ask what, and the routes of the page."""

import hmac
import json
import mimetypes
import os
import socket
import warnings
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from jplay import __version__
from jplay._files import atomic_path
from jplay._optional import import_optional
from jplay.app._files import list_folder, safe_name
from jplay.app._settings import LOOPBACK_NAMES
from jplay.app._workers import WorkerPool

MAX_JSON = 8 * 2**20
COOKIE = "jplay-token"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
REFUSED = "A token is needed: open the address that jplay app printed, which ends in ?token=...\n"


class Guard:
    """Middleware that answers strangers before anything else sees them.

    A page of another site cannot reach a loopback app by a name of its own that points here (the
    host is checked), nor make the browser send changes (their origin is checked, and they must
    carry a header that such a page cannot set). A shared app answers nothing without its token.

    Parameters
    ----------
    app : ASGI application
    settings : AppSettings
    """

    def __init__(self, app, settings):
        self.app, self.settings = app, settings

    async def __call__(self, scope, receive, send):
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from starlette.requests import Request

        request = Request(scope)

        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    *((name.lower().encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        answer = self._refusal(request)
        await (answer or self.app)(scope, receive, send_with_headers)

    def _refusal(self, request):
        from starlette.responses import PlainTextResponse, RedirectResponse

        host = request.headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        if not self.settings.is_shared and name not in LOOPBACK_NAMES:
            return PlainTextResponse("This app answers to localhost only.\n", 421)
        token = self.settings.token
        if token is not None and not self._knows(request, token):
            given = request.query_params.get("token", "")
            if request.method == "GET" and _same(given, token):
                answer = RedirectResponse("/", 303)
                answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
                return answer
            return PlainTextResponse(REFUSED, 401)
        if request.method not in ("GET", "HEAD"):
            origin = request.headers.get("origin")
            foreign = origin is not None and urlsplit(origin).netloc != host
            site = request.headers.get("sec-fetch-site", "same-origin")
            if foreign or site != "same-origin" or request.headers.get("x-jplay") != "1":
                return PlainTextResponse(
                    "Changes are accepted from the app's own page only.\n", 403
                )
        return None

    def _knows(self, request, token):
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return _same(request.cookies.get(COOKIE, ""), token) or _same(bearer, token)


def _same(given, token):
    return hmac.compare_digest(given.encode(), token.encode())


def create_app(settings):
    """Make the web application.

    Parameters
    ----------
    settings : AppSettings

    Returns
    -------
    ASGI application
        To be run by any ASGI server; :func:`serve` runs it with Uvicorn.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from jplay.app import AppSettings, create_app
    >>> app = create_app(AppSettings(folders=[mkdtemp()], n_workers=1))
    >>> app.state.home.recent()
    []
    >>> app.state.home.close()
    """
    import_optional("starlette", feature="jplay app", extra="app")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount, Route

    from jplay.app._session import Home

    home = Home(settings, WorkerPool(settings.n_workers))

    @asynccontextmanager
    async def lifespan(app):
        yield
        home.close()

    one = "/{session:str}"
    app = Starlette(
        lifespan=lifespan,
        middleware=[Middleware(Guard, settings=settings)],
        routes=[
            Route("/", _page),
            Route("/static/{name:str}", _static),
            Route("/api/start", _start, methods=["POST"]),
            Route("/api/files", _files),
            Route("/api/sessions", _create, methods=["POST"]),
            Mount(
                "/api/sessions",
                routes=[
                    Route(one, _answering(_state)),
                    Route(one + "/open", _answering(_open), methods=["POST"]),
                    Route(one + "/upload/{name}", _upload, methods=["PUT"]),
                    Route(one + "/progress", _answering(_progress)),
                    Route(one + "/settings", _answering(_settings), methods=["PUT"]),
                    Route(one + "/roles", _answering(_roles), methods=["PUT"]),
                    Route(one + "/classes", _answering(_add_class), methods=["POST"]),
                    Route(
                        one + "/classes/{number:int}", _answering(_class), methods=["PUT", "DELETE"]
                    ),
                    Route(one + "/shapes/{shape}", _answering(_shape), methods=["PUT", "DELETE"]),
                    Route(one + "/import/{name}", _import, methods=["PUT"]),
                    Route(one + "/example", _answering(_example), methods=["POST"]),
                    Route(one + "/fit", _answering(_fit), methods=["POST"]),
                    Route(one + "/accuracy", _answering(_accuracy), methods=["POST"]),
                    Route(one + "/export", _answering(_start_export), methods=["POST"]),
                    Route(one + "/cancel/{kind}", _answering(_cancel), methods=["POST"]),
                    Route(one + "/looks", _answering(_looks)),
                    Route(one + "/pixel/{row:int}/{column:int}", _answering(_pixel)),
                    Route(one + "/image/{level:int}/{row:int}/{column:int}", _answering(_image)),
                    Route(
                        one + "/map/{fit:int}/{level:int}/{row:int}/{column:int}", _answering(_map)
                    ),
                    Route(one + "/results", _answering(_results)),
                    Route(one + "/results/{name}", _answering(_result)),
                ],
            ),
        ],
    )
    app.state.home = home
    return app


def serve(settings, *, ready=None):
    """Run the app until it is interrupted.

    Parameters
    ----------
    settings : AppSettings
        With port 0 a free port is taken.
    ready : callable, optional
        Called with the address when the app answers.
    """
    uvicorn = import_optional("uvicorn", feature="jplay app", extra="app")
    # Many images have no place on the map. Threads cannot each have filters of their own.
    warnings.filterwarnings("ignore", "Dataset has no geotransform")
    listening = _bound(settings.host, settings.port)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    listening.listen()  # from now on requests wait, until the server takes them
    name = settings.host if settings.host not in ("0.0.0.0", "::") else _own_name()
    address = f"http://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}/"
    if settings.token is not None:
        address += f"?token={settings.token}"
    if ready is not None:
        ready(address)
    try:
        server.run(sockets=[listening])
    finally:
        app.state.home.close()


def _bound(host, port):
    """A socket at an address, or an error that says what to do."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    if os.name != "nt":  # where it would let two programs share a port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(
            f"`port` should be free at {host}, got {port} ({error.strerror}). Stop what uses it, "
            "or choose another; --port 0 takes a free one."
        ) from error
    return listening


def _own_name():
    return socket.gethostname()


# -- requests


def _answering(handler):
    """Run a handler in a thread with its session and the body; errors become one sentence."""
    from starlette.concurrency import run_in_threadpool

    async def endpoint(request):
        try:
            body = await _body(request)

            def work():
                session = request.app.state.home.get(request.path_params["session"])
                return handler(session, request, body)

            return _as_response(await run_in_threadpool(work))
        except Exception as error:
            return _failure(error)

    return endpoint


async def _body(request):
    if request.method in ("GET", "HEAD", "DELETE"):
        return {}
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_JSON:
            raise ValueError("The request is too large.")
    values = json.loads(content or b"{}")
    if not isinstance(values, dict):
        raise ValueError("The request should be a JSON object.")
    return values


def _as_response(value):
    from starlette.responses import JSONResponse, Response

    return value if isinstance(value, Response) else JSONResponse(value)


def _failure(error):
    from starlette.responses import JSONResponse

    if isinstance(error, LookupError) and not isinstance(error, (KeyError, IndexError)):
        status = 404
    elif isinstance(error, (ValueError, OSError, ImportError)):
        status = 400
    else:
        status = 500
    text = " ".join(str(error).split()) or type(error).__name__
    if status == 500:
        text = f"Something went wrong ({type(error).__name__}: {text})."
    return JSONResponse({"error": text}, status)


async def _page(request):
    return await _static(request, "index.html")


async def _static(request, name=None):
    from starlette.responses import PlainTextResponse, Response

    name = name or request.path_params["name"]
    folder = files("jplay.app") / "static"
    if name not in {entry.name for entry in folder.iterdir()}:
        return PlainTextResponse("Not found.\n", 404)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response((folder / name).read_bytes(), media_type=kind)


async def _start(request):
    from starlette.concurrency import run_in_threadpool

    settings = request.app.state.home.settings
    try:
        known = (await _body(request)).get("known") or ()
        recent = await run_in_threadpool(request.app.state.home.recent, set(map(str, known)))
    except ValueError as error:
        return _failure(error)
    return _as_response(
        {
            "version": __version__,
            "scene": None if settings.scene is None else str(settings.scene),
            "recent": recent,
            "max_upload": settings.max_upload,
        }
    )


async def _files(request):
    from starlette.concurrency import run_in_threadpool

    settings = request.app.state.home.settings
    try:
        name = request.query_params.get("folder", "")
        return _as_response(await run_in_threadpool(list_folder, settings, name))
    except (ValueError, OSError) as error:
        return _failure(error)


async def _create(request):
    return _as_response({"id": request.app.state.home.create().identifier})


async def _received(request, path, limit):
    """Write the body of a request to a file, or nothing if it is larger than the limit."""
    n_bytes = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        async for piece in request.stream():
            n_bytes += len(piece)
            if n_bytes > limit:
                raise ValueError(f"'{path.name}' is larger than {limit / 2**20:.0f} MB, the limit.")
            file.write(piece)


async def _upload(request):
    home = request.app.state.home
    try:
        session = home.get(request.path_params["session"])
        name = safe_name(request.path_params["name"])
        await _received(request, session.folder / "uploads" / name, home.settings.max_upload)
        return _as_response({"upload": name})
    except Exception as error:
        return _failure(error)


async def _import(request):
    from starlette.concurrency import run_in_threadpool

    home = request.app.state.home
    try:
        session = home.get(request.path_params["session"])
        name = safe_name(request.path_params["name"])
        path = session.folder / "imports" / name
        await _received(request, path, min(home.settings.max_upload, 2**28))
        try:
            return _as_response(await run_in_threadpool(session.import_labels, path))
        finally:
            path.unlink(missing_ok=True)
    except Exception as error:
        return _failure(error)


def _state(session, request, body):
    return session.state()


def _open(session, request, body):
    return session.open(body)


def _progress(session, request, body):
    return session.progress()


def _settings(session, request, body):
    return session.change_settings(body)


def _roles(session, request, body):
    return session.choose_roles(body)


def _add_class(session, request, body):
    return session.add_class(body)


def _class(session, request, body):
    number = request.path_params["number"]
    if request.method == "DELETE":
        return session.delete_class(number)
    return session.change_class(number, body)


def _shape(session, request, body):
    if request.method == "DELETE":
        return session.delete_shape(request.path_params["shape"])
    return session.put_shape(request.path_params["shape"], body)


def _example(session, request, body):
    return session.add_example()


def _fit(session, request, body):
    return session.start_fit()


def _accuracy(session, request, body):
    return session.start_judging(list(body.get("models") or ()))


def _start_export(session, request, body):
    return session.start_export()


def _cancel(session, request, body):
    return session.cancel(request.path_params["kind"])


def _looks(session, request, body):
    fit = session.fit
    if fit is None:
        raise LookupError("There is no fit yet.")
    return {"number": fit.number, **fit.looks()}


def _pixel(session, request, body):
    return session.pixel(request.path_params["row"], request.path_params["column"])


def _tile(request):
    return tuple(request.path_params[name] for name in ("level", "row", "column"))


def _image(session, request, body):
    from starlette.responses import Response

    session._need("scene")
    bands = [int(band) for band in request.query_params.get("bands", "").split(",")]
    if len(bands) != 3 or not all(0 <= band < session.scene.n_bands for band in bands):
        raise ValueError(f"`bands` should be three numbers below {session.scene.n_bands}.")
    percent = min(max(float(request.query_params.get("percent", 2)), 0.0), 25.0)
    return Response(
        session.scene.image_tile(*_tile(request), bands, percent), media_type="image/png"
    )


def _map(session, request, body):
    from starlette.responses import Response

    (height, width), content = session.map_tile(request.path_params["fit"], *_tile(request))
    shape = {"X-Height": str(height), "X-Width": str(width)}
    return Response(content, media_type="application/octet-stream", headers=shape)


def _results(session, request, body):
    return {"files": session.results()}


def _result(session, request, body):
    from starlette.responses import FileResponse

    name = request.path_params["name"]
    if name not in {one["name"] for one in session.results()}:
        raise LookupError("There is no such file.")
    # Always saved, never shown: nothing in it can act as a page of this app.
    return FileResponse(
        Path(session.folder, "results", name), filename=name, media_type="application/octet-stream"
    )
