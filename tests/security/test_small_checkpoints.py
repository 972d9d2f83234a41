"""A checkpoint of a few hundred bytes takes neither gigabytes nor minutes, whatever numbers are in it."""

from __future__ import annotations

import json
import pickle
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.core.job_states import a_rank_state
from wdsctl.core.checkpoint import files
from wdsctl.core.checkpoint.checkpoint import inspect_checkpoint
from wdsctl.core.checkpoint.state import check_state, merge_states, missing_ranks
from wdsctl.core.checkpoint.torch_file import read_torch_file
from wdsctl.core.errors import InputError, StateMismatch

_NAME = b"cbuiltins\nbytearray\n"


@contextmanager
def _cheaply(seconds: float = 5, megabytes: float = 100) -> Iterator[None]:
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        assert time.process_time() - began < seconds
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1e6
    finally:
        tracemalloc.stop()


def _torch(folder: Path, data: bytes) -> str:
    path = str(folder / "state.pt")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02]r" + struct.pack("<I", 0x0FFFFFFF) + b".",  # the place of a list in a table
        b"\x80\x04\x8e" + struct.pack("<Q", 3 << 30) + b".",  # the length of bytes
        b"\x80\x04\x8d" + struct.pack("<Q", 3 << 30) + b".",  # of text
        b"\x80\x04\x95" + struct.pack("<Q", 3 << 30) + b"N.",  # of a frame
        b"\x80\x02\x8b" + struct.pack("<i", 1 << 30) + b".",  # of a number
        b"\x80\x02]" + b"]" * 100_000 + b"a" * 100_000 + b".",  # lists in lists
        b"\x80\x02(" + b"." * 10,
        b"\x80\x02r.",
        _NAME + b"\x8a\x05" + (3 << 30).to_bytes(5, "little") + b"\x85R.",
    ],
)
def test_a_pickle_that_promises_gigabytes_gets_none(tmp_path: Path, data: bytes) -> None:
    path = _torch(tmp_path, data)

    with _cheaply(), pytest.raises(InputError) as caught:
        inspect_checkpoint([path])
    assert caught.value.code in ("WDS521", "WDS522")


def test_a_pickle_that_is_packed_is_measured_before_it_is_unpacked(tmp_path: Path) -> None:
    path = _torch(tmp_path, pickle.dumps({"a": bytes(80 << 20)}))

    with _cheaply(), pytest.raises(InputError, match="more than 67,108,864"):
        read_torch_file(path)


def test_what_pickles_set_on_containers_is_not_called(tmp_path: Path) -> None:
    """BUILD gives an OrderedDict an attribute `items`."""
    data = b"\x80\x02ccollections\nOrderedDict\n)R}X\5\0\0\0itemsNsb."

    with pytest.raises(InputError, match="no state"):
        inspect_checkpoint([_torch(tmp_path, data)])


def test_json_nests_and_counts_without_end_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for text in ("[" * 200_000, '{"a":' * 200_000, "1" * 10_000, "[" + "9" * 10_000 + "]"):
        path.write_text(text)
        with _cheaply(), pytest.raises(InputError):
            inspect_checkpoint([str(path)])


def test_json_of_more_bytes_than_any_state_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_JSON_BYTES", 1000)
    path = tmp_path / "state.json"
    path.write_text(json.dumps(a_rank_state()))

    with pytest.raises(InputError, match="more than 1,000 bytes") as caught:
        inspect_checkpoint([str(path)])
    assert caught.value.code == "WDS521"


def _changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    state = a_rank_state()
    change(state)
    return state


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(world=10**12, lanes=[], cursors={}),
        lambda state: state.update(batches_drawn=10**30, lanes=[], cursors={}),
        lambda state: state.update(generations=[1 << 63]),
        lambda state: state.update(world=1 << 100_000),
        lambda state: state.update(cursors={"1" * 10_000: {}}),
        lambda state: state["lanes"].__setitem__(0, [1 << 63, []]),
        lambda state: state["lanes"].__setitem__(0, [0, [[1, 1 << 63, 0]]]),
        lambda state: state["cursors"]["0"].update(draws=1 << 63),
    ],
)
def test_a_state_of_nonsense_numbers_is_refused_at_once(change: Callable[[dict[str, Any]], object]) -> None:
    with _cheaply(), pytest.raises(StateMismatch) as caught:
        check_state(_changed(change))
    assert caught.value.code == "WDS502"


def test_the_ranks_of_the_largest_job_are_counted_quickly() -> None:
    state = a_rank_state(0, 1, lanes=0) | {"world": 1 << 20, "lanes": [], "cursors": {}}

    with _cheaply(megabytes=300):
        check_state(state)
        assert len(missing_ranks([state])) == (1 << 20) - 1


def test_ranks_of_a_pass_that_are_endlessly_far_apart_are_not_merged() -> None:
    one, two = (a_rank_state(rank, 2, lanes=8) | {"lanes": [], "cursors": {}, "pass": 0} for rank in (0, 1))

    with _cheaply(), pytest.raises(StateMismatch, match="different steps"):
        merge_states([one, {**two, "batches_drawn": 40 + 2 * 10**12}])
