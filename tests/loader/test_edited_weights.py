"""Weights that were edited: refused, or with `adopt_weights` in force from where the state stands, exactly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import Packs, digests, ids, restore_keys, rounds, taken, through_json, training_of
from wdsctl.core.blend import Blender
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, Packing, WorkerConfig, merge_states

LANES = 4


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("data")
    return tuple(a_dataset(folder / str(n), n, shard_samples=20, parts=numbered) for n in (50, 30, 11))


def blend(paths: tuple[str, ...], *weights: int, **options: Any) -> Blender:
    return Blender(list(zip(paths, weights, strict=True)), **options)


def loader_of(blend: Any, rank: int = 0, world: int = 1, state: Any = None, **options: Any) -> Loader:
    loader = training_of(blend, rank, world, **{"lanes": LANES, "batch_size": 5, "adopt_weights": True, **options})
    if state is not None:
        loader.load_state_dict(through_json(state))
    return loader


def shares(batches: list[Any]) -> list[float]:
    counts = Counter(source for source, *_ in ids(batches))
    return [counts[source] / sum(counts.values()) for source in range(3)]


def test_other_weights_are_refused_with_a_hint_that_names_the_option(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 3, 1, 1), adopt_weights=False)
    taken(loader, 5)

    with pytest.raises(StateMismatch, match="weights: 0: 3 1 1 in the state, 0: 1 1 1 here") as raised:
        loader_of(blend(paths, 1, 1, 1), state=loader.state_dict(), adopt_weights=False)

    assert "adopt_weights=True" in raised.value.hint
    with pytest.raises(StateMismatch) as other:
        loader_of(blend(paths, 1, 1, 1), state=loader.state_dict(), adopt_weights=False, seed=3)
    assert "adopt_weights" not in other.value.hint


@pytest.mark.parametrize("place", [0, 1, 6, 13])
def test_new_weights_are_in_force_from_where_the_state_stands(place: int, paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    before = taken(loader, place)

    after = taken(loader_of(blend(paths, 1, 1, 2), state=loader.state_dict()), 80)

    assert shares(after) == pytest.approx([0.25, 0.25, 0.5], abs=0.03)
    assert set(Counter(ids([*before, *after])).values()) == {1}


def test_the_same_weights_go_on_as_without_the_option(paths: tuple[str, ...]) -> None:
    weights = blend(paths, 3, 1, 1)
    truth = digests(loader_of(weights, adopt_weights=False), 40)
    loader = loader_of(weights)
    taken(loader, 10)
    state = loader.state_dict()

    assert digests(loader_of(weights, state=state), 30) == truth[10:]
    assert "edits" not in state["plan"]["order"]


def test_states_after_an_edit_go_on_exactly_also_without_the_option(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    taken(loader, 7)
    now = blend(paths, 1, 3, 2)
    loader = loader_of(now, state=loader.state_dict())
    states, truth = [], []
    for _ in range(20):
        states.append(loader.state_dict())
        truth += digests(loader, 1)

    for place, state in enumerate(states):
        for option in (True, False):
            assert digests(loader_of(now, state=state, adopt_weights=option), 20 - place) == truth[place:]


@pytest.mark.parametrize(
    ("weights", "method"),
    [
        ((8, 1, 1), "fork"),
        pytest.param((8, 1, 1), "spawn", marks=pytest.mark.slow),
        ((0, 1, 0), "spawn"),  # datasets that are raised
    ],
)
def test_ranks_and_workers_edit_at_the_same_batch_with_their_own_states(
    weights: tuple[int, ...], method: Any, paths: tuple[str, ...]
) -> None:
    first = [loader_of(blend(paths, *weights), rank, 2) for rank in range(2)]
    rounds(first, 4)
    states = [loader.state_dict() for loader in first]
    now = blend(paths, 1, 1, 2)
    truth = [digest(batch) for batch in rounds([loader_of(now, state=states)], 24)]

    two = [loader_of(now, rank, 2, states[rank]) for rank in range(2)]
    assert [digest(batch) for batch in rounds(two, 12)] == truth
    workers = WorkerConfig(num_workers=2, start_method=method)
    with loader_of(now, state=states, worker_config=workers) as loader:
        assert digests(loader, 24) == truth


def test_lanes_that_split_before_and_after_an_edit_repeat_nothing(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    batches = taken(loader, 5)
    three = [loader_of(blend(paths, 1, 4, 1), rank, 3, merge_states([loader.state_dict()])) for rank in range(3)]
    batches += rounds(three, 5)
    state = merge_states([each.state_dict() for each in three])
    five = [loader_of(blend(paths, 2, 0, 1), rank, 5, state) for rank in range(5)]
    batches += rounds(five, 2)
    states = [each.state_dict() for each in five]

    rest = rounds(five, 20)

    assert set(Counter(ids([*batches, *rest])).values()) == {1}
    again = [loader_of(blend(paths, 2, 0, 1), rank, 5, states) for rank in range(5)]
    assert [digest(batch) for batch in rounds(again, 20)] == [digest(batch) for batch in rest]
    assert shares(rest)[1] == 0


def test_a_dataset_may_be_given_up_and_taken_up_again_where_it_was(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 2, 1, 1))
    batches = taken(loader, 9)
    for weights in ((1, 0, 0), (1, 1, 0), (2, 1, 1)):
        loader = loader_of(blend(paths, *weights), state=loader.state_dict())
        found = taken(loader, 12)
        assert [share > 0 for share in shares(found)] == [weight > 0 for weight in weights]
        batches += found

    assert set(Counter(ids(batches)).values()) == {1}
    assert [batch for batch, _ in loader.state_dict()["plan"]["order"]["weight_edits"]] == [9, 21, 33]


def test_a_schedule_may_be_edited_and_an_edit_may_be_a_schedule(paths: tuple[str, ...]) -> None:
    first = blend(paths, 1, 0, 0, schedule=[{"step": 4, "weights": [0, 1, 0]}, {"step": 30, "weights": [0, 0, 1]}])
    loader = loader_of(first)
    taken(loader, 8)
    second = blend(paths, 0, 0, 1, schedule=[{"step": 12, "weights": [1, 0, 0]}])

    loader = loader_of(second, state=loader.state_dict())

    found = [{source for source, *_ in batch["__restore_key__"]} for batch in taken(loader, 30)]
    assert found == [{2}] * 4 + [{0}] * 26
    again = loader_of(second, state=loader.state_dict(), adopt_weights=False)
    assert digests(again, 9) == digests(loader, 9)


def test_two_edits_at_one_place_are_the_last_one(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    taken(loader, 6)
    state = loader.state_dict()
    once = digests(loader_of(blend(paths, 1, 1, 2), state=state), 20)

    between = loader_of(blend(paths, 5, 5, 1), state=state).state_dict()

    assert digests(loader_of(blend(paths, 1, 1, 2), state=between), 20) == once


def test_other_entries_are_another_blend(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 3, 1, 1))
    taken(loader, 3)

    with pytest.raises(StateMismatch, match="has 3 entries, but this blend has 2") as raised:
        loader_of(Blender([(paths[0], 1), (paths[1], 1)]), state=loader.state_dict())
    assert "weight of entries to 0" in raised.value.hint
    with pytest.raises(StateMismatch, match="changed data"):
        loader_of(blend((paths[0], paths[2], paths[1]), 1, 1, 1), state=loader.state_dict())


def samples_of(loader: Loader, batches: int) -> list[Any]:
    """(dataset, pass, sample) of each sample of the next batches. Numbers of datasets go by when they came in."""
    found = taken(loader, batches)
    return [(loader.sources[source].dataset_path, *rest) for source, *rest in ids(found)]


SOME_WEIGHTS = st.tuples(*[st.sampled_from([0, 0, 1, 2, 5])] * 3).filter(any)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(SOME_WEIGHTS, st.integers(0, 9)), min_size=1, max_size=6))
def test_any_weights_may_follow_any_others_and_nothing_comes_twice_or_is_missed(
    paths: tuple[str, ...], history: list[tuple[tuple[int, ...], int]]
) -> None:
    came: list[Any] = []
    state = None
    for weights, batches in [*history, ((1, 1, 1), 120)]:
        loader = loader_of(blend(paths, *weights), state=state)
        found = samples_of(loader, batches)
        counts = Counter(path for path, *_ in found)
        for path, weight in zip(paths, weights, strict=True):
            share = len(found) * weight / sum(weights)
            assert abs(counts[path] - share) <= (3.37 * LANES if weight else 0)
        came += found
        state = through_json(loader.state_dict())
        following = digests(loader, 3)
        for option in (True, False):
            assert digests(loader_of(blend(paths, *weights), state=state, adopt_weights=option), 3) == following

    assert set(Counter(came).values()) == {1}
    firsts = Counter(path for path, passes, _ in came if not passes)
    assert [firsts[path] for path in paths] == [50, 30, 11]


def test_a_state_from_before_the_first_batch_takes_weights_that_leave_a_dataset_out(paths: tuple[str, ...]) -> None:
    two = paths[:2]
    loader = loader_of(blend(two, 0, 1), state=loader_of(blend(two, 1, 1)).state_dict())
    taken(loader, 5)
    state = loader.state_dict()

    for option in (True, False):
        again = loader_of(blend(two, 0, 1), state=state, adopt_weights=option)
        assert digests(again, 5) == digests(loader_of(blend(two, 0, 1), state=state), 5)
    assert shares(taken(loader_of(blend(two, 1, 1), state=state), 40))[:2] == pytest.approx([0.5, 0.5], abs=0.05)


def test_a_dataset_that_began_with_the_weight_0_may_be_raised_and_need_not_be_there_before(
    paths: tuple[str, ...], tmp_path: Any
) -> None:
    late = str(tmp_path / "late")
    three = (late, *paths[:2])
    loader = loader_of(blend(three, 0, 1, 0))
    before = samples_of(loader, 7)
    state = loader.state_dict()
    a_dataset(tmp_path / "late", 20, parts=numbered)

    with pytest.raises(
        StateMismatch, match=f"did not read these entries, whose weight is above 0 now: {late}"
    ) as raised:
        loader_of(blend(three, 1, 1, 0), state=state, adopt_weights=False)
    assert "adopt_weights=True" in raised.value.hint
    loader = loader_of(blend(three, 1, 1, 0), state=state)
    after = samples_of(loader, 40)

    assert {path for path, *_ in before} == {paths[0]}
    assert 80 < Counter(path for path, *_ in after)[late] < 120
    assert set(Counter([*before, *after]).values()) == {1}
    assert loader.state_dict()["plan"]["order"]["blend_entries"] == [[1], [0]]


def test_a_dataset_is_raised_where_lanes_were_split_and_split_again_after_it(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 0, 1, 0))
    came = ids(taken(loader, 5))
    state = loader.state_dict()
    for ranks, weights in ((3, (0, 1, 0)), (3, (1, 1, 0)), (5, (1, 0, 2)), (2, (1, 1, 1))):
        world = [loader_of(blend(paths, *weights), rank, ranks, state) for rank in range(ranks)]
        came += ids(rounds(world, 5))
        state = merge_states([through_json(each.state_dict()) for each in world])

    assert set(Counter(came).values()) == {1}
    assert state["plan"]["order"]["blend_entries"] == [[1], [0], [2]]


@pytest.mark.parametrize("entries", [[], [1], [[9]], [["a"]], "x", [[]]])
def test_damaged_entries_of_a_state_are_told(entries: Any, paths: tuple[str, ...]) -> None:
    state = loader_of(blend(paths, 3, 1, 1)).state_dict()
    state["plan"]["order"]["blend_entries"] = entries

    with pytest.raises(StateMismatch, match="not entries of a blend of 3") as raised:
        loader_of(blend(paths, 3, 1, 1), state=state)
    assert raised.value.code == "WDS502"


class Joined(Raw):
    """Packs by length, which keep the restore keys of their samples."""

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}


def letters(sample: Any) -> int:
    return len(sample["txt"])


@pytest.mark.parametrize("by_hooks", [True, False])
def test_packs_that_are_under_way_go_on_when_a_dataset_is_raised(by_hooks: bool, paths: tuple[str, ...]) -> None:
    options: dict[str, Any] = {"encoder": Joined(), "packing": Packing(capacity=40, length=letters, window=64)}
    if by_hooks:
        options = {"encoder": Packs(), "packing_buffer_size": 9}
    loader = loader_of(blend(paths, 0, 1, 0), **options)
    came = restore_keys(taken(loader, 7))
    for weights in ((0, 1, 1), (1, 1, 1), (0, 0, 1), (1, 1, 1)):
        loader = loader_of(blend(paths, *weights), state=loader.state_dict(), **options)
        came += restore_keys(taken(loader, 9))
        again = loader_of(blend(paths, *weights), state=loader.state_dict(), adopt_weights=False, **options)
        assert digests(again, 4) == digests(loader_of(blend(paths, *weights), state=loader.state_dict(), **options), 4)

    assert set(Counter(came).values()) == {1}
