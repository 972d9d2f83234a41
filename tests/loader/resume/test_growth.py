"""`adopt="next_epoch"`: a job adopts a grown dataset at an epoch of its component, in all lanes at the same slot."""

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
    resume_loader,
    whole_epochs,
)
from tests.loader.running import (
    Packs,
    digests,
    ids,
    json_round_trip,
    restore_keys,
    save_state_after,
    take_batches,
    take_rounds,
)
from wdsctl.core.blend import Blender
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.core.errors import StateMismatch, UsageError
from wdsctl.core.index.index import index
from wdsctl.loader import Packing, get_train_dataset, merge_states
from wdsctl.loader.lanes.mixture import Mixture
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.pipeline.references import RefStage
from wdsctl.loader.plan.open_blend import open_blend


@pytest.mark.parametrize("place", [0, 1, 7, 12, 13, 14, 30])
def test_adopt_next_epoch_finishes_epoch_with_old_samples(place: int, tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root)
    first = take_batches(loader, place)
    state = loader.state_dict()
    grow(root)

    rest = take_batches(resume_loader(root, state), 100)

    old, new = whole_epochs(ids(first + rest), 0, SAMPLES, SAMPLES + NEW)
    assert new >= 3
    assert old >= (place > 0)
    keys = [key for batch in rest for key in batch["__key__"]]
    assert {f"new-{i}" for i in range(NEW)} <= set(keys)


def test_resume_without_adopt_keeps_old_generation(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root), 5)
    expected = digests(loader_of(root), 60)[5:]
    grow(root)

    assert digests(resume_loader(root, state, adopt=None), 55) == expected


def test_adopt_next_epoch_keeps_batches_of_current_epoch(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root, lanes=1), 5)
    expected = digests(loader_of(root, lanes=1), 12)[5:]
    grow(root)

    assert digests(resume_loader(root, state, lanes=1), 7) == expected


def part_of(root: str, *bounds: Any) -> Any:
    return {"concat": [{"path": root, "split_part": "train", "subset": {"range": list(bounds)}}]}


@pytest.mark.parametrize(
    ("bounds", "selected"), [(("0%", "50%"), "0 to 25 of 50"), (("50%", "100%"), "25 to 50 of 50")]
)
@pytest.mark.parametrize("repeat", [True, False])
def test_adopt_refuses_range_that_would_move_held_out_samples(
    bounds: Any, selected: str, repeat: bool, tmp_path: Path
) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(part_of(root, *bounds), repeat=repeat), 3)
    grow(root)

    with pytest.raises(StateMismatch, match=selected) as raised:
        resume_loader(part_of(root, *bounds), state, repeat=repeat)
    assert "omit adopt" in raised.value.hint
    assert len(take_batches(resume_loader(part_of(root, *bounds), state, adopt=None, repeat=repeat), 2)) == 2


@pytest.mark.parametrize(
    ("bounds", "positions", "expected"),
    [
        (("0%", "50%"), (0, 25), range(25)),
        (("50%", "100%"), (25, 50), range(25, 50)),
        (("50%", "100%"), (25, "end"), range(25, SAMPLES + NEW)),
        (("50%", "end"), (25, "end"), range(25, SAMPLES + NEW)),
        (("0%", "100%"), ("0%", "100%"), range(SAMPLES + NEW)),
    ],
)
def test_adopt_takes_range_in_positions(bounds: Any, positions: Any, expected: range, tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(part_of(root, *bounds)), 3)
    grow(root)

    later = take_batches(resume_loader(part_of(root, *positions), state), 60)[20:]
    keys = {f"{i:06}" if i < SAMPLES else f"new-{i - SAMPLES}" for i in expected}
    assert {key for batch in later for key in batch["__key__"]} == keys


@pytest.mark.parametrize("encoder", [Raw(), Skips(), Packs()], ids=["plain", "skips", "packs"])
def test_states_saved_after_adoption_resume_exactly_without_option(encoder: Raw, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": encoder}
    options |= {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root, **options), 5)
    grow(root)
    loader = resume_loader(root, state, **options)
    states, expected = [], []
    for _ in range(30 + 8):
        states.append(loader.state_dict())
        expected += digests(loader, 1)

    for place in range(0, 30, 3):
        for adopt in (None, "next_epoch"):
            other = resume_loader(root, states[place], adopt=adopt, **options)
            assert digests(other, 8) == expected[place : place + 8], f"saved after batch {place}"


def test_dataset_can_grow_repeatedly_before_adoption(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root)
    batches = take_batches(loader, 5)
    for number in range(2):  # the second time before the first growth is adopted
        grow(root, f"more{number}", 10, 900 + number)
        loader = resume_loader(root, loader.state_dict())
        batches += take_batches(loader, 2)
    batches += take_batches(loader, 40)
    grow(root, "last", 10, 910)
    loader = resume_loader(root, loader.state_dict())
    batches += take_batches(loader, 90)

    keys = ids(batches)
    assert set(Counter(keys).values()) == {1}
    passes = Counter(number for _, number, _ in keys)
    complete = [passes[number] for number in sorted(passes)[:-2]]
    assert set(complete) == {50, 70, 80}
    assert complete == sorted(complete)
    state = loader.state_dict()
    assert len(state["plan"]["order"]["past_versions"]) == 2
    assert digests(resume_loader(root, state), 20) == digests(loader, 20)


def test_each_component_adopts_growth_at_its_own_epoch(tmp_path: Path) -> None:
    one = a_dataset(tmp_path / "one", SAMPLES, shard_samples=20)
    two = a_dataset(tmp_path / "two", 30, shard_samples=20)
    blend = Blender([(one, 3), (two, 1), (one, 1)])
    loader = loader_of(blend)
    batches = take_batches(loader, 9)
    grow(one)
    world = [resume_loader(blend, merge_states([loader.state_dict()]), rank, 3) for rank in range(3)]

    batches += take_rounds(world, 250)

    keys = ids(batches)
    for source, sizes in ((0, (SAMPLES, SAMPLES + NEW)), (1, (30, 30)), (2, (SAMPLES, SAMPLES + NEW))):
        old, new = whole_epochs(keys, source, *sizes, under_way=5)
        assert old > 0
        assert new > 0
    past_versions = world[0].state_dict()["plan"]["order"]["past_versions"]
    assert [component for component, *_ in past_versions] == [0, 2]


def test_component_keeps_order_when_copy_of_its_data_grows(tmp_path: Path) -> None:
    one, two = (a_dataset(tmp_path / name, 30) for name in ("one", "two"))
    blend = Blender([(one, 1), (two, 1)])
    loader = loader_of(blend)
    batches = take_batches(loader, 7)
    for number in range(2):  # after the first growth, the index among equal data no longer determines the second order
        grow(one, f"more{number}", 10, 900 + number)
        loader = resume_loader(blend, loader.state_dict())
        batches += take_batches(loader, 30)
    state = loader.state_dict()
    rest = take_batches(loader, 60)

    keys = ids(batches + rest)
    assert set(Counter(keys).values()) == {1}
    for source, sizes in enumerate([{30, 40, 50}, {30}]):
        passes = Counter(number for component, number, _ in keys if component == source)
        assert {passes[number] for number in sorted(passes)[:-2]} == sizes
    assert [component for component, _ in state["plan"]["order"]["seeds"]] == [1]
    assert digests(resume_loader(blend, state, adopt=None), 60) == [digest(batch) for batch in rest]
    grow(two)
    later = resume_loader(blend, state).state_dict()
    assert "seeds" not in later["plan"]["order"], "what has grown has an order of its own"


def test_grown_dataset_is_still_read_in_long_ranges(tmp_path: Path) -> None:
    """Batches of undecoded parts are built from these ranges in bulk."""
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root, lanes=1), 5)
    grow(root)
    state = resume_loader(root, state, lanes=1).state_dict()

    (component,) = open_blend(get_train_dataset(root, lanes=1, shuffle_buffer_size=SAMPLES), state).components
    runs = RefStage([component], [Mixture((1,))], mix_seed=0).open(Lane(0)).take_ranges(3 * SAMPLES)

    sizes = [stop - start for _, _, start, stop in runs]
    assert len(sizes) < 10
    assert SAMPLES in accumulate(sizes), "where the one era ends, and the other begins"


def test_sources_and_restored_samples_match_grown_dataset(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root), 5)
    grow(root)
    loader = resume_loader(root, state)

    for batch in take_batches(loader, 40):
        for key, restore_key, info in zip(
            batch["__key__"], batch["__restore_key__"], batch["__sources__"], strict=True
        ):
            assert info.file_names[0].startswith(f"{key}.")
            assert loader.restore_sample(restore_key)["__key__"] == key


def early_and_late_states(root: str) -> tuple[Any, Any]:
    """Grow a dataset during a job: returns a state before the switch to the new samples, and one well after it."""
    loader = loader_of(root)
    take_batches(loader, 5)
    grow(root)
    loader = resume_loader(root, loader.state_dict())
    early = json_round_trip(loader.state_dict())
    return early, save_state_after(loader, 60)


@pytest.mark.parametrize("adopt", [None, "next_epoch"])
def test_removed_shard_rejects_states_before_and_after_adoption(adopt: Any, tmp_path: Path) -> None:
    """All later epochs read the old samples, too."""
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    early, late = early_and_late_states(root)
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")

    for state in (early, late):
        with pytest.raises(StateMismatch, match="samples: 74 in the state, 54 here"):
            resume_loader(root, state, adopt=adopt)


def test_changed_past_version_rejects_only_states_that_still_need_it(tmp_path: Path) -> None:
    """The states are edited, as the current version, which is compared first, contains the past one."""
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    early, late = early_and_late_states(root)
    expected = digests(resume_loader(root, late), 40)
    for state in (early, late):
        (past_version,) = state["plan"]["order"]["past_versions"]
        past_version[4] = "0" * 8  # the digest of its data
        state.update(add_digests(state))

    assert digests(resume_loader(root, late, adopt=None), 40) == expected
    with pytest.raises(StateMismatch, match="still needs samples from before the dataset grew"):
        next(iter(resume_loader(root, early, adopt=None)))


def test_adopt_rejects_removed_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root), 5)
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")

    with pytest.raises(StateMismatch):
        resume_loader(root, state)


def test_adopt_rejects_drawing_with_replacement(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    state = save_state_after(loader_of(root, shuffle_over_epochs_multiplier=-1), 5)
    grow(root)

    with pytest.raises(StateMismatch, match="with replacement has no epoch"):
        resume_loader(root, state, shuffle_over_epochs_multiplier=-1)
    with pytest.raises(UsageError, match="adopt is 'now'"):
        get_train_dataset(root, adopt="now")  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", [Raw(), Packs()], ids=["runs", "lanes"])
def test_finite_loader_adopts_growth_at_next_pass(encoder: Raw, tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": encoder, "repeat": False}
    options |= {"packing_buffer_size": 9} if isinstance(encoder, Packs) else {}
    root = a_dataset(tmp_path, SAMPLES, shard_samples=20)
    loader = loader_of(root, **options)
    first = take_batches(loader, 3)
    state = loader.state_dict()
    grow(root)
    loader = resume_loader(root, state, **options)

    passes = [restore_keys(first + list(loader)), restore_keys(list(loader))]

    assert [len(set(keys)) for keys in passes] == [SAMPLES, SAMPLES + NEW]
    assert loader.state_dict()["generations"] == [2]
    assert digests(resume_loader(root, loader.state_dict(), **options), 9) == digests(loader, 9)


def test_packs_by_column_keep_their_windows_after_growth(tmp_path: Path) -> None:
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
    batches = take_batches(loader, 9)
    a_shard(tmp_path / "shard-900.tar", ((f"new-{i}", parts(i)) for i in range(90)))
    index(root, columns={"tokens": "size:txt"})
    loader = resume_loader(root, loader.state_dict(), **options)

    batches += take_batches(loader, 100)

    state = loader.state_dict()
    keys = restore_keys(batches)
    assert set(Counter(keys).values()) == {1}
    passes = Counter(number for _, number, _ in keys)
    assert [passes[number] for number in sorted(passes)][:3] == [150, 240, 240]
    assert digests(resume_loader(root, state, **options), 20) == digests(loader, 20)


@pytest.mark.parametrize("grows_first", [False, True])
def test_component_is_raised_from_weight_0_after_growth_of_another(grows_first: bool, tmp_path: Path) -> None:
    one, two = (a_dataset(tmp_path / name, SAMPLES, shard_samples=20) for name in ("one", "two"))

    def blend_of(first: int, second: int) -> Blender:
        return Blender([(one, first), (two, second)])

    loader = loader_of(blend_of(0, 1), adopt_weights=True)
    batches = take_batches(loader, 7)
    if grows_first:
        grow(two, "early", shard=800)
        loader = resume_loader(blend_of(0, 1), loader.state_dict(), adopt_weights=True)
        batches += take_batches(loader, 20)
    grow(two)
    for weights in ((1, 1), (0, 1), (1, 2)):
        loader = resume_loader(blend_of(*weights), loader.state_dict(), adopt_weights=True)
        batches += take_batches(loader, 60)
        other = resume_loader(blend_of(*weights), loader.state_dict(), adopt=None)
        assert digests(other, 5) == digests(copy_loader(loader, blend_of(*weights)), 5)

    assert set(Counter(ids(batches)).values()) == {1}
    passes = Counter(number for source, number, *_ in ids(batches) if source == 0)
    grown = {SAMPLES, SAMPLES + NEW, SAMPLES + 2 * NEW}
    assert {count for number, count in passes.items() if number < max(passes) - 1} <= grown
    assert Counter(source for source, number, *_ in ids(batches) if number == 0)[1] == SAMPLES


def copy_loader(loader: Any, path: Any) -> Any:
    """Returns another loader at the position of this one."""
    return resume_loader(path, loader.state_dict(), adopt_weights=True)
