"""A join is trained on like any dataset: order, lengths, weights, states and traces are the primary's."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, Raw, a_dataset, a_shard, digest, numbered
from tests.loader.running import digests, ids, saved_after, strict, taken, training_of
from tests.remote import uploaded
from wdsctl.core.errors import DatasetError, InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.trace.trace import TraceOptions, query_trace
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset, get_val_dataset, get_val_datasets
from wdsctl.loader.packing import Packing


def classes(i: int) -> Parts:
    return {"cls": str(i).encode()}


@pytest.fixture
def primary(tmp_path: Path) -> str:
    return a_dataset(tmp_path / "primary", 60)


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Of the first 40 keys, in other shards."""
    return a_dataset(tmp_path / "other", 40, shard_samples=7, parts=classes)


def joined(*paths: str, nonmatch: str = "skip", **keys: Any) -> dict[str, Any]:
    first, *rest = paths
    return {"join": [{"path": first}, *({"path": path, "nonmatch": nonmatch} for path in rest)], **keys}


def a_pass(path: Any, **options: Any) -> list[Any]:
    return list(get_loader(get_val_dataset(path, split_part="train", batch_size=4, task_encoder=Raw(), **options)))


def keys_of(batches: list[Any]) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


@pytest.mark.usefixtures("place")
def test_every_sample_has_its_partner_wherever_that_lies(primary: str, other: str) -> None:
    batches = a_pass(joined(primary, other))

    assert keys_of(batches) == [f"{i:06}" for i in range(40)]
    assert [part for batch in batches for part in batch["cls"]] == [str(i).encode() for i in range(40)]
    assert [part for batch in batches for part in batch["txt"]] == [f"text {i}".encode() for i in range(40)]


def test_a_skipped_sample_is_none_of_the_join(primary: str, other: str) -> None:
    validation = get_loader(get_val_dataset(joined(primary, other), split_part="train", batch_size=4))
    assert len(validation) == 10
    drawn = Counter(keys_of(taken(training_of(joined(primary, other), lanes=1), 30)))
    assert len(drawn) == 40
    assert set(drawn.values()) == {3}
    assert keys_of(a_pass(joined(primary, other, subset={"range": ["50%", "end"]}))) == [
        f"{i:06}" for i in range(20, 40)
    ]


def test_none_hands_out_what_there_is(primary: str, other: str) -> None:
    batches = a_pass(joined(primary, other, nonmatch="none"))

    assert len(keys_of(batches)) == 60
    assert [part for batch in batches for part in batch["cls"]][38:42] == [b"38", b"39", None, None]


@pytest.mark.usefixtures("place")
def test_an_error_says_at_the_start_what_is_missing(primary: str, other: str) -> None:
    with pytest.raises(DatasetError, match=r"20 of 60 samples .* '000040', '000041'"):
        training_of(joined(primary, other, nonmatch="error")).state_dict()


def test_a_join_in_which_nothing_matches_is_told(primary: str, tmp_path: Path) -> None:
    a_shard(tmp_path / "odd" / "a.tar", [("nobody", classes(0))])
    prepare(str(tmp_path / "odd"), None, PrepareRequest(sample_type="CrudeSample"))

    with pytest.raises(InputError, match=r"no sample of .* has partners"):
        taken(training_of(joined(primary, str(tmp_path / "odd"))), 1)


def test_more_than_ten_members_are_joined(primary: str, tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(14)]
    others = [a_dataset(tmp_path / name, 60, shard_samples=11 + i, parts=classes) for i, name in enumerate(names)]
    node = {"join": {"first": {"path": primary}, **{n: {"path": p} for n, p in zip(names, others, strict=True)}}}

    for batch in a_pass(node):
        for i, key in enumerate(batch["__key__"]):
            assert [batch[name][i] for name in names] == [{"cls": str(int(key)).encode()}] * 14
    assert len(batch["__sources__"]) == 15 * len(batch["__key__"])


@pytest.mark.usefixtures("place")
def test_the_sources_of_all_members_are_named(primary: str, other: str) -> None:
    (batch, *_) = a_pass(joined(primary, other))

    places = [(os.path.basename(each.dataset_path), each.file_names) for each in batch["__sources__"][:2]]
    assert places == [("primary", ("000000.txt", "000000.json")), ("other", ("000000.cls",))]


@pytest.mark.usefixtures("place")
def test_splits_of_the_members_are_chosen_one_by_one(tmp_path: Path, primary: str) -> None:
    other = a_dataset(tmp_path / "split", 60, parts=classes, split={"train": 1, "test": 1})
    node = {"join": [{"path": primary}, {"path": other, "split_part": "test", "nonmatch": "skip"}]}
    train, test = (set(keys_of(a_pass(part))) for part in (joined(primary, other), node))

    assert len(train) == len(test) == 30
    assert not train & test


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_goes_on_exactly(workers: int, primary: str, other: str) -> None:
    node = {"blend": [{**joined(primary, other), "weight": 2}, {"path": primary, "weight": 1}]}
    config = WorkerConfig(0, 1, num_workers=workers)
    truth = digests(training_of(node, encoder=Parted()), 40)

    loader = training_of(node, encoder=Parted(), worker_config=config)
    state = saved_after(loader, 23)
    again = training_of(node, encoder=Parted(), worker_config=config)
    again.load_state_dict(state)

    assert digests(again, 17) == truth[23:]


class Parted(Raw):
    """What joined and other samples have in common."""

    def encode_sample(self, sample: Any) -> Any:
        return {"cls": None, **sample}


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_give_what_the_process_itself_gives(method: Any, primary: str, other: str) -> None:
    node = joined(primary, other)
    config = WorkerConfig(0, 1, num_workers=2, start_method=method)

    assert digests(training_of(node, worker_config=config), 12) == digests(training_of(node), 12)


@pytest.mark.usefixtures("place")
def test_a_sample_is_restored_by_its_key(primary: str, other: str) -> None:
    loader = training_of(
        {"concat": [{"path": other}, joined(primary, other, nonmatch="none")]}, encoder=Parted(), batch_size=1
    )

    for batch in taken(loader, 10):
        for i, key in enumerate(batch["__restore_key__"]):
            again = loader.restore_sample(key)
            assert (again["__key__"], again["cls"]) == (batch["__key__"][i], batch["cls"][i])


def test_a_member_that_grew_is_trained_on_as_it_was(primary: str, tmp_path: Path) -> None:
    other = a_dataset(tmp_path / "grown", 40, parts=classes)
    node = joined(primary, other)
    loader = training_of(node)
    state = saved_after(loader, 7)
    truth = digests(loader, 20)
    a_shard(tmp_path / "grown" / "more.tar", ((f"{i:06}", classes(i)) for i in range(40, 60)))
    index(other)

    again = training_of(node)
    again.load_state_dict(state)

    assert digests(again, 20) == truth
    assert len(keys_of(a_pass(node))) == 60


@pytest.mark.parametrize("nonmatch", ["skip", "none"])
def test_a_member_that_changed_is_refused(nonmatch: str, primary: str, tmp_path: Path) -> None:
    other = a_dataset(tmp_path / "changed", 40, parts=classes)
    node = joined(primary, other, nonmatch=nonmatch)
    state = saved_after(training_of(node), 7)
    a_shard(tmp_path / "changed" / "shard-000.tar", ((f"{i:06}", {"cls": b"longer"}) for i in range(31)))
    index(other)

    again = training_of(node)
    with pytest.raises(StateMismatch):
        again.load_state_dict(state)


def test_another_selection_of_members_is_another_order(primary: str, other: str) -> None:
    state = saved_after(training_of(joined(primary, other)), 3)

    again = training_of(joined(primary, other, nonmatch="none"))
    with pytest.raises(StateMismatch):
        again.load_state_dict(state)


def test_a_primary_that_grew_is_adopted_where_its_members_had_the_keys(tmp_path: Path, primary: str) -> None:
    other = a_dataset(tmp_path / "all", 90, parts=classes)
    options: dict[str, Any] = {"lanes": 4, "adopt": "next_epoch"}
    state = saved_after(training_of(joined(primary, other), **options), 7)
    a_shard(Path(primary) / "shard-900.tar", ((f"{i:06}", numbered(i)) for i in range(60, 90)))
    index(primary)

    again = training_of(joined(primary, other), **options)
    again.load_state_dict(state)
    seen = Counter(ids(taken(again, 60)))

    assert set(seen.values()) == {1}
    assert len({sample for _, _, sample in seen}) == 90


@pytest.mark.usefixtures("place")
def test_weights_in_tokens_and_packs_go_by_the_columns_of_the_primary(tmp_path: Path, other: str) -> None:
    primary = a_dataset(tmp_path / "long", 60)
    index(primary, columns={"tokens": "size:txt"})
    node = joined(primary, other)
    blend = {"blend": [{**node, "weight": 1}, {"path": primary, "weight": 1}], "weight_by": "tokens"}

    assert len(taken(training_of(blend, encoder=Parted()), 3)) == 3


class Packs(Raw):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__key__"] + sample["cls"].decode() for sample in samples]}


@pytest.mark.usefixtures("place")
def test_packs_of_joined_samples_go_on_exactly(primary: str, other: str) -> None:
    index(primary, columns={"tokens": "size:txt"})
    options = {"packing": Packing(length="tokens", capacity=20), "batch_size": 2, "encoder": Packs()}
    loader = training_of(joined(primary, other), **options)  # type: ignore[arg-type]
    state = saved_after(loader, 9)
    again = training_of(joined(primary, other), **options)  # type: ignore[arg-type]
    again.load_state_dict(state)

    assert [batch["members"] for batch in taken(again, 15)] == [batch["members"] for batch in taken(loader, 15)]


@pytest.mark.usefixtures("place")
def test_cookers_see_joined_samples_and_the_labels_of_all_members(primary: str, other: str) -> None:
    from wdsctl.loader import Cooker

    class Cooks(Raw):
        cookers = (Cooker(lambda sample: {**sample, "cooked": True}, has_subflavors={"of": "other", "lang": "de"}),)

    node = {
        "join": [{"path": primary}, {"path": other, "nonmatch": "skip", "subflavors": {"of": "other", "lang": "en"}}]
    }
    (batch,) = taken(training_of({**node, "subflavors": {"lang": "de"}}, encoder=Cooks()), 1)

    assert batch["cooked"] == [True] * 4
    assert batch["__subflavors__"][0] == {"lang": "de", "of": "other"}


def test_validations_of_a_blend_one_by_one_have_its_joins(primary: str, other: str) -> None:
    node = {
        "splits": {
            "val": {"concat": [joined(primary, other, split_part="train"), {"path": other, "split_part": "train"}]}
        }
    }
    found = get_val_datasets(node, batch_size=4, task_encoder=Raw())

    assert [reference.path for _, reference in found] == [primary, other]
    assert [len(keys_of(list(get_loader(dataset)))) for dataset, _ in found] == [40, 40]


def test_the_join_is_kept_beside_the_catalog_of_the_primary(primary: str, other: str) -> None:
    for _ in range(2):
        a_pass(joined(primary, other))

    assert len(os.listdir(Path(primary) / ".wdsctl" / "joins")) == 1


@pytest.mark.usefixtures("place")
def test_a_trace_tells_the_primarys_samples(primary: str, other: str, tmp_path: Path) -> None:
    loader = get_loader(
        get_train_dataset(joined(primary, other), batch_size=4, task_encoder=Raw(), trace=tmp_path / "trace")
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


@pytest.mark.parametrize("far", ["primary", "other", "both"])
def test_members_may_lie_in_stores(far: str, primary: str, other: str, store: str) -> None:
    paths = {"primary": primary, "other": other}
    truth = [digest(batch) for batch in a_pass(joined(primary, other))]
    for name in paths if far == "both" else [far]:
        uploaded(paths[name], f"{store}/{name}")
        prepare(f"{store}/{name}", None, PrepareRequest(sample_type="CrudeSample"))
        paths[name] = f"{store}/{name}"

    found = a_pass(joined(paths["primary"], paths["other"]), worker_config=strict())

    assert [digest(batch) for batch in found] == truth


def test_a_file_of_lines_is_joined_by_a_field_of_its_objects(primary: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"id": f"{i:06}", "question": f"what is {i}?"}) + "\n" for i in range(20)))
    prepare(str(path), None, PrepareRequest(sample_type="CrudeSample", index=IndexRequest(key="id")))

    batches = a_pass({"join": {"qa": {"path": str(path)}, "media": {"path": primary}}})

    assert [media["txt"] for batch in batches for media in batch["media"]] == [f"text {i}".encode() for i in range(20)]
    assert json.loads(batches[0]["qa"][3]["json"])["question"] == "what is 3?"
