"""A checkpoint of a few hundred bytes costs neither gigabytes nor minutes, whatever numbers it contains."""

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
def _cost_limits(seconds: float = 5, megabytes: float = 100) -> Iterator[None]:
    tracemalloc.start()
    start = time.process_time()
    try:
        yield
        assert time.process_time() - start < seconds
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1e6
    finally:
        tracemalloc.stop()


def _write_torch_file(folder: Path, data: bytes) -> str:
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
def test_pickle_that_claims_gigabytes_is_refused_cheaply(tmp_path: Path, data: bytes) -> None:
    path = _write_torch_file(tmp_path, data)

    with _cost_limits(), pytest.raises(InputError) as caught:
        inspect_checkpoint([path])
    assert caught.value.code in ("WDS521", "WDS522")


def test_read_torch_file_checks_size_before_decompression(tmp_path: Path) -> None:
    path = _write_torch_file(tmp_path, pickle.dumps({"a": bytes(80 << 20)}))

    with open(path, "rb") as file, _cost_limits(), pytest.raises(InputError, match="more than 67,108,864"):
        read_torch_file(file, path)


def test_attributes_set_by_pickle_on_containers_are_not_called(tmp_path: Path) -> None:
    """The opcode BUILD sets an attribute `items` on an OrderedDict."""
    data = b"\x80\x02ccollections\nOrderedDict\n)R}X\5\0\0\0itemsNsb."

    with pytest.raises(InputError, match="no state"):
        inspect_checkpoint([_write_torch_file(tmp_path, data)])


def test_json_with_deep_nesting_or_huge_numbers_is_refused_cheaply(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for text in ("[" * 200_000, '{"a":' * 200_000, "1" * 10_000, "[" + "9" * 10_000 + "]"):
        path.write_text(text)
        with _cost_limits(), pytest.raises(InputError):
            inspect_checkpoint([str(path)])


def test_json_above_size_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_JSON_BYTES", 1000)
    path = tmp_path / "state.json"
    path.write_text(json.dumps(a_rank_state()))

    with pytest.raises(InputError, match="more than 1,000 bytes") as caught:
        inspect_checkpoint([str(path)])
    assert caught.value.code == "WDS521"


def _change_state(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
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
def test_check_state_refuses_absurd_numbers_cheaply(change: Callable[[dict[str, Any]], object]) -> None:
    with _cost_limits(), pytest.raises(StateMismatch) as caught:
        check_state(_change_state(change))
    assert caught.value.code == "WDS502"


def test_missing_ranks_of_largest_job_are_counted_cheaply() -> None:
    state = a_rank_state(0, 1, lanes=0) | {"world": 1 << 20, "lanes": [], "cursors": {}}

    with _cost_limits(megabytes=300):
        check_state(state)
        assert len(missing_ranks([state])) == (1 << 20) - 1


def test_merge_states_refuses_ranks_far_apart_cheaply() -> None:
    one, two = (a_rank_state(rank, 2, lanes=8) | {"lanes": [], "cursors": {}, "pass": 0} for rank in (0, 1))

    with _cost_limits(), pytest.raises(StateMismatch, match="different steps"):
        merge_states([one, {**two, "batches_drawn": 40 + 2 * 10**12}])
