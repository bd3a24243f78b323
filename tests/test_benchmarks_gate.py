"""The gate on speed lets equal speed pass and stops what got slower."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def gate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        spec = importlib.util.spec_from_file_location("gate", BENCHMARKS / "gate.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        sys.modules.pop("run", None)


@pytest.fixture
def run_gate(gate, monkeypatch, tmp_path, capsys):
    """Run the gate on two cases whose times are given instead of measured."""

    def run(times, recorded):
        taken = {name: iter(rows) for name, rows in times.items()}
        monkeypatch.setattr(gate, "CASES", {name: lambda name=name: (name, None) for name in times})
        monkeypatch.setattr(gate, "measure", lambda name, _: next(taken[name]))
        path = tmp_path / "recorded.json"
        path.write_text(json.dumps({"cases": {k: {"ratio": v} for k, v in recorded.items()}}))
        status = gate.main(["--against", str(path)])
        return status, capsys.readouterr().out

    return run


def test_gate_passes_what_is_as_fast_as_recorded(run_gate):
    status, output = run_gate({"fit": [(3.0, 1.0)], "map": [(1.4, 1.0)]}, {"fit": 3.0, "map": 1.0})
    assert status == 0
    assert "More than" not in output
    assert output.splitlines()[1].split() == ["fit", "3.000", "3.000", "1.00"]


def test_gate_names_only_what_got_more_than_half_slower(run_gate):
    status, output = run_gate(
        {"fit": [(3.1, 1.0)] * 4, "map": [(1.0, 1.0)]}, {"fit": 2.0, "map": 1.0}
    )
    assert status == 1
    complaint = output.partition("More than 1.5 times")[2].splitlines()
    assert [line.split() for line in complaint[2:]] == [["fit", "2.000", "3.100", "1.55"]]


def test_gate_measures_again_before_it_complains(run_gate):
    status, output = run_gate({"fit": [(9.0, 1.0), (9.0, 1.0), (2.1, 1.0)]}, {"fit": 2.0})
    assert status == 0
    assert output.splitlines()[1].split() == ["fit", "2.000", "2.100", "1.05"]


def test_gate_does_not_pass_a_case_that_was_never_recorded(run_gate):
    status, output = run_gate({"new": [(1.0, 1.0)] * 4}, {})
    assert status == 1
    assert "new" in output.partition("More than")[2]


def test_recorded_file_has_every_case_of_the_gate(gate):
    recorded = json.loads(gate.RECORDED.read_text())["cases"]
    assert recorded.keys() == gate.CASES.keys()
    for case in recorded.values():
        assert case["ratio"] == pytest.approx(case["seconds"] / case["reference_seconds"])


@pytest.mark.slow
def test_every_case_of_the_gate_can_be_measured(gate):
    for make in gate.CASES.values():
        work, reference = make()
        work()
        reference()
