from __future__ import annotations

import io
import json
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml

from tests.build import AsNobody, a_dataset, a_shard, rewrite_shard, samples, tree
from wdsctl.core.dataset.config import DatasetConfig, dump_config
from wdsctl.core.errors import CatalogError, DatasetError, InputError, PermissionDenied, UsageError
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportReport, ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset

SCHEMA = {
    "samples": "tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index INTEGER NOT NULL, "
    "byte_offset INTEGER, byte_size INTEGER",
    "sample_parts": "tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, content_byte_offset INTEGER, "
    "content_byte_size INTEGER",
    "idx_samples_by_tar_and_idx": "samples(tar_file_id, sample_index)",
    "idx_sample_parts_seq": "sample_parts(tar_file_id, sample_index, content_byte_offset)",
    "idx_sample_parts_full": "sample_parts(tar_file_id, sample_index, part_name, content_byte_offset, "
    "content_byte_size)",
}


def to_energon(root: str, **options: Any) -> ExportReport:
    return export(ExportRequest(root=root, target="energon", **options))


def split_root(root: str, ratios: str, *, by: Literal["shard", "sample"]) -> None:
    index(root)
    split_dataset(root, parse_split_request(SplitOptions(ratios=ratios, by=by)))


def a_root(tmp_path: Path) -> str:
    """Six shards in folders, whose tars also have directories, comments and long names; split by shard."""
    shards: dict[str, bytes] = {}
    for i in range(6):
        members = dict(samples(4 * i, 4))
        members[f"{'deep/' * 40}{i:06d}.long.txt"] = b"under a name that needs a header more"
        shards[f"parts/data-{i}.tar"] = _tar_with_other_members(
            members, tarfile.GNU_FORMAT if i % 2 else tarfile.PAX_FORMAT
        )
    root = a_dataset(tmp_path / "a", shards)
    split_root(root, "train=4,val=1,test=1", by="shard")
    return root


def _tar_with_other_members(members: dict[str, bytes], form: int) -> bytes:
    """A tar of these members, with members between them that belong to no sample."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for i, (name, data) in enumerate(members.items()):
            if i in (0, 4):
                folder = tarfile.TarInfo(f"folder{i}")
                folder.type = tarfile.DIRTYPE
                archive.addfile(folder)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def scan_like_energon(path: Path) -> tuple[list[int], dict[str, list[tuple[str, int, int]]]]:
    """Scans by Energon's rules with tarfile: the offsets of samples and of the end, and the parts of each key."""
    starts: list[int] = []
    parts: dict[str, list[tuple[str, int, int]]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            folder, _, name = member.name.rpartition("/")
            base, dot, part = name.partition(".")
            if not (member.isreg() and base and dot):
                continue
            key = f"{folder}/{base}" if folder else base
            if key not in parts:
                starts.append(member.offset)
            parts.setdefault(key, []).append((part, member.offset_data, member.size))
        return [*starts, archive.offset], parts


def test_indexes_equal_scan_of_tars(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    before = {name: stat for name, stat in tree(root).items() if name.endswith(".tar")}
    report = to_energon(root)
    assert {name: stat for name, stat in tree(root).items() if name.endswith(".tar")} == before
    info = json.loads(Path(root, ".nv-meta", ".info.json").read_text())
    assert set(info) == {"energon_version", "shard_counts"}
    assert sum(info["shard_counts"].values()) == report.samples == 30
    with closing(sqlite3.connect(Path(root, ".nv-meta", "index.sqlite"))) as database:
        for tar_file_id, (path, count) in enumerate(info["shard_counts"].items()):
            bounds, parts = scan_like_energon(Path(root, path))
            actual = np.frombuffer(Path(root, f"{path}.idx").read_bytes(), "<u8").tolist()
            assert (actual, len(actual) - 1) == (bounds, count)
            rows = "SELECT sample_key, byte_offset, byte_size FROM samples WHERE tar_file_id = ? ORDER BY sample_index"
            assert database.execute(rows, (tar_file_id,)).fetchall() == [
                (key, bounds[i], bounds[i + 1] - bounds[i]) for i, key in enumerate(parts)
            ]
            rows = "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts"
            assert database.execute(f"{rows} WHERE tar_file_id = ? ORDER BY rowid", (tar_file_id,)).fetchall() == [
                (i, *part) for i, key in enumerate(parts) for part in parts[key]
            ]


def test_database_has_schema_of_energon_7_4(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    to_energon(root)
    with closing(sqlite3.connect(Path(root, ".nv-meta", "index.sqlite"))) as database:
        actual = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    normalized = {name: " ".join(sql.split()).replace("( ", "(").replace(" )", ")") for name, sql in actual}
    assert normalized == {
        name: f"CREATE INDEX {name} ON {text}" if name.startswith("idx") else f"CREATE TABLE {name} ({text})"
        for name, text in SCHEMA.items()
    }


def test_splits_and_excluded_samples_match_catalog(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {f"s-{i}.tar": samples(4 * i, 4) for i in range(6)})
    index(root)
    excluded = parse_split_request(
        SplitOptions(
            ratios="train=4,val=1,test=1",
            by="shard",
            exclude_shard=("s-5.tar",),
            exclude_key=("000001",),
        )
    )
    split_dataset(root, excluded)
    report = to_energon(root)
    split_yaml = yaml.safe_load(Path(root, ".nv-meta", "split.yaml").read_text())
    assert list(split_yaml["split_parts"]) == ["train", "val", "test"]
    assert set(split_yaml["exclude"]) == {"s-5.tar", "s-0.tar/000001"}
    assert sum(report.splits.values()) == 19
    assert any("skips 1 excluded sample" in note for note in report.notes)


def test_splits_by_sample_are_refused_with_hint(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {f"s-{i}.tar": samples(20 * i, 20) for i in range(2)})
    split_root(root, "train=1,val=1", by="sample")
    with pytest.raises(DatasetError, match="2 shards of 2 have samples in several splits") as caught:
        to_energon(root)
    assert caught.value.code == "WDS256"
    assert "--naming hub" in caught.value.hint
    assert not Path(root, ".nv-meta").exists()
    assert not Path(root, "s-0.tar.idx").exists()


def test_repeated_keys_are_refused_unless_sample_tables_are_off(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"a.tar": samples(0, 3), "b.tar": samples(1, 3)})
    split_root(root, "train=1", by="shard")
    with pytest.raises(DatasetError, match=r"2 keys occur more than once: 000001 \(2 samples\), 000002 \(2") as caught:
        to_energon(root)
    assert caught.value.code == "WDS106"
    to_energon(root, sample_tables=False)
    assert {path.name for path in Path(root, ".nv-meta").iterdir()} == {".info.json", "dataset.yaml", "split.yaml"}


def test_existing_metadata_requires_overwrite_and_other_files_are_kept(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    meta = Path(root, ".nv-meta")
    meta.mkdir()
    (meta / ".info.json").write_text("{}")
    (meta / "sample_loader.py").write_text("mine")
    before = tree(root)
    with pytest.raises(UsageError, match="has Energon's metadata already"):
        to_energon(root)
    assert tree(root) == before
    to_energon(root, overwrite=True)
    assert (meta / "sample_loader.py").read_text() == "mine"
    assert json.loads((meta / ".info.json").read_text())["shard_counts"]


def test_equal_datasets_have_equal_files_and_changed_ones_new_uuid(tmp_path: Path) -> None:
    for name in ("a", "b"):
        to_energon(a_root(tmp_path / name))
    first, second = (tmp_path / name / "a" / ".nv-meta" for name in ("a", "b"))
    for name in (".info.json", "split.yaml", "dataset.yaml", "index.sqlite", "index.uuid"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    root = str(tmp_path / "a" / "a")
    rewrite_shard(f"{root}/parts/data-0.tar", samples(100, 4))
    index(root)
    to_energon(root, overwrite=True)
    assert (first / "index.uuid").read_text() != (second / "index.uuid").read_text()


def test_shard_with_other_samples_of_same_size_gives_new_uuid(tmp_path: Path) -> None:
    uuids = set()
    for first in (0, 100):
        root = a_dataset(tmp_path / f"{first}" / "a", {"data.tar": samples(first, 4)})
        split_root(root, "train=1", by="shard")
        to_energon(root)
        uuids.add((Path(root) / ".nv-meta" / "index.uuid").read_text())
    assert len(uuids) == 2


def test_out_option_writes_files_into_other_folder(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    to_energon(root, out=str(tmp_path / "out"))
    assert sorted(path.name for path in (tmp_path / "out" / "parts").iterdir()) == [
        f"data-{i}.tar.idx" for i in range(6)
    ]
    assert (tmp_path / "out" / ".nv-meta" / ".info.json").exists()
    assert not Path(root, ".nv-meta").exists()


def test_unwritable_folder_is_refused_with_hint(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_root(public_path)
    for folder in (Path(root), Path(root, "parts")):
        folder.chmod(0o555)
    error = as_nobody(lambda: _get_permission_error(lambda: to_energon(root)))
    assert "no permission to write into the dataset's folder" in error
    assert "export" in error
    assert "--to energon OUT" in error


def _get_permission_error(run: Callable[[], object]) -> str:
    with pytest.raises(PermissionDenied) as caught:
        run()
    return str(caught.value)


def test_shard_names_that_energon_would_change_are_refused(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "a", {"a\\b.tar": samples(0, 3)})
    split_root(root, "train=1", by="shard")
    with pytest.raises(DatasetError, match="has a backslash") as caught:
        to_energon(root)
    assert caught.value.code == "WDS217"
    assert not Path(root, ".nv-meta").exists()


def test_outdated_catalog_is_refused(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    rewrite_shard(f"{root}/parts/data-0.tar", samples(100, 2))
    with pytest.raises(CatalogError, match="has changed since it was indexed"):
        to_energon(root)
    assert not Path(root, ".nv-meta").exists()


def test_jsonl_datasets_and_datasets_without_splits_are_refused(tmp_path: Path) -> None:
    a_dataset(tmp_path / "lines", {"a.jsonl": b'{"text": "a"}\n'})
    index(str(tmp_path / "lines"))
    with pytest.raises(InputError, match="the dataset has JSONL files"):
        to_energon(str(tmp_path / "lines"))
    a_dataset(tmp_path / "tars", {"a.tar": samples(0, 2)})
    index(str(tmp_path / "tars"))
    with pytest.raises(InputError, match="the dataset has no splits yet"):
        to_energon(str(tmp_path / "tars"))


def a_typed_root(tmp_path: Path, config: DatasetConfig, *, missing_part: str = "") -> str:
    """Four samples with jpg, txt and json; the last one lacks `missing_part`."""
    members = samples(0, 4, "jpg", "json", "txt")
    if missing_part:
        del members[f"000003.{missing_part}"]
    root = a_dataset(tmp_path / "a", {"a.tar": a_shard(members)})
    index(root)
    Path(root, ".wdsctl", "dataset.yaml").write_text(dump_config(config))
    split_dataset(root, parse_split_request(SplitOptions(ratios="train=1", by="shard")))
    return root


CAPTIONING = {"image": "jpg,png", "caption": 'json["caption"][0]', "captions": "json[captions]"}


def test_sample_type_is_written_in_energon_format(tmp_path: Path) -> None:
    config = DatasetConfig("CaptioningSample", CAPTIONING, {"source": "web"})
    report = to_energon(a_typed_root(tmp_path, config))
    assert yaml.safe_load((tmp_path / "a" / ".nv-meta" / "dataset.yaml").read_text()) == {
        "sample_type": {"__module__": "megatron.energon", "__class__": "CaptioningSample"},
        "field_map": {"image": "jpg,png", "caption": "json[caption][0]"},
        "subflavors": {"source": "web"},
    }
    assert report.notes == ("Energon's CaptioningSample has no field captions: it is left out",)


def test_optional_field_that_makes_energon_skip_samples_is_dropped(tmp_path: Path) -> None:
    config = DatasetConfig("ImageClassificationSample", {"image": "jpg", "label_name": "txt"}, optional=("txt",))
    report = to_energon(a_typed_root(tmp_path, config, missing_part="txt"))
    assert yaml.safe_load((tmp_path / "a" / ".nv-meta" / "dataset.yaml").read_text())["field_map"] == {"image": "jpg"}
    assert report.notes == ("label_name is left out, as Energon would skip 1 sample without it",)


@pytest.mark.parametrize(
    ("sample_type", "field_map"),
    [
        ("AudioSample", {"audio": "jpg"}),
        ("CrudeSample", {}),
        ("OCRSample", {"image": "jpg", "text": "txt", "words_text": "json[words][*][text]"}),
    ],
)
def test_sample_type_unknown_to_energon_becomes_crude_dataset(
    tmp_path: Path, sample_type: str, field_map: dict[str, str]
) -> None:
    report = to_energon(a_typed_root(tmp_path, DatasetConfig(sample_type, field_map)))
    assert yaml.safe_load((tmp_path / "a" / ".nv-meta" / "dataset.yaml").read_text()) == {
        "__module__": "megatron.energon",
        "__class__": "CrudeWebdataset",
    }
    assert bool(report.notes) == (sample_type != "CrudeSample")


def test_sample_loader_file_is_exported_with_dataset_yaml(tmp_path: Path) -> None:
    config = DatasetConfig("mine:Sample", sample_loader="load.py:load")
    root = a_typed_root(tmp_path, config)
    with pytest.raises(InputError, match=r"cannot read load\.py"):
        to_energon(root)
    Path(root, ".wdsctl", "load.py").write_text("def load(parts): ...")
    to_energon(root)
    assert yaml.safe_load((tmp_path / "a" / ".nv-meta" / "dataset.yaml").read_text()) == {
        "sample_type": {"__module__": "mine", "__class__": "Sample"},
        "sample_loader": "load.py:load",
        "part_filter": ["jpg", "json", "txt"],
    }
    assert (tmp_path / "a" / ".nv-meta" / "load.py").exists()
