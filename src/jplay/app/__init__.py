"""``jplay app``: open a scene or a table in the browser, label, fit, inspect and export.

A server (Starlette) on the loopback interface and one page without build step. Needs the extra
``app``.

>>> from jplay.app import AppSettings, serve  # doctest: +SKIP
>>> serve(AppSettings(folders=["scenes"]))  # doctest: +SKIP
"""

from jplay.app._server import create_app, serve
from jplay.app._settings import AppSettings

__all__ = ["AppSettings", "create_app", "serve"]
