"""The importer jsonl."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tests.build import a_folder
from tests.core.formats import open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.protocol import DetailedSource

FILES = {"a/1.jpg": b"one", "a/2.jpg": b"two!"}


def test_jsonl_file_fields_become_parts_and_other_fields_json(tmp_path: Path) -> None:
    lines = b'{"image": "a/1.jpg", "n": 1, "url": "http://x/a.jpg"}\n{"image": null, "n": NaN}\n'
    root = a_folder(tmp_path, {**FILES, "t.jsonl": lines})

    assert read_samples(f"{root}/t.jsonl") == {
        "a/1": {"jpg": b"one", "json": b'{"n":1,"url":"http://x/a.jpg"}'},
        "000000001": {"json": b'{"n":null}'},
    }


def test_jsonl_list_of_files_becomes_numbered_parts(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {**FILES, "t.jsonl": b'{"id": 7, "images": ["a/1.jpg", "a/2.jpg"]}'})

    assert read_samples(f"{root}/t.jsonl", {"key": "id"}) == {
        "7": {"0.jpg": b"one", "1.jpg": b"two!", "json": b'{"id":7}'},
    }


def test_jsonl_ignores_blank_lines_crlf_and_bom(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.jsonl": b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{"a":2}\r\n\n'})

    assert [parts["json"] for parts in read_samples(f"{root}/t.jsonl").values()] == [b'{"a":1}', b'{"a":2}']


def test_jsonl_reports_bad_lines_by_code_and_reads_others(tmp_path: Path) -> None:
    lines = (b'{"a":1}', b"[1]", b'{"a":', b'{"a":"\xff"}', b'{"a":1}', b"{" * 5000, b'{"a":9}', b'{"a": "cu')
    root = a_folder(tmp_path, {"t.jsonl": b"\n".join(lines)})

    wrong = read_errors(f"{root}/t.jsonl")

    codes = {place: error.code for place, error in wrong.items()}
    assert codes == {1: "WDS121", 2: "WDS123", 3: "WDS124", 5: "WDS123", 7: "WDS122"}
    assert wrong[3].where == f"{root}/t.jsonl:4"


@pytest.mark.parametrize("reference", ["../../etc/passwd", "/etc/passwd", "https://x/y.jpg", "a/../../y.jpg", "no.jpg"])
def test_jsonl_refuses_references_outside_and_missing_files(tmp_path: Path, reference: str) -> None:
    root = a_folder(tmp_path, {**FILES, "t.jsonl": f'{{"image": "{reference}"}}'.encode()})

    (error,) = read_errors(f"{root}/t.jsonl", {"files": "image"}).values()

    assert error.code == ("WDS231" if reference == "no.jpg" else "WDS230")
    assert error.where.startswith(f"{root}/t.jsonl:1")


def test_jsonl_row_without_valid_key_is_fault(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.jsonl": b'{"id":"x"}\n{"n":1}\n{"id":true}\n{"id":""}\n{"id":"..."}'})

    assert {
        place: error.code for place, error in read_errors(f"{root}/t.jsonl", {"key": "id"}).items()
    } == dict.fromkeys((1, 2, 3), "WDS232")


def test_jsonl_row_with_half_a_surrogate_pair_keeps_others(tmp_path: Path) -> None:
    rows = [{"image": "a/1.jpg", "text": "cut \ud83d"}, {"image": "\ud83d.jpg"}, {"image": "a/2.jpg", "text": "whole"}]
    root = a_folder(tmp_path, {**FILES, "t.jsonl": "\n".join(map(json.dumps, rows)).encode()})

    errors = read_errors(f"{root}/t.jsonl", {"text": "text"})

    assert {place: error.code for place, error in errors.items()} == {0: "WDS232", 1: "WDS231"}


def test_jsonl_files_of_folder_are_one_source(tmp_path: Path) -> None:
    root = a_folder(
        tmp_path, {"b/t.jsonl": b'{"i":"x.jpg"}', "b/x.jpg": b"b", "a.jsonl": b'{"i":"x.jpg"}\n', "x.jpg": b"a"}
    )

    assert read_samples(root, {"key": ":row"}, form="jsonl") == {"000000000": {"jpg": b"a"}, "000000001": {"jpg": b"b"}}


@pytest.mark.parametrize(
    ("data", "code"), [(b"", "WDS003"), (b"\n \n", "WDS003"), (b"{\0", "WDS120"), (b"\x28\xb5\x2f\xfd", "WDS233")]
)
def test_jsonl_refuses_invalid_files(tmp_path: Path, data: bytes, code: str) -> None:
    root = a_folder(tmp_path, {"t.jsonl": data})

    assert open_error(f"{root}/t.jsonl").code == code


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize("ending", COMPRESSED)
def test_compressed_jsonl_is_read_from_start_and_middle(tmp_path: Path, ending: str) -> None:
    from wdsctl.core.importers.jsonl import IMPORTER

    lines = "".join(json.dumps({"image": f"a/{i}.jpg", "n": str(i) * 200}) + "\n" for i in range(100)).encode()
    files = {f"a/{i}.jpg": b"%d" % i for i in range(100)}
    root = a_folder(tmp_path, {**files, f"t.jsonl{ending}": COMPRESSED[ending](lines)})

    for path in (root, f"{root}/t.jsonl{ending}"):
        assert read_samples(path)["a/7"] == {"jpg": b"7", "json": b'{"n":"%s"}' % (b"7" * 200)}
        with IMPORTER.open(path, {}) as source:
            assert sum(1 for _ in source.entries()) == 100
            assert [part.data for part in source.read(90)] == [b"90", b'{"n":"%s"}' % (b"90" * 200)]
            assert [part.data for part in source.read(70)] == [b"70", b'{"n":"%s"}' % (b"70" * 200)]


def test_json_gz_file_of_lines_is_read_as_jsonl(tmp_path: Path) -> None:
    lines = gzip.compress(b'{"text": "a"}\n{"text": "b"}\n')
    root = a_folder(tmp_path, {"c4.00000-of-00002.json.gz": lines, "c4.00001-of-00002.json.gz": lines})

    assert [parts["json"] for parts in read_samples(root).values()] == [b'{"text":"a"}', b'{"text":"b"}'] * 2


def test_convert_writes_nothing_from_truncated_compressed_jsonl(tmp_path: Path) -> None:
    digits = Random(1)  # numbers that gzip cannot shorten much
    lines = "".join(json.dumps({"text": digits.randbytes(2000).hex()}) + "\n" for _ in range(500)).encode()
    root = a_folder(tmp_path / "raw", {"t.jsonl.gz": gzip.compress(lines)[:-100]})

    with pytest.raises(DatasetError) as caught:
        convert([f"{root}/t.jsonl.gz"], str(tmp_path / "made"))

    assert (caught.value.code, caught.value.where) == ("WDS233", f"{root}/t.jsonl.gz")
    assert not list((tmp_path / "made").glob("*.tar"))


def test_jsonl_sanitizes_exported_sample_keys(tmp_path: Path) -> None:
    lines = b'{"__key__":"../../x","txt":"a"}\n{"__key__":"ok/1","txt":"b"}\n{"__key__":"y","a/b":"c"}'
    root = a_folder(tmp_path, {"t.jsonl": lines})

    assert read_errors(f"{root}/t.jsonl").keys() == {2}
    from wdsctl.core.importers.jsonl import IMPORTER

    with IMPORTER.open(f"{root}/t.jsonl", {}) as source:
        assert [entry.key for entry in source.entries()][:2] == ["_/__/x", "ok/1"]


def test_exported_samples_need_key_and_refuse_option_key(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.jsonl": b'{"__key__":"x","txt":"a"}\n{"txt":"b"}\n{"__key__":""}\n{"__key__":3}'})

    assert {place: error.code for place, error in read_errors(f"{root}/t.jsonl").items()} == dict.fromkeys(
        (1, 2, 3), "WDS232"
    )
    assert open_error(f"{root}/t.jsonl", {"key": "txt"}).exit_code == 2


@pytest.mark.slow
def test_jsonl_reads_line_of_200_megabytes(tmp_path: Path) -> None:
    with (tmp_path / "t.jsonl").open("wb") as file:
        file.write(b'{"id":"a","text":"')
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n{"id":"b"}\n')

    from wdsctl.core.importers.jsonl import IMPORTER

    with IMPORTER.open(str(tmp_path / "t.jsonl"), {"key": "id"}) as source:
        assert [entry.key for entry in source.entries()] == ["a", "b"]
        assert len(source.read(0)[0].data) > 200_000_000


@pytest.mark.parametrize("files", ['["jpg"]', "7", '"a/1.jpg"', "[1]"])
def test_exported_sample_with_invalid_files_object_is_fault(tmp_path: Path, files: str) -> None:
    lines = f'{{"__key__": "a", "txt": "x"}}\n{{"__key__": "b", "__files__": {files}}}\n'
    root = a_folder(tmp_path, {**FILES, "t.jsonl": lines.encode()})

    (fault,) = read_errors(f"{root}/t.jsonl").values()
    assert fault.code == "WDS232"


def test_convert_reports_exported_sample_without_parts(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"t.jsonl": b'{"__key__": "a", "txt": "x"}\n{"__key__": "b", "txt": null}\n'})

    report = convert([f"{root}/t.jsonl"], str(tmp_path / "b"))

    assert (report.samples, report.failed) == (2, 1)
    assert [(found.code, found.key) for found in report.findings] == [("WDS232", "b")]


def test_jsonl_of_others_with_key_column_keeps_files_that_rows_name(tmp_path: Path) -> None:
    lines = b'{"__key__": "a", "image": "1.jpg", "n": 1}\n{"__key__": "b", "image": "2.jpg", "n": 2}\n'
    root = a_folder(tmp_path, {"t.jsonl": lines, "1.jpg": b"one", "2.jpg": b"two"})

    for source in (root, f"{root}/t.jsonl"):
        assert {key: parts["jpg"] for key, parts in read_samples(source).items()} == {"1": b"one", "2": b"two"}
    by_key = read_samples(root, {"key": "__key__"})
    assert {key: set(parts) for key, parts in by_key.items()} == {"a": {"jpg", "json"}, "b": {"jpg", "json"}}


def test_folder_of_lines_that_are_called_json_is_read(tmp_path: Path) -> None:
    def manifest(*numbers: int) -> bytes:
        rows = ({"audio_filepath": f"wav/{i}.wav", "text": f"text {i}"} for i in numbers)
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    files = {f"wav/{i}.wav": b"%d" % i for i in range(5)}
    root = a_folder(tmp_path, {"train.json": manifest(0, 1, 2), "dev.json": manifest(3, 4), **files})

    samples = read_samples(root)

    assert {key: parts["wav"] for key, parts in samples.items()} == {f"wav/{i}": b"%d" % i for i in range(5)}
    with importers.best_importer(root)[0].open(root, {}) as source:
        assert isinstance(source, DetailedSource)
        assert set(source.split_names) == {"train", "val"}
