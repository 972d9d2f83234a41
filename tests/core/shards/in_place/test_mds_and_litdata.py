"""MDS shards and LitData chunks read in place: positions of values, and refused files."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.formats import read_samples, write_unit
from tests.in_place import mds_shard, write_litdata, write_mds
from wdsctl.core.shards.list import ShardFile, list_shards
from wdsctl.core.shards.scan_unit import scan_file
from wdsctl.core.shards.shard_scan import ShardScan

FORMS = Path(__file__).parents[3] / "golden" / "forms"
TEXTS = {"text": "str"}


def scan_path(path: Path, root: Path | None = None) -> ShardScan:
    status = path.stat()
    root = root or path.parent
    return scan_file(str(root), ShardFile(str(path.relative_to(root)), status.st_size, status.st_mtime_ns))


def samples_of(path: Path, root: Path | None = None) -> dict[str, dict[str, bytes]]:
    """Key -> part -> the bytes at the offset that the scan gives."""
    scan, data = scan_path(path, root), path.read_bytes()
    assert scan.status == "ok", scan.findings
    found, at = {}, 0
    for key, count in zip(scan.decode_keys(), scan.counts.tolist(), strict=True):
        rows = range(at, at + count)
        starts = [int(scan.part_offsets[i]) for i in rows]
        assert starts == sorted(starts), "the parts of a sample are in the order of their offsets"
        found[key] = {
            scan.extensions[scan.part_names[i]]: data[start : start + int(scan.part_sizes[i])]
            for i, start in zip(rows, starts, strict=True)
        }
        at += count
    return found


def scan_error(path: Path, root: Path | None = None) -> tuple[str, str]:
    scan = scan_path(path, root)
    # Another index.json may make a chunk of LitData readable: the next run scans it again.
    assert (scan.status, scan.samples) == ("unreadable" if path.suffix == ".bin" else "bad", 0)
    [finding] = scan.findings
    return finding.code, finding.message


def test_parts_of_mosaicml_shards_equal_importer_values() -> None:
    converted = read_samples(FORMS / "mds")

    found = {
        key: parts
        for name in ("00000", "00001")
        for key, parts in samples_of(FORMS / "mds" / f"shard.{name}.mds").items()
    }

    assert list(found) == list(converted)
    for key, parts in found.items():
        fields = json.loads(converted[key]["json"])
        assert parts["image.jpg"] == converted[key]["image.jpg"]
        assert parts["raw.bin"] == converted[key]["raw.bin"]
        assert parts["caption.txt"].decode() == fields["caption"]
        assert json.loads(parts["meta.json"]) == fields["meta"]
        assert struct.unpack("<q", parts["label.int64"])[0] == fields["label"]
        assert sorted(parts) == [
            "caption.txt", "grid.uint8x2x3", "image.jpg", "label.int64", "meta.json", "pixels.pil", "raw.bin",
            "row.mdsarray", "score.float32",
        ]  # fmt: skip


def test_parts_of_litdata_chunks_equal_importer_values() -> None:
    converted = read_samples(FORMS / "litdata")

    found = {key: parts for i in range(3) for key, parts in samples_of(FORMS / "litdata" / f"chunk-0-{i}.bin").items()}

    assert list(found) == list(converted)
    for key, parts in found.items():
        fields = json.loads(converted[key]["json"])
        assert parts["image.jpg"] == converted[key]["image.jpg"]
        assert parts["caption.txt"].decode() == fields["caption"]
        assert struct.unpack("<d", parts["score.float64"])[0] == fields["score"]
        assert set(parts) == {
            "image.jpg", "caption.txt", "label.int64", "score.float64", "is_good.bool", "row.int16xn", "grid.litarray",
            "raw.bin", "box.litjson",
        }  # fmt: skip


def test_mds_bytes_column_is_named_by_content_of_each_value(tmp_path: Path) -> None:
    values = [b"\xff\xd8\xff\xe0" + bytes(20), b"\x89PNG\r\n\x1a\n" + bytes(20), b"text", b"\xff\xd8\xff", b""]
    write_mds(tmp_path, {"data": "bytes", "n": "int"}, [[{"data": each, "n": bytes(8)} for each in values]], {"n": 8})

    found = samples_of(tmp_path / "shard.00000.mds")

    assert [next(iter(parts)) for parts in found.values()] == [
        "data.jpg",
        "data.png",
        "data.bin",
        "data.jpg",
        "data.bin",
    ]
    assert [parts[next(iter(parts))] for parts in found.values()] == values


def test_mds_rows_written_by_convert_are_original_samples(tmp_path: Path) -> None:
    columns = {"__key__": "str", "__parts__": "json", "seg.png": "bytes", "txt": "str"}
    rows = [
        {"__key__": b"a/1", "__parts__": b'["txt"]', "seg.png": b"", "txt": b"x"},
        {"__key__": b"a/2", "__parts__": b'["seg.png", "txt"]', "seg.png": b"PNG", "txt": b""},
    ]
    write_mds(tmp_path, columns, [rows])

    assert samples_of(tmp_path / "shard.00000.mds") == {"a/1": {"txt": b"x"}, "a/2": {"seg.png": b"PNG", "txt": b""}}
    assert read_samples(tmp_path) == samples_of(tmp_path / "shard.00000.mds")


def test_mds_columns_with_colliding_part_names_are_numbered(tmp_path: Path) -> None:
    write_mds(tmp_path, {"a b": "str", "a_b": "str"}, [[{"a b": b"1", "a_b": b"2"}]])

    assert samples_of(tmp_path / "shard.00000.mds") == {"shard.00000/0": {"a_b.txt": b"1", "2.a_b.txt": b"2"}}


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("jpegxl", "not known"),
        ("jpeg_array", "lists of files"),
        ("list[png]", "lists of files"),
        ("ndarray:int7", "not known"),
    ],
)
def test_mds_encoding_without_byte_range_is_refused_by_name(tmp_path: Path, encoding: str, words: str) -> None:
    write_mds(tmp_path, {"odd": encoding}, [[{"odd": b"x"}]])

    code, message = scan_error(tmp_path / "shard.00000.mds")

    assert code == "WDS167"
    assert f"'odd' has the encoding {encoding!r}" in message
    assert words in message
    assert "wdsctl convert --from mds" in message


def test_mds_pickle_column_is_kept_as_bytes(tmp_path: Path) -> None:
    write_mds(tmp_path, {"odd": "pkl"}, [[{"odd": b"cos\nsystem\n"}]])

    assert samples_of(tmp_path / "shard.00000.mds") == {"shard.00000/0": {"odd.pkl": b"cos\nsystem\n"}}


def _change_offsets(data: bytes, change: Callable[[Any], None]) -> bytes:
    table = np.frombuffer(data, "<u4", 6).copy()
    change(table)
    return table.tobytes() + data[24:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda _: b"",
        lambda data: data[:3],
        lambda data: bytes(len(data)),
        lambda data: b"\xff\xff\xff\xff" + data[4:],
        lambda data: _change_offsets(data, lambda table: table.__setitem__(3, 1)),
        lambda data: _change_offsets(data, lambda table: table.__setitem__(3, table[3] + 1)),
        lambda data: _change_offsets(data, lambda table: table.__setitem__(5, 1 << 31)),
        lambda data: data.replace(b'"mds"', b'"csv"'),
        lambda data: data.replace(b'"column_sizes"', b'"column_seizes"')[: len(data)],
        lambda data: data[: -len(b"\1\0\0\0c")] + struct.pack("<I", 9) + b"c",
    ],
)
def test_damaged_mds_shard_is_reported_and_has_no_samples(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    write_mds(tmp_path, TEXTS, [[{"text": letter} for letter in (b"a", b"b", b"c", b"c")]])
    shard = tmp_path / "shard.00000.mds"
    shard.write_bytes(damage(shard.read_bytes()))

    assert scan_error(shard)[0] == "WDS233"


def test_mds_shard_without_samples_is_warning(tmp_path: Path) -> None:
    write_mds(tmp_path, TEXTS, [[]])

    scan = scan_path(tmp_path / "shard.00000.mds")

    assert (scan.status, scan.samples, [each.code for each in scan.findings]) == ("ok", 0, ["WDS115"])


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda index: index["config"].update(compression="zstd"), "WDS167", "compressed"),
        (lambda index: index["config"].update(encryption={"algorithm": "fernet"}), "WDS167", "encrypted"),
        (lambda index: index["config"].update(item_loader="TokensLoader"), "WDS167", "TokensLoader"),
        (lambda index: index["config"]["data_format"].__setitem__(0, "mystery"), "WDS167", "'mystery'"),
        (lambda index: index["config"]["data_format"].__setitem__(0, "jpeg_array"), "WDS167", "lists of files"),
        (lambda index: index["config"]["data_format"].__setitem__(0, "no_header_tensor:99"), "WDS167", "not known"),
        (lambda index: index["config"].update(data_spec=None), "WDS233", "shape of a row"),
        (lambda index: index["chunks"][0].update(chunk_size=3), "WDS233", "its index says 3"),
        (lambda index: index["chunks"][0].update(chunk_bytes=10**6), "WDS233", "its index says 1,000,000"),
        (lambda index: index["chunks"][0].update(filename="chunk-9-9.bin"), "WDS233", "does not list"),
        (lambda index: index.pop("config"), "WDS233", "lists no chunks"),
    ],
)
def test_litdata_chunk_that_contradicts_its_index_is_refused(
    tmp_path: Path, change: Callable[[Any], None], code: str, words: str
) -> None:
    write_litdata(tmp_path, {"text": "str"}, [[{"text": b"a"}, {"text": b"b"}]])
    index = json.loads((tmp_path / "index.json").read_bytes())
    change(index)
    (tmp_path / "index.json").write_text(json.dumps(index))

    found, message = scan_error(tmp_path / "chunk-0-0.bin")

    assert (found, words in message) == (code, True), message


def test_litdata_chunk_without_index_is_refused(tmp_path: Path) -> None:
    write_litdata(tmp_path, {"text": "str"}, [[{"text": b"a"}]])
    (tmp_path / "index.json").unlink()

    assert "no index.json" in scan_error(tmp_path / "chunk-0-0.bin")[1]


def test_litdata_nested_fields_have_one_part_per_leaf(tmp_path: Path) -> None:
    write_litdata(tmp_path, {"a": "int", "b": "int"}, [[{"a": bytes(8), "b": bytes([1, *bytes(7)])}]])
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    pair = {"type": "builtins.list", "context": "null", "children_spec": [leaf, leaf]}
    index = json.loads((tmp_path / "index.json").read_bytes())
    index["config"]["data_spec"] = json.dumps(
        [1, {"type": "builtins.dict", "context": '["box"]', "children_spec": [pair]}]
    )
    (tmp_path / "index.json").write_text(json.dumps(index))

    assert samples_of(tmp_path / "chunk-0-0.bin") == {
        "chunk-0-0/0": {"box_0.int64": bytes(8), "box_1.int64": bytes([1, *bytes(7)])}
    }


def codes(root: Path) -> list[tuple[str, str, str]]:
    return [(each.code, each.severity, each.shard) for each in list_shards(str(root)).findings]


def test_list_shards_compares_mds_shards_with_index(tmp_path: Path) -> None:
    rows = [{"text": b"a"}]
    write_mds(tmp_path, TEXTS, [rows, rows, rows])
    (tmp_path / "shard.00001.mds").unlink()
    (tmp_path / "shard.00002.mds").write_bytes(mds_shard(TEXTS, [*rows, *rows]))
    (tmp_path / "shard.00009.mds").write_bytes(mds_shard(TEXTS, rows))

    assert codes(tmp_path) == [
        ("WDS168", "error", "shard.00001.mds"),
        ("WDS168", "error", "shard.00002.mds"),
        ("WDS168", "warning", "shard.00009.mds"),
    ]
    assert [each.path for each in list_shards(str(tmp_path)).shards] == ["shard.00000.mds", "shard.00002.mds"]


def test_mds_shards_without_index_are_listed_with_warning(tmp_path: Path) -> None:
    write_mds(tmp_path, TEXTS, [[{"text": b"a"}]])
    (tmp_path / "index.json").unlink()

    assert codes(tmp_path) == [("WDS168", "warning", "shard.00000.mds")]
    assert len(list_shards(str(tmp_path)).shards) == 1


def test_mds_index_with_path_outside_folder_is_refused(tmp_path: Path) -> None:
    write_mds(tmp_path / "in", TEXTS, [[{"text": b"a"}]])
    index = json.loads((tmp_path / "in" / "index.json").read_bytes())
    index["shards"].append({**index["shards"][0], "raw_data": {"basename": "../../x.mds", "bytes": 1, "hashes": {}}})
    (tmp_path / "in" / "index.json").write_text(json.dumps(index))

    assert codes(tmp_path / "in") == [("WDS230", "error", "index.json")]


def test_merged_mds_index_selects_shards_of_subfolders(tmp_path: Path) -> None:
    entries = []
    for name in ("0", "1"):
        write_mds(tmp_path / name, TEXTS, [[{"text": name.encode()}]])
        [entry] = json.loads((tmp_path / name / "index.json").read_bytes())["shards"]
        entry["raw_data"]["basename"] = f"{name}/{entry['raw_data']['basename']}"
        entries.append(entry)
    (tmp_path / "index.json").write_text(json.dumps({"shards": entries[:1], "version": 2}))

    assert [each.path for each in list_shards(str(tmp_path)).shards] == ["0/shard.00000.mds"]


def test_mds_split_folders_use_their_own_index(tmp_path: Path) -> None:
    for name in ("train", "val"):
        shutil.copytree(FORMS / "mds", tmp_path / name)

    listing = list_shards(str(tmp_path))
    keys = [key for shard in listing.shards for key in samples_of(tmp_path / shard.path, tmp_path)]

    assert not listing.findings
    assert keys == list(read_samples(tmp_path))


def test_litdata_chunks_written_by_convert_are_original_samples(tmp_path: Path) -> None:
    samples = {"a/1": {"jpg": b"\xff\xd8\xff", "txt": b"x"}, "a/2": {"txt": b""}}
    folder = Path(write_unit(tmp_path / "lit", "litdata", samples))
    (folder / "part-0.bin").rename(folder / "chunk-0-0.bin")  # its name in a whole dataset
    index = (folder / "index.json").read_text().replace("part-0.bin", "chunk-0-0.bin")
    (folder / "index.json").write_text(index)

    assert samples_of(folder / "chunk-0-0.bin") == samples == read_samples(folder)
