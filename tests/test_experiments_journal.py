import json

import pytest

from jplay.experiments._journal import Journal, content_key, exclusive


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "deep" / "records.jsonl")


def test_records_keep_order_and_name_the_environment(journal):
    for number in range(3):
        journal.append({"key": str(number), "status": "done", "result": number})
    read = journal.read()
    assert [r["result"] for r in read] == [0, 1, 2]
    assert read[0]["environment"]["packages"]["numpy"]
    assert len(read[0]["environment"]["code"]) == 16
    assert read[0]["time"].endswith("+00:00")


def test_records_of_a_line_cut_off_by_a_kill_are_ignored_and_later_ones_are_whole(journal):
    journal.append({"key": "a", "status": "done"})
    whole = journal.path.read_text()
    journal.path.write_text(whole + whole[: len(whole) // 2])
    journal.append({"key": "b", "status": "done"})
    assert [r["key"] for r in journal.read()] == ["a", "b"]
    assert journal.path.read_text().startswith(whole), "records are only ever appended"


def test_records_a_failure_is_no_result_and_is_cleared_by_one(journal):
    journal.append({"key": "a", "status": "failed", "error": "first"})
    journal.append({"key": "a", "status": "failed", "error": "second"})
    assert journal.done() == {}
    assert journal.failures()["a"]["error"] == "second"
    journal.append({"key": "a", "status": "done"})
    assert list(journal.done()) == ["a"]
    assert journal.failures() == {}
    assert journal.times_done() == {"a": 1}


def test_records_that_are_dropped_no_longer_count_but_stay(journal):
    journal.append({"key": "a", "status": "done", "result": 1})
    journal.append({"key": "b", "status": "done", "result": 2})
    journal.append({"key": "c", "status": "failed", "error": "no"})
    journal.drop(["a", "c", "unknown"])
    assert list(journal.done()) == ["b"]
    assert journal.failures() == {}
    assert len(journal.read()) == 5, "nothing is noted of a key without a record"
    journal.append({"key": "a", "status": "done", "result": 3})
    assert journal.done()["a"]["result"] == 3
    assert journal.times_done() == {"a": 1, "b": 1}


def test_records_refuse_numbers_that_json_has_not(journal):
    with pytest.raises(ValueError, match="JSON"):
        journal.append({"key": "a", "status": "done", "result": float("nan")})
    assert journal.read() == []


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
