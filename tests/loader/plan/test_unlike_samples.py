"""Samples of one dataset that cannot be batched together are refused before the first batch, or end the run."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.loader.datasets import Parts, Raw, a_dataset
from tests.loader.running import make_training_loader, take_batches
from wdsctl.core.blend import Blender
from wdsctl.core.dataset.config import load_config
from wdsctl.core.errors import LoaderError
from wdsctl.loader import DefaultTaskEncoder, Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.plan.incompatible_sources import UnlikeSamplesError


def picture(ending: str) -> bytes:
    found = io.BytesIO()
    Image.new("RGB", (4, 4)).save(found, {"jpg": "JPEG"}.get(ending, ending))
    return found.getvalue()


JPEG, PNG = picture("jpg"), picture("png")


def halves(i: int) -> Parts:
    return {"input.png": PNG, "json": b"{}"} if i % 2 else {"input.jpg": JPEG, "json": b"{}"}


def pages(i: int) -> Parts:
    return {"json": b"{}", **{f"pages.{page}.png": PNG for page in range(i % 3)}}


def rarely(i: int) -> Parts:
    return {"txt": b"x"} if i == 77 else {"txt": b"x", "json": b"{}"}


def crude(root: Path, parts: Any, samples: int = 60) -> str:
    return a_dataset(root, samples, parts=parts, sample_type="CrudeSample")


def test_unlike_samples_are_refused_with_counts_samples_and_field_map(tmp_path: Path) -> None:
    root = crude(tmp_path, halves)

    with pytest.raises(UnlikeSamplesError) as raised:
        make_training_loader(root, batch_size=4).start()

    error = raised.value
    assert error.code == "WDS536"
    assert error.where == root
    assert error.message.splitlines() == [
        "88% of the batches would fail, because the samples have different fields; all have json",
        "  30 samples: input.jpg; such as shard-000.tar, key 000000",
        "  30 samples: input.png; such as shard-000.tar, key 000001",
    ]
    assert '`field_map: {"input": "input.jpg,input.png"}`' in error.hint


def test_proposed_field_map_makes_samples_batchable(tmp_path: Path) -> None:
    root = crude(tmp_path, pages)
    with pytest.raises(UnlikeSamplesError) as raised:
        make_training_loader(root, batch_size=4).start()
    line = raised.value.hint.split("`")[1]
    config = tmp_path / ".wdsctl" / "dataset.yaml"

    config.write_text(config.read_text().replace("field_map: {}", line))

    for batch in take_batches(make_training_loader(root, encoder=DefaultTaskEncoder()), 15):
        assert [len(each) for each in batch["pages"]] == [int(key) % 3 for key in batch["__key__"]]
        assert {page.shape for each in batch["pages"] for page in each} <= {(3, 4, 4)}


def test_prepare_writes_fields_of_new_dataset_and_loader_returns_them(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 60, parts=lambda i: {**halves(i), "output.png": PNG}, sample_type="")
    assert load_config(str(tmp_path / ".wdsctl" / "dataset.yaml")).field_map == {"input": "input.jpg,input.png"}

    found: Counter[str] = Counter()
    for batch in take_batches(make_training_loader(root, encoder=DefaultTaskEncoder()), 15):
        assert batch["input"].shape == (4, 3, 4, 4)
        found.update(batch["__key__"])
    assert set(found.values()) == {1}
    raw = take_batches(make_training_loader(root, batch_size=4, encoder=Raw()), 15)
    assert {value for batch in raw for value in batch["input"]} == {JPEG, PNG}


@pytest.mark.parametrize("size", [None, 1])
def test_unlike_samples_are_accepted_in_batches_of_one(size: int | None, tmp_path: Path) -> None:
    assert len(take_batches(make_training_loader(crude(tmp_path, halves), batch_size=size), 8)) == 8


def test_unlike_samples_are_accepted_with_hooks_that_make_them_alike_or_group_them(tmp_path: Path) -> None:
    class Alike(Raw):
        def encode_sample(self, sample: Any) -> Any:
            return {name: sample[name] for name in sample if name.startswith("__")}

    class Apart(Raw):
        def batch_group_criterion(self, sample: Any) -> tuple[Any, int | None]:
            return "input.jpg" in sample, None

    root = crude(tmp_path, halves)

    for encoder in (Alike(), Apart()):
        assert len(take_batches(make_training_loader(root, batch_size=4, encoder=encoder), 8)) == 8


def test_rare_odd_sample_loses_only_its_batches(tmp_path: Path) -> None:
    loader = make_training_loader(crude(tmp_path, rarely, 1000), batch_size=4, encoder=Raw())

    take_batches(loader, 400)

    assert loader.stats.failed in (1, 2)


def test_validation_counts_batches_in_order(tmp_path: Path) -> None:
    """One batch of 150 has samples of both sets: less than 1 % of the batches are lost."""
    root = crude(tmp_path, lambda i: halves(int(i < 301)), 600)

    assert len(list(get_loader(get_val_dataset(root, split_part="train", batch_size=4)))) == 149
    with pytest.raises(UnlikeSamplesError, match="2% of the batches"):
        next(iter(get_loader(get_val_dataset(root, split_part="train", batch_size=12))))


def test_share_of_a_blend_decides_how_many_batches_would_fail(tmp_path: Path) -> None:
    """One sample of 1,000 is odd: a batch of 64 would fail in 6 % of all cases, one with a tenth of it in 0.6 %."""
    odd, others = crude(tmp_path / "odd", rarely, 1000), crude(tmp_path / "others", lambda _: rarely(0), 1000)

    with pytest.raises(UnlikeSamplesError, match="6% of the batches"):
        make_training_loader(odd, batch_size=64, encoder=Raw()).start()
    make_training_loader(Blender([(odd, 1), (others, 9)]), batch_size=64, encoder=Raw()).start()


@pytest.mark.parametrize("workers", [0, 2])
def test_run_ends_if_more_than_one_percent_of_batches_have_unlike_samples(workers: int, tmp_path: Path) -> None:
    class Odd(Raw):
        def encode_sample(self, sample: Any) -> Any:
            return {name: sample[name] for name in sample if name != "json" or int(sample["__key__"]) % 100}

    root = crude(tmp_path, lambda _: rarely(0), 1000)

    def make_loader(**options: Any) -> Loader:
        config = WorkerConfig(num_workers=workers)
        dataset = get_train_dataset(root, batch_size=4, task_encoder=Odd(), worker_config=config)
        return get_loader(dataset, **options)

    ending = make_loader()
    with pytest.raises(LoaderError, match="too many batches have samples that do not go together") as raised:
        take_batches(ending, 400)
    assert raised.value.code == "WDS536"
    assert 200 < ending.stats.batches < 300  # 11 of a thousand batches may fail
    assert "11 of the last" in raised.value.message
    assert len(take_batches(make_loader(max_failed_fraction=0.2), 400)) == 400
