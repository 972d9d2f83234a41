"""Store values in files by their declared types, without pickle: units and results of jobs.

`encode_typed` turns a value into JSON and bytes; `decode_typed` builds the value again from the type that the code
declares, never from a name in the data. Types: None, bool, int, float, str, bytes, numpy arrays, literals, tuples,
lists, sequences, sets, mappings, unions, dataclasses and NamedTuples of these.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from wdsctl.core.files import BytesLike
from wdsctl.core.json_text import checked_count

_PLAIN_TYPES = (bool, int, float, str)
_SEQUENCE_ORIGINS = (list, Sequence, Iterable)
_SET_ORIGINS = (set, frozenset, AbstractSet)
_MAPPING_ORIGINS = (dict, Mapping)


def encode_typed(  # noqa: C901, PLR0911 - a case for each kind of type
    value: Any, kind: Any, pieces: list[BytesLike]
) -> Any:
    """Return `value`, of type `kind`, as JSON; appends bytes to `pieces`. Raises TypeError for any other value."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args.index(value)
    if origin in (Union, types.UnionType):
        number = next((i for i, option in enumerate(args) if _fits(value, option)), None)
        if number is None:
            raise _type_error(value, kind)
        return [number, encode_typed(value, args[number], pieces)]
    if not _fits(value, kind):
        raise _type_error(value, kind)
    if kind is None or kind is type(None) or kind in _PLAIN_TYPES:
        return value
    if kind is bytes:
        pieces.append(bytes(value))
        return len(value)
    if origin is np.ndarray:
        if value.dtype.hasobject:
            raise _type_error(value, kind)
        array = np.ascontiguousarray(value)
        pieces.append(array.tobytes())
        return [np.lib.format.dtype_to_descr(array.dtype), list(array.shape), array.nbytes]
    if origin is tuple:
        kinds = [args[0]] * len(value) if _is_open(args) else args
        return [encode_typed(each, inner, pieces) for each, inner in zip(value, kinds, strict=True)]
    if origin in _SEQUENCE_ORIGINS:
        return [encode_typed(each, args[0], pieces) for each in value]
    if origin in _SET_ORIGINS:
        return [encode_typed(each, args[0], pieces) for each in sorted(value, key=repr)]
    if origin in _MAPPING_ORIGINS:
        return [
            [encode_typed(key, args[0], pieces), encode_typed(each, args[1], pieces)] for key, each in value.items()
        ]
    return [encode_typed(getattr(value, name), inner, pieces) for name, inner in _fields(kind)]


def decode_typed(encoded: Any, kind: Any, data: memoryview) -> Any:
    """Return the value of type `kind`. `data`: all pieces, joined. Raises one of `files.MALFORMED_ERRORS`."""
    value, used = _decode(encoded, kind, data, 0)
    if used != len(data):
        raise ValueError(len(data))
    return value


def _decode(  # noqa: C901, PLR0911, PLR0912 - a case for each kind of type
    encoded: Any, kind: Any, data: memoryview, start: int
) -> tuple[Any, int]:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args[checked_count(encoded)], start
    if origin in (Union, types.UnionType):
        number, inner = encoded
        return _decode(inner, args[checked_count(number)], data, start)
    if kind is None or kind is type(None) or kind in _PLAIN_TYPES:
        value = float(encoded) if kind is float and type(encoded) is int else encoded
        if not _fits(value, kind):
            raise ValueError(encoded)
        return value, start
    if kind is bytes:
        end = start + checked_count(encoded)
        return bytes(_slice(data, start, end)), end
    if origin is np.ndarray:
        descr, shape, size = encoded
        fields_of_record: Any = descr if isinstance(descr, str) else [tuple(each) for each in descr]
        dtype = np.lib.format.descr_to_dtype(fields_of_record)
        if dtype.hasobject:
            raise ValueError(descr)
        end = start + checked_count(size)
        flat = np.frombuffer(_slice(data, start, end), np.uint8).copy().view(dtype)
        return flat.reshape([checked_count(each) for each in shape]), end
    if origin in _MAPPING_ORIGINS:
        found = {}
        for key, each in encoded:
            decoded_key, start = _decode(key, args[0], data, start)
            found[decoded_key], start = _decode(each, args[1], data, start)
        return found, start
    values = []
    is_sequence = origin is tuple or origin in _SEQUENCE_ORIGINS or origin in _SET_ORIGINS
    if not is_sequence:
        kinds = [inner for _, inner in _fields(kind)]
    else:
        kinds = list(args) if origin is tuple and not _is_open(args) else [args[0]] * len(encoded)
    for each, inner in zip(encoded, kinds, strict=True):
        value, start = _decode(each, inner, data, start)
        values.append(value)
    if not is_sequence:
        return kind(**dict(zip([name for name, _ in _fields(kind)], values, strict=True))), start
    if origin in _SET_ORIGINS:
        return (set if origin is set else frozenset)(values), start
    return (values if origin is list else tuple(values)), start


def _fits(value: Any, kind: Any) -> bool:  # noqa: PLR0911 - a case for each kind of type
    """Whether a value may be of a type, by its outermost type."""
    origin = get_origin(kind)
    if kind is None or kind is type(None):
        return value is None
    if kind in _PLAIN_TYPES or kind is bytes:
        return type(value) is kind or (kind is float and type(value) is int)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if origin is Literal:
        return value in get_args(kind)
    if origin in _SEQUENCE_ORIGINS:
        return isinstance(value, list | tuple) and not hasattr(value, "_fields")
    if origin is tuple:
        is_plain = isinstance(value, tuple) and not hasattr(value, "_fields")
        return is_plain and (_is_open(get_args(kind)) or len(value) == len(get_args(kind)))
    if origin in _SET_ORIGINS:
        return isinstance(value, set | frozenset)
    if origin in _MAPPING_ORIGINS:
        return isinstance(value, Mapping)
    return isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields")) and type(value) is kind


@cache
def _fields(kind: Any) -> list[tuple[str, Any]]:
    """Return (name, type) of the fields of a dataclass or NamedTuple. Raises TypeError for any other type."""
    if is_dataclass(kind):
        names = [each.name for each in fields(kind) if each.init]
    elif hasattr(kind, "_fields"):
        names = list(kind._fields)
    else:
        raise TypeError(f"values of type {kind} cannot be stored")
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name in names]


def _is_open(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and args[1] is Ellipsis


def _slice(data: memoryview, start: int, end: int) -> memoryview:
    if end > len(data):
        raise ValueError(end)
    return data[start:end]


def _type_error(value: Any, kind: Any) -> TypeError:
    return TypeError(f"a value of type {type(value).__name__} is not of the type {kind}")
