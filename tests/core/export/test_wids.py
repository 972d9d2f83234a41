from __future__ import annotations

import hashlib
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.build import AsNobody, a_dataset, samples, some_shards
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import CatalogError, UsageError
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.split.request import SplitOptions, SplitRequest, parse_split_request
from wdsctl.core.split.split import split_dataset
from wdsctl.core.split_rules.rule import SplitRule


def wids(root: str) -> ExportRequest:
    return ExportRequest(root=root, target="wids")


def read_shardlist(root: str, name: str = "index.json") -> list[dict[str, object]]:
    document = json.loads(Path(root, name).read_text())
    assert (document["__kind__"], document["wids_version"]) == ("wids-shard-index-v1", 1)
    shards: list[dict[str, object]] = document["shardlist"]
    return shards


def test_index_lists_all_shards_and_one_index_per_split(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 4)
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=3,val=1", by="shard")))
    report = export(wids(root))
    sizes = {path.name: path.stat().st_size for path in Path(root).glob("*.tar")}
    assert read_shardlist(root) == [{"url": name, "nsamples": 5, "filesize": sizes[name]} for name in sorted(sizes)]
    parts = [each["url"] for name in ("train", "val") for each in read_shardlist(root, f"index-{name}.json")]
    assert sorted(map(str, parts)) == sorted(sizes)
    assert (report.files, report.splits) == (3, {"train": 15, "val": 5})


def test_exported_index_is_readable_by_convert(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 3)
    index(root)
    export(wids(root))
    convert([f"{root}/index.json"], str(tmp_path / "b"), ConvertRequest())
    assert inspect(str(tmp_path / "b")).samples == 15


def test_splits_by_sample_are_reported_and_full_index_is_written(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"a.tar": samples(0, 30), "b.tar": samples(30, 30)})
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=1,val=1", by="sample")))
    report = export(wids(root))
    assert len(read_shardlist(root)) == 2
    assert report.files == 1
    assert "the index lists all shards: wids has splits of whole shards" in report.notes[0]


def test_shards_are_not_read_without_hashed_option(public_path: Path, as_nobody: AsNobody) -> None:
    root, out = some_shards(public_path / "a", 2), str(public_path / "out")
    index(root)
    export(wids(root))
    expected = read_shardlist(root)
    assert ["md5sum" in each for each in expected] == [False, False]
    unreadable = Path(root, "shard-001.tar")
    unreadable.chmod(0)
    assert isinstance(as_nobody(unreadable.read_bytes), PermissionError)
    report = as_nobody(lambda: export(ExportRequest(root=root, target="wids", out=out)))
    assert report.files == 1
    assert read_shardlist(out) == expected


def test_hashed_option_adds_md5_of_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 2)
    index(root)
    export(ExportRequest(root=root, target="wids", hashed=True))
    assert [each["md5sum"] for each in read_shardlist(root)] == [
        hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() for path in sorted(Path(root).glob("*.tar"))
    ]


@pytest.mark.parametrize("target", ["wids", "energon", "croissant", "hub"])
def test_export_refuses_catalog_that_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    root = some_shards(tmp_path / "a", 4)
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=1", by="shard")))
    module = import_module(f"wdsctl.core.export.{target}")
    write = module.write

    def index_first(*arguments: Any) -> Any:
        some_shards(tmp_path / "a", 1, first=4)
        index(root)
        return write(*arguments)

    monkeypatch.setattr(module, "write", index_first)
    with pytest.raises(CatalogError, match="changed the catalog during the export") as caught:
        export(ExportRequest(root=root, target=target))
    assert caught.value.code == "WDS305"
    monkeypatch.undo()
    assert export(ExportRequest(root=root, target=target, overwrite=True)).shards == 5


def test_existing_user_file_is_not_replaced(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 2)
    index(root)
    Path(root, "index.json").write_text("mine")
    with pytest.raises(UsageError, match="the file exists"):
        export(wids(root))
    assert Path(root, "index.json").read_text() == "mine"
    export(ExportRequest(root=root, target="wids", overwrite=True))
    export(wids(root))  # repeating the export is allowed
    assert len(read_shardlist(root)) == 2


def test_indexes_of_former_splits_are_named(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 4)
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=2,val=1,test=1", by="shard")))
    assert export(wids(root)).notes == ()
    Path(root, "index-mine.json").write_text("{}")
    split_dataset(root, SplitRequest(rule=SplitRule({"train": 3, "val": 1}, "shard"), allow_split_changes=True))
    report = export(ExportRequest(root=root, target="wids", overwrite=True))
    assert report.notes == ("index-test.json of an earlier export stay, but do not fit the splits now: remove them",)


@pytest.mark.parametrize(("target", "options"), [("hub", {"hashed": True}), ("wids", {"sample_tables": False})])
def test_option_of_another_target_is_refused(tmp_path: Path, target: Any, options: Any) -> None:
    root = some_shards(tmp_path / "a", 1)
    index(root)
    with pytest.raises(UsageError, match=f"the metadata of {target} has no"):
        export(ExportRequest(root=root, target=target, **options))
