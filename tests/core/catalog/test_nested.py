"""No dataset is written inside or around another one: the outer one would index the shards of the inner one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_folder, some_shards, tree
from tests.core.captioned import captions
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.repair.repair import RepairRequest, repair


def _repair(source: str, dest: str) -> None:
    repair(source, RepairRequest(dest=dest))


def _convert(source: str, dest: str) -> None:
    convert([source], dest)


def _dry_run(source: str, dest: str) -> None:
    prepare(source, dest, PrepareRequest(index=IndexRequest(dry_run=True)))


WRITERS: dict[str, Callable[[str, str], object]] = {
    "prepare": prepare,
    "prepare --dry-run": _dry_run,
    "convert": _convert,
    "repair": _repair,
}


@pytest.fixture
def raw(tmp_path: Path) -> str:
    return a_folder(tmp_path / "raw", captions(0, 4))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("subfolder", ["inner", "some/where/inner"])
def test_commands_refuse_to_write_into_prepared_dataset(tmp_path: Path, raw: str, writer: str, subfolder: str) -> None:
    write = WRITERS[writer]
    source = raw if writer.startswith("prepare") else some_shards(tmp_path / "tars", 1)
    out = tmp_path / "out"
    prepare(raw, str(out))
    before = tree(out)

    with pytest.raises(UsageError, match="is inside the dataset") as caught:
        write(source, str(out / subfolder))

    assert caught.value.code == "WDS253"
    assert f"{out}-inner" in caught.value.hint
    assert tree(out) == before
    write(source, f"{out}-inner")


def test_prepare_refuses_dest_inside_dataset_behind_link(tmp_path: Path, raw: str) -> None:
    prepare(raw, str(tmp_path / "out"))
    os.symlink(tmp_path / "out", tmp_path / "link")

    with pytest.raises(UsageError, match="is inside the dataset"):
        prepare(raw, str(tmp_path / "link" / "inner"))


def test_prepare_refuses_dest_inside_dataset_with_other_catalog_folder(
    tmp_path: Path, raw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path / "catalogs"))
    prepare(raw, str(tmp_path / "out"))

    with pytest.raises(UsageError, match="is inside the dataset"):
        prepare(raw, str(tmp_path / "out" / "inner"))


def test_prepare_refuses_dest_inside_unfinished_dataset(tmp_path: Path, raw: str) -> None:
    prepare(raw, str(tmp_path / "out"))
    for name in ("catalog.sqlite", "dataset.yaml"):
        (tmp_path / "out" / ".wdsctl" / name).unlink()

    with pytest.raises(UsageError, match="is inside the dataset"):
        prepare(raw, str(tmp_path / "out" / "inner"))


def test_datasets_in_one_folder_are_allowed(tmp_path: Path, raw: str) -> None:
    for name in ("a", "b"):
        prepare(raw, str(tmp_path / "all" / name))


def test_indexed_folder_of_datasets_accepts_further_datasets(tmp_path: Path, raw: str) -> None:
    for name in ("a", "deep/b"):
        prepare(raw, str(tmp_path / "all" / name))
    assert index(str(tmp_path / "all")).shards == 2

    prepare(raw, str(tmp_path / "all" / "c"))
    convert([str(tmp_path / "all" / "a")], str(tmp_path / "all" / "d"))


def test_existing_inner_dataset_can_grow(tmp_path: Path) -> None:
    raw = a_folder(tmp_path / "raw", captions(0, 4))
    prepare(raw, str(tmp_path / "out" / "inner"))
    prepare(a_folder(tmp_path / "other", captions(4, 4)), str(tmp_path / "aside"))
    os.rename(tmp_path / "aside" / ".wdsctl", tmp_path / "out" / ".wdsctl")
    a_folder(tmp_path / "raw", captions(8, 2))

    assert prepare(raw, str(tmp_path / "out" / "inner")).up_to_date is False


def test_convert_apart_writes_datasets_below_plain_folder(tmp_path: Path, raw: str) -> None:
    prepare(raw, str(tmp_path / "source"), PrepareRequest(split={"train": 1, "val": 1}, split_by="sample"))
    convert([str(tmp_path / "source")], str(tmp_path / "apart"), ConvertRequest(apart="split"))

    repeated = convert([str(tmp_path / "source")], str(tmp_path / "apart"), ConvertRequest(apart="split"))

    assert repeated.up_to_date
    prepare(raw, str(tmp_path / "apart" / "third"))


@pytest.mark.parametrize("kind", ["tars", "lines"])
def test_prepare_refuses_dest_that_contains_dataset(tmp_path: Path, raw: str, kind: str) -> None:
    inner = tmp_path / "out" / "some" / "inner"
    if kind == "tars":
        prepare(raw, str(inner))
    else:
        prepare(a_folder(inner, {"a.jsonl": b'{"text":"a"}\n'}), request=PrepareRequest(accept_type=True))
    before = tree(tmp_path / "out")

    with pytest.raises(UsageError, match=r"contains the dataset .*/out/some/inner") as caught:
        prepare(raw, str(tmp_path / "out"))

    assert caught.value.code == "WDS253"
    assert f"next to it, such as {tmp_path / 'out'}-inner" in caught.value.hint
    assert tree(tmp_path / "out") == before


def test_dataset_with_indexed_inner_dataset_is_refused_with_hint(tmp_path: Path, raw: str) -> None:
    out = tmp_path / "out"
    prepare(raw, f"{out}-inner")
    prepare(raw, str(out))
    os.rename(f"{out}-inner", out / "inner")
    index(str(out))

    with pytest.raises(UsageError, match="contains the dataset") as caught:
        prepare(raw, str(out))

    assert f"move {out}/inner next to" in caught.value.hint
    assert f"wdsctl index {out} --missing drop" in caught.value.hint
    os.rename(out / "inner", f"{out}-inner")
    index(str(out), missing="drop")
    assert prepare(raw, str(out)).up_to_date
    assert prepare(raw, f"{out}-inner").up_to_date


def test_prepared_jsonl_below_dataset_is_allowed(tmp_path: Path, raw: str) -> None:
    prepare(raw, str(tmp_path / "out"))
    labels = a_folder(tmp_path / "out" / "labels", {"a.jsonl": b'{"text":"a"}\n'})
    prepare(labels, request=PrepareRequest(accept_type=True))

    assert prepare(raw, str(tmp_path / "out")).up_to_date
