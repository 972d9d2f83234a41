"""What the level `load` keeps of samples: one range of a shard, and their kinds. The loader's part has tests there."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any, cast

import pytest

from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import locate
from wdsctl.core.executors.typed_values import decode_typed, encode_typed
from wdsctl.core.validate.load import (
    MAX_KINDS,
    NOT_LOADED,
    KindCollector,
    LastRange,
    LoadTarget,
    ShardKinds,
    count_kinds,
)
from wdsctl.core.validate.load import unpack_kinds as unpack
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.unit import CheckContext
from wdsctl.plugins import LOAD_CHECK


def test_last_range_reads_bytes_within_it_once() -> None:
    reads: list[tuple[int, int]] = []

    def read(offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return bytes(range(offset, offset + size))

    last = LastRange(read)
    assert (last(10, 20), last(12, 3), last(10, 20)) == (bytes(range(10, 30)), b"\x0c\x0d\x0e", bytes(range(10, 30)))
    assert (last(25, 6), last(9, 2)) == (bytes(range(25, 31)), b"\x09\x0a")
    assert reads == [(10, 20), (25, 6), (9, 2)]


def test_kinds_are_stored_and_read_again() -> None:
    collector = KindCollector(5)
    a = json.dumps([["image", ["tensor", 3, "uint8"]], ["more", ["fields", [["x", "str"]]]]])
    b = json.dumps([["text", "NoneType"]])
    for position, kind in ((0, a), (1, b), (4, a)):
        collector.add(position, kind)
    kinds = collector.to_kinds()
    assert kinds == ShardKinds((a, b), bytes([0, 1, NOT_LOADED, NOT_LOADED, 0]))
    assert unpack(kinds.pack(), 5) == kinds
    assert unpack(ShardKinds().pack(), 5) == ShardKinds()
    sparse = ShardKinds((json.dumps([["a", ["tensor", 2, "uint8", "sparse_coo", [3, 4]]]]),), b"\0")
    assert unpack(sparse.pack(), 1) == sparse


def _nested(depth: int) -> Any:
    return ["fields", [["a", _nested(depth - 1)]]] if depth else "str"


def _stored(*kinds: Any, numbers: bytes = b"\0") -> bytes:
    return zlib.compress(json.dumps([json.dumps(kind) for kind in kinds]).encode() + b"\0" + numbers)


@pytest.mark.parametrize(
    "packed",
    [
        *(b"x", zlib.compress(b"{"), zlib.compress(b"7\0")),
        _stored([["a", "str"]], numbers=bytes(2)),
        _stored([["a", "str"]], numbers=b""),
        _stored([["a", "str"]])[:-4],
        _stored(*[[["a", "str"]]] * (MAX_KINDS + 1)),
        _stored([["a" * (5 << 20), "str"]]),
        *(_stored([["a", kind]]) for kind in (7, "a\0b", ["tensor", 65, "uint8"], ["tensor", 1, "load("], ["x"], [])),
        *(
            _stored([["a", ["tensor", 2, "uint8", *of]]])
            for of in (["save", []], ["jagged", 7], ["sparse_coo", [1 << 60]])
        ),
        _stored([["a", _nested(40)]]),
    ],
)
def test_malformed_kinds_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        unpack(packed, 1)


def test_kinds_of_a_shard_are_bounded() -> None:
    collector = KindCollector(MAX_KINDS + 1)
    for i in range(MAX_KINDS + 1):
        collector.add(i, str(i))
    kinds = collector.to_kinds()
    assert len(kinds.kinds) == MAX_KINDS
    assert kinds.numbers[-1] == NOT_LOADED


def test_samples_of_known_kinds_are_kept_beyond_the_limit() -> None:
    collector = KindCollector(MAX_KINDS + 1)
    for position, kind in enumerate([*range(MAX_KINDS), 0]):
        collector.add(position, str(kind))
    assert collector.to_kinds().numbers[-1] == 0


def test_kinds_are_counted_over_samples_of_a_split() -> None:
    kinds = {"a.tar": ShardKinds(("x", "y"), bytes([0, 1, NOT_LOADED])), "b.tar": ShardKinds(("y",), bytes([0, 0]))}
    paths = ["a.tar", "b.tar", "c.tar"]
    assert count_kinds(kinds, None, paths) == {"x": (1, "a.tar", 0), "y": (3, "a.tar", 1)}
    some = {"a.tar": SplitShard(1, 1, bytes([0b001])), "b.tar": SplitShard(2, 1, bytes([0b10]))}
    assert count_kinds(kinds, some, paths) == {"x": (1, "a.tar", 0), "y": (1, "b.tar", 1)}


def test_units_in_files_can_name_no_other_function() -> None:
    target = LoadTarget(opener=LOAD_CHECK, location=locate("."), offsets_path="", config_path="", config_text="")
    context = CheckContext(root=".", request=ValidateRequest(), load=target)
    pieces: list[Any] = []
    encoded = encode_typed(context, CheckContext, pieces)
    assert decode_typed(encoded, CheckContext, memoryview(b"".join(pieces))) == context
    with pytest.raises(ValueError, match="not in tuple"):
        encode_typed(replace(context, load=replace(target, opener=cast("Any", "os:system"))), CheckContext, [])
