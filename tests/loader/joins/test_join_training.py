"""Training on joins: order, lengths, weights, states and traces are those of the primary."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, a_shard, digest, numbered
from tests.loader.running import (
    digests,
    ids,
    make_training_loader,
    raising_worker_config,
    save_state_after,
    take_batches,
)
from tests.places import in_folder_and_memory
from tests.remote import upload_shards
from wdsctl.core.errors import DatasetError, InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
from wdsctl.core.trace.trace import TraceOptions, query_trace
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset, get_val_dataset, get_val_datasets
from wdsctl.loader.packing import Packing


def classes(i: int) -> Parts:
    return {"cls": str(i).encode()}


@pytest.fixture
def primary(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "primary", 60)


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A dataset with the first 40 keys, in different shards."""
    return a_dataset(tmp_path / "other", 40, shard_samples=7, parts=classes)


def join_of(*paths: str, nonmatch: str = "skip", **keys: Any) -> dict[str, Any]:
    first, *rest = paths
    return {"join": [{"path": first}, *({"path": path, "nonmatch": nonmatch} for path in rest)], **keys}


def a_pass(path: Any, **options: Any) -> list[Any]:
    return list(get_loader(get_val_dataset(path, split_part="train", batch_size=4, task_encoder=Raw(), **options)))


def keys_of(batches: list[Any]) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


@pytest.mark.usefixtures("place")
def test_join_finds_partner_in_other_shards(primary: str, other: str) -> None:
    batches = a_pass(join_of(primary, other))

    assert keys_of(batches) == [f"{i:06}" for i in range(40)]
    assert [part for batch in batches for part in batch["cls"]] == [str(i).encode() for i in range(40)]
    assert [part for batch in batches for part in batch["txt"]] == [f"text {i}".encode() for i in range(40)]


def test_nonmatch_skip_removes_samples_from_lengths_and_subsets(primary: str, other: str) -> None:
    validation = get_loader(get_val_dataset(join_of(primary, other), split_part="train", batch_size=4))
    assert len(validation) == 10
    counts = Counter(keys_of(take_batches(make_training_loader(join_of(primary, other), lanes=1), 30)))
    assert len(counts) == 40
    assert set(counts.values()) == {3}
    assert keys_of(a_pass(join_of(primary, other, subset={"range": ["50%", "end"]}))) == [
        f"{i:06}" for i in range(20, 40)
    ]


def test_nonmatch_none_keeps_samples_without_partner(primary: str, other: str) -> None:
    batches = a_pass(join_of(primary, other, nonmatch="none"))

    assert len(keys_of(batches)) == 60
    assert [part for batch in batches for part in batch["cls"]][38:42] == [b"38", b"39", None, None]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_nonmatch_error_lists_missing_keys_before_training(primary: str, other: str) -> None:
    with pytest.raises(DatasetError, match=r"20 of 60 samples .* '000040', '000041'"):
        make_training_loader(join_of(primary, other, nonmatch="error")).state_dict()


def test_join_without_matches_is_refused(primary: str, tmp_path: Path) -> None:
    a_shard(tmp_path / "odd" / "a.tar", [("nobody", classes(0))])
    prepare(str(tmp_path / "odd"), None, PrepareRequest(sample_type="CrudeSample"))

    with pytest.raises(InputError, match=r"no sample of .* has partners"):
        take_batches(make_training_loader(join_of(primary, str(tmp_path / "odd"))), 1)


def test_join_of_more_than_ten_members(primary: str, tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(14)]
    others = [a_dataset(tmp_path / name, 60, shard_samples=11 + i, parts=classes) for i, name in enumerate(names)]
    node = {
        "join": {
            "first": {"path": primary},
            **{n: {"path": p} for n, p in zip(names, others, strict=True)},
        }
    }

    for batch in a_pass(node):
        for i, key in enumerate(batch["__key__"]):
            assert [batch[name][i] for name in names] == [{"cls": str(int(key)).encode()}] * 14
    assert len(batch["__sources__"]) == 15 * len(batch["__key__"])


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_joined_sample_lists_sources_of_all_members(primary: str, other: str) -> None:
    (batch, *_) = a_pass(join_of(primary, other))

    sources = [(os.path.basename(each.dataset_path), each.file_names) for each in batch["__sources__"][:2]]
    assert sources == [("primary", ("000000.txt", "000000.json")), ("other", ("000000.cls",))]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_join_members_may_use_different_splits(tmp_path: Path, primary: str) -> None:
    other = a_dataset(tmp_path / "split", 60, parts=classes, split={"train": 1, "test": 1})
    node = {"join": [{"path": primary}, {"path": other, "split_part": "test", "nonmatch": "skip"}]}
    train, test = (set(keys_of(a_pass(part))) for part in (join_of(primary, other), node))

    assert len(train) == len(test) == 30
    assert not train & test


@pytest.mark.parametrize("workers", [0, 2])
def test_state_of_join_restores_exactly(workers: int, primary: str, other: str) -> None:
    node = {"blend": [{**join_of(primary, other), "weight": 2}, {"path": primary, "weight": 1}]}
    config = WorkerConfig(0, 1, num_workers=workers)
    expected = digests(make_training_loader(node, encoder=WithClass()), 40)

    loader = make_training_loader(node, encoder=WithClass(), worker_config=config)
    state = save_state_after(loader, 23)
    restored = make_training_loader(node, encoder=WithClass(), worker_config=config)
    restored.load_state_dict(state)

    assert digests(restored, 17) == expected[23:]


class WithClass(Raw):
    """Gives unjoined samples the field of joined ones."""

    def encode_sample(self, sample: Any) -> Any:
        return {"cls": None, **sample}


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_join_batches_are_same_with_workers(method: Any, primary: str, other: str) -> None:
    node = join_of(primary, other)
    config = WorkerConfig(0, 1, num_workers=2, start_method=method)

    assert digests(make_training_loader(node, worker_config=config), 12) == digests(make_training_loader(node), 12)


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_joined_sample_restores_by_restore_key(primary: str, other: str) -> None:
    loader = make_training_loader(
        {"concat": [{"path": other}, join_of(primary, other, nonmatch="none")]}, encoder=WithClass(), batch_size=1
    )

    for batch in take_batches(loader, 10):
        for i, key in enumerate(batch["__restore_key__"]):
            restored = loader.restore_sample(key)
            assert (restored["__key__"], restored["cls"]) == (batch["__key__"][i], batch["cls"][i])


def test_restored_join_ignores_growth_of_member(primary: str, tmp_path: Path) -> None:
    other = a_dataset(tmp_path / "grown", 40, parts=classes)
    node = join_of(primary, other)
    loader = make_training_loader(node)
    state = save_state_after(loader, 7)
    expected = digests(loader, 20)
    a_shard(tmp_path / "grown" / "more.tar", ((f"{i:06}", classes(i)) for i in range(40, 60)))
    index(other)

    restored = make_training_loader(node)
    restored.load_state_dict(state)

    assert digests(restored, 20) == expected
    assert len(keys_of(a_pass(node))) == 60


@pytest.mark.parametrize("nonmatch", ["skip", "none"])
def test_restoring_join_refuses_changed_member(nonmatch: str, primary: str, tmp_path: Path) -> None:
    other = a_dataset(tmp_path / "changed", 40, parts=classes)
    node = join_of(primary, other, nonmatch=nonmatch)
    state = save_state_after(make_training_loader(node), 7)
    a_shard(tmp_path / "changed" / "shard-000.tar", ((f"{i:06}", {"cls": b"longer"}) for i in range(31)))
    index(other)

    restored = make_training_loader(node)
    with pytest.raises(StateMismatch):
        restored.load_state_dict(state)


def test_restoring_join_refuses_another_nonmatch(primary: str, other: str) -> None:
    state = save_state_after(make_training_loader(join_of(primary, other)), 3)

    restored = make_training_loader(join_of(primary, other, nonmatch="none"))
    with pytest.raises(StateMismatch):
        restored.load_state_dict(state)


def test_adopt_reads_new_primary_samples_with_partners(tmp_path: Path, primary: str) -> None:
    other = a_dataset(tmp_path / "all", 90, parts=classes)
    options: dict[str, Any] = {"lanes": 4, "adopt": "next_epoch"}
    state = save_state_after(make_training_loader(join_of(primary, other), **options), 7)
    a_shard(Path(primary) / "shard-900.tar", ((f"{i:06}", numbered(i)) for i in range(60, 90)))
    index(primary)

    restored = make_training_loader(join_of(primary, other), **options)
    restored.load_state_dict(state)
    counts = Counter(ids(take_batches(restored, 60)))

    assert set(counts.values()) == {1}
    assert len({sample for _, _, sample in counts}) == 90


def test_adopt_refuses_new_samples_of_other_member_by_name(tmp_path: Path, primary: str) -> None:
    other = a_dataset(tmp_path / "all", 40, parts=classes)
    options: dict[str, Any] = {"lanes": 4, "adopt": "next_epoch"}
    state = save_state_after(make_training_loader(join_of(primary, other), **options), 7)
    a_shard(Path(other) / "shard-900.tar", ((f"{i:06}", classes(i)) for i in range(40, 60)))
    index(other)

    with pytest.raises(StateMismatch, match=f"{other} has other samples .* only the first one may grow"):
        make_training_loader(join_of(primary, other), **options).load_state_dict(state)


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_token_weights_use_columns_of_primary(tmp_path: Path, other: str) -> None:
    """Samples i of the primary have i + 1 tokens: on average 20.5 the first 40, which have a partner, and 30.5 all."""
    primary = a_dataset(tmp_path / "long", 60, parts=lambda i: {"txt": b"x" * (i + 1)})
    index(primary, columns={"tokens": "size:txt"})
    index(other, columns={"tokens": "size:cls"})

    def loader_of(join_weight: int, primary_weight: int, **keys: Any) -> Loader:
        entries = [{**join_of(primary, other), "weight": join_weight}, {"path": primary, "weight": primary_weight}]
        return make_training_loader({"blend": entries, **keys}, encoder=WithClass())

    by_tokens, by_samples = loader_of(1, 1, weight_by="tokens"), loader_of(61, 41)

    assert by_tokens.config() == by_samples.config()
    assert digests(by_tokens, 30) == digests(by_samples, 30)


class Packs(Raw):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__key__"] + sample["cls"].decode() for sample in samples]}


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_packs_of_joined_samples_restore_exactly(primary: str, other: str) -> None:
    index(primary, columns={"tokens": "size:txt"})
    options = {"packing": Packing(length="tokens", capacity=20), "batch_size": 2, "encoder": Packs()}
    loader = make_training_loader(join_of(primary, other), **options)  # type: ignore[arg-type]
    state = save_state_after(loader, 9)
    restored = make_training_loader(join_of(primary, other), **options)  # type: ignore[arg-type]
    restored.load_state_dict(state)

    assert [batch["members"] for batch in take_batches(restored, 15)] == [
        batch["members"] for batch in take_batches(loader, 15)
    ]


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_cookers_match_subflavors_of_all_join_members(primary: str, other: str) -> None:
    from wdsctl.loader import Cooker

    class Cooks(Raw):
        cookers = (Cooker(lambda sample: {**sample, "cooked": True}, has_subflavors={"of": "other", "lang": "de"}),)

    node = {
        "join": [{"path": primary}, {"path": other, "nonmatch": "skip", "subflavors": {"of": "other", "lang": "en"}}]
    }
    (batch,) = take_batches(make_training_loader({**node, "subflavors": {"lang": "de"}}, encoder=Cooks()), 1)

    assert batch["cooked"] == [True] * 4
    assert batch["__subflavors__"][0] == {"lang": "de", "of": "other"}


def test_get_val_datasets_includes_joins(primary: str, other: str) -> None:
    node = {
        "splits": {
            "val": {"concat": [join_of(primary, other, split_part="train"), {"path": other, "split_part": "train"}]}
        }
    }
    actual = get_val_datasets(node, batch_size=4, task_encoder=Raw())

    assert [reference.path for _, reference in actual] == [primary, other]
    assert [len(keys_of(list(get_loader(dataset)))) for dataset, _ in actual] == [40, 40]


def test_join_is_cached_in_folder_of_primary(primary: str, other: str) -> None:
    for _ in range(2):
        a_pass(join_of(primary, other))

    assert len(os.listdir(Path(primary) / ".wdsctl" / "joins")) == 1


@in_folder_and_memory
@pytest.mark.usefixtures("place")
def test_trace_of_join_lists_samples_of_primary(
    primary: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, primary)
    loader = get_loader(
        get_train_dataset(join_of(primary, other), batch_size=4, task_encoder=Raw(), trace=tmp_path / "trace")
    )
    keys = [batch["__key__"] for batch in islice(loader, 5)]
    loader.close()

    report = query_trace(str(tmp_path / "trace"), TraceOptions(step=3))

    (batch,) = report.batches or ()
    assert [sample.key for sample in batch.samples] == keys[3]
    assert {sample.dataset for sample in batch.samples} == {primary}
    assert report.findings == ()


@pytest.fixture
def store(faulty_store: None) -> str:
    return "faulty://store"


@pytest.mark.parametrize("remote", ["primary", "other", "both"])
def test_join_members_may_be_remote(remote: str, primary: str, other: str, store: str) -> None:
    paths = {"primary": primary, "other": other}
    expected = [digest(batch) for batch in a_pass(join_of(primary, other))]
    for name in paths if remote == "both" else [remote]:
        upload_shards(paths[name], f"{store}/{name}")
        prepare(f"{store}/{name}", None, PrepareRequest(sample_type="CrudeSample"))
        paths[name] = f"{store}/{name}"

    actual = a_pass(join_of(paths["primary"], paths["other"]), worker_config=raising_worker_config())

    assert [digest(batch) for batch in actual] == expected


def test_jsonl_joins_by_key_field(primary: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"id": f"{i:06}", "question": f"what is {i}?"}) + "\n" for i in range(20)))
    prepare(str(path), None, PrepareRequest(sample_type="CrudeSample", index=IndexRequest(key="id")))

    batches = a_pass({"join": {"qa": {"path": str(path)}, "media": {"path": primary}}})

    assert [media["txt"] for batch in batches for media in batch["media"]] == [f"text {i}".encode() for i in range(20)]
    assert json.loads(batches[0]["qa"][3]["json"])["question"] == "what is 3?"
