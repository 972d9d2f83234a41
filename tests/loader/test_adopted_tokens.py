"""Token weights with growing data: new mean lengths apply from the batch at which a job adopts them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Parts, a_dataset, a_shard, digest
from tests.loader.growing import grow, loader_of, resume_loader, whole_epochs
from tests.loader.running import digests, ids, save_state_after, take_batches, take_rounds, tokens
from wdsctl.core.blend import Blender
from wdsctl.core.errors import InputError, StateMismatch
from wdsctl.core.index.index import index
from wdsctl.loader import WorkerConfig, merge_states

OLD, NEW = 40, 40  # samples
AT = 5  # the batch after which a job was saved


def short(i: int) -> Parts:
    return {"txt": b"x" * 10}


def long(i: int) -> Parts:
    return {"txt": b"x" * 90}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = a_dataset(tmp_path_factory.mktemp("data") / "measured", OLD, parts=short)
    index(path, columns={"tokens": "size:txt"})
    return path


@pytest.fixture
def paths(measured: str, tmp_path: Path) -> tuple[str, str]:
    one, two = (shutil.copytree(measured, str(tmp_path / name)) for name in ("one", "two"))
    return one, two


def blend_of(paths: tuple[str, str], first: int = 1, second: int = 1, **options: Any) -> Blender:
    return Blender([(paths[0], first), (paths[1], second)], weight_by="tokens", **options)


def lengthen(path: str, name: str = "new", count: int = NEW, shard: int = 900) -> None:
    """Grows a dataset, whose mean length changes from 10 to 50 tokens."""
    grow(path, name, count, shard, long)


def weights(state: Any) -> Any:
    order = state["plan"]["order"]
    return [order["weights"], *order.get("weight_edits", [])]


# Weights after the adoption.


def test_adoption_adds_weights_with_new_mean_lengths(paths: tuple[str, str]) -> None:
    state = save_state_after(loader_of(blend_of(paths)), AT)
    lengthen(paths[0])

    loader = resume_loader(blend_of(paths), state)

    assert weights(state) == ["0: 1 1"]
    assert weights(loader.state_dict()) == ["0: 1 1", [AT, "0: 1 5"]]


def test_token_shares_match_weights_after_adoption(paths: tuple[str, str]) -> None:
    state = save_state_after(loader_of(blend_of(paths, 3, 1)), AT)
    lengthen(paths[0])
    loader = resume_loader(blend_of(paths, 3, 1), state)
    take_batches(loader, 60)  # more than one epoch of the old samples

    counts = tokens(take_batches(loader, 200))

    assert counts[0] / counts.total() == pytest.approx(0.75, rel=0.02)


def test_resume_without_adopt_keeps_old_mean_lengths(paths: tuple[str, str]) -> None:
    expected = digests(loader_of(blend_of(paths)), 60)[AT:]
    state = save_state_after(loader_of(blend_of(paths)), AT)
    lengthen(paths[0])

    loader = resume_loader(blend_of(paths), state, adopt=None)

    assert digests(loader, 60 - AT) == expected
    assert weights(loader.state_dict()) == ["0: 1 1"]


def test_growth_with_equal_mean_lengths_keeps_weights(paths: tuple[str, str]) -> None:
    state = save_state_after(loader_of(blend_of(paths)), AT)
    grow(paths[0], parts=short)

    order = resume_loader(blend_of(paths), state).state_dict()["plan"]["order"]

    assert (weights({"plan": {"order": order}}), len(order["past_versions"])) == (["0: 1 1"], 1)


def test_later_schedule_segments_use_new_mean_lengths(paths: tuple[str, str]) -> None:
    blend = blend_of(paths, schedule=[{"step": 3, "weights": [2, 1]}, {"step": 50, "weights": [9, 1]}])
    loader = loader_of(blend)
    first = take_batches(loader, AT)
    lengthen(paths[0])
    loader = resume_loader(blend, loader.state_dict())
    state = loader.state_dict()

    rest = take_batches(loader, 240)

    assert weights(state) == ["0: 1 1 | 3: 2 1 | 50: 9 1", [AT, "0: 1 5 | 3: 2 5 | 50: 9 5"]]
    whole_epochs(ids(first + rest), 0, OLD, OLD + NEW)
    whole_epochs(ids(first + rest), 1, OLD, OLD)
    counts = tokens(rest[100:])
    assert counts[0] / counts.total() == pytest.approx(0.9, rel=0.02)
    assert digests(resume_loader(blend, state), 80) == [digest(batch) for batch in rest[:80]]


# Resuming.


@pytest.mark.parametrize("place", [0, 1, AT, 12, 30])
def test_adoption_neither_repeats_nor_misses_samples(place: int, paths: tuple[str, str]) -> None:
    loader = loader_of(blend_of(paths, 5))
    first = take_batches(loader, place)
    lengthen(paths[0])

    keys = ids(first + take_batches(resume_loader(blend_of(paths, 5), loader.state_dict()), 200))

    old, new = whole_epochs(keys, 0, OLD, OLD + NEW)
    assert new >= 1
    assert old >= (place > 0)
    assert sum(whole_epochs(keys, 1, OLD, OLD)) > 0


def test_states_before_and_after_adoption_resume_exactly(paths: tuple[str, str]) -> None:
    before = loader_of(blend_of(paths))
    early = before.state_dict()
    take_batches(before, AT)
    old = before.state_dict()
    lengthen(paths[0])
    loader = resume_loader(blend_of(paths), old)
    states, expected = [], []
    for _ in range(40):
        states.append(loader.state_dict())
        expected += digests(loader, 1)

    assert digests(resume_loader(blend_of(paths), old), 40) == expected, "adopted once more, at the same place"
    for place in range(0, 40, 3):
        for adopt in (None, "next_epoch"):
            reloaded = resume_loader(blend_of(paths), states[place], adopt=adopt)
            assert digests(reloaded, 40 - place) == expected[place:], f"saved {place} batches after the adoption"
            assert weights(reloaded.state_dict()) == weights(states[0])
    unadopted = resume_loader(blend_of(paths), early, adopt=None)
    take_batches(unadopted, AT)
    assert digests(resume_loader(blend_of(paths), unadopted.state_dict()), 40) == expected, (
        "adopted when it was resumed later"
    )


@pytest.mark.parametrize("where", ["before", "at", "after"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_adoption_on_other_rank_counts_covers_every_sample_once(ranks: int, where: str, paths: tuple[str, str]) -> None:
    loader = loader_of(blend_of(paths))
    first = take_batches(loader, AT)
    lengthen(paths[0])
    if where != "before":
        loader = resume_loader(blend_of(paths), loader.state_dict())
    if where == "after":
        first += take_batches(loader, 7)
    state = loader.state_dict()
    world = [resume_loader(blend_of(paths), merge_states([state]), rank, ranks) for rank in range(ranks)]
    start_state = merge_states([each.state_dict() for each in world])

    rest = take_rounds(world, 180 // ranks)

    if ranks == 2:
        assert [digest(batch) for batch in rest] == digests(resume_loader(blend_of(paths), state), 180)
    keys = ids(first + rest)
    whole_epochs(keys, 0, OLD, OLD + NEW, under_way=6)
    whole_epochs(keys, 1, OLD, OLD, under_way=6)
    counts = tokens(rest[90:])
    assert counts[0] / counts.total() == pytest.approx(0.5, rel=0.1)
    assert weights(start_state)[1:] == [[AT, "0: 1 5"]]
    reloaded = [resume_loader(blend_of(paths), start_state, rank, ranks, adopt=None) for rank in range(ranks)]
    assert [digest(batch) for batch in take_rounds(reloaded, 40)] == [digest(batch) for batch in rest[: 40 * ranks]]


@pytest.mark.parametrize("gap", [0, 2, 100], ids=["at-once", "before-the-first-has-begun", "later"])
def test_two_growths_are_two_weight_edits(gap: int, paths: tuple[str, str]) -> None:
    loader = loader_of(blend_of(paths))
    batches = take_batches(loader, AT)
    lengthen(paths[0])
    loader = resume_loader(blend_of(paths), loader.state_dict())
    batches += take_batches(loader, gap)
    lengthen(paths[1])
    lengthen(paths[0], "more", shard=901)
    world = [resume_loader(blend_of(paths), merge_states([loader.state_dict()]), rank, 2) for rank in range(2)]
    state = merge_states([each.state_dict() for each in world])

    batches += take_rounds(world, 200)

    edits = [[AT, "0: 1 5"], [AT + gap, "0: 15 19"]]
    assert weights(state) == ["0: 1 1", *edits[gap == 0 :]]
    keys = ids(batches)
    assert set(Counter(keys).values()) == {1}
    for source, full_size in ((0, OLD + 2 * NEW), (1, OLD + NEW)):
        passes = Counter(number for component, number, _ in keys if component == source)
        complete = [passes[number] for number in sorted(passes)[:-3]]
        assert complete == sorted(complete)
        assert set(complete) <= {OLD, OLD + NEW, full_size}
        assert complete[-1] == full_size
    reloaded = [resume_loader(blend_of(paths), state, rank, 2, adopt=None) for rank in range(2)]
    assert [digest(batch) for batch in take_rounds(reloaded, 40)] == [
        digest(batch) for batch in batches[AT + gap :][:80]
    ]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_adopt_same_weights(method: Any, paths: tuple[str, str]) -> None:
    state = save_state_after(loader_of(blend_of(paths)), AT)
    lengthen(paths[0])
    expected = digests(resume_loader(blend_of(paths), state), 60)

    with resume_loader(
        blend_of(paths), state, worker_config=WorkerConfig(num_workers=2, start_method=method)
    ) as loader:
        assert digests(loader, 60) == expected


# Errors.


def test_edited_weights_still_need_adopt_weights(paths: tuple[str, str]) -> None:
    state = save_state_after(loader_of(blend_of(paths)), AT)
    lengthen(paths[0])

    with pytest.raises(StateMismatch, match="0: 1 1") as raised:
        resume_loader(blend_of(paths, 3), state)
    assert "adopt_weights=True" in raised.value.hint
    loader = resume_loader(blend_of(paths, 3), state, adopt_weights=True)

    assert weights(loader.state_dict()) == ["0: 1 1", [AT, "0: 3 5"]]


def test_changed_mean_lengths_without_growth_are_rejected(tmp_path: Path) -> None:
    """Adds a shard that is not in the split, and changes the function of the column."""

    def parts(i: int) -> Parts:
        return {"txt": b"x" * 10, "other": b"." * (10 + i)}

    one, two = (a_dataset(tmp_path / name, OLD, parts=parts) for name in ("one", "two"))
    for path in (one, two):
        index(path, columns={"tokens": "size:txt"})
        (Path(path) / ".wdsctl" / "mine.yaml").write_text("split_parts:\n  train: ['shard-{000..001}.tar']\n")
    file: Any = {"split_config": "mine.yaml"}
    state = save_state_after(loader_of(blend_of((one, two)), **file), AT)
    a_shard(tmp_path / "one" / "shard-900.tar", ((f"new-{i}", parts(i)) for i in range(NEW)))
    index(one, columns={"tokens": "size:other"})

    with pytest.raises(StateMismatch, match="mean sample lengths have changed") as raised:
        resume_loader(blend_of((one, two)), state, **file)

    assert "omit adopt" in raised.value.hint
    assert weights(resume_loader(blend_of((one, two)), state, adopt=None, **file).state_dict()) == weights(state)
    assert len(weights(resume_loader(blend_of((one, two)), state, adopt_weights=True, **file).state_dict())) == 2


def test_new_samples_without_token_column_are_rejected(paths: tuple[str, str]) -> None:
    state = save_state_after(loader_of(blend_of(paths)), AT)
    lengthen(paths[0])
    index(paths[0], drop_columns=["tokens"])

    with pytest.raises(InputError, match="weight_by: tokens needs the lengths of samples"):
        resume_loader(blend_of(paths), state)
