"""`adopt="next_epoch"`: a job goes over to what a dataset has become, each arm with an epoch, all lanes at one slot."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, a_shard, digest
from tests.loader.growing import (
    NEW,
    SAMPLES,
    Skips,
    grow,
    loader_of,
    resumed,
    whole_epochs,
)
from tests.loader.running import Packs, digests, ids, restore_keys, rounds, saved_after, taken
from wdsctl.core.blend import Blender
from wdsctl.core.errors import StateMismatch, UsageError
from wdsctl.core.index.index import index
from wdsctl.loader import Packing, get_train_dataset, merge_states
from wdsctl.loader.order.mixture import Mixture
from wdsctl.loader.order.rank_lanes import Lane
from wdsctl.loader.pipeline.references import RefStage
from wdsctl.loader.plan.open_blend import open_blend


@pytest.mark.parametrize("place", [0, 1, 7, 12, 13, 14, 30])
def test_the_epoch_that_is_begun_is_ended_with_the_old_samples_and_the_next_one_has_all(
    place: int, tmp_path: Path
) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root)
    first = taken(loader, place)
    state = loader.state_dict()
    grow(root)

    rest = taken(resumed(root, state), 100)

    old, new = whole_epochs(ids(first + rest), 0, SAMPLES, SAMPLES + NEW)
    assert new >= 3
    assert old >= (place > 0)
    keys = [key for batch in rest for key in batch["__key__"]]
    assert {f"new-{i}" for i in range(NEW)} <= set(keys)


def test_without_it_the_old_generation_is_gone_on_with(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root), 5)
    truth = digests(loader_of(root), 60)[5:]
    grow(root)

    assert digests(resumed(root, state, adopt=None), 55) == truth


def test_nothing_changes_before_the_epoch_ends(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root, lanes=1), 5)
    truth = digests(loader_of(root, lanes=1), 12)[5:]
    grow(root)

    assert digests(resumed(root, state, lanes=1), 7) == truth


@pytest.mark.parametrize("encoder", [Raw(), Skips(), Packs()], ids=["plain", "skips", "packs"])
def test_later_states_go_on_exactly_also_without_the_option(encoder: Raw, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": encoder}
    options |= {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root, **options), 5)
    grow(root)
    loader = resumed(root, state, **options)
    states, truth = [], []
    for _ in range(30):
        states.append(loader.state_dict())
        truth += digests(loader, 1)

    for place in range(0, 30, 3):
        for adopt in (None, "next_epoch"):
            again = resumed(root, states[place], adopt=adopt, **options)
            assert digests(again, 30 - place) == truth[place:], f"saved after batch {place}"


def test_a_dataset_may_grow_again_and_before_its_last_growth_has_begun(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root)
    batches = taken(loader, 5)
    for number in range(2):  # the second one while the first is still to come
        grow(root, f"more{number}", 10, 900 + number)
        loader = resumed(root, loader.state_dict())
        batches += taken(loader, 2)
    batches += taken(loader, 40)
    grow(root, "last", 10, 910)
    loader = resumed(root, loader.state_dict())
    batches += taken(loader, 90)

    keys = ids(batches)
    assert set(Counter(keys).values()) == {1}
    passes = Counter(number for _, number, _ in keys)
    complete = [passes[number] for number in sorted(passes)[:-2]]
    assert set(complete) == {50, 70, 80}
    assert complete == sorted(complete)
    state = loader.state_dict()
    assert len(state["plan"]["order"]["past_versions"]) == 2
    assert digests(resumed(root, state), 20) == digests(loader, 20)


def test_each_arm_of_a_blend_goes_over_by_itself(tmp_path: Path) -> None:
    one = a_dataset(tmp_path / "one", SAMPLES, shard_samples=20)
    two = a_dataset(tmp_path / "two", 30, shard_samples=20)
    blend = Blender([(one, 3), (two, 1), (one, 1)])
    loader = loader_of(blend)
    batches = taken(loader, 9)
    grow(one)
    world = [resumed(blend, merge_states([loader.state_dict()]), rank, 3) for rank in range(3)]

    batches += rounds(world, 250)

    keys = ids(batches)
    for source, sizes in ((0, (SAMPLES, SAMPLES + NEW)), (1, (30, 30)), (2, (SAMPLES, SAMPLES + NEW))):
        old, new = whole_epochs(keys, source, *sizes, under_way=5)
        assert old > 0
        assert new > 0
    eras = world[0].state_dict()["plan"]["order"]["past_versions"]
    assert [arm for arm, *_ in eras] == [0, 2]


def test_an_arm_keeps_its_order_when_another_one_of_the_same_data_grows(tmp_path: Path) -> None:
    one, two = (a_dataset(tmp_path / name, 30) for name in ("one", "two"))
    blend = Blender([(one, 1), (two, 1)])
    loader = loader_of(blend)
    batches = taken(loader, 7)
    for number in range(2):  # after the first time, no place in the blend tells the second arm's order from another
        grow(one, f"more{number}", 10, 900 + number)
        loader = resumed(blend, loader.state_dict())
        batches += taken(loader, 30)
    state = loader.state_dict()
    rest = taken(loader, 60)

    keys = ids(batches + rest)
    assert set(Counter(keys).values()) == {1}
    for source, sizes in enumerate([{30, 40, 50}, {30}]):
        passes = Counter(number for arm, number, _ in keys if arm == source)
        assert {passes[number] for number in sorted(passes)[:-2]} == sizes
    assert [arm for arm, _ in state["plan"]["order"]["seeds"]] == [1]
    assert digests(resumed(blend, state, adopt=None), 60) == [digest(batch) for batch in rest]
    grow(two)
    later = resumed(blend, state).state_dict()
    assert "seeds" not in later["plan"]["order"], "what has grown has an order of its own"


def test_a_dataset_that_has_grown_is_still_read_in_runs(tmp_path: Path) -> None:
    """It is what batches of parts as they are are made of, in bulk."""
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root, lanes=1), 5)
    grow(root)
    state = resumed(root, state, lanes=1).state_dict()

    (arm,) = open_blend(get_train_dataset(root, lanes=1, shuffle_buffer_size=SAMPLES), state).components
    runs = RefStage([arm], [Mixture((1,))], mix_seed=0).open(Lane(0)).take_ranges(3 * SAMPLES)

    sizes = [stop - start for _, _, start, stop in runs]
    assert len(sizes) < 10
    assert SAMPLES in accumulate(sizes), "where the one era ends, and the other begins"


def test_sources_and_restored_samples_are_those_that_came(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root), 5)
    grow(root)
    loader = resumed(root, state)

    for batch in taken(loader, 40):
        for key, restore_key, info in zip(
            batch["__key__"], batch["__restore_key__"], batch["__sources__"], strict=True
        ):
            assert info.file_names[0].startswith(f"{key}.")
            assert loader.restore_sample(restore_key)["__key__"] == key


def test_old_samples_that_are_gone_stop_only_whom_they_are_still_to_come_to(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root)
    taken(loader, 5)
    grow(root)
    early = resumed(root, loader.state_dict())
    late = saved_after(early, 60)
    state = resumed(root, loader.state_dict()).state_dict()
    truth = digests(resumed(root, late), 1)
    assert truth
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")

    with pytest.raises(StateMismatch):
        next(iter(resumed(root, state)))


def test_only_growth_is_adopted(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root), 5)
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")

    with pytest.raises(StateMismatch):
        resumed(root, state)


def test_drawing_with_replacement_has_no_epoch_to_adopt_at(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = saved_after(loader_of(root, shuffle_over_epochs_multiplier=-1), 5)
    grow(root)

    with pytest.raises(StateMismatch, match="with replacement has no epoch"):
        resumed(root, state, shuffle_over_epochs_multiplier=-1)
    with pytest.raises(UsageError, match="adopt is 'now'"):
        get_train_dataset(root, adopt="now")  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", [Raw(), Packs()], ids=["runs", "lanes"])
def test_one_pass_goes_over_with_the_next_pass(encoder: Raw, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": encoder, "repeat": False}
    options |= {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root, **options)
    first = taken(loader, 3)
    state = loader.state_dict()
    grow(root)
    loader = resumed(root, state, **options)

    passes = [restore_keys(first + list(loader)), restore_keys(list(loader))]

    assert [len(set(keys)) for keys in passes] == [SAMPLES, SAMPLES + NEW]
    assert loader.state_dict()["generations"] == [2]
    assert digests(resumed(root, loader.state_dict(), **options), 9) == digests(loader, 9)


def test_windows_of_packs_by_a_column_stay_what_they_were(tmp_path: Path) -> None:
    def parts(i: int) -> dict[str, bytes]:
        return {"txt": b"x" * (1 + i * 7 % 10)}

    class Joined(Raw):
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}

    packing = Packing(length="tokens", capacity=24)
    options: dict[str, Any] = {"packing": packing, "lanes": 1, "batch_size": 2, "encoder": Joined()}
    root = a_dataset(tmp_path, 150, shard_samples=50, parts=parts)
    index(root, columns={"tokens": "size:txt"})
    loader = loader_of(root, **options)
    batches = taken(loader, 9)
    a_shard(tmp_path / "shard-900.tar", ((f"new-{i}", parts(i)) for i in range(90)))
    index(root, columns={"tokens": "size:txt"})
    loader = resumed(root, loader.state_dict(), **options)

    batches += taken(loader, 100)

    state = loader.state_dict()
    keys = restore_keys(batches)
    assert set(Counter(keys).values()) == {1}
    passes = Counter(number for _, number, _ in keys)
    assert [passes[number] for number in sorted(passes)][:3] == [150, 240, 240]
    assert digests(resumed(root, state, **options), 20) == digests(loader, 20)


@pytest.mark.parametrize("grows_first", [False, True])
def test_a_dataset_is_raised_from_the_weight_0_while_another_one_has_grown(grows_first: bool, tmp_path: Path) -> None:
    one, two = (a_dataset(tmp_path / name, SAMPLES, shard_samples=20) for name in ("one", "two"))

    def of(first: int, second: int) -> Blender:
        return Blender([(one, first), (two, second)])

    loader = loader_of(of(0, 1), adopt_weights=True)
    batches = taken(loader, 7)
    if grows_first:
        grow(two, "early", shard=800)
        loader = resumed(of(0, 1), loader.state_dict(), adopt_weights=True)
        batches += taken(loader, 20)
    grow(two)
    for weights in ((1, 1), (0, 1), (1, 2)):
        loader = resumed(of(*weights), loader.state_dict(), adopt_weights=True)
        batches += taken(loader, 60)
        again = resumed(of(*weights), loader.state_dict(), adopt=None)
        assert digests(again, 5) == digests(loader_at(loader, of(*weights)), 5)

    assert set(Counter(ids(batches)).values()) == {1}
    passes = Counter(number for source, number, *_ in ids(batches) if source == 0)
    grown = {SAMPLES, SAMPLES + NEW, SAMPLES + 2 * NEW}
    assert {count for number, count in passes.items() if number < max(passes) - 1} <= grown
    assert Counter(source for source, number, *_ in ids(batches) if number == 0)[1] == SAMPLES


def loader_at(loader: Any, path: Any) -> Any:
    """Another one, where it stands."""
    return resumed(path, loader.state_dict(), adopt_weights=True)
