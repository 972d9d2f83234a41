"""The exporter to LitData. The last test reads its output with litdata.StreamingDataset."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.places import PEERS_PYTHON, REPOSITORY
from tests.build import an_image
from tests.core.conversions import a_prepared_dataset, content, convert_to, files, splits
from tests.core.formats import Samples, read_samples, write_unit
from wdsctl.core.convert.parts import ImageTranscodeOptions
from wdsctl.core.errors import DatasetError, UsageError, WdsctlError

SAMPLE = {"jpg": b"1", "seg.png": b"2", "txt": b"x", "json": b"{}", "cls": b"3", "npy": b"?", "wav": b"4"}


def read_index(folder: str | Path) -> dict[str, object]:
    actual: dict[str, object] = json.loads((Path(folder) / "index.json").read_bytes())
    return actual


def read_types(folder: str | Path) -> dict[str, str]:
    config = json.loads((Path(folder) / "index.json").read_bytes())["config"]
    names = json.loads(json.loads(config["data_spec"])[1]["context"])
    return dict(zip(names, config["data_format"], strict=True))


def get_error(tmp_path: Path, samples: Samples, options: dict[str, str] | None = None) -> WdsctlError:
    with pytest.raises((DatasetError, UsageError)) as caught:
        write_unit(tmp_path, "litdata", samples, options)
    return caught.value


def test_fields_have_types_that_litdata_decodes(tmp_path: Path) -> None:
    folder = write_unit(tmp_path, "litdata", {"a": SAMPLE}, {"int": "cls"})

    assert read_types(folder) == {
        "cls": "int", "jpg": "jpeg", "json": "json", "npy": "bytes", "seg.png": "image:png", "txt": "str",
        "wav": "bytes", "__key__": "str",
    }  # fmt: skip
    chunk = Path(folder, "part-0.bin")
    (entry,) = json.loads(Path(folder, "index.json").read_bytes())["chunks"]
    assert entry == {"chunk_bytes": chunk.stat().st_size, "chunk_size": 1, "dim": None, "filename": "part-0.bin"}
    assert read_samples(folder, form="litdata") == {"a": SAMPLE}


def test_missing_parts_are_empty_and_present_ones_are_listed(tmp_path: Path) -> None:
    samples = {"a": {"jpg": b"1", "json": b"{}", "txt": b"x"}, "b": {"txt": b""}}
    folder = write_unit(tmp_path, "litdata", samples)

    assert read_types(folder) == {
        "jpg": "bytes", "json": "json", "txt": "str", "__parts__": "json", "__key__": "str",
    }  # fmt: skip
    assert read_samples(folder, form="litdata") == samples


@pytest.mark.parametrize(
    "data", [b"", b"\n{}", b"NaN", b"[1", b'{"a": 1e400, "b": Infinity}', b"123456789012345678901234567890", b"\xff",
             b'"\\ud800"'],
)  # fmt: skip
def test_json_that_litdata_cannot_read_is_refused_unless_binary(tmp_path: Path, data: bytes) -> None:
    error = get_error(tmp_path / "one", {"a": {"json": data}})

    assert error.code == "WDS237"
    assert "-O to.binary=json" in error.hint
    assert read_samples(
        write_unit(tmp_path / "two", "litdata", {"a": {"json": data}}, {"binary": "json"}), form="litdata"
    ) == {"a": {"json": data}}


@pytest.mark.parametrize(
    ("option", "data"), [("int", b"03"), ("int", b"3\n"), ("int", b"x"), ("int", b"9" * 19), ("float", b"1"),
                         ("float", b"0.10")],
)  # fmt: skip
def test_numbers_that_would_not_round_trip_are_refused(tmp_path: Path, option: str, data: bytes) -> None:
    assert f"omit `-O to.{option}=cls`" in get_error(tmp_path, {"a": {"cls": data}}, {option: "cls"}).hint


def test_numbers_round_trip_as_text(tmp_path: Path) -> None:
    samples = {"a": {"cls": b"-3", "score.txt": b"0.1"}, "b": {"cls": b"0", "score.txt": b"1e-05"}}

    folder = write_unit(tmp_path, "litdata", samples, {"int": "cls", "float": "score.txt"})

    assert read_samples(folder, form="litdata") == samples


def test_contradicting_names_and_options_are_refused(tmp_path: Path) -> None:
    assert "reserved" in get_error(tmp_path, {"a": {"__parts__": b"x"}}).message
    assert (
        "missing in some samples"
        in get_error(tmp_path, {"a": {"cls": b"1"}, "b": {"txt": b"x"}}, {"int": "cls"}).message
    )
    assert "both name" in get_error(tmp_path, {"a": {"cls": b"1"}}, {"int": "cls", "binary": "cls"}).message
    assert "did you mean cls?" in get_error(tmp_path, {"a": {"cls": b"1"}}, {"int": "clss"}).hint
    assert "no option 'text'" in get_error(tmp_path, {"a": {"cls": b"1"}}, {"text": "cls"}).message


def test_updated_at_changes_only_with_content(tmp_path: Path) -> None:
    timestamps = {
        name: read_index(write_unit(tmp_path / name, "litdata", {"a": {"txt": text}}))["updated_at"]
        for name, text in (("one", b"x"), ("two", b"x"), ("three", b"y"))
    }

    assert timestamps["one"] == timestamps["two"] != timestamps["three"]


@pytest.mark.parametrize("form", ["litdata", "csv"])
def test_files_do_not_depend_on_workers_and_splits_round_trip(tmp_path: Path, form: str) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    for name, workers in (("one", 1), ("three", 3)):
        convert_to(tmp_path / name, source, to_format=form, apart="split", shard_samples=7, workers=workers)
    convert_to(tmp_path / "back", tmp_path / "one")
    convert_to(tmp_path / "again", source)

    assert files(tmp_path / "one") == files(tmp_path / "three")
    assert content(tmp_path / "back") == content(tmp_path / "again")
    assert splits(tmp_path / "back") == splits(tmp_path / "a")


def test_shards_with_different_parts_are_refused_before_writing(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")

    with pytest.raises(UsageError, match="same columns"):
        convert_to(tmp_path / "b", source, to_format="litdata", on_error="keep", image=ImageTranscodeOptions("png"))
    assert files(tmp_path / "b") == {}


def test_litdata_reads_same_values(tmp_path: Path) -> None:
    if not PEERS_PYTHON.exists():
        pytest.skip("no environment has litdata: run `make bench`")
    samples = {
        f"s{i}": {
            "jpg": an_image("JPEG"), "seg.png": an_image("PNG"), "txt": f"é {i}\r\n".encode(), "cls": str(i).encode(),
            "json": json.dumps({"n": [i, None, 1.5]}).encode(), "bin": bytes([i, 0, 255]),
            **({"more.json": b"[1]"} if i else {}),
        }
        for i in range(5)
    }  # fmt: skip
    folder = write_unit(tmp_path / "d", "litdata", samples, {"int": "cls"})

    command = [str(PEERS_PYTHON), "-W", "ignore", "-m", "benchmarks.check_forms", folder]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=True)

    actual = [json.loads(line) for line in process.stdout.splitlines()]
    assert [row["__key__"] for row in actual] == list(samples)
    for i, (row, parts) in enumerate(zip(actual, samples.values(), strict=True)):
        assert (row["txt"], row["cls"], row["json"]) == (f"é {i}\r\n", i, {"n": [i, None, 1.5]})
        assert bytes.fromhex(row["bin"]) == parts["bin"]
        assert row["__parts__"] == sorted(parts)
        assert row["more.json"] == ([1] if i else None)
        for name in ("jpg", "seg.png"):
            pixels = np.asarray(Image.open(io.BytesIO(parts[name])).convert("RGB")).transpose(2, 0, 1)
            assert row[name] == [*pixels.shape, hashlib.sha256(pixels.tobytes()).hexdigest()]
