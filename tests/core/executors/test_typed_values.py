from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from wdsctl.core.executors.typed_values import decode_typed, encode_typed
from wdsctl.core.executors.unit_results import UNIT_FUNCTIONS, UnitFunction, unit_types
from wdsctl.core.files import MALFORMED_ERRORS, BytesLike


class Point(NamedTuple):
    x: int
    y: float
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AllTypes:
    flag: bool
    data: bytes
    kind: Literal["a", "b"]
    points: tuple[Point, ...]
    pair: tuple[int, str]
    by_name: Mapping[str, Sequence[Point | str]]
    names: frozenset[str]
    numbers: NDArray[np.int64]
    records: NDArray[np.void] = field(default_factory=lambda: np.zeros(2, [("a", "<u2"), ("b", "<f4")]))


VALUE = AllTypes(
    flag=True,
    data=b"\0\xff",
    kind="b",
    points=(Point(1, 2.5), Point(-3, 4, "é\udcff")),
    pair=(5, ""),
    by_name={"k": ("text", Point(0, 0.0))},
    names=frozenset({"y", "x"}),
    numbers=np.arange(6, dtype=np.int64).reshape(2, 3),
)


def encode(value: Any, kind: Any) -> tuple[Any, memoryview]:
    pieces: list[BytesLike] = []
    facts = encode_typed(value, kind, pieces)
    return facts, memoryview(b"".join(pieces))


def test_typed_value_round_trips() -> None:
    facts, data = encode(VALUE, AllTypes)
    decoded = decode_typed(facts, AllTypes, data)
    assert type(decoded) is AllTypes
    assert decoded.numbers.tolist() == VALUE.numbers.tolist()
    assert decoded.records.dtype == VALUE.records.dtype
    for name in ("flag", "data", "kind", "points", "pair", "by_name", "names"):
        assert getattr(decoded, name) == getattr(VALUE, name)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("text", int),
        (1, str),
        (True, int),
        (object(), AllTypes),
        (np.array([object()]), NDArray[np.object_]),
        (Point(1, 2.0), tuple[int, float, None]),
        (b"", int | None),
    ],
)
def test_encode_typed_refuses_value_of_other_type(value: Any, kind: Any) -> None:
    with pytest.raises(TypeError):
        encode_typed(value, kind, [])


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ("text", int),
        ([1, 2.0], Point),
        ([1, 2.0, [5, None]], Point),
        (-1, bytes),
        (9, bytes),
        (["|O", [1], 8], NDArray[np.int64]),
        (["<i8", [2], 8], NDArray[np.int64]),
        (7, Literal["a"]),
        (3, tuple[int, ...]),
        ([1], tuple[int, int]),
        ({"__class__": "os.system"}, Point),
    ],
)
def test_damaged_data_is_refused_and_creates_no_object(facts: Any, kind: Any) -> None:
    with pytest.raises(MALFORMED_ERRORS):
        decode_typed(facts, kind, memoryview(b"12345678"))


def test_unused_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="1"):
        decode_typed(1, int, memoryview(b"x"))


@pytest.mark.parametrize("function", UNIT_FUNCTIONS)
def test_types_of_unit_functions_can_be_stored(function: str) -> None:
    seen: list[Any] = []

    def visit(kind: Any) -> None:
        from typing import get_args, get_origin

        from wdsctl.core.executors.typed_values import _fields

        origin = get_origin(kind)
        if origin is Literal or origin is np.ndarray or kind in (bool, int, float, str, bytes, type(None), Ellipsis):
            return
        inner = list(get_args(kind)) if origin is not None else [each for _, each in _fields(kind)]
        if kind not in seen:
            seen.append(kind)
            for each in inner:
                visit(each)

    types = unit_types(function)
    for kind in (*types.arguments, types.unit, types.result):
        visit(kind)
    assert seen


def test_unknown_unit_function_is_never_loaded() -> None:
    with pytest.raises(KeyError):
        UnitFunction("os:system").bind()
