"""Weights in tokens and data that grows: new mean lengths hold from the batch on that a job adopts them at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, a_dataset, a_shard, digest
from tests.loader.growing import grow, loader_of, resumed, whole_epochs
from tests.loader.running import digests, ids, rounds, saved_after, taken, tokens
from wdsctl.core.blend import Blender
from wdsctl.core.errors import InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import WorkerConfig, merge_states

OLD, NEW = 40, 40  # samples
AT = 5  # the batch that a job was saved at


def short(i: int) -> Parts:
    return {"txt": b"x" * 10}


def long(i: int) -> Parts:
    return {"txt": b"x" * 90}


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    one, two = (a_dataset(tmp_path / name, OLD, parts=short) for name in ("one", "two"))
    for path in (one, two):
        index(path, columns={"tokens": "size:txt"})
    return one, two


def of(paths: tuple[str, str], first: int = 1, second: int = 1, **options: Any) -> Blender:
    return Blender([(paths[0], first), (paths[1], second)], weight_by="tokens", **options)


def lengthen(path: str, name: str = "new", count: int = NEW, shard: int = 900) -> None:
    """Of 10 tokens on average it becomes 50."""
    grow(path, name, count, shard, long)


def weights(state: Any) -> Any:
    order = state["plan"]["order"]
    return [order["weights"], *order.get("weight_edits", [])]


# What holds.


def test_new_mean_lengths_hold_from_the_adoption_on_and_states_keep_those_of_before(paths: tuple[str, str]) -> None:
    state = saved_after(loader_of(of(paths)), AT)
    lengthen(paths[0])

    loader = resumed(of(paths), state)

    assert weights(state) == ["0: 1 1"]
    assert weights(loader.state_dict()) == ["0: 1 1", [AT, "0: 1 5"]]


def test_once_the_new_samples_come_shares_of_tokens_are_the_weights_again(paths: tuple[str, str]) -> None:
    state = saved_after(loader_of(of(paths, 3, 1)), AT)
    lengthen(paths[0])
    loader = resumed(of(paths, 3, 1), state)
    taken(loader, 60)  # more than an epoch of the old samples

    counts = tokens(taken(loader, 400))

    assert counts[0] / counts.total() == pytest.approx(0.75, rel=0.02)


def test_without_the_option_the_old_mean_lengths_stay_with_the_old_samples(paths: tuple[str, str]) -> None:
    truth = digests(loader_of(of(paths)), 60)[AT:]
    state = saved_after(loader_of(of(paths)), AT)
    lengthen(paths[0])

    loader = resumed(of(paths), state, adopt=None)

    assert digests(loader, 60 - AT) == truth
    assert weights(loader.state_dict()) == ["0: 1 1"]


def test_growth_that_leaves_the_mean_lengths_alone_leaves_the_weights_alone(paths: tuple[str, str]) -> None:
    state = saved_after(loader_of(of(paths)), AT)
    grow(paths[0], parts=short)

    order = resumed(of(paths), state).state_dict()["plan"]["order"]

    assert (weights({"plan": {"order": order}}), len(order["past_versions"])) == (["0: 1 1"], 1)


def test_segments_of_a_schedule_that_are_still_to_come_have_the_new_mean_lengths(paths: tuple[str, str]) -> None:
    blend = of(paths, schedule=[{"step": 3, "weights": [2, 1]}, {"step": 50, "weights": [9, 1]}])
    loader = loader_of(blend)
    first = taken(loader, AT)
    lengthen(paths[0])
    loader = resumed(blend, loader.state_dict())
    state = loader.state_dict()

    rest = taken(loader, 300)

    assert weights(state) == ["0: 1 1 | 3: 2 1 | 50: 9 1", [AT, "0: 1 5 | 3: 2 5 | 50: 9 5"]]
    whole_epochs(ids(first + rest), 0, OLD, OLD + NEW)
    whole_epochs(ids(first + rest), 1, OLD, OLD)
    counts = tokens(rest[100:])
    assert counts[0] / counts.total() == pytest.approx(0.9, rel=0.02)
    assert digests(resumed(blend, state), 300) == [digest(batch) for batch in rest]


# Where it is resumed.


@pytest.mark.parametrize("place", [0, 1, AT, 12, 30])
def test_nothing_comes_twice_and_nothing_is_missed(place: int, paths: tuple[str, str]) -> None:
    loader = loader_of(of(paths, 5))
    first = taken(loader, place)
    lengthen(paths[0])

    keys = ids(first + taken(resumed(of(paths, 5), loader.state_dict()), 200))

    old, new = whole_epochs(keys, 0, OLD, OLD + NEW)
    assert new >= 1
    assert old >= (place > 0)
    assert sum(whole_epochs(keys, 1, OLD, OLD)) > 0


def test_states_from_before_at_and_after_the_adoption_go_on_exactly(paths: tuple[str, str]) -> None:
    before = loader_of(of(paths))
    early = before.state_dict()
    taken(before, AT)
    old = before.state_dict()
    lengthen(paths[0])
    loader = resumed(of(paths), old)
    states, truth = [], []
    for _ in range(40):
        states.append(loader.state_dict())
        truth += digests(loader, 1)

    assert digests(resumed(of(paths), old), 40) == truth, "adopted once more, at the same place"
    for place in range(0, 40, 3):
        for adopt in (None, "next_epoch"):
            again = resumed(of(paths), states[place], adopt=adopt)
            assert digests(again, 40 - place) == truth[place:], f"saved {place} batches after the adoption"
            assert weights(again.state_dict()) == weights(states[0])
    still_old = resumed(of(paths), early, adopt=None)
    taken(still_old, AT)
    assert digests(resumed(of(paths), still_old.state_dict()), 40) == truth, "adopted when it was resumed later"


@pytest.mark.parametrize("where", ["before", "at", "after"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_other_ranks_have_the_batches_of_one_or_every_sample_once(
    ranks: int, where: str, paths: tuple[str, str]
) -> None:
    loader = loader_of(of(paths))
    first = taken(loader, AT)
    lengthen(paths[0])
    if where != "before":
        loader = resumed(of(paths), loader.state_dict())
    if where == "after":
        first += taken(loader, 7)
    state = loader.state_dict()
    world = [resumed(of(paths), merge_states([state]), rank, ranks) for rank in range(ranks)]
    begun = merge_states([each.state_dict() for each in world])

    rest = rounds(world, 240 // ranks)

    if ranks == 2:
        assert [digest(batch) for batch in rest] == digests(resumed(of(paths), state), 240)
    keys = ids(first + rest)
    whole_epochs(keys, 0, OLD, OLD + NEW, under_way=6)
    whole_epochs(keys, 1, OLD, OLD, under_way=6)
    counts = tokens(rest[120:])
    assert counts[0] / counts.total() == pytest.approx(0.5, rel=0.1)
    assert weights(begun)[1:] == [[AT, "0: 1 5"]]
    again = [resumed(of(paths), begun, rank, ranks, adopt=None) for rank in range(ranks)]
    assert [digest(batch) for batch in rounds(again, 40)] == [digest(batch) for batch in rest[: 40 * ranks]]


@pytest.mark.parametrize("gap", [0, 2, 100], ids=["at-once", "before-the-first-has-begun", "later"])
def test_two_growths_one_after_the_other_are_two_edits(gap: int, paths: tuple[str, str]) -> None:
    loader = loader_of(of(paths))
    batches = taken(loader, AT)
    lengthen(paths[0])
    loader = resumed(of(paths), loader.state_dict())
    batches += taken(loader, gap)
    lengthen(paths[1])
    lengthen(paths[0], "more", shard=901)
    world = [resumed(of(paths), merge_states([loader.state_dict()]), rank, 2) for rank in range(2)]
    state = merge_states([each.state_dict() for each in world])

    batches += rounds(world, 200)

    edits = [[AT, "0: 1 5"], [AT + gap, "0: 15 19"]]
    assert weights(state) == ["0: 1 1", *edits[gap == 0 :]]
    keys = ids(batches)
    assert set(Counter(keys).values()) == {1}
    for source, most in ((0, OLD + 2 * NEW), (1, OLD + NEW)):
        passes = Counter(number for arm, number, _ in keys if arm == source)
        complete = [passes[number] for number in sorted(passes)[:-3]]
        assert complete == sorted(complete)
        assert set(complete) <= {OLD, OLD + NEW, most}
        assert complete[-1] == most
    again = [resumed(of(paths), state, rank, 2, adopt=None) for rank in range(2)]
    assert [digest(batch) for batch in rounds(again, 40)] == [digest(batch) for batch in batches[AT + gap :][:80]]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_have_the_same_weights(method: Any, paths: tuple[str, str]) -> None:
    state = saved_after(loader_of(of(paths)), AT)
    lengthen(paths[0])
    truth = digests(resumed(of(paths), state), 60)

    with resumed(of(paths), state, worker_config=WorkerConfig(num_workers=2, start_method=method)) as loader:
        assert digests(loader, 60) == truth


# What is refused.


def test_weights_that_were_edited_besides_still_need_their_own_option(paths: tuple[str, str]) -> None:
    state = saved_after(loader_of(of(paths)), AT)
    lengthen(paths[0])

    with pytest.raises(StateMismatch, match="0: 1 1") as raised:
        resumed(of(paths, 3), state)
    assert "adopt_weights=True" in raised.value.hint
    loader = resumed(of(paths, 3), state, adopt_weights=True)

    assert weights(loader.state_dict()) == ["0: 1 1", [AT, "0: 3 5"]]


def test_mean_lengths_that_are_others_though_nothing_has_grown_are_no_growth(tmp_path: Path) -> None:
    """A shard more, which is not in the split, and another function of the column."""

    def parts(i: int) -> Parts:
        return {"txt": b"x" * 10, "other": b"." * (10 + i)}

    one, two = (a_dataset(tmp_path / name, OLD, parts=parts) for name in ("one", "two"))
    for path in (one, two):
        index(path, columns={"tokens": "size:txt"})
        (Path(path) / ".wdsctl" / "mine.yaml").write_text("split_parts:\n  train: ['shard-{000..001}.tar']\n")
    file: Any = {"split_config": "mine.yaml"}
    state = saved_after(loader_of(of((one, two)), **file), AT)
    a_shard(tmp_path / "one" / "shard-900.tar", ((f"new-{i}", parts(i)) for i in range(NEW)))
    index(one, columns={"tokens": "size:other"})

    with pytest.raises(StateMismatch, match="mean sample lengths have changed") as raised:
        resumed(of((one, two)), state, **file)

    assert "omit adopt" in raised.value.hint
    assert weights(resumed(of((one, two)), state, adopt=None, **file).state_dict()) == weights(state)
    assert len(weights(resumed(of((one, two)), state, adopt_weights=True, **file).state_dict())) == 2


def test_new_samples_without_tokens_are_refused_and_the_old_ones_go_on(paths: tuple[str, str]) -> None:
    state = saved_after(loader_of(of(paths)), AT)
    lengthen(paths[0])
    index(paths[0], drop_columns=["tokens"])

    with pytest.raises(InputError, match="weight_by: tokens needs the lengths of samples"):
        resumed(of(paths), state)
