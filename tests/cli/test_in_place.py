"""Commands on shards of formats that are read in place: their results and refusals."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.in_place import a_dataset_of_parquet, mds_shard, write_litdata, write_mds, write_zip
from wdsctl.cli.main import main

TEXTS = {"text": "str"}


def rows(count: int, first: int = 0) -> list[dict[str, bytes]]:
    return [{"text": f"text {first + i}".encode()} for i in range(count)]


@pytest.fixture
def mds(tmp_path: Path) -> Path:
    return write_mds(tmp_path / "mds", TEXTS, [rows(3), rows(2, 3)])


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*words: Any) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_commands_work_on_mds_in_place(mds: Path, tmp_path: Path, run: Run) -> None:
    code, out, _ = run("prepare", mds, "--sample-type", "CrudeSample", "--split", "1,1", "--no-input")
    assert (code, "MDS shards, which are read in place" in out) == (0, True)
    assert run("get", mds, "shard.00001/1", "text.txt")[1] == "text 4"
    assert run("ls", mds)[1].split() == ["shard.00000.mds", "shard.00001.mds"]
    assert json.loads(run("inspect", mds, "--json")[1])["samples"] == 5
    assert run("view", "create", mds, "long", "--where", "sample_size > 3")[0] == 0
    assert run("diff", mds, mds)[0] == 0
    assert len(run("checksum", mds)[1].splitlines()) == 2
    assert run("validate", mds, "--level", "structure,content")[0] == 0
    assert run("convert", mds, tmp_path / "tars")[0] == 0
    assert run("get", tmp_path / "tars", "shard.00001/1", "text.txt")[1] == "text 4"


def test_index_again_reads_only_new_shards(mds: Path, run: Run) -> None:
    assert run("index", mds)[0] == 0
    assert "up to date" in run("index", mds)[1]
    write_mds(mds, TEXTS, [rows(3), rows(2, 3), rows(4, 5)])

    report = json.loads(run("index", mds, "--json")[1])

    assert (report["added"], report["changed"], report["unchanged"], report["samples"]) == (1, 0, 2, 9)
    (mds / "shard.00001.mds").write_bytes(mds_shard(TEXTS, rows(2, 7)))
    assert json.loads(run("index", mds, "--json")[1])["samples"] == 9


@pytest.mark.parametrize(("command", "words"), [("repair", "repair writes tars"), ("export", "export describes tars")])
def test_commands_that_need_tars_refuse_mds(mds: Path, tmp_path: Path, run: Run, command: str, words: str) -> None:
    run("index", mds)

    code, _, err = run(command, mds, *([tmp_path / "out"] if command == "repair" else ["--to", "wids"]))

    assert code != 0
    assert "the dataset has MDS shards" in err
    assert words in err


def test_validate_checks_hashes_of_mds_index(tmp_path: Path, run: Run) -> None:
    data = mds_shard(TEXTS, rows(2))
    digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    root = write_mds(tmp_path / "mds", TEXTS, [rows(2)], hashes=[{"sha1": digest, "xxh64": "00"}])
    run("index", root)

    assert run("validate", root, "--level", "hashes")[0] == 0
    (root / "shard.00000.mds").write_bytes(data.replace(b"text 1", b"test 1"))
    run("index", root)
    code, out, _ = run("validate", root, "--level", "hashes")
    assert (code, "expected SHA-1" in out) == (1, True)


def test_validate_reports_crc_mismatch_in_zip(tmp_path: Path, run: Run) -> None:
    path = write_zip(tmp_path / "zips" / "a.zip", {"1.txt": b"text", "2.txt": b"more"})
    run("index", tmp_path / "zips")
    path.write_bytes(path.read_bytes().replace(b"more", b"moot"))

    code, out, _ = run("validate", tmp_path / "zips")

    assert (code, "CRC-32" in out) == (1, True)


def test_index_reports_missing_and_resized_mds_shards(mds: Path, run: Run) -> None:
    (mds / "shard.00001.mds").unlink()
    (mds / "shard.00000.mds").write_bytes(mds_shard(TEXTS, rows(1)))

    code, out, _ = run("index", mds)
    assert code == 5
    assert out.count("WDS168") == 2
    assert run("validate", mds)[0] == 1


@pytest.mark.parametrize("form", ["zip", "litdata"])
def test_index_of_unsupported_shards_writes_no_catalog_and_suggests_command(
    tmp_path: Path, run: Run, form: str
) -> None:
    root = tmp_path / form
    if form == "zip":
        write_zip(root / "a.zip", {"1.txt": b"text" * 9}, zipfile.ZIP_DEFLATED)
    else:
        write_litdata(root, TEXTS, [rows(2)], item_loader="TokensLoader")

    code, _, err = run("index", root)

    assert code == 3
    assert "WDS167" in err
    assert "copies the samples into tars" in err
    assert not (root / ".wdsctl" / "catalog.sqlite").exists()
    assert run("prepare", root, "--no-input")[0] != 0


def test_folder_splits_match_those_of_converted_copy(tmp_path: Path, run: Run) -> None:
    for name in ("train", "val_small"):
        write_mds(tmp_path / "mds" / name, TEXTS, [rows(3), rows(2, 3)])
    run("prepare", tmp_path / "mds", tmp_path / "copy", "--sample-type", "CrudeSample", "--no-input")
    run("prepare", tmp_path / "mds", "--sample-type", "CrudeSample", "--no-input")

    splits = [json.loads(run("inspect", root, "--json")[1])["splits"] for root in (tmp_path / "mds", tmp_path / "copy")]

    assert [{each["name"]: each["samples"] for each in found} for found in splits] == [{"train": 5, "val_small": 5}] * 2


def test_prepare_makes_splits_by_names_of_zips(tmp_path: Path, run: Run) -> None:
    for name in ("train-000", "train-001", "test"):
        write_zip(tmp_path / "zips" / f"{name}.zip", {f"{name}.txt": b"x"})
    run("prepare", tmp_path / "zips", "--sample-type", "CrudeSample", "--no-input")

    splits = json.loads(run("inspect", tmp_path / "zips", "--json")[1])["splits"]

    assert {each["name"]: each["samples"] for each in splits} == {"train": 2, "test": 1}


def test_index_refuses_two_formats_in_one_folder(mds: Path, run: Run) -> None:
    write_zip(mds / "a.zip", {"1.txt": b"x"})

    code, _, err = run("index", mds)

    assert (code, "WDS127" in err, "2 MDS shards and 1 zips" in err or "1 zips and 2 MDS shards" in err) == (
        3,
        True,
        True,
    )
    assert run("index", mds, "--exclude", "*.zip")[0] == 0


def test_index_reads_corrected_litdata_index_again(tmp_path: Path, run: Run) -> None:
    root = write_litdata(tmp_path / "lit", TEXTS, [rows(2), rows(2, 2)])
    good = (root / "index.json").read_bytes()
    index = json.loads(good)
    index["chunks"][1]["chunk_size"] = 9
    (root / "index.json").write_text(json.dumps(index))
    assert json.loads(run("index", root, "--json")[1])["samples"] == 2

    (root / "index.json").write_bytes(good)

    assert json.loads(run("index", root, "--json")[1])["samples"] == 4


@pytest.mark.parametrize("source", ["table", "table/part-0.parquet"])
def test_prepare_of_parquet_without_destination_names_command_that_copies(
    tmp_path: Path, run: Run, source: str
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "table").mkdir()
    pq.write_table(pa.table({"data": [b"\xff\xd8\xff"]}), tmp_path / "table" / "part-0.parquet")

    code, _, err = run("prepare", tmp_path / source, "--no-input")

    assert (code, "missing DEST: wdsctl copies the samples of parquet" in err) == (2, True)
    assert f"`wdsctl prepare {tmp_path / source} DEST`" in err
    assert run("prepare", tmp_path / source, tmp_path / "copy", "--sample-type", "CrudeSample", "--no-input")[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        "prepare ROOT", "prepare glob:ROOT/*.parquet", "index ROOT", "index ROOT --rebuild",
        "index ROOT --missing drop", "index ROOT --media all", "split ROOT", "convert ROOT OUT",
        "export ROOT --to wids", "init ROOT OUT", "inspect ROOT", "inspect ROOT --samples 1", "get ROOT part-0/0",
        "ls ROOT", "validate ROOT", "repair ROOT OUT", "repair ROOT --in-place --yes", "sql ROOT SELECT",
        "diff ROOT ROOT", "checksum ROOT", "job plan OUT -- index ROOT", "catalog info ROOT", "catalog check ROOT",
        "catalog vacuum ROOT", "view list ROOT", "view create ROOT some --where 1",
    ],
)  # fmt: skip
def test_commands_on_former_dataset_of_parquet_name_command_that_copies(tmp_path: Path, run: Run, command: str) -> None:
    pytest.importorskip("pyarrow")
    root = a_dataset_of_parquet(tmp_path / "table")
    words = command.replace("ROOT", str(root)).replace("OUT", str(tmp_path / "out")).split()

    code, _, err = run(*words, "--no-input")

    assert (code, "WDS167" in err, "Traceback" in err) == (3, True, False)
    assert "the shards are Parquet files, which wdsctl no longer reads in place" in err
    assert f"`wdsctl prepare {root} DEST`" in err


def test_command_of_former_dataset_of_parquet_copies_its_samples(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("pyarrow")
    root = a_dataset_of_parquet(tmp_path / "table")

    assert run("prepare", root, tmp_path / "copy", "--sample-type", "CrudeSample", "--no-input")[0] == 0

    assert json.loads(run("inspect", tmp_path / "copy", "--json")[1])["samples"] == 2
    assert json.loads(run("get", tmp_path / "copy", "part-0/1", "json")[1]) == {"text": "text 1"}
