"""`dataset@NAME`: a training on a view has exactly its samples, and its state identifies the view."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import rewrite_shard
from tests.core.catalog.readers import read_view_samples, select_split
from tests.loader.datasets import Raw, a_dataset, a_shard, digest, numbered
from tests.loader.running import digests, json_round_trip, make_training_loader, take_batches
from tests.places import in_folder_and_memory
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.selections import count_selected, intersect_selections
from wdsctl.core.views.show import iter_exported_names
from wdsctl.core.views.views import create_view
from wdsctl.loader import Blender, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.recipe.arguments import DatasetPath as Named


def a_dataset_with_view(root: Path, samples: int = 60, **options: Any) -> str:
    """A dataset split by sample, with the view `odd` of every other sample."""
    path = a_dataset(root, samples, split={"train": 3, "val": 1}, split_by="sample", **options)
    create_view(path, "odd", ViewDefinition(where="position % 2 = 1"))
    return path


def keys_of(root: str, view: str, split: str) -> set[str]:
    """Return the keys of a view in a split, from the exported names of both."""
    create_view(root, f"in-{split}", ViewDefinition(split=split), replace=True)
    one, other = (set(b"".join(iter_exported_names(root, name)).decode().split()) for name in (view, f"in-{split}"))
    return one & other


def read_pass(path: Named, **options: Any) -> list[str]:
    """Return the keys of one pass."""
    options = {"batch_size": 4, "shuffle_buffer_size": 8, "repeat": False, **options}
    with get_loader(get_train_dataset(path, task_encoder=Raw(), **options)) as loader:
        return [key for batch in loader for key in batch["__key__"]]


@pytest.mark.parametrize("workers", [0, 2])
def test_pass_has_each_sample_in_view_and_split_once(tmp_path: Path, workers: int) -> None:
    root = a_dataset_with_view(tmp_path)
    keys = read_pass(f"{root}@odd", worker_config=WorkerConfig(0, 1, workers))
    assert Counter(keys) == Counter(keys_of(root, "odd", "train"))
    assert set(read_pass(f"{root}@odd", split_part="val")) == keys_of(root, "odd", "val")


@settings(max_examples=8, deadline=None)
@given(st.sets(st.integers(0, 39), min_size=1), st.integers(1, 12))
def test_samples_of_any_view_are_read_once_per_epoch(
    tmp_path_factory: pytest.TempPathFactory, chosen: set[int], window: int
) -> None:
    home = tmp_path_factory.mktemp("any")
    root = a_dataset(home / "data", 40, shard_samples=7)
    (home / "keys.txt").write_text("".join(f"{i:06}\n" for i in sorted(chosen)), encoding="utf-8")
    create_view(root, "some", ViewDefinition(keys=str(home / "keys.txt")))

    assert sorted(read_pass(f"{root}@some", shuffle_buffer_size=window)) == [f"{i:06}" for i in sorted(chosen)]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_validation_reads_view_in_order(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path / "data")
    with get_loader(get_val_dataset(f"{root}@odd", batch_size=4, task_encoder=Raw())) as loader:
        keys = [key for batch in loader for key in batch["__key__"]]
    assert keys == sorted(keys_of(root, "odd", "val"))


@pytest.mark.usefixtures("place")
def test_training_on_view_resumes_exactly_after_every_batch(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path, 40)
    whole = make_training_loader(f"{root}@odd")
    states, truth = [], []
    for _ in range(12 + 4):
        states.append(json_round_trip(whole.state_dict()))
        truth += digests(whole, 1)
    for step, state in enumerate(states[:12]):
        again = make_training_loader(f"{root}@odd")
        again.load_state_dict(state)
        assert digests(again, 4) == truth[step : step + 4]


def test_blend_files_and_blender_take_views(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path / "data")
    a_dataset(tmp_path / "other", 20, parts=lambda i: numbered(1000 + i))
    blend = tmp_path / "blend.yaml"
    blend.write_text(
        "splits:\n  train:\n    blend_epochized:\n      - path: data@odd\n      - path: other\n", encoding="utf-8"
    )
    texts = Counter(read_pass(blend))
    assert sum(texts.values()) == len(keys_of(root, "odd", "train")) + 20
    mapping: dict[str, Any] = {"blend_epochized": [{"path": f"{root}@odd", "repetitions": 2}]}
    twice = Counter(read_pass(mapping))
    keys = keys_of(root, "odd", "train")
    assert twice == Counter(dict.fromkeys(keys, 2))
    with get_loader(get_train_dataset(Blender([(f"{root}@odd", 1)]), batch_size=4, task_encoder=Raw())) as loader:
        assert {key for batch in take_batches(loader, 12) for key in batch["__key__"]} == keys


def test_existing_path_takes_precedence_over_view(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path / "data")
    other = a_dataset(tmp_path / "data@odd", 8)
    assert len(read_pass(f"{root}@odd")) == len(read_pass(other)) == 8


def test_load_state_dict_refuses_redefined_view(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path)
    training = make_training_loader(f"{root}@odd")
    take_batches(training, 3)
    state = json_round_trip(training.state_dict())
    assert state["plan"]["order"]["views"]["0"]
    create_view(root, "odd", ViewDefinition(where="position % 2 = 0"), replace=True)

    again = make_training_loader(f"{root}@odd")
    with pytest.raises(StateMismatch, match="views: ") as raised:
        again.load_state_dict(state)
    assert "changed data" in raised.value.message


def test_load_state_dict_of_view_refuses_state_of_whole_dataset(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path)
    create_view(root, "all", ViewDefinition(where="position >= 0"))
    state = json_round_trip(make_training_loader(root).state_dict())
    again = make_training_loader(f"{root}@all")
    with pytest.raises(StateMismatch, match="views: "):
        again.load_state_dict(state)


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_state_resumes_on_view_of_same_samples_with_other_name(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path / "data")
    create_view(root, "same", ViewDefinition(where="id % 2 = 1"))
    training = make_training_loader(f"{root}@odd")
    take_batches(training, 3)
    state, truth = json_round_trip(training.state_dict()), digests(training, 5)
    again = make_training_loader(f"{root}@same")
    again.load_state_dict(state)
    assert digests(again, 5) == truth


def test_grown_dataset_leaves_views_unchanged(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path)
    training = make_training_loader(f"{root}@odd")
    take_batches(training, 3)
    state, truth = json_round_trip(training.state_dict()), digests(training, 9)
    a_shard(tmp_path / "shard-900.tar", ((f"new{i}", numbered(i)) for i in range(10)))
    index(root)

    for adopt in (None, "next_epoch"):
        again = make_training_loader(f"{root}@odd", adopt=adopt)
        again.load_state_dict(state)
        assert digests(again, 9) == truth


def test_view_with_changed_shard_is_refused(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path)
    rewrite_shard(tmp_path / "shard-001.tar", {"x.txt": b"1", "y.txt": b"2"})
    index(root)
    with pytest.raises(CatalogError, match=r"shard-001\.tar") as raised:
        read_pass(f"{root}@odd")
    assert raised.value.code == "WDS331"
    assert "view refresh" in raised.value.hint


def test_unknown_view_and_view_without_samples_in_split_are_reported(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path)
    with pytest.raises(InputError, match="no view 'even'; it has odd"):
        read_pass(f"{root}@even")
    create_view(root, "v", ViewDefinition(split="val"))
    with pytest.raises(InputError, match="the view 'v' has no samples in the split 'train'"):
        read_pass(f"{root}@v")


def test_joins_take_views(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path / "data")
    a_dataset(tmp_path / "other", 60, parts=lambda i: {"cls": str(i).encode()})
    join: dict[str, Any] = {"join": [{"path": f"{root}@odd"}, {"path": str(tmp_path / "other")}]}
    with get_loader(get_train_dataset(join, batch_size=4, task_encoder=Raw(), repeat=False)) as loader:
        batches = list(loader)
    assert len({digest(batch) for batch in batches}) == len(batches)
    assert sum(len(batch["__key__"]) for batch in batches) == len(keys_of(root, "odd", "train"))


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_trace_of_view_lists_samples_of_its_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wdsctl.core.trace.trace import TraceOptions, query_trace

    root = a_dataset_with_view(tmp_path / "data")
    with get_loader(
        get_train_dataset(f"{root}@odd", batch_size=4, task_encoder=Raw(), trace=tmp_path / "traces")
    ) as loader:
        take_batches(loader, 3)
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, root.partition("@")[0])
    report = query_trace(str(tmp_path / "traces"), TraceOptions(step=1))
    assert report.findings == ()
    assert report.batches is not None
    assert {sample.key for sample in report.batches[0].samples} <= keys_of(root, "odd", "train")


def test_view_stores_one_bit_per_sample_and_states_stay_small(tmp_path: Path) -> None:
    root = a_dataset_with_view(tmp_path)
    place = locate(root)
    view, split = read_view_samples(place, "odd"), select_split(place, "train")
    bits = np.packbits([False, True] * 15, bitorder="little").tobytes()
    assert list(view.values()) == [SplitShard(shard, 15, bits) for shard in split]
    assert count_selected(intersect_selections(view, split)) == len(keys_of(root, "odd", "train"))
    assert len(json.dumps(make_training_loader(f"{root}@odd").state_dict())) < 4000


def test_jsonl_file_has_views(tmp_path: Path) -> None:
    path = tmp_path / "qa.jsonl"
    path.write_text("".join(json.dumps({"n": i}) + "\n" for i in range(20)), encoding="utf-8")
    prepare(str(path), None, PrepareRequest(sample_type="CrudeSample"))
    create_view(str(path), "few", ViewDefinition(where="position < 6"))
    assert len(set(read_pass(f"{path}@few"))) == 6
