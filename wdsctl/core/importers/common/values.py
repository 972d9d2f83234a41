"""Convert values of rows to JSON and arrays to `.npy`; parse the options of formats.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import UsageError
from wdsctl.core.importers.protocol import Options
from wdsctl.core.safe_open import is_link_outside
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message


def encode_json(value: Any) -> bytes:
    """Encode a value as compact JSON in UTF-8, with keys in their order: equal values give equal bytes."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:  # NaN or infinity: rare, so that catching it costs less than checking every value
        text = _ENCODER.encode(to_json_value(value))
    return text.encode("utf-8", "backslashreplace")


def to_json_value(value: Any) -> Any:
    """Convert a value to types of JSON.

    Times become ISO 8601 text, time spans seconds, bytes base64, NaN and infinities null, decimals and others text.
    """
    converted: Any
    match value:
        case None | bool() | int() | str():
            converted = value
        case float():
            converted = value if math.isfinite(value) else None
        case dict():
            converted = {str(name): to_json_value(each) for name, each in value.items()}
        case list() | tuple():
            converted = [to_json_value(each) for each in value]
        case datetime() | date() | time():
            converted = value.isoformat()
        case timedelta():
            converted = value.total_seconds()
        case bytes() | bytearray() | memoryview():
            converted = base64.b64encode(value).decode()
        case _:
            converted = to_json_value(value.item()) if hasattr(value, "item") else str(value)
    return converted


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=to_json_value)


def encode_npy(array: NDArray[Any]) -> bytes:
    """Encode an array as a `.npy` file. Raises ValueError for arrays of objects, which would need pickle."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def check_format_options(format_name: str, options: Options, known: tuple[str, ...]) -> Options:
    """Return `options`. Raises UsageError for an option that the format does not have."""
    for name in options:
        if name not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{format_name} has no option {name!r}", hint=f"{did_you_mean(name, known)} {has}".strip())
    base = options.get("base", "")
    if base and not source_files.is_folder(base):
        raise UsageError(
            f"{format_name}: the folder {path_for_message(base)} of the option base does not exist",
            hint="check the path; it is relative to the working directory",
        )
    return options


def parse_list_option(options: Options, option: str) -> tuple[str, ...]:
    """The items of an option whose value is a comma-separated list; empty if the option is not given."""
    return tuple(word.strip() for word in options.get(option, "").split(",") if word.strip())


def parse_choice_option(format_name: str, options: Options, option: str, choices: tuple[str, ...]) -> str:
    """The value of an option that takes one of `choices`; the first choice if the option is not given.

    Raises UsageError for any other value.
    """
    value = options.get(option, choices[0])
    if value not in choices:
        raise UsageError(
            f"{format_name}: invalid option {option}={value}",
            hint=f"{did_you_mean(value, choices)} {option} is one of {', '.join(choices)}".strip(),
        )
    return value


def parse_integer_option(format_name: str, options: Options, option: str, default: int) -> int:
    """The value of an option that takes an integer of 1 or more. Raises UsageError for any other value."""
    text = options.get(option, str(default))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(
            f"{format_name}: {option}={text} is not a whole number above 0", hint=f"such as {option}={default}"
        )
    return int(text)


MAX_PROBED_NAMES = 10_000  # entries of folders that a search reads


def read_head(path: str, size: int = 1 << 16) -> bytes:
    """The first `size` bytes of a file; empty if the file cannot be read."""
    try:
        return source_files.read_start(path, size)
    except OSError:
        return b""


def find_file_below(root: str, is_selected: Callable[[str], bool], *, depth: int) -> str | None:
    """The path of a file whose name is selected, at most `depth` folders below `root`; None if there is none.

    Skips names that begin with a dot or an underscore. Reads at most 10,000 entries.
    """
    folders = deque([(root, 0)])
    left = MAX_PROBED_NAMES
    while folders and left > 0:
        folder, level = folders.popleft()
        try:
            with source_files.scan(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name.startswith((".", "_")) or left < 0:
                        continue
                    if is_link_outside(entry, root):
                        continue  # opening the source reports the link
                    if is_selected(entry.name) and entry.is_file():
                        return entry.path
                    if level < depth and entry.is_dir():
                        folders.append((entry.path, level + 1))
        except OSError:
            continue  # opening the source reports the error
    return None
