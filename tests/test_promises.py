"""Every promise names a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "promises.md"
ROW = re.compile(r"^\| (?!promise|file|---)(.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/test_\w+\.py)::(test_\w+)`")


def test_every_promise_names_a_test_that_exists():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 25
    for row in rows:
        named = TEST.findall(row)
        assert named, f"no test for: {row}"
        for path, name in named:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in found, f"{path} has no {name}"
