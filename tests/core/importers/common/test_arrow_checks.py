"""Arrow and Parquet files with false offsets, indices and sizes, made by writing over those of sound files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from wdsctl.core import file_limits
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common import arrow, arrow_checks, arrow_messages, parquet_pages

WRITERS = {"stream": ipc.new_stream, "file": ipc.new_file}


def write_arrow(path: Path, table: pa.Table, kind: str = "stream", compression: str | None = None) -> Path:
    with WRITERS[kind](str(path), table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return path


def replace(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


def read_arrow(path: Path) -> list[dict[str, Any]]:
    return [row for batch in arrow.arrow_batches(str(path)) for row in arrow.iter_rows(batch.rows)]


def read_parquet(path: Path) -> list[dict[str, Any]]:
    with arrow.translate_arrow_errors(str(path)):
        file = arrow.open_parquet(str(path))
        return [row for batch in arrow.parquet_batches(file, str(path), 1024) for row in arrow.iter_rows(batch.rows)]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("values", [pa.binary(), pa.string(), pa.list_(pa.int8()), pa.struct([("bytes", pa.binary())])])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_false_offsets_are_refused_before_values_are_read(
    tmp_path: Path, kind: str, values: pa.DataType, place: int
) -> None:
    rows: list[Any] = [b"a" * 7, b"b" * 6, b"c" * 5]
    if pa.types.is_string(values):
        rows = [row.decode() for row in rows]
    elif pa.types.is_struct(values):
        rows = [{"bytes": row} for row in rows]
    elif pa.types.is_list(values):
        rows = [list(row) for row in rows]
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": pa.array(rows, values)}), kind)
    false = [0, 7, 13, 18]
    false[place] = -(4 << 20) if place == 0 else 4 << 20
    replace(path, struct.pack("<4i", 0, 7, 13, 18), struct.pack("<4i", *false))

    with pytest.raises(DatasetError) as caught:
        read_arrow(path)

    assert caught.value.code == "WDS233"


@pytest.mark.parametrize("kind", WRITERS)
def test_false_indices_of_dictionary_are_refused(tmp_path: Path, kind: str) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 1], pa.int32()), ["a", "b"])
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": column}), kind)
    replace(path, struct.pack("<4i", 1, 0, 1, 1), struct.pack("<4i", 1, 0, 1, 1 << 20))

    with pytest.raises(DatasetError, match="damaged"):
        read_arrow(path)


def test_false_batch_before_first_row_to_read_is_not_read(tmp_path: Path) -> None:
    table = pa.table({"x": [b"a" * 7, b"b" * 6, b"c", b"d"]})
    path = tmp_path / "a.arrow"
    with ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    replace(path, struct.pack("<3i", 0, 7, 13), struct.pack("<3i", 0, 7, 13 << 20))

    batches = list(arrow.arrow_batches(str(path), start=2))

    assert [count for count, _ in batches] == [2, 2]
    assert batches[0].rows is None
    assert list(arrow.iter_rows(batches[1].rows)) == [{"x": b"c"}, {"x": b"d"}]


def test_times_out_of_range_stay_as_they_are(tmp_path: Path) -> None:
    column = pa.array([1], pa.int64()).view(pa.date64())  # a thousandth of a second after midnight
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": column}))

    assert len(read_arrow(path)) == 1


@pytest.mark.parametrize("kind", WRITERS)
def test_compressed_buffer_with_too_large_size_is_refused_before_it_is_unpacked(tmp_path: Path, kind: str) -> None:
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": [bytes(100_000)]}), kind, "zstd")
    assert read_arrow(path) == [{"x": bytes(100_000)}]
    zstd = b"(\xb5/\xfd"
    replace(path, struct.pack("<q", 100_000) + zstd, struct.pack("<q", 1 << 40) + zstd)

    with pytest.raises(DatasetError, match="come out of this file"):
        read_arrow(path)


def deep_type(levels: int) -> pa.DataType:
    kind = pa.int8()
    for _ in range(levels):
        kind = pa.struct([("x", kind)])
    return kind


@pytest.mark.parametrize("levels", [70, 400])
def test_deeply_nested_columns_are_refused(tmp_path: Path, levels: int) -> None:
    schema = pa.schema([("x", deep_type(levels))])
    with pytest.raises(ValueError, match="nested deeper"):
        arrow_checks.check_schema(schema)
    with ipc.new_stream(str(tmp_path / "a.arrow"), schema):
        pass

    with pytest.raises(DatasetError) as caught:
        arrow.arrow_schema(str(tmp_path / "a.arrow"))

    assert caught.value.code == "WDS233"


def test_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a.arrow", pa.table({"one_column": [1]}))
    replace(path, b"one_column", b"one\xffcolumn")

    with pytest.raises(DatasetError, match="damaged"):
        arrow.arrow_schema(str(path))


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(50, np.int32)), [b"x" * 1000]),
        pa.ListArray.from_arrays(
            [0, 25, 50], pa.DictionaryArray.from_arrays(pa.array(np.zeros(50, np.int32)), [b"x" * 1000])
        ),
        pa.RunEndEncodedArray.from_arrays(pa.array([50], pa.int32()), pa.array([b"x" * 1000])),
        pa.ListViewArray.from_arrays([0] * 50, [1] * 50, pa.array([b"x" * 1000])),
        pa.array([b"x" * 1000] * 50),
        pa.array([b"x" * 1000] * 50, pa.binary_view()),
        pa.array([[(b"x" * 1000, 1)], [], None] * 50, pa.map_(pa.binary(), pa.int64())),
    ],
    ids=["dictionary", "list", "runs", "views of lists", "plain", "views", "maps"],
)
def test_values_count_as_often_as_they_occur(column: pa.Array) -> None:
    batch = pa.record_batch({"x": column})

    assert 50_000 <= arrow_checks.unpacked_bytes(batch) < 60_000
    assert 1000 <= arrow_checks.unpacked_bytes(batch.slice(0, 1)) <= 26_000


def test_dictionary_with_large_values_is_read_in_small_steps_and_up_to_limit(tmp_path: Path) -> None:
    def write(rows: int) -> Path:
        indices = pa.array(np.zeros(rows, np.int32))
        column = pa.DictionaryArray.from_arrays(indices, pa.array([bytes(2 << 20)]))
        pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", compression="zstd")
        return tmp_path / "a.parquet"

    assert len(read_parquet(write(3))) == 3
    with pytest.raises(DatasetError, match="come out of this file"):
        read_parquet(write(100_000))


def test_dictionary_in_lists_is_not_unpacked_beyond_limit(tmp_path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array([bytes(1 << 20)]))
    column = pa.ListArray.from_arrays([0, 1000], values)
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", compression="zstd", store_schema=False)

    with pytest.raises(DatasetError, match="come out of this file"):
        read_parquet(tmp_path / "a.parquet")


def test_more_rows_of_nulls_than_limit_are_refused_when_file_is_opened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.nulls(300_000, pa.binary())}), tmp_path / "a.parquet")

    with pytest.raises(DatasetError, match="come out of this file"):
        arrow.open_parquet(str(tmp_path / "a.parquet"))


def test_large_file_may_hold_more_than_small_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    (tmp_path / "b").write_bytes(b"")

    assert arrow_checks.allowed_bytes(str(tmp_path / "a")) == 1 << 30
    assert arrow_checks.allowed_bytes(str(tmp_path / "b")) == 256 << 20


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_page_headers_state_what_pages_hold(tmp_path: Path, version: str, compression: str) -> None:
    table = pa.table({"x": [f"text {i % 100}" for i in range(3000)], "y": pa.array(range(3000), pa.int32())})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, data_page_version=version, compression=compression, use_dictionary=["x"])

    with open(path, "rb") as file:
        source = pa.PythonFile(file)
        facts = parquet_pages.read_page_facts(parquet_pages.read_chunk_facts(source)[0], 3000, source, ["y"])

    assert facts.unpacked - 16 * 3000 == pytest.approx(4 * 3000, abs=64)
    assert facts.shared == ()
    assert [row["x"] for row in read_parquet(path)] == table["x"].to_pylist()


def test_page_with_too_large_size_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_limits, "MIN_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [bytes(4 << 20)]}), path, compression="zstd", use_dictionary=False)

    with pytest.raises(DatasetError, match="come out of this file"):
        read_parquet(path)


@pytest.mark.parametrize("data", [b"\xff" * 300, b"\x1c" * 300, b"\x15\x00" * 3 + b"\x19\xfc\xff\xff\xff\xff\x0f"])
def test_damaged_page_header_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"header of a page|metadata are nested"):
        parquet_pages._read_header(pa.BufferReader(data), 0)


def test_footer_states_what_pyarrow_reads_from_it(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    nested = pa.array([{"a.b": [[1], []]}, None, {"a.b": None}])
    table = pa.table({"text": ["one", "two", "two"], "nested": nested, "x": pa.array([1.5, None, 2], pa.float32())})
    pq.write_table(table, path, row_group_size=2, use_dictionary=["text"])
    metadata = pq.ParquetFile(path).metadata

    with open(path, "rb") as file:
        chunks = parquet_pages.read_chunk_facts(pa.PythonFile(file))

    for group, found in enumerate(chunks):
        known = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
        assert [(each.path, each.values) for each in found] == [
            (each.path_in_schema, each.num_values) for each in known
        ]
        first = [each.dictionary_page_offset or each.data_page_offset for each in known]
        assert [each.first_page for each in found] == first
        assert [each.kind == parquet_pages._BYTE_ARRAY for each in found] == [
            each.physical_type == "BYTE_ARRAY" for each in known
        ]


def test_wrong_statistics_do_not_end_the_process(tmp_path: Path) -> None:
    """pyarrow's function for the columns of a row group throws an exception in C++ that nothing catches."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": ["one", None]}), path, use_dictionary=False)
    data = path.read_bytes()
    optional = b"%\x02\x18\x01x"  # of the column in the schema; a column without nulls has other statistics
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, b"%\x00\x18\x01x"))

    with pytest.raises(DatasetError):
        read_parquet(path)


def test_false_offset_of_list_without_values_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    inner = pa.ListArray.from_buffers(
        pa.list_(pa.string()),
        0,
        [None, pa.array([1 << 21, 0], pa.int32()).buffers()[1]],
        children=[pa.array([], pa.string())],
    )
    outer = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), inner)
    with pa.ipc.new_stream(path, pa.schema([("x", outer.type)])) as writer:
        writer.write_batch(pa.record_batch({"x": outer}))

    assert [list(arrow.iter_rows(batch.rows)) for batch in arrow.arrow_batches(str(path))] == [[{"x": []}]]


def test_parquet_with_false_number_of_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": list(range(1234))}), path)
    data, rows = path.read_bytes(), b"\x16\xa4\x13"  # 1234 as a field of Thrift, of the file and of its row group
    at = data.index(rows, data.index(b"schema"))
    path.write_bytes(data[:at] + b"\x16\xa6\x13" + data[at + 3 :])

    with pytest.raises(DatasetError, match="damaged"):
        read_parquet(path)


@pytest.mark.parametrize("kind", WRITERS)
def test_offsets_changed_after_check_are_not_read(tmp_path: Path, kind: str) -> None:
    """Another program writes into the file while its rows are read."""
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": [b"a" * 7, b"b" * 6, b"c" * 5]}), kind)
    batch = next(arrow.arrow_batches(str(path)))

    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(struct.pack("<4i", 0, 7, 13, 18)))
        file.write(struct.pack("<4i", 0, 4 << 20, 13, 18))

    assert [row["x"] for row in arrow.iter_rows(batch.rows)] == [b"a" * 7, b"b" * 6, b"c" * 5]


@pytest.mark.parametrize("kind", WRITERS)
def test_batches_of_file_have_their_dictionaries(tmp_path: Path, kind: str) -> None:
    columns = [pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), [name, "z"]) for name in "ab"]
    table = pa.table({"x": columns[0], "y": columns[1], "z": pa.array([1, 2])})
    path = tmp_path / "a.arrow"
    with WRITERS[kind](str(path), table.schema) as writer:
        for _ in range(3):
            writer.write_table(table)

    batches = list(arrow.arrow_batches(str(path), start=4))

    assert [(count, rows is None) for count, rows in batches] == [(4, True), (2, False)]
    assert list(arrow.iter_rows(batches[1].rows)) == [{"x": "z", "y": "z", "z": 1}, {"x": "a", "y": "b", "z": 2}]


@pytest.mark.parametrize("kind", WRITERS)
def test_record_batch_of_a_hole_is_refused(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": [bytes(2 << 20)]}), kind)
    monkeypatch.setattr(arrow_messages, "MAX_BODY_BYTES", 1 << 20)

    with pytest.raises(DatasetError, match="a record batch has") as caught:
        read_arrow(path)

    assert "WDSCTL_LIMIT_FACTOR" in caught.value.hint


@pytest.mark.parametrize(("kind", "cut"), [("stream", 8), ("stream", 9), ("stream", 400), ("file", 6), ("file", 300)])
def test_truncated_file_is_refused(tmp_path: Path, kind: str, cut: int) -> None:
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": [bytes(1000)]}), kind)
    path.write_bytes(path.read_bytes()[:-cut])

    with pytest.raises(DatasetError, match="damaged or truncated"):
        read_arrow(path)
