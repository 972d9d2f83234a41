"""Damaged catalog files stop a training with a hint how to repair them; they never yield wrong samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import a_shard
from tests.loader.datasets import Raw, digest
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.offsets import mapped_arrays, read
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import Loader, Packing, WorkerConfig, get_loader, get_train_dataset

SAMPLES = 4_000
MAX_UNMAPPED_BYTES = 1 << 15


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset large enough that its offsets file is memory-mapped: with a lower limit, since 40,000 samples are."""
    for module in (mapped_arrays, read):
        monkeypatch.setattr(module, "MAX_UNMAPPED_BYTES", MAX_UNMAPPED_BYTES)
    path = tmp_path / "data" / "lines.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f"{json.dumps({'n': i, 'text': 'x' * (i % 90)})}\n" for i in range(SAMPLES)))
    prepare(str(path.parent), None, PrepareRequest(sample_type="CrudeSample"))
    return path.parent


def loader_of(path: Path, workers: int = 0, **options: object) -> Loader:
    config = WorkerConfig(num_workers=workers)
    defaults: dict[str, object] = {"batch_size": 100, "repeat": False, "task_encoder": Raw(), "worker_config": config}
    return get_loader(get_train_dataset(path, **{**defaults, **options}))  # type: ignore[arg-type]


def test_loader_warns_once_about_damaged_shard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a.tar", "b.tar"):
        (tmp_path / name).write_bytes(a_shard({f"{name[0]}{i}.txt": b"x" for i in range(9)}))
    prepare(str(tmp_path), None, PrepareRequest(sample_type="CrudeSample", split={"train": 1.0}))
    list(loader_of(tmp_path, batch_size=2))
    assert not caplog.records
    data = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(data[:4500])
    index(str(tmp_path))

    list(loader_of(tmp_path, batch_size=2))

    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("1 shard of ")
    assert f"`wdsctl validate {tmp_path}`" in message


@pytest.mark.parametrize("workers", [0, 2])
def test_flipped_bit_in_offsets_stops_training_and_index_repairs_it(dataset: Path, workers: int) -> None:
    (path,) = (dataset / ".wdsctl").glob("offsets-*.bin")
    whole = path.read_bytes()
    assert len(whole) > MAX_UNMAPPED_BYTES
    expected = [digest(batch) for batch in loader_of(dataset)]
    for at in (len(whole) // 3, len(whole) // 2, len(whole) * 4 // 5):
        data = bytearray(whole)
        data[at] ^= 4
        path.unlink()
        path.write_bytes(data)

        actual: list[str] = []
        with pytest.raises(CatalogError) as raised, loader_of(dataset, workers) as loader:
            actual.extend(map(digest, loader))
        assert raised.value.code == "WDS302"
        assert raised.value.where == str(path)
        assert f"wdsctl index {dataset}" in raised.value.hint
        assert actual == expected[: len(actual)]

        index(str(dataset))
        assert path.read_bytes() == whole
    assert [digest(batch) for batch in loader_of(dataset, workers)] == expected


def test_flipped_bit_in_column_stops_training_that_packs_by_it(dataset: Path) -> None:
    index(str(dataset), columns={"tokens": "size:json"})
    (path,) = (dataset / ".wdsctl" / "columns").glob("tokens-*.bin")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 64
    path.unlink()
    path.write_bytes(data)

    with pytest.raises(CatalogError) as raised:
        list(loader_of(dataset, packing=Packing(length="tokens", capacity=500), batch_size=10))

    assert (raised.value.code, raised.value.where) == ("WDS311", str(path))
