import json

import pytest

from jplay.experiments.records import RecordFile, content_key, exclusive


@pytest.fixture
def records(tmp_path):
    return RecordFile(tmp_path / "deep" / "records.jsonl")


def test_records_keep_order_and_name_the_environment(records):
    for number in range(3):
        records.append({"key": str(number), "status": "done", "result": number})
    read = records.read()
    assert [r["result"] for r in read] == [0, 1, 2]
    assert read[0]["environment"]["packages"]["numpy"]
    assert len(read[0]["environment"]["code"]) == 16
    assert read[0]["time"].endswith("+00:00")


def test_records_of_a_line_cut_off_by_a_kill_are_ignored_and_later_ones_are_whole(records):
    records.append({"key": "a", "status": "done"})
    whole = records.path.read_text()
    records.path.write_text(whole + whole[: len(whole) // 2])
    records.append({"key": "b", "status": "done"})
    assert [r["key"] for r in records.read()] == ["a", "b"]
    assert records.path.read_text().startswith(whole), "records are only ever appended"


def test_records_a_failure_is_no_result_and_is_cleared_by_one(records):
    records.append({"key": "a", "status": "failed", "error": "first"})
    records.append({"key": "a", "status": "failed", "error": "second"})
    assert records.done() == {}
    assert records.failures()["a"]["error"] == "second"
    records.append({"key": "a", "status": "done"})
    assert list(records.done()) == ["a"]
    assert records.failures() == {}
    assert records.times_done() == {"a": 1}


def test_records_refuse_numbers_that_json_has_not(records):
    with pytest.raises(ValueError, match="JSON"):
        records.append({"key": "a", "status": "done", "result": float("nan")})
    assert records.read() == []


def test_content_key_depends_on_content_alone():
    assert content_key({"a": [1, {"b": 2.0}]}) == content_key(json.loads('{"a": [1, {"b": 2.0}]}'))
    assert content_key({"a": 1}) != content_key({"a": 2})


def test_a_folder_is_held_by_one_run_and_free_afterwards(tmp_path):
    pytest.importorskip("fcntl", reason="file locks of this kind exist on Unix alone")
    with (
        exclusive(tmp_path),
        pytest.raises(ValueError, match="another run"),
        exclusive(tmp_path),
    ):
        pass
    with exclusive(tmp_path):
        pass
