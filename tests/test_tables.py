"""The one reader of tables."""

import tracemalloc
import zipfile

import numpy as np
import pytest

from jplay.tables import check_table_path, iter_table, read_frame, read_table, write_columns

pandas = pytest.importorskip("pandas", reason="tables with columns need pandas")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(6, 3)), columns=["red", "green", "blue"])
    return frame.assign(label=["oak", "ash"] * 3)


def save(frame, path):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "parquet"])
@pytest.mark.parametrize("target", ["label", ["label"], None])
def test_columns_of_every_format_are_the_same_samples(frame, tmp_path, suffix, target):
    table = read_table(save(frame, tmp_path / f"own.{suffix}"), target=target)
    np.testing.assert_allclose(table.X, frame[["red", "green", "blue"]], rtol=1e-15)
    assert table.y.tolist() == ["oak", "ash"] * 3
    assert table.feature_names == ["red", "green", "blue"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "xlsx"])
def test_frame_has_every_column_of_every_format(frame, tmp_path, suffix):
    path = tmp_path / f"own.{suffix}"
    if suffix == "xlsx":
        pytest.importorskip("openpyxl", reason="Excel files need openpyxl")
        frame.to_excel(path, index=False)
    else:
        save(frame, path)
    read = read_frame(path)
    assert list(read) == ["red", "green", "blue", "label"]
    np.testing.assert_allclose(read[["red", "blue"]].astype(float), frame[["red", "blue"]])
    assert read["label"].tolist() == ["oak", "ash"] * 3


def test_frame_of_arrays_or_without_rows(tmp_path):
    np.savez(tmp_path / "own.npz", X=np.eye(2), y=[3, 4])
    assert read_frame(tmp_path / "own.npz").to_dict("list") == {
        "0": [1.0, 0.0],
        "1": [0.0, 1.0],
        "target": [3, 4],
    }
    (tmp_path / "own.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="has no rows"):
        read_frame(tmp_path / "own.csv")


def test_no_target_and_chosen_features(frame, tmp_path):
    path = save(frame, tmp_path / "own.csv")
    table = read_table(path, target=(), feature_names=["blue", "red"])
    assert table.y is None
    assert list(table.X) == ["blue", "red"]


def test_several_targets_are_a_table_of_zeros_and_ones(frame, tmp_path):
    frame = frame.drop(columns="label").assign(wet=[0, 1] * 3, tall=[1.0] * 6)
    path = save(frame, tmp_path / "own.csv")
    np.testing.assert_array_equal(
        read_table(path, target=["wet", "tall"]).y, np.column_stack([[0, 1] * 3, [1] * 6])
    )
    with pytest.raises(ValueError, match="Several targets should hold 0 and 1"):
        read_table(path, target=["wet", "red"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0, 2.0], [1, 2, 2]),
        ([True, False, True], [True, False, True]),
        ([0.5, 1.5, 1.5], ["0.5", "1.5", "1.5"]),
        (["a", "b", "b"], ["a", "b", "b"]),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_labels_are_whole_numbers_or_text(tmp_path, values, expected, suffix):
    path = tmp_path / f"own.{suffix}"
    if suffix == "csv":
        save(pandas.DataFrame({"x": [1, 2, 3], "y": values}), path)
    else:
        np.savez(path, X=np.eye(3), y=values)
    assert read_table(path, target="y").y.tolist() == expected


@pytest.mark.parametrize(
    ("target", "hint"),
    [("lable", "Did you mean 'label'?"), ("Label", "Did you mean 'label'?"), ("zzz", "")],
)
def test_misspelt_target_names_the_nearest_column(frame, tmp_path, target, hint):
    with pytest.raises(ValueError, match=f"has no column '{target}'") as caught:
        read_table(save(frame, tmp_path / "own.csv"), target=target)
    assert ("Did you mean" in str(caught.value)) == bool(hint)
    assert hint in str(caught.value)


def test_long_lists_of_columns_are_cut(tmp_path):
    wide = pandas.DataFrame(np.ones((2, 300)), columns=[f"band_{i}" for i in range(300)])
    path = save(wide, tmp_path / "wide.csv")
    with pytest.raises(ValueError, match="and 292 more") as caught:
        read_table(path, target="species")
    assert len(str(caught.value)) < 300
    wanted = [f"wave_{i}" for i in range(40)]
    with pytest.raises(ValueError, match=r"no columns 'wave_0', .* and 32 more"):
        read_table(path, target=(), feature_names=wanted)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,x\n,y\n", "Column 'a' .* lacks 1 of 2 values"),
        ("a,b\n1,\n2,y\n", "Column 'b' .* lacks 1 of 2 values"),
        ("a,b\n", "no rows"),
        ("b\nx\n", "beside the target"),
        ("a,b\nred,x\n", "should hold numbers, found 'red'"),
        ("a,b\n1.5,x\nred,y\n", "should hold numbers, found 'red'"),
        ("a,b\n1,x\n2,y,3\n", "in line 3, saw 3.*as many fields as the first"),
    ],
)
def test_tables_with_gaps_are_refused(tmp_path, content, message):
    (tmp_path / "own.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "own.csv", target="b")


@pytest.mark.parametrize("suffix", ["npz", "mat"])
def test_arrays_are_found_by_customary_names_by_name_or_as_the_only_table(tmp_path, suffix):
    from scipy.io import savemat

    def store(**arrays):
        path = tmp_path / f"own.{suffix}"
        if suffix == "mat":
            savemat(path, arrays)
        else:
            np.savez(path, **arrays)
        return path

    X, y = np.arange(12).reshape(4, 3), np.array([1, 1, 2, 2])
    for arrays in ({"fea": X, "gnd": y}, {"data": X, "labels": y}, {"spectra": X, "target": y}):
        table = read_table(store(**arrays, other=np.ones((4, 1))))
        np.testing.assert_array_equal(table.X, X)
        assert table.X.dtype == np.float64
        assert table.y.tolist() == [1, 1, 2, 2]
    path = store(one=X, two=2 * X, kind=y)
    np.testing.assert_array_equal(read_table(path, target="kind", samples="two").X, 2 * X)
    with pytest.raises(ValueError, match=r"its tables are 'one', 'two'\. Name one"):
        read_table(path, target="kind")
    with pytest.raises(ValueError, match=r"no array 'kinds'\. Did you mean 'kind'"):
        read_table(path, target="kinds")
    with pytest.raises(ValueError, match="no array 'y'"):
        read_table(path)


def test_division_of_a_file_is_kept(tmp_path):
    path = tmp_path / "own.npz"
    X, y = np.arange(12.0).reshape(4, 3), np.array(["a", "b", "a", "b"])
    np.savez(path, X_train=X[:3], y_train=y[:3], X_test=X[3:], y_test=y[3:])
    table = read_table(path)
    assert table.n_train == 3
    np.testing.assert_array_equal(table.X, X)
    assert table.y.tolist() == y.tolist()
    assert read_table(path, target="y_train", samples="X_train").n_train is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((3, 2)), "y": [1, 2]}, "3 samples and 2 targets"),
        ({"X": np.ones((3, 2)), "y": [1.0, 2.0, np.nan]}, "lacks some values"),
        ({"X": np.array([["a", "b"]] * 3), "y": [1, 2, 3]}, "a table of numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "own.npz", target="y")


def test_other_files_are_refused_before_they_are_read(tmp_path):
    with pytest.raises(ValueError, match=r"saved as \.xlsx, CSV or Parquet first"):
        check_table_path(tmp_path / "own.ods")
    with pytest.raises(ValueError, match="should be a table"):
        check_table_path(tmp_path / "own.tif")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        check_table_path(tmp_path / "own.csv")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npz"])
def test_written_columns_are_read_again(tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / f"out.{suffix}"
    write_columns(path, {"X": np.array([0.5, 1.5]), "y": np.array([3, 4])})
    if suffix == "npz":
        with np.load(path) as arrays:
            assert arrays["y"].tolist() == [3, 4]
    else:
        table = read_table(path, target="y")
        assert table.y.tolist() == [3, 4]
        assert table.X["X"].tolist() == [0.5, 1.5]


def _bomb(path):
    """Write a small file with a table that takes hundreds of megabytes."""
    if path.suffix == ".npz":
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("X.npy", "w") as file,
        ):
            header = {"descr": "<f8", "fortran_order": False, "shape": (300, 2**17)}
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(300):
                file.write(bytes(2**20))
    elif path.suffix == ".mat":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("X", (2**15, 2**13), dtype="f8", chunks=True)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow = pytest.importorskip("pyarrow")
        column = pyarrow.array(np.zeros(2**20))
        table = pyarrow.table({f"c{i}": column for i in range(64)})
        parquet.write_table(table, path)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".parquet"])
def test_table_that_fills_the_memory_is_refused_unread(tmp_path, suffix):
    path = tmp_path / f"bomb{suffix}"
    _bomb(path)
    assert path.stat().st_size < 2**23
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="unpacks to"):
            read_table(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_array_with_a_false_header_is_refused(tmp_path):
    path = tmp_path / "false.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("X.npy", "w") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2**15, 2**13)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match="header promises"):
        read_table(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_table_of_a_million_columns_is_refused_by_its_first_line(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("pandas.read_csv", None)  # it would take minutes
    path = tmp_path / f"wide{suffix}"
    line = ("1," if suffix == ".csv" else "1\t") * 1_000_000 + "1\n"
    path.write_text(2 * line)
    with pytest.raises(ValueError, match=r"1000001 columns.*NPZ"):
        read_table(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz"])
def test_written_text_is_no_formula_of_a_spreadsheet(tmp_path, suffix):
    names = ["=cmd|' /C calc'!A0", "@SUM(1)", "+a", "-a", "-1.5", "oak"]
    path = tmp_path / f"found{suffix}"
    write_columns(path, {"prediction": names, "score": [-1.0] * 6})
    if suffix == ".npz":
        found = np.load(path)["prediction"].tolist()
    elif suffix == ".parquet":
        found = pandas.read_parquet(path)["prediction"].tolist()
    else:
        lines = path.read_text().splitlines()[1:]
        found = [line.split("," if suffix == ".csv" else "\t")[0] for line in lines]
    if suffix in (".csv", ".tsv"):
        assert found == [f"'{name}" for name in names[:4]] + names[4:]
    else:
        assert found == names


ROWS = [("1.5", "2", "oak"), ("3.25", "4", "ash"), ("-5.125", "6", "oak")]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_decimals_and_byte_order_marks_are_found(tmp_path, separator, decimal, encoding):
    def cell(text):
        text = text.replace(".", decimal)
        return f'"{text}"' if separator in text else text

    lines = [separator.join(map(cell, row)) for row in [("größe", "b", "label"), *ROWS]]
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    table = read_table(path, target="label")
    assert table.feature_names == ["größe", "b"]
    assert table.X["größe"].tolist() == [1.5, 3.25, -5.125]
    assert table.y.tolist() == ["oak", "ash", "oak"]
    told = " ".join(table.notes)
    assert ("decimal commas" in told) == (decimal == "," and separator != ",")


def test_text_that_is_not_utf8_is_read_and_told(tmp_path):
    (tmp_path / "own.csv").write_bytes("a,b,grün\n1,2,größer\n3,4,kleiner\n".encode("cp1252"))
    table = read_table(tmp_path / "own.csv", target="grün")
    assert table.y.tolist() == ["größer", "kleiner"]
    assert "Windows-1252" in table.notes[0]


def test_bytes_of_no_known_encoding_are_refused(tmp_path):
    (tmp_path / "own.csv").write_bytes(b"a,b,label\n1,2,\x81\n3,4,y\n")
    with pytest.raises(ValueError, match="Save it as UTF-8"):
        read_table(tmp_path / "own.csv", target="label")


def test_index_column_of_pandas_is_left_out_and_told(frame, tmp_path):
    frame.to_csv(tmp_path / "own.csv")
    table = read_table(tmp_path / "own.csv", target="label")
    assert table.feature_names == ["red", "green", "blue"]
    assert "no name" in table.notes[0]
    frame.rename_axis("row").reset_index().to_csv(tmp_path / "named.csv", index=False)
    table = read_table(tmp_path / "named.csv", target="label")
    assert "row" in table.feature_names
    assert "'row' numbers the rows" in table.notes[0]
    assert not read_table(tmp_path / "named.csv", target="label", ids=["row"]).notes


@pytest.mark.parametrize(
    "content",
    ['"a","b","label"\n"r1",1,2,"x"\n"r2",3,4,"y"\n', "a,b,label,\n1,2,x,\n3,4,y,\n"],
)
def test_row_names_without_title_and_separators_at_the_end(tmp_path, content):
    (tmp_path / "own.csv").write_text(content)
    table = read_table(tmp_path / "own.csv", target="label")
    assert table.feature_names == ["a", "b"]
    assert table.X.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_ids_groups_and_dropped_columns_are_no_features(frame, tmp_path):
    frame = frame.assign(person=list("aabbcc"), name=[f"s{i}" for i in range(6)], remark="x")
    table = read_table(
        save(frame, tmp_path / "own.csv"),
        target="label",
        group="person",
        ids=["name"],
        drop=["remark"],
    )
    assert table.feature_names == ["red", "green", "blue"]
    assert table.groups.tolist() == list("aabbcc")
    assert table.ids["name"].tolist() == frame["name"].tolist()
    with pytest.raises(ValueError, match="Did you mean 'person'"):
        read_table(tmp_path / "own.csv", target="label", group="persn")


def test_text_is_refused_by_name_unless_it_is_to_be_encoded(frame, tmp_path):
    path = save(frame.assign(colour=["red", "blue"] * 3, site="a"), tmp_path / "own.csv")
    with pytest.raises(ValueError, match=r"2 columns \('colour', 'site'\) .*--encode 'colour'"):
        read_table(path, target="label")
    table = read_table(path, target="label", encode=["colour"], drop=["site"])
    assert table.X["colour"].tolist() == ["red", "blue"] * 3


def test_missing_values_pass_if_they_are_to_be_filled(frame, tmp_path):
    frame.loc[2, "red"] = np.nan
    path = save(frame, tmp_path / "own.csv")
    with pytest.raises(ValueError, match=r"lacks 1 of 6 values.*--impute median"):
        read_table(path, target="label")
    assert read_table(path, target="label", allow_missing=True).X["red"].isna().sum() == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,a,label\n1,2,x\n3,4,y\n", "more than one column 'a'"),
        ("a,label\n1,x\n2,inf\n", "a class 'inf'"),
        ("a,label\n1,1\n2,inf\n", "a class 'inf'"),
        ("a,label\n1,x\ninf,y\n", "Column 'a' .* infinite"),
        ("", "is empty"),
        ("a,b,label\n1,2,x\n1,2,3,y\n", "cannot be read"),
    ],
)
def test_ambiguous_tables_are_refused(tmp_path, content, message):
    (tmp_path / "own.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "own.csv", target="label")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "xlsx"])
def test_parts_of_a_file_are_the_whole(tmp_path, suffix):
    if suffix == "xlsx":
        pytest.importorskip("openpyxl", reason="Excel needs openpyxl")
    path = tmp_path / f"own.{suffix}"
    n_rows = write_columns(
        path,
        ({"a": np.arange(3.0) + 10 * k, "b": np.ones(3), "n": np.arange(3)} for k in range(4)),
    )
    assert n_rows == 12
    if suffix == "npz":
        np.savez(path, X=np.arange(24.0).reshape(12, 2), n=np.arange(12))
    whole = read_table(path, target="n")
    parts = list(iter_table(path, target="n", n_rows=5))
    assert [len(part.X) for part in parts] == ([12] if suffix == "xlsx" else [5, 5, 2])
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), whole.X)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)


def test_excel_is_read_like_text(frame, tmp_path):
    pytest.importorskip("openpyxl", reason="Excel needs openpyxl")
    frame.to_excel(tmp_path / "own.xlsx")
    table = read_table(tmp_path / "own.xlsx", target="label")
    np.testing.assert_allclose(table.X, frame[["red", "green", "blue"]])
    assert table.y.tolist() == ["oak", "ash"] * 3
    assert "no name" in table.notes[0]
