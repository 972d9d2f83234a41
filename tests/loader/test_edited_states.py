"""Random edits of states: each is refused with a reason, or continues with the batches of the unedited state."""

from __future__ import annotations

import copy
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset
from tests.loader.running import json_round_trip, make_training_loader, take_batches
from wdsctl.core.blend import Blender
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.core.errors import StateMismatch, WdsctlError
from wdsctl.loader import Loader, Packing, get_loader, get_val_dataset

SAMPLES, STEPS = 40, 6
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    17,
    1 << 40,
    1 << 63,
    0.5,
    "",
    "0",
    "x",
    [],
    {},
    [0],
    [[0, 0]],
    {"a": 0},
]


class Joins(Raw):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "__key__": "+".join(each["__key__"] for each in samples)}


class Selects(Joins):
    """Leaves out every third sample of a buffer, and makes packs of two."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:2], samples[3:5]]


def loaders_of(path: str) -> dict[str, Callable[[], Loader]]:
    blend = Blender([(path, 2), (path, 1)], schedule=[{"step": 4, "weights": [1, 3]}])
    packs: dict[str, Any] = {"packing_buffer_size": 6, "batch_size": 2, "lanes": 2}
    plan = Packing(capacity=3, length=len_of)
    return {
        "training": lambda: make_training_loader(path, lanes=4),
        "virtual epochs": lambda: make_training_loader(path, lanes=2, virtual_epoch_length=5),
        "blend": lambda: make_training_loader(blend, lanes=2),
        "bans": lambda: make_training_loader(path, lanes=2, ban=["000003"]),
        "buffers": lambda: make_training_loader(path, encoder=Selects(), **packs),
        "packs": lambda: make_training_loader(path, encoder=Joins(), packing=plan, batch_size=2, lanes=2),
        "pass": lambda: make_training_loader(path, repeat=False),
        "validation": lambda: get_loader(get_val_dataset(path, batch_size=3, split_part="train", task_encoder=Raw())),
    }


def len_of(sample: Any) -> int:
    return 1 + int(sample["__key__"]) % 2


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a state."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, key))


def edit(state: Any, choice: random.Random) -> str:
    """Change one value of a state: remove, replace, repeat or exchange it, or add to it."""
    path = choice.choice(list(places(state)))
    parent = state
    for key in path[:-1]:
        parent = parent[key]
    key, before = path[-1], parent[path[-1]]
    kind = choice.choice(["remove", "replace", "add", "exchange", "repeat"])
    if kind == "remove":
        del parent[key]
    elif kind == "add" and type(before) is int:
        parent[key] = before + choice.choice([-5, -4, -2, -1, 1, 2, 4, 5, 1 << 20])
    elif kind == "repeat" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(before))
    elif kind == "exchange":
        other = choice.choice(list(parent) if isinstance(parent, dict) else list(range(len(parent))))
        parent[key], parent[other] = parent[other], parent[key]
    else:
        parent[key] = copy.deepcopy(choice.choice(VALUES))
    return f"{kind} {'.'.join(map(str, path))}: {before!r}"


def try_edits(path: str, seed: int, count: int, correct: Callable[[Any], Any]) -> Counter[str]:
    """How many of `count` random edits of each loader's states were refused, or accepted with the same batches. Others
    have an entry with the edit. `correct`: what a tool does to an edited state."""
    found: Counter[str] = Counter()
    for name, open_loader in loaders_of(path).items():
        choice = random.Random(f"{seed} {name}")
        loader = open_loader()
        take_batches(loader, 4)
        state = json_round_trip(loader.state_dict())
        expected = resume(open_loader, state)
        for _ in range(count):
            edited = copy.deepcopy(state)
            what = edit(edited, choice)
            edited = correct(edited)
            if edited == state:
                continue
            try:
                is_same = resume(open_loader, edited) == expected
                found["same" if is_same else f"other batches: {name}: {what}"] += 1
            except WdsctlError:
                found["refused"] += 1
            except Exception as error:  # noqa: BLE001 - the test reports all of them
                found[f"{type(error).__name__}: {name}: {what}"] += 1
    return found


def resume(open_loader: Callable[[], Loader], state: Any) -> list[Any]:
    """The keys of the next batches."""
    loader = open_loader()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the recipe differs
        loader.load_state_dict(state)
    return [list(batch["__key__"]) for batch in islice(loader, STEPS)]


def leave(state: Any) -> Any:
    return state


def correct_checksum(state: Any) -> Any:
    """Correct the checksum, as a tool may that does not know the digests of the parts."""
    return with_field(state, "checksum")


def correct_all(state: Any) -> Any:
    """Correct all digests: the state is one that a job may have saved, unless its numbers contradict each other."""
    return with_field(with_field(state, "digests"), "checksum")


def with_field(state: Any, field: str) -> Any:
    """The state with this field as if it had been saved so; unchanged if nothing can have saved it."""
    try:
        return {**state, field: add_digests(state)[field]}
    except (KeyError, AttributeError, TypeError):
        return state


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("edited"), SAMPLES, shard_samples=20)


def check_edits(path: str, count: int) -> None:
    """Edits are refused. With all digests corrected, an edit of the position may be a state that the job has saved
    elsewhere, which nothing can tell; an edit of the plan is refused or changes no batch."""
    for correct in (leave, correct_checksum):
        found = try_edits(path, 1, count, correct)
        assert set(found) <= {"refused", "same"}, found
        assert found["refused"] > 7 * count
    found = try_edits(path, 1, count, correct_all)
    others = [each for each in found if each not in {"refused", "same"}]
    assert [each for each in others if not each.startswith("other batches") or " plan." in each] == []
    assert len(others) < 0.02 * found.total()


def test_edited_states_do_not_continue_with_other_batches(dataset: str) -> None:
    check_edits(dataset, 10)


@pytest.mark.slow
def test_ten_thousand_edited_states_do_not_continue_with_other_batches(dataset: str) -> None:
    check_edits(dataset, 1400)  # some edits change nothing


def downgrade(state: Any) -> Any:
    """The state as version 1 saved it, without digests."""
    lanes = [state["cursors"][str(lane)].get("origin", [lane, []]) for lane in range(state["lanes"])]
    cursors = {
        lane: {name: value for name, value in cursor.items() if name != "origin"}
        for lane, cursor in state["cursors"].items()
    }
    kept = {name: value for name, value in state.items() if name not in {"digests", "checksum"}}
    return {**kept, "version": 1, "lanes": lanes, "cursors": cursors}


EDITS: list[tuple[str, Callable[[Any], Any]]] = [
    ("which another lane is, too", lambda state: state["lanes"].__setitem__(2, [1, []])),
    ("it lacks 'turn_samples'", lambda state: state["plan"]["order"].pop("turn_samples")),
    ("it lacks 'max_batch_samples'", lambda state: state["plan"]["order"].pop("max_batch_samples")),
    ("'turn_samples' is None", lambda state: state["plan"]["order"].update(turn_samples=None)),
    ("'turn_samples' is '8x99999", lambda state: state["plan"]["order"].update(turn_samples="8x999999999")),
    (
        "'max_samples_per_sequence' is None",
        lambda state: state["plan"]["order"].update(max_samples_per_sequence=None),
    ),
    ("'max_samples_per_sequence' is -17", lambda state: state["plan"]["order"].update(max_samples_per_sequence=-17)),
    ("'sources' is None", lambda state: state["plan"]["order"].update(sources=None)),
    ("'past_versions' is", lambda state: state["plan"]["order"].update(past_versions=[[0, 1]])),
    ("'weight_history' has", lambda state: state["cursors"]["0"].update(weight_history=[[[0, 5]]])),
    ("'weight_history' has", lambda state: state["cursors"]["0"].update(weight_history=[[[7, 0]]])),
    ("its samples are at draw", lambda state: state["cursors"]["1"].update(draws=state["cursors"]["1"]["draws"] + 4)),
    ("expected \\[draw, step\\]", lambda state: state["cursors"]["1"]["stream"].update(upstream=["x", 0])),
]


@pytest.mark.parametrize(("words", "change"), EDITS, ids=[str(i) for i in range(len(EDITS))])
def test_numbers_of_states_without_checksum_are_checked(words: str, change: Callable[[Any], Any], dataset: str) -> None:
    open_loader = loaders_of(dataset)["training"]
    loader = open_loader()
    take_batches(loader, 5)
    state = downgrade(json_round_trip(loader.state_dict()))
    open_loader().load_state_dict(copy.deepcopy(state))
    change(state)

    with pytest.raises(StateMismatch, match=words) as raised:
        open_loader().load_state_dict(state)
    assert raised.value.code == "WDS502"
