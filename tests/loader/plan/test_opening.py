"""A dataset is its root and its catalog, which can be elsewhere; training reads nothing else and writes nothing."""

from __future__ import annotations

import os
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.loader import get_loader, get_train_dataset


def digests(path: str | Path, **options: Any) -> list[str]:
    dataset = get_train_dataset(path, batch_size=4, task_encoder=Raw(), **options)
    return [digest(batch) for batch in islice(get_loader(dataset), 10)]


def test_loader_reads_catalog_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_dataset(tmp_path / "data", 20, parts=numbered)
    expected = digests(root)
    shutil.move(tmp_path / "data" / ".wdsctl", tmp_path / "elsewhere")

    assert digests(root, catalog=tmp_path / "elsewhere") == expected
    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path / "all"))
    (tmp_path / "all").mkdir()
    shutil.move(tmp_path / "elsewhere", locate(root).meta)
    assert digests(tmp_path / "data") == expected


def test_training_writes_nothing_to_disk(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 20, parts=numbered)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    digests(root)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_samples_without_dataset_yaml_are_dicts_of_parts(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 20, sample_type="TextSample", field_map={"text": "txt"})
    os.unlink(tmp_path / ".wdsctl" / "dataset.yaml")

    (sample,) = islice(get_loader(get_train_dataset(root, task_encoder=Raw())), 1)

    assert sample["txt"].startswith(b"text ")


@pytest.mark.parametrize("name", ["catalog.sqlite", "offsets-1.bin"])
def test_loader_rejects_damaged_catalog_files(name: str, tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 20, parts=numbered)
    (tmp_path / ".wdsctl" / name).write_bytes(b"nonsense" * 100)

    with pytest.raises(CatalogError) as raised:
        digests(root)

    assert raised.value.code == "WDS302"
    assert ("--rebuild" in raised.value.hint) == (name == "catalog.sqlite")


def test_loader_reports_missing_offsets_file(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 20, parts=numbered)
    os.unlink(tmp_path / ".wdsctl" / "offsets-1.bin")

    with pytest.raises(CatalogError, match="the offsets file is missing") as raised:
        digests(root)

    assert (raised.value.code, raised.value.hint) == ("WDS302", f"run `wdsctl index {root}` to write it again")


def test_missing_dataset_of_blend_file_is_reported_with_its_line(tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits:\n  train:\n    blend:\n      - weight: 1\n        path: nowhere\n")
    with pytest.raises(InputError) as caught:
        next(iter(get_loader(get_train_dataset(blend))))
    assert (caught.value.code, caught.value.where) == ("WDS002", f"{tmp_path / 'nowhere'} ({blend}:5)")


def test_training_on_raw_files_suggests_wdsctl_prepare(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InputError, match="found no shards") as caught:
        next(iter(get_loader(get_train_dataset(tmp_path))))
    assert (caught.value.code, caught.value.where) == ("WDS003", str(tmp_path))
    assert f"`wdsctl prepare {tmp_path} DEST`" in str(caught.value.hint)
