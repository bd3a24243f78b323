"""``jplay app``: scenes and tables in the browser."""

import os
from pathlib import Path
from typing import Annotated

import typer

from jplay.cli._options import check_exists
from jplay.cli._output import status_console

TOKEN_VARIABLE = "JPLAY_APP_TOKEN"


def app(
    scene: Annotated[
        Path | None, typer.Argument(help="Scene or table to open (ENVI, GeoTIFF, CSV, ...).")
    ] = None,
    folder: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder whose files may be opened; repeat it for more. By default that of the "
            "scene, or the current one."
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(help="Folder for labels and results; jplay-app beside the scene by default."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Interface to listen on; any other than this needs the token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE, help="What clients must know; made up for other interfaces."
        ),
    ] = None,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="Maximum size of an upload.")] = 2048,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Fits at the same time; 2 by default.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
):
    """Open a scene or table in the browser: draw polygons, watch the map, export it.

    Everything stays on this machine. Labels are saved as you draw.

    For example:

      jplay app scene.hdr

      jplay app --folder scenes --folder tables
    """
    if scene is not None:
        check_exists(scene, "scene")
    for one in folder or ():
        check_exists(one, "folder")
    from jplay.app import AppSettings, serve

    folders = [*(folder or ()), *([scene.resolve().parent] if scene is not None else ())]
    settings = AppSettings(
        folders=tuple(folders) or (Path.cwd(),),
        workspace=workspace,
        scene=scene,
        host=host,
        port=port,
        token=token or None,
        max_upload=max_upload_mb * 2**20,
        n_workers=workers or min(2, os.cpu_count() or 1),
    )
    console = status_console()

    def ready(address):
        console.print(f"jplay app: {address}", soft_wrap=True, highlight=False)
        console.print("Stop it with Ctrl-C; your labels are saved.", highlight=False)
        if browser:
            import threading
            import webbrowser

            threading.Timer(0.5, webbrowser.open, (address,)).start()

    serve(settings, ready=ready)
