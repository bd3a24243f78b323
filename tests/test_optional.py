"""Hints that name a command which works where jplay is installed from."""

import importlib.metadata
import json

import pytest

from jplay import _optional
from jplay._optional import import_optional, install_command
from jplay.exceptions import MissingDependencyError


class Installed:
    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"url": "file:///home/me/jplay", "dir_info": {}}, "pip install '/home/me/jplay[table]'"),
        (
            {"url": "file:///my%20work/jplay", "dir_info": {"editable": True}},
            "pip install -e '/my work/jplay[table]'",
        ),
        ({"url": "file:///gone/jplay-1-py3-none-any.whl"}, "pip install 'jplay[table]'"),
        ({"url": "https://host/jplay.git"}, "pip install 'jplay[table] @ https://host/jplay.git'"),
    ],
)
def test_hint_names_where_the_package_came_from(monkeypatch, origin, expected):
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(origin))
    assert install_command("table") == expected


def test_package_from_an_index_is_named_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(None))
    monkeypatch.setattr(_optional, "__file__", str(tmp_path / "lib" / "jplay" / "_optional.py"))
    assert install_command("table") == "pip install 'jplay[table]'"


def test_missing_package_names_its_extra_and_the_one_for_everything():
    with pytest.raises(MissingDependencyError, match="Reading tables needs") as caught:
        import_optional("no_such_package", feature="Reading tables", extra="table")
    assert install_command("table") in str(caught.value)
    assert install_command("all") in str(caught.value)
