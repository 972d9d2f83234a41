"""Edited weights are rejected, or with `adopt_weights` applied exactly from the position of the state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import (
    Packs,
    digests,
    ids,
    json_round_trip,
    make_training_loader,
    restore_keys,
    take_batches,
    take_rounds,
)
from wdsctl.core.blend import Blender
from wdsctl.core.checkpoint.digests import add_digests
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
    loader = make_training_loader(
        blend, rank, world, **{"lanes": LANES, "batch_size": 5, "adopt_weights": True, **options}
    )
    if state is not None:
        loader.load_state_dict(json_round_trip(state))
    return loader


def shares(batches: list[Any]) -> list[float]:
    counts = Counter(source for source, *_ in ids(batches))
    return [counts[source] / sum(counts.values()) for source in range(3)]


def test_edited_weights_are_rejected_with_hint_about_adopt_weights(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 3, 1, 1), adopt_weights=False)
    take_batches(loader, 5)

    with pytest.raises(StateMismatch, match="weights: 0: 3 1 1 in the state, 0: 1 1 1 here") as raised:
        loader_of(blend(paths, 1, 1, 1), state=loader.state_dict(), adopt_weights=False)

    assert "adopt_weights=True" in raised.value.hint
    with pytest.raises(StateMismatch) as other:
        loader_of(blend(paths, 1, 1, 1), state=loader.state_dict(), adopt_weights=False, seed=3)
    assert "adopt_weights" not in other.value.hint


@pytest.mark.parametrize("place", [0, 1, 6, 13])
def test_adopted_weights_apply_from_position_of_state(place: int, paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    before = take_batches(loader, place)

    after = take_batches(loader_of(blend(paths, 1, 1, 2), state=loader.state_dict()), 80)

    assert shares(after) == pytest.approx([0.25, 0.25, 0.5], abs=0.03)
    assert set(Counter(ids([*before, *after])).values()) == {1}


def test_adopt_weights_with_equal_weights_changes_nothing(paths: tuple[str, ...]) -> None:
    weights = blend(paths, 3, 1, 1)
    expected = digests(loader_of(weights, adopt_weights=False), 40)
    loader = loader_of(weights)
    take_batches(loader, 10)
    state = loader.state_dict()

    assert digests(loader_of(weights, state=state), 30) == expected[10:]
    assert "edits" not in state["plan"]["order"]


def test_states_after_edit_resume_exactly_without_option(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    take_batches(loader, 7)
    edited = blend(paths, 1, 3, 2)
    loader = loader_of(edited, state=loader.state_dict())
    states, expected = [], []
    for _ in range(20):
        states.append(loader.state_dict())
        expected += digests(loader, 1)

    for place, state in enumerate(states):
        for option in (True, False):
            assert digests(loader_of(edited, state=state, adopt_weights=option), 20 - place) == expected[place:]


@pytest.mark.parametrize(
    ("weights", "method"),
    [
        ((8, 1, 1), "fork"),
        pytest.param((8, 1, 1), "spawn", marks=pytest.mark.slow),
        ((0, 1, 0), "fork"),  # raises components from the weight 0
        pytest.param((0, 1, 0), "spawn", marks=pytest.mark.slow),
    ],
)
def test_ranks_and_workers_adopt_weights_at_same_batch(
    weights: tuple[int, ...], method: Any, paths: tuple[str, ...]
) -> None:
    first = [loader_of(blend(paths, *weights), rank, 2) for rank in range(2)]
    take_rounds(first, 4)
    states = [loader.state_dict() for loader in first]
    edited = blend(paths, 1, 1, 2)
    expected = [digest(batch) for batch in take_rounds([loader_of(edited, state=states)], 24)]

    two = [loader_of(edited, rank, 2, states[rank]) for rank in range(2)]
    assert [digest(batch) for batch in take_rounds(two, 12)] == expected
    workers = WorkerConfig(num_workers=2, start_method=method)
    with loader_of(edited, state=states, worker_config=workers) as loader:
        assert digests(loader, 24) == expected


def test_lane_splits_before_and_after_edit_repeat_no_sample(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    batches = take_batches(loader, 5)
    three = [loader_of(blend(paths, 1, 4, 1), rank, 3, merge_states([loader.state_dict()])) for rank in range(3)]
    batches += take_rounds(three, 5)
    state = merge_states([each.state_dict() for each in three])
    five = [loader_of(blend(paths, 2, 0, 1), rank, 5, state) for rank in range(5)]
    batches += take_rounds(five, 2)
    states = [each.state_dict() for each in five]

    rest = take_rounds(five, 20)

    assert set(Counter(ids([*batches, *rest])).values()) == {1}
    reloaded = [loader_of(blend(paths, 2, 0, 1), rank, 5, states) for rank in range(5)]
    assert [digest(batch) for batch in take_rounds(reloaded, 20)] == [digest(batch) for batch in rest]
    assert shares(rest)[1] == 0


def test_component_continues_after_weight_0(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 2, 1, 1))
    batches = take_batches(loader, 9)
    for weights in ((1, 0, 0), (1, 1, 0), (2, 1, 1)):
        loader = loader_of(blend(paths, *weights), state=loader.state_dict())
        result = take_batches(loader, 12)
        assert [share > 0 for share in shares(result)] == [weight > 0 for weight in weights]
        batches += result

    assert set(Counter(ids(batches)).values()) == {1}
    assert [batch for batch, _ in loader.state_dict()["plan"]["order"]["weight_edits"]] == [9, 21, 33]


def test_adopt_weights_accepts_edited_schedule(paths: tuple[str, ...]) -> None:
    first = blend(paths, 1, 0, 0, schedule=[{"step": 4, "weights": [0, 1, 0]}, {"step": 30, "weights": [0, 0, 1]}])
    loader = loader_of(first)
    take_batches(loader, 8)
    second = blend(paths, 0, 0, 1, schedule=[{"step": 12, "weights": [1, 0, 0]}])

    loader = loader_of(second, state=loader.state_dict())

    result = [{source for source, *_ in batch["__restore_key__"]} for batch in take_batches(loader, 30)]
    assert result == [{2}] * 4 + [{0}] * 26
    reloaded = loader_of(second, state=loader.state_dict(), adopt_weights=False)
    assert digests(reloaded, 9) == digests(loader, 9)


def test_last_of_two_edits_at_same_position_wins(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 8, 1, 1))
    take_batches(loader, 6)
    state = loader.state_dict()
    once = digests(loader_of(blend(paths, 1, 1, 2), state=state), 20)

    between = loader_of(blend(paths, 5, 5, 1), state=state).state_dict()

    assert digests(loader_of(blend(paths, 1, 1, 2), state=between), 20) == once


def test_adopt_weights_rejects_other_blend_entries(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 3, 1, 1))
    take_batches(loader, 3)

    with pytest.raises(StateMismatch, match="has 3 entries, but this blend has 2") as raised:
        loader_of(Blender([(paths[0], 1), (paths[1], 1)]), state=loader.state_dict())
    assert "weight of entries to 0" in raised.value.hint
    with pytest.raises(StateMismatch, match="changed data"):
        loader_of(blend((paths[0], paths[2], paths[1]), 1, 1, 1), state=loader.state_dict())


def samples_of(loader: Loader, batches: int) -> list[Any]:
    """Returns (dataset path, pass, sample) of the next batches. Component numbers depend on the time of first use."""
    result = take_batches(loader, batches)
    return [(loader.sources[source].dataset_path, *rest) for source, *rest in ids(result)]


SOME_WEIGHTS = st.tuples(*[st.sampled_from([0, 0, 1, 2, 5])] * 3).filter(any)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(SOME_WEIGHTS, st.integers(0, 9)), min_size=1, max_size=6))
def test_any_sequence_of_weights_covers_every_sample_once(
    paths: tuple[str, ...], history: list[tuple[tuple[int, ...], int]]
) -> None:
    drawn_ids: list[Any] = []
    state = None
    for weights, batches in [*history, ((1, 1, 1), 60)]:
        loader = loader_of(blend(paths, *weights), state=state)
        result = samples_of(loader, batches)
        counts = Counter(path for path, *_ in result)
        for path, weight in zip(paths, weights, strict=True):
            share = len(result) * weight / sum(weights)
            assert abs(counts[path] - share) <= (3.37 * LANES if weight else 0)
        drawn_ids += result
        state = json_round_trip(loader.state_dict())
        following = digests(loader, 3)
        for option in (True, False):
            assert digests(loader_of(blend(paths, *weights), state=state, adopt_weights=option), 3) == following

    assert set(Counter(drawn_ids).values()) == {1}
    firsts = Counter(path for path, passes, _ in drawn_ids if not passes)
    assert [firsts[path] for path in paths] == [50, 30, 11]


def test_state_before_first_batch_accepts_weight_0(paths: tuple[str, ...]) -> None:
    two = paths[:2]
    loader = loader_of(blend(two, 0, 1), state=loader_of(blend(two, 1, 1)).state_dict())
    take_batches(loader, 5)
    state = loader.state_dict()

    for option in (True, False):
        reloaded = loader_of(blend(two, 0, 1), state=state, adopt_weights=option)
        assert digests(reloaded, 5) == digests(loader_of(blend(two, 0, 1), state=state), 5)
    assert shares(take_batches(loader_of(blend(two, 1, 1), state=state), 40))[:2] == pytest.approx([0.5, 0.5], abs=0.05)


def test_missing_component_of_weight_0_can_be_raised_later(paths: tuple[str, ...], tmp_path: Any) -> None:
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


def test_component_is_raised_from_weight_0_between_lane_splits(paths: tuple[str, ...]) -> None:
    loader = loader_of(blend(paths, 0, 1, 0))
    drawn_ids = ids(take_batches(loader, 5))
    state = loader.state_dict()
    for ranks, weights in ((3, (0, 1, 0)), (3, (1, 1, 0)), (5, (1, 0, 2)), (2, (1, 1, 1))):
        world = [loader_of(blend(paths, *weights), rank, ranks, state) for rank in range(ranks)]
        drawn_ids += ids(take_rounds(world, 5))
        state = merge_states([json_round_trip(each.state_dict()) for each in world])

    assert set(Counter(drawn_ids).values()) == {1}
    assert state["plan"]["order"]["blend_entries"] == [[1], [0], [2]]


@pytest.mark.parametrize("entries", [[], [1], [[9]], [["a"]], "x", [[]]])
def test_damaged_blend_entries_of_state_are_rejected(entries: Any, paths: tuple[str, ...]) -> None:
    state = loader_of(blend(paths, 3, 1, 1)).state_dict()
    state["plan"]["order"]["blend_entries"] = entries

    with pytest.raises(StateMismatch, match="not entries of a blend of 3") as raised:
        loader_of(blend(paths, 3, 1, 1), state=add_digests(state))
    assert raised.value.code == "WDS502"


class Joined(Raw):
    """Packs by length and keeps the restore keys of the samples."""

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}


def letters(sample: Any) -> int:
    return len(sample["txt"])


@pytest.mark.parametrize("by_hooks", [True, False])
def test_open_packs_continue_when_component_is_raised(by_hooks: bool, paths: tuple[str, ...]) -> None:
    options: dict[str, Any] = {"encoder": Joined(), "packing": Packing(capacity=40, length=letters, window=64)}
    if by_hooks:
        options = {"encoder": Packs(), "packing_buffer_size": 9}
    loader = loader_of(blend(paths, 0, 1, 0), **options)
    drawn_ids = restore_keys(take_batches(loader, 7))
    for weights in ((0, 1, 1), (1, 1, 1), (0, 0, 1), (1, 1, 1)):
        loader = loader_of(blend(paths, *weights), state=loader.state_dict(), **options)
        drawn_ids += restore_keys(take_batches(loader, 9))
        reloaded = loader_of(blend(paths, *weights), state=loader.state_dict(), adopt_weights=False, **options)
        assert digests(reloaded, 4) == digests(
            loader_of(blend(paths, *weights), state=loader.state_dict(), **options), 4
        )

    assert set(Counter(drawn_ids).values()) == {1}
