"""A loader skips banned samples and keeps the order of all others."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import (
    Twice,
    digests,
    ids,
    json_round_trip,
    make_training_loader,
    save_state_after,
    take_batches,
)
from wdsctl.core.blend import Blender
from wdsctl.core.errors import UsageError
from wdsctl.loader import Loader, get_loader, get_val_dataset, merge_states
from wdsctl.loader.plan import bans as bans_module
from wdsctl.loader.plan.bans import Bans, bans_from_state

SAMPLES = 60
BANNED = ("000003", "000017", "000042")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


class Upper(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "txt": sample["txt"].upper()}


def loader_of(path: Any, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
    return make_training_loader(path, rank, world, encoder, **{"lanes": 2, "batch_size": None, **options})


def keys(loader: Loader, count: int) -> list[str]:
    return [sample["__key__"] for sample in islice(loader, count)]


# Bans alone.


def test_bans_with_entry_drops_duplicate_names() -> None:
    bans = Bans().with_entry(["a", "b"]).with_entry(["b"]).with_entry([(0, 2, 7), "a", [0, 3, 7], "c"])

    assert bans.entries == (("a", "b"), ((0, 7), "c"))
    assert bans_from_state(bans.to_state()) == bans


def test_bans_history_adds_new_entries_at_current_draw() -> None:
    bans = Bans().with_entry(["a"]).with_entry(["b"])

    assert bans.history([], 5) == [[0, 5], [1, 5]]
    assert bans.history([[0, 3]], 5) == [[0, 3], [1, 5]]


def test_ban_filter_excludes_samples_from_its_draw_on() -> None:
    source, block = SimpleNamespace(number=0), SimpleNamespace(keys=["a", "b", "c"], ids=[5, 6, 7])
    is_banned = Bans().with_entry(["a", (0, 6)]).ban_filter([[0, 10]])
    assert is_banned is not None

    for i, picks in enumerate([[False, True, True], [False, True, True], [False, False, False]]):
        assert [is_banned((source, block, i), pick) for pick in (9, 10, None)] == picks  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [(0, 7), (0, 3, 7), (0, 3, 7, 2), (0, 3, 7, 0, 100, 140, 140)])
def test_ban_accepts_restore_keys_of_derived_samples(key: tuple[int, ...]) -> None:
    assert Bans().with_entry([key]).entries == (((0, 7),),)


@pytest.mark.parametrize("ban", [3, 2.5, (1,), ("a", "b"), (0, 1, 2, 3, 4), None])
def test_ban_rejects_values_that_name_no_sample(ban: Any) -> None:
    with pytest.raises(UsageError, match="expected the key or the restore key"):
        Bans().with_entry([ban])


# In a training.


@pytest.mark.parametrize("encoder", [Raw(), Upper()], ids=["bytes", "a hook"])
def test_loader_skips_banned_samples_and_keeps_order_of_others(encoder: Raw, dataset: str) -> None:
    expected = keys(loader_of(dataset, encoder=encoder, lanes=1), 3 * SAMPLES)
    loader = loader_of(dataset, encoder=encoder, lanes=1, ban=BANNED)

    actual = keys(loader, 3 * (SAMPLES - len(BANNED)))

    assert actual == [key for key in expected if key not in BANNED]
    assert loader.stats.banned in range(6, 10)


def test_ban_by_restore_key_covers_one_component_in_all_passes(dataset: str) -> None:
    blend = Blender([(dataset, 1), (dataset, 1)])
    first = next(iter(loader_of(blend)))
    source, _, number = first["__restore_key__"]
    loader = loader_of(blend, ban=[first["__restore_key__"]])

    actual = Counter((key[0], key[2]) for key in (sample["__restore_key__"] for sample in islice(loader, 4 * SAMPLES)))

    assert (source, number) not in actual
    assert actual[1 - source, number] > 0


def test_ban_excludes_all_outputs_of_generator_hook(dataset: str) -> None:
    actual = Counter(keys(loader_of(dataset, encoder=Twice(), lanes=1, ban=BANNED), 2 * (SAMPLES - len(BANNED))))

    assert set(actual.values()) == {2}
    assert not set(BANNED) & set(actual)


@pytest.mark.parametrize("place", [0, 7, 33])
def test_ban_added_at_restore_holds_in_later_restores(place: int, dataset: str) -> None:
    loader = loader_of(dataset, lanes=1)
    before = keys(loader, place)
    expected = before + keys(loader, 3 * SAMPLES)
    resumed = loader_of(dataset, lanes=1, ban=BANNED)
    resumed.load_state_dict(save_state_after(loader_of(dataset, lanes=1), place))

    after = keys(resumed, 50)
    later = loader_of(dataset, lanes=1)  # no ban in its own options
    later.load_state_dict(json_round_trip(resumed.state_dict()))

    assert after + keys(later, 60) == [key for key in expected[place:] if key not in BANNED][:110]


def test_ban_holds_on_other_rank_counts_and_after_lane_split(dataset: str) -> None:
    loader = loader_of(dataset, ban=BANNED)
    before = take_batches(loader, 10)
    state = merge_states([json_round_trip(loader.state_dict())])

    for ranks in (1, 2, 3):
        world = [loader_of(dataset, rank, ranks) for rank in range(ranks)]
        for each in world:
            each.load_state_dict(state)
        after = [sample for each in world for sample in islice(each, 300 // ranks)]
        counts = Counter(sample["__restore_key__"] for sample in [*before, *after])
        assert set(counts.values()) == {1}
        assert not {sample["__key__"] for sample in after} & set(BANNED)


def test_resume_with_bans_is_exact_at_any_batch(dataset: str) -> None:
    expected = digests(loader_of(dataset, batch_size=4, ban=BANNED), 40)

    for place in range(1, 30, 5):
        resumed = loader_of(dataset, batch_size=4)
        resumed.load_state_dict(save_state_after(loader_of(dataset, batch_size=4, ban=BANNED), place))
        assert digests(resumed, 40 - place) == expected[place:]


def test_validation_removes_banned_samples_from_unchanged_batches(dataset: str) -> None:
    options: dict[str, Any] = {"split_part": "train", "batch_size": 4, "task_encoder": Raw()}
    whole = list(get_loader(get_val_dataset(dataset, **options)))
    loader = get_loader(get_val_dataset(dataset, ban=BANNED, **options))
    passes = [list(loader) for _ in range(2)]

    assert [list(batch["__key__"]) for batch in passes[0]] == [
        [key for key in batch["__key__"] if key not in BANNED] for batch in whole
    ]
    assert [digest(batch) for batch in passes[0]] == [digest(batch) for batch in passes[1]]
    assert len(ids(passes[0])) == SAMPLES - len(BANNED)


# Bans of all samples.


@pytest.mark.parametrize("options", [{}, {"repeat": False}, {"repeat": False, "encoder": Raw(), "lanes": None}])
def test_ban_of_all_samples_is_rejected_before_first_draw(options: Any, dataset: str) -> None:
    every = [f"{i:06}" for i in range(SAMPLES)]

    with pytest.raises(UsageError, match=r"ban leaves no samples of .*all of its samples are banned") as raised:
        next(iter(loader_of(dataset, ban=every, **options)))

    assert raised.value.code == "WDS514"
    assert "weight" not in raised.value.hint
    assert len(keys(loader_of(dataset, ban=every[:-1], **options), 1)) == 1


def test_bans_that_accumulate_to_all_samples_are_rejected_at_restore(dataset: str) -> None:
    loader = loader_of(dataset, lanes=1, repeat=False, ban=BANNED)
    state = save_state_after(loader, 10)
    rest = [sample["__restore_key__"] for sample in take_batches(loader, SAMPLES)]
    before = [sample["__restore_key__"] for sample in take_batches(loader_of(dataset, lanes=1, repeat=False), 40)]

    with pytest.raises(UsageError, match="ban leaves no samples"):
        loader_of(dataset, lanes=1, repeat=False, ban=rest + before).load_state_dict(state)
    loader_of(dataset, lanes=1, repeat=False, ban=rest).load_state_dict(state)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("small"), 6, shard_samples=3, parts=numbered)


def all_ids(source: int) -> list[Any]:
    """Returns the ids of two shards of three samples in this component of a blend."""
    return [(source, shard << 28 | i) for shard in (1, 2) for i in range(3)]


def test_fully_banned_component_is_rejected_unless_its_weight_is_0(dataset: str, small: str) -> None:
    with pytest.raises(UsageError, match=f"no samples of {small}: all of its") as raised:
        next(iter(loader_of(Blender([(dataset, 3), (small, 1)]), ban=all_ids(1))))
    assert "weight of the dataset to 0" in raised.value.hint

    never = loader_of(Blender([(dataset, 1), (small, 0)]), ban=all_ids(1))
    assert len(keys(never, 2 * SAMPLES)) == 2 * SAMPLES


def test_resume_accepts_fully_banned_component_with_adopted_weight_0(dataset: str, small: str) -> None:
    state = save_state_after(loader_of(Blender([(dataset, 3), (small, 1)])), 10)
    resumed = loader_of(Blender([(dataset, 1), (small, 0)]), ban=all_ids(1), adopt_weights=True)

    resumed.load_state_dict(state)

    assert {sample["__restore_key__"][0] for sample in take_batches(resumed, 50)} == {0}


def test_concat_accepts_fully_banned_dataset(dataset: str, small: str) -> None:
    both = {"concat": [{"path": small}, {"path": dataset}]}
    loader = loader_of(both, ban=all_ids(0), repeat=False)

    assert {sample["__restore_key__"][0] for sample in take_batches(loader, 10 * SAMPLES)} == {1}


def test_ban_of_whole_subset_is_rejected(dataset: str) -> None:
    part = {"path": dataset, "subset": {"range": [0, 3]}}
    ban = [sample["__key__"] for sample in take_batches(loader_of(part, repeat=False), 3)]

    with pytest.raises(UsageError, match="ban leaves no samples"):
        next(iter(loader_of(part, ban=ban)))
    assert len(keys(loader_of(part, ban=ban[1:]), 2)) == 2


def test_validation_rejects_ban_of_all_samples(dataset: str) -> None:
    every = [f"{i:06}" for i in range(SAMPLES)]

    with pytest.raises(UsageError, match="ban leaves no samples"):
        list(get_loader(get_val_dataset(dataset, split_part="train", ban=every, task_encoder=Raw())))


# Bans that exclude nothing.


@pytest.mark.parametrize(
    ("ban", "unknown"),
    [
        (["000003", [0, 0, 1 << 28]], []),
        (["000003", "00003", "3"], ["'00003'", "'3'"]),
        ([[0, 7, (1 << 28) + 19], [0, 7, (1 << 28) + 20], [1, 0, 1 << 28], [0, 1 << 40]], 3),
    ],
)
def test_new_bans_that_name_no_sample_cause_a_warning(
    ban: Any, unknown: Any, dataset: str, caplog: pytest.LogCaptureFixture
) -> None:
    loader = loader_of(dataset, ban=ban)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        state = loader.state_dict()

    count = unknown if isinstance(unknown, int) else len(unknown)
    assert [f"{count} of {len(ban)} new bans exclude nothing" in message for message in caplog.messages] == (
        [True] if count else []
    )
    assert all(name in caplog.text for name in (unknown if isinstance(unknown, list) else ()))
    caplog.clear()
    resumed = loader_of(dataset, ban=ban)
    resumed.load_state_dict(state)
    assert not caplog.messages, "the state has these bans"


def test_keys_of_bans_are_not_searched_in_large_datasets(
    dataset: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bans_module, "MAX_SEARCHED_SAMPLES", SAMPLES - 1)

    loader_of(dataset, ban=["no such key"]).state_dict()

    assert not caplog.messages
