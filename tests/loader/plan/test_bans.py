"""Samples that are banned do not come any more, and all others keep their places."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import Twice, digests, ids, saved_after, taken, through_json, training_of
from wdsctl.core.blend import Blender
from wdsctl.core.errors import UsageError
from wdsctl.loader import Loader, get_loader, get_val_dataset, merge_states
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
    return training_of(path, rank, world, encoder, **{"lanes": 2, "batch_size": None, **options})


def keys(loader: Loader, count: int) -> list[str]:
    return [sample["__key__"] for sample in islice(loader, count)]


# By themselves.


def test_a_ban_grows_and_says_nothing_twice() -> None:
    bans = Bans().with_entry(["a", "b"]).with_entry(["b"]).with_entry([(0, 2, 7), "a", [0, 3, 7], "c"])

    assert bans.entries == (("a", "b"), ((0, 7), "c"))
    assert bans_from_state(bans.to_state()) == bans


def test_each_ban_begins_where_it_was_given() -> None:
    bans = Bans().with_entry(["a"]).with_entry(["b"])

    assert bans.history([], 5) == [[0, 5], [1, 5]]
    assert bans.history([[0, 3]], 5) == [[0, 3], [1, 5]]


def test_what_was_read_before_its_ban_is_read_again_and_known_to_be_banned_by_now() -> None:
    source, block = SimpleNamespace(number=0), SimpleNamespace(keys=["a", "b", "c"], ids=[5, 6, 7])
    is_banned = Bans().with_entry(["a", (0, 6)]).ban_filter([[0, 10]])
    assert is_banned is not None

    for i, picks in enumerate([[False, True, True], [False, True, True], [False, False, False]]):
        assert [is_banned((source, block, i), pick) for pick in (9, 10, None)] == picks  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [(0, 7), (0, 3, 7), (0, 3, 7, 2), (0, 3, 7, 0, 100, 140, 140)])
def test_whatever_was_made_of_a_sample_names_it(key: tuple[int, ...]) -> None:
    assert Bans().with_entry([key]).entries == (((0, 7),),)


@pytest.mark.parametrize("ban", [3, 2.5, (1,), ("a", "b"), (0, 1, 2, 3, 4), None])
def test_what_names_no_sample_is_refused(ban: Any) -> None:
    with pytest.raises(UsageError, match="expected the key or the restore key"):
        Bans().with_entry([ban])


# In a training.


@pytest.mark.parametrize("encoder", [Raw(), Upper()], ids=["bytes", "a hook"])
def test_what_is_banned_does_not_come_and_the_rest_keeps_its_order(encoder: Raw, dataset: str) -> None:
    truth = keys(loader_of(dataset, encoder=encoder, lanes=1), 3 * SAMPLES)
    loader = loader_of(dataset, encoder=encoder, lanes=1, ban=BANNED)

    found = keys(loader, 3 * (SAMPLES - len(BANNED)))

    assert found == [key for key in truth if key not in BANNED]
    assert loader.stats.banned in range(6, 10)


def test_a_ban_by_restore_key_is_of_one_dataset_and_of_all_passes(dataset: str) -> None:
    blend = Blender([(dataset, 1), (dataset, 1)])
    first = next(iter(loader_of(blend)))
    source, _, number = first["__restore_key__"]
    loader = loader_of(blend, ban=[first["__restore_key__"]])

    found = Counter((key[0], key[2]) for key in (sample["__restore_key__"] for sample in islice(loader, 4 * SAMPLES)))

    assert (source, number) not in found
    assert found[1 - source, number] > 0


def test_all_that_a_generator_makes_of_a_banned_sample_is_left_out(dataset: str) -> None:
    found = Counter(keys(loader_of(dataset, encoder=Twice(), lanes=1, ban=BANNED), 2 * (SAMPLES - len(BANNED))))

    assert set(found.values()) == {2}
    assert not set(BANNED) & set(found)


@pytest.mark.parametrize("place", [0, 7, 33])
def test_a_ban_that_is_given_at_a_restore_holds_from_there_and_for_ever(place: int, dataset: str) -> None:
    loader = loader_of(dataset, lanes=1)
    before = keys(loader, place)
    truth = before + keys(loader, 3 * SAMPLES)
    resumed = loader_of(dataset, lanes=1, ban=BANNED)
    resumed.load_state_dict(saved_after(loader_of(dataset, lanes=1), place))

    after = keys(resumed, 50)
    again = loader_of(dataset, lanes=1)  # which gives no ban itself
    again.load_state_dict(through_json(resumed.state_dict()))

    assert after + keys(again, 60) == [key for key in truth[place:] if key not in BANNED][:110]


def test_a_ban_holds_on_other_ranks_and_after_a_split(dataset: str) -> None:
    loader = loader_of(dataset, ban=BANNED)
    before = taken(loader, 10)
    state = merge_states([through_json(loader.state_dict())])

    for ranks in (1, 2, 3):
        world = [loader_of(dataset, rank, ranks) for rank in range(ranks)]
        for each in world:
            each.load_state_dict(state)
        after = [sample for each in world for sample in islice(each, 300 // ranks)]
        counts = Counter(sample["__restore_key__"] for sample in [*before, *after])
        assert set(counts.values()) == {1}
        assert not {sample["__key__"] for sample in after} & set(BANNED)


def test_a_state_with_bans_of_any_batch_goes_on_exactly(dataset: str) -> None:
    truth = digests(loader_of(dataset, batch_size=4, ban=BANNED), 40)

    for place in range(1, 30, 5):
        resumed = loader_of(dataset, batch_size=4)
        resumed.load_state_dict(saved_after(loader_of(dataset, batch_size=4, ban=BANNED), place))
        assert digests(resumed, 40 - place) == truth[place:]


def test_a_validation_leaves_them_out_and_its_batches_are_those_it_had(dataset: str) -> None:
    options: dict[str, Any] = {"split_part": "train", "batch_size": 4, "task_encoder": Raw()}
    whole = list(get_loader(get_val_dataset(dataset, **options)))
    loader = get_loader(get_val_dataset(dataset, ban=BANNED, **options))
    passes = [list(loader) for _ in range(2)]

    assert [list(batch["__key__"]) for batch in passes[0]] == [
        [key for key in batch["__key__"] if key not in BANNED] for batch in whole
    ]
    assert [digest(batch) for batch in passes[0]] == [digest(batch) for batch in passes[1]]
    assert len(ids(passes[0])) == SAMPLES - len(BANNED)


# All of them.


@pytest.mark.parametrize("options", [{}, {"repeat": False}, {"repeat": False, "encoder": Raw(), "lanes": None}])
def test_a_ban_of_all_samples_is_refused_before_anything_is_drawn(options: Any, dataset: str) -> None:
    every = [f"{i:06}" for i in range(SAMPLES)]

    with pytest.raises(UsageError, match=r"ban leaves no samples of .*all of its samples are banned") as raised:
        next(iter(loader_of(dataset, ban=every, **options)))

    assert raised.value.code == "WDS514"
    assert "weight" not in raised.value.hint
    assert len(keys(loader_of(dataset, ban=every[:-1], **options), 1)) == 1


def test_a_ban_of_all_samples_by_restore_key_that_adds_up_over_states_is_refused(dataset: str) -> None:
    loader = loader_of(dataset, lanes=1, repeat=False, ban=BANNED)
    state = saved_after(loader, 10)
    rest = [sample["__restore_key__"] for sample in taken(loader, SAMPLES)]
    before = [sample["__restore_key__"] for sample in taken(loader_of(dataset, lanes=1, repeat=False), 40)]

    with pytest.raises(UsageError, match="ban leaves no samples"):
        loader_of(dataset, lanes=1, repeat=False, ban=rest + before).load_state_dict(state)
    loader_of(dataset, lanes=1, repeat=False, ban=rest).load_state_dict(state)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("small"), 6, shard_samples=3, parts=numbered)


def all_of(source: int) -> list[Any]:
    """The ids of two shards of three samples, of this source of a blend."""
    return [(source, shard << 28 | i) for shard in (1, 2) for i in range(3)]


def test_a_source_of_a_blend_that_is_banned_whole_is_named_unless_its_weight_is_0(dataset: str, small: str) -> None:
    with pytest.raises(UsageError, match=f"no samples of {small}: all of its") as raised:
        next(iter(loader_of(Blender([(dataset, 3), (small, 1)]), ban=all_of(1))))
    assert "weight of the dataset to 0" in raised.value.hint

    never = loader_of(Blender([(dataset, 1), (small, 0)]), ban=all_of(1))
    assert len(keys(never, 2 * SAMPLES)) == 2 * SAMPLES


def test_a_job_goes_on_without_a_source_that_was_banned_whole_when_it_gets_the_weight_0(
    dataset: str, small: str
) -> None:
    state = saved_after(loader_of(Blender([(dataset, 3), (small, 1)])), 10)
    resumed = loader_of(Blender([(dataset, 1), (small, 0)]), ban=all_of(1), adopt_weights=True)

    resumed.load_state_dict(state)

    assert {sample["__restore_key__"][0] for sample in taken(resumed, 50)} == {0}


def test_datasets_end_to_end_may_have_one_that_is_banned_whole(dataset: str, small: str) -> None:
    both = {"concat": [{"path": small}, {"path": dataset}]}
    loader = loader_of(both, ban=all_of(0), repeat=False)

    assert {sample["__restore_key__"][0] for sample in taken(loader, 10 * SAMPLES)} == {1}


def test_of_a_subset_that_is_banned_nothing_is_left(dataset: str) -> None:
    part = {"path": dataset, "subset": {"range": [0, 3]}}
    ban = [sample["__key__"] for sample in taken(loader_of(part, repeat=False), 3)]

    with pytest.raises(UsageError, match="ban leaves no samples"):
        next(iter(loader_of(part, ban=ban)))
    assert len(keys(loader_of(part, ban=ban[1:]), 2)) == 2


def test_a_validation_without_anything_left_is_refused(dataset: str) -> None:
    every = [f"{i:06}" for i in range(SAMPLES)]

    with pytest.raises(UsageError, match="ban leaves no samples"):
        list(get_loader(get_val_dataset(dataset, split_part="train", ban=every, task_encoder=Raw())))
