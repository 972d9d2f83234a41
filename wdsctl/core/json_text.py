"""Read JSON from untrusted files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from wdsctl.core.file_limits import scale_limit

MAX_JSON_MEMORY_BYTES = 512 << 20  # of the values of one text, without its strings
_UNCOUNTED_BYTES = 8 << 20  # the values of shorter texts are not counted
_MAX_DIGITS = 100  # of a whole number: products of some of them are still less than the largest float

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER = b"0" * (_MAX_DIGITS + 1)


def read_json(text: str | bytes | bytearray) -> Any:
    """Call `json.loads`, and raise ValueError for any invalid text, for one whose values take too much memory, and for
    whole numbers of more than 100 digits, with which Python cannot calculate as with other numbers.

    Python raises RecursionError for values that are nested too deeply, which callers do not expect.
    """
    return _read_checked(text, json.loads)


def read_json_or_none(text: bytes) -> Any:
    """Read a JSON text; None if it is not one."""
    try:
        return read_json(text)
    except ValueError:
        return None


def checked_count(number: Any, most: int = 1 << 62) -> int:
    """Return a whole number from 0 to `most`, such as a size in bytes. Raises ValueError for anything else."""
    if type(number) is not int or not 0 <= number <= most:
        raise ValueError(number)
    return number


def _read_checked(text: str | bytes | bytearray, loads: Callable[..., Any]) -> Any:
    try:
        if len(text) > _MAX_DIGITS:
            data = _as_utf8(text)
            if len(data) > _UNCOUNTED_BYTES and (taken := _estimate_memory(data)) > scale_limit(MAX_JSON_MEMORY_BYTES):
                raise ValueError(f"its values would take {taken >> 20:,} MiB of memory")
            if _LONG_NUMBER in data.translate(_DIGITS_TO_ZERO):  # a text may have as many digits
                json.loads(data, parse_int=_check_digits)
        return loads(text)
    except RecursionError as error:
        raise ValueError("the values are nested too deeply") from error


def _as_utf8(text: str | bytes | bytearray) -> bytes | bytearray:
    if not isinstance(text, str):
        encoding = json.detect_encoding(text)
        if encoding == "utf-8":
            return text
        text = text.decode(encoding, "surrogatepass")
    return text.encode("utf-8", "surrogatepass")


def _estimate_memory(text: bytes | bytearray) -> int:
    """The most bytes that the lists, objects and numbers of a JSON text can take, without its strings."""
    return 240 * text.count(b"{") + 64 * text.count(b"[") + 40 * text.count(b",")


def _check_digits(number: str) -> None:
    if len(number) > _MAX_DIGITS:
        raise ValueError(f"a whole number has more than {_MAX_DIGITS} digits")


def values_at_path(value: Any, path: str) -> Iterator[Any]:
    """Yield the values at `a.b`, through lists on the way and at the end; skips null."""
    values = [value]
    for key in path.split("."):
        values = [each[key] for each in _flatten(values) if isinstance(each, dict) and key in each]
    return (each for each in _flatten(values) if each is not None)


def _flatten(values: list[Any]) -> Iterator[Any]:
    """Yield the items of nested lists, in order. Not recursive: JSON may be nested deeper than Python's stack."""
    stack = values[::-1]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value[::-1]
        else:
            yield value


_ROWS_PER_PIECE = 1000
_WINDOW_BYTES = 1 << 16
_TAIL_BYTES = 4096  # in which the last row ends
_SPLITS_TRIED = 3  # of a window: a text in a row may look like the end of a row


def encode_with_rows(facts: Mapping[str, Any], name: str, rows: Iterable[list[Any]]) -> Iterator[bytes]:
    """Encode {**facts, name: rows} as compact JSON, in pieces. `facts` has one item or more.

    Holds few rows at a time.
    """
    yield _encode(facts)[:-1] + f",{json.dumps(name)}:[".encode()
    remaining = iter(rows)
    separator = b""
    while some := list(islice(remaining, _ROWS_PER_PIECE)):
        yield separator + _encode(some)[1:-1]
        separator = b","
    yield b"]}"


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def read_with_rows(data: bytes | memoryview, name: str) -> tuple[dict[str, Any], Iterator[Any]]:
    """Read an object with a long list of lists: (the object without the list, its rows).

    Holds few rows at a time, if the text is in compact form and has less than 4 KB after the rows. Raises ValueError
    for invalid text, KeyError without `name`; the rows raise ValueError as they are read.
    """
    begin = re.search(re.escape(f'"{name}":[').encode(), data)
    tail = bytes(data[max(0, len(data) - _TAIL_BYTES) :])
    end = tail.rfind(b"]]")
    if begin is not None and end >= 0 and (stop := len(data) - len(tail) + end + 1) > begin.end():
        facts = read_json(bytes(data[: begin.end()]) + bytes(data[stop:]))
        if isinstance(facts, dict) and facts.get(name) == []:
            return facts, _read_rows(data[begin.end() : stop])
    facts = read_json(bytes(data))
    if not isinstance(facts, dict):
        raise ValueError("the JSON is no object")  # noqa: TRY004 - the text is wrong, not an argument
    return facts, iter(facts.pop(name))


def _read_rows(data: bytes | memoryview) -> Iterator[Any]:
    """Read lists with commas between them, a window at a time."""
    start = 0
    while start < len(data):
        window = bytes(data[start : start + _WINDOW_BYTES])
        split = len(window)
        for _ in range(_SPLITS_TRIED):
            split = window.rfind(b"],[", 0, split)
            if split < 0:
                break
            try:
                rows = read_json(b"[" + window[: split + 1] + b"]")
            except ValueError:
                continue
            yield from rows
            start += split + len(b"],")
            break
        else:
            split = -1
        if split < 0 or len(data) - start <= _WINDOW_BYTES:
            yield from read_json(b"[" + bytes(data[start:]) + b"]")
            return


_NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonReader:
    """`read_json` of bytes, for one value after the other. Not thread-safe.

    `oddities` maps a code to a message for the value read last: WDS158 for numbers that are not JSON, WDS159 for
    repeated names. Takes as long as `json.loads`.
    """

    def __init__(self) -> None:
        self.oddities: dict[str, str] = {}
        self._decoder = json.JSONDecoder(parse_constant=self._parse_constant, object_pairs_hook=self._parse_object)

    def read(self, data: bytes) -> Any:
        """Return the value. Raises the errors of `read_json`."""
        self.oddities.clear()
        return _read_checked(data, self._decode)

    def _decode(self, data: bytes) -> Any:
        return self._decoder.decode(data.decode(json.detect_encoding(data), "surrogatepass"))

    def _parse_constant(self, name: str) -> float:
        self.oddities.setdefault("WDS158", f"{name} is not a JSON number")
        return _NON_FINITE[name]

    def _parse_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            self.oddities.setdefault("WDS159", f"an object has the name {twice!r} more than once")
        return found
