"""Restored samples and resumed trainings with stores are exact."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import children
from tests.build import a_dataset as tars
from tests.build import a_folder
from tests.loader.cooks import IMAGES, Texts, blend_of_images, blend_of_texts, packing
from tests.loader.datasets import digest
from tests.loader.running import digests, json_round_trip, make_training_loader, save_state_after, take_batches
from tests.loader.stores.stores import blend_with_stores
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.trace import read_trace
from wdsctl.loader import (
    Cooker,
    DefaultTaskEncoder,
    FileStoreCachePool,
    WorkerConfig,
    cooker,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    merge_states,
)


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    return blend_of_texts(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Any]:
    return blend_of_images(tmp_path)


def test_restore_sample_rebuilds_batch_with_store_media(images: dict[str, Any]) -> None:
    loader = packing(images)
    batch = take_batches(loader, 4)[-1]

    restored = loader.restore_sample(batch["__restore_key__"])

    assert (restored["numbers"], restored["__sources__"]) == (batch["numbers"], batch["__sources__"])
    assert torch.equal(restored["image"], batch["image"])


def test_packing_store_media_with_cache_pool_resumes_exactly(images: dict[str, Any], tmp_path: Path) -> None:
    expected = digests(packing(images), 24)
    pool = FileStoreCachePool(tmp_path / "cache")

    assert digests(packing(images, pool=pool), 24) == expected
    for place in (1, 4, 9, 14):
        resumed = packing(images, pool=pool)
        resumed.load_state_dict(save_state_after(packing(images, pool=pool), place))
        assert digests(resumed, 24 - place) == expected[place:]
    pool.close()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_another_process_resumes_exactly_with_other_worker_count(
    images: dict[str, Any], tmp_path: Path, num_workers: int
) -> None:
    with packing(images, pool=FileStoreCachePool(tmp_path / "cache"), num_workers=num_workers) as loader:
        expected, states = [], []
        for batch in islice(loader, 12):
            expected.append(digest(batch))
            states.append(loader.state_dict())
    places = (0, 3, 8)
    (tmp_path / "states.json").write_text(json.dumps([states[place] for place in places]))

    arguments = [json.dumps(images), str(tmp_path), str(2 - num_workers)]
    process = children.run(
        [sys.executable, "-m", "tests.loader.cooked_process", *arguments],
        capture_output=True,
        text=True,
        check=False,
        parent="training",
    )

    assert process.returncode == 0, process.stderr
    for place, digests_ in zip(places, json.loads(process.stdout), strict=True):
        assert digests_ == expected[place + 1 :][: len(digests_)]
        assert len(digests_) == 3


def test_jsonl_primary_with_media_folder_resumes_exactly(tmp_path: Path) -> None:
    lines = [json.dumps({"media": f"m/{i % 6}.png", "number": i}) for i in range(40)]
    (tmp_path / "qa.jsonl").write_text("\n".join(lines))
    prepare(str(tmp_path / "qa.jsonl"), None, PrepareRequest(sample_type="CrudeSample"))
    path = blend_with_stores(str(tmp_path / "qa.jsonl"), media=f"filesystem://{a_folder(tmp_path / 'files', IMAGES)}")
    expected = digests(packing(path), 16)
    pool = FileStoreCachePool(tmp_path / "cache")

    for place in (1, 5, 11):
        resumed = packing(path, pool=pool)
        resumed.load_state_dict(save_state_after(packing(path, pool=pool), place))
        assert digests(resumed, 16 - place) == expected[place:]
    pool.close()


def test_packing_store_media_resumes_on_other_rank_count(images: dict[str, Any], tmp_path: Path) -> None:
    expected = digests(packing(images), 16)
    pool = FileStoreCachePool(tmp_path / "cache")
    ranks = [packing(images, rank, 2, pool=pool) for rank in range(2)]
    state = merge_states([save_state_after(rank, 3) for rank in ranks])
    resumed = packing(images, pool=pool)
    resumed.load_state_dict(json_round_trip(state))

    assert digests(resumed, 10) == expected[6:]
    pool.close()


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_share_cache_and_resume_exactly(images: dict[str, Any], tmp_path: Path, start_method: Any) -> None:
    expected = digests(packing(images), 12)
    pool = FileStoreCachePool(tmp_path / "cache")
    with packing(images, pool=pool, num_workers=2, start_method=start_method) as loader:
        state = save_state_after(loader, 5)
        cached_count = sum(1 for each in Path(pool.cache_dir).rglob("*") if len(each.name) == 32)
    resumed = packing(images, pool=pool)
    resumed.load_state_dict(state)

    assert digests(resumed, 7) == expected[5:]
    assert 0 < cached_count <= 6, "the workers share what one of them has brought"
    pool.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_validation_uses_cooker(texts: dict[str, Any], num_workers: int) -> None:
    val = {**texts, "split_part": "train"}
    dataset = get_val_dataset(val, task_encoder=Texts(), worker_config=WorkerConfig(0, 1, num_workers), batch_size=6)
    with get_loader(dataset) as loader:
        batches = list(loader)

    assert [batch.text for batch in batches] == [[f"text {i}" for i in range(6)]] * 4


def test_lazy_media_can_be_sent_from_worker(images: dict[str, Any], tmp_path: Path) -> None:
    @cooker(need_cache=True)
    def cook(sample: Any, media: Any, cache: Any) -> Any:
        return {**sample, "lazy": cache.get_lazy(media, sample["json"]["media"])}

    class Cooks(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(cook),)

    pool = FileStoreCachePool(tmp_path / "cache")
    dataset = get_train_dataset(images, task_encoder=Cooks(), worker_config=WorkerConfig(0, 1, 1))
    with get_loader(dataset, cache_pool=pool) as loader:
        samples = take_batches(loader, 3)

    for sample in samples:
        assert tuple(sample["lazy"].get(sample).shape) == (3, 32, 48)
        assert [source.shard_name for source in sample["__sources__"]][1:] == ["shard-0.tar"]
    pool.close()


def test_changed_store_warns_and_is_rejected_if_strict(texts: dict[str, Any]) -> None:
    state = save_state_after(make_training_loader(texts, encoder=Texts()), 2)
    media = Path(texts["aux"]["media"])
    tars(media, {"more.tar": {"m/new.txt": b"new"}})
    index(str(media))

    with pytest.warns(UserWarning, match="auxiliary stores have changed"):
        make_training_loader(texts, encoder=Texts()).load_state_dict(state)
    with pytest.raises(StateMismatch, match="media"):
        make_training_loader(texts, encoder=Texts()).load_state_dict(state, strict=True)


def test_trace_records_stores(texts: dict[str, Any], tmp_path: Path) -> None:
    with make_training_loader(texts, encoder=Texts(), trace=tmp_path / "trace") as loader:
        batch = take_batches(loader, 3)[-1]
    traced = list(read_trace(str(tmp_path / "trace")).batches())[-1]

    (store,) = traced.run.run["aux"]
    assert (store["source"], store["name"], store["path"]) == (0, "media", str(tmp_path / "media"))
    for key, text in zip(batch["__restore_key__"], batch["text"], strict=True):
        restored = loader.restore_sample(key)
        assert (restored.text, len(restored.__sources__)) == (text, 2)


def test_moved_store_is_accepted(texts: dict[str, Any], tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    state = save_state_after(make_training_loader(texts, encoder=Texts()), 2)
    (tmp_path / "media").rename(tmp_path / "moved")
    moved = {**texts, "aux": {"media": str(tmp_path / "moved")}}
    loader = make_training_loader(moved, encoder=Texts())
    loader.load_state_dict(state, strict=True)

    assert len(take_batches(loader, 2)) == 2
    assert not [each for each in recwarn if "auxiliary" in str(each.message)]


def test_check_determinism_supports_lazy_media(images: dict[str, Any]) -> None:
    assert len(take_batches(packing(images, check_determinism=True), 4)) == 4
