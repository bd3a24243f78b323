"""Some cases of the harness, and the harness itself."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas", reason="attacked tables need pandas")
pytest.importorskip("skops", reason="attacked models need skops")
if sys.platform == "win32":
    pytest.skip("the harness forks", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz import crowds, files, processes
from fuzz.__main__ import KINDS, cases, main, run_case
from fuzz.judging import DEFECT, REFUSED, RIGHT, Wrong, check, judged

SEED = 1


@pytest.fixture(scope="module", autouse=True)
def folder():
    yield
    processes.clean_up()


def _outcomes(kind, numbers):
    records = [run_case(kind, number, SEED) for number in numbers]
    assert [r for r in records if r["verdict"] == DEFECT] == []
    return [r["verdict"] for r in records]


def test_fits_are_right_or_refused():
    assert {RIGHT, REFUSED} <= set(_outcomes("fit", range(50)))


@pytest.mark.parametrize("kind", ["model", "table", "recipe", "run", "image"])
def test_files_are_refused_or_harmless(kind):
    if kind == "run":
        pytest.importorskip("jinja2", reason="runs become pages")
    if kind == "image":
        pytest.importorskip("rasterio", reason="images need the extra raster")
        pytest.importorskip("spectral", reason="images need the extra raster")
    assert REFUSED in _outcomes(kind, range(40))


@pytest.mark.parametrize("kind", ["kill", "full disk", "read-only", "twice"])
def test_commands_survive(kind, monkeypatch):
    for package in ("typer", "rasterio", "spectral", "jinja2"):
        pytest.importorskip(package, reason="commands are attacked")
    quick = {name: processes._commands()[name] for name in ("fit", "predict", "map")}
    monkeypatch.setattr(processes, "_commands", lambda: quick)
    assert _outcomes(kind, range(3)) == [RIGHT] * 3


def test_many_threads_can_ask_one_model():
    assert _outcomes("soak", [0]) == [RIGHT]


def test_an_outcome_is_right_a_clear_error_or_a_defect():
    def raising(error):
        raise error

    assert judged(lambda: "fine").verdict == RIGHT
    for error in (ValueError("`alpha` should be above 0"), OSError("disk full"), TypeError("no")):
        assert judged(lambda error=error: raising(error)).verdict == REFUSED
    for error in (
        np.linalg.LinAlgError("SVD did not converge"),
        KeyError("x"),
        ZeroDivisionError("x"),
        ValueError(""),
        Wrong("not finite"),
    ):
        assert judged(lambda error=error: raising(error)).verdict == DEFECT
    with pytest.raises(Wrong):
        check(False, "no")


def test_harness_finds_a_defect(monkeypatch):
    def broken(path, **options):
        raise IndexError("list index out of range")

    monkeypatch.setattr("jplay.tables.read_table", broken)
    assert run_case("table", 0, SEED)["verdict"] == DEFECT


def test_cases_repeat_and_cover_every_kind():
    wanted = cases(20_000, list(KINDS))
    assert {kind for kind, _ in wanted} == set(KINDS)
    assert abs(len(wanted) - 20_000) < 20
    first, again = (run_case("table", 3, SEED) for _ in range(2))
    assert (first["verdict"], first["note"]) == (again["verdict"], again["note"])


def test_run_goes_on_where_it_stopped(tmp_path, capsys):
    output = tmp_path / "fuzz.jsonl"
    options = ["--seed", "3", "--kind", "recipe", "--jobs", "1", "--output", str(output)]
    assert main([*options, "--cases", "10"]) == 0
    with output.open("a") as file:
        file.write('{"kind": "recipe", "numb')  # a run that was killed
    assert main([*options, "--cases", "25"]) == 0
    assert "25 cases, 10 of them done before" in capsys.readouterr().out
    lines = [json.loads(line) for line in output.read_text().splitlines() if line.endswith("}")]
    assert sorted(line["number"] for line in lines) == list(range(25))


def test_damage_is_damage():
    rng = np.random.default_rng(0)
    content = bytes(range(256)) * 4
    changed = [files.damaged(rng, content) != content for _ in range(50)]
    assert sum(changed) > 45
    assert crowds.N_THREADS == 200
