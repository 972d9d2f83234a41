"""Check Arrow data before a value is read: offsets within their buffers, and how much comes out of a file.

Arrow's readers believe the offsets and lengths in a file. A false one reads memory of the process, or ends it.

Source: https://arrow.apache.org/docs/format/Columnar.html (layouts).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from wdsctl.core.file_limits import RAISE_LIMITS_HINT, stream_limit, unpacked_size_error
from wdsctl.core.storage import source_files

MAX_DEPTH = 64  # levels of nested columns: Python's stack and pyarrow's readers are recursive
VALUE_BYTES = 16  # counted for a value of a list


def allowed_bytes(path: str) -> int:
    """How much may come out of a file. Raises OSError."""
    return stream_limit(source_files.stat_file(path).size)


def check_allowed_bytes(used: int, allowed: int, path: str) -> None:
    """Raises DatasetError WDS233 if more comes out of a file than is allowed."""
    if used > allowed:
        hint = f"write it again without compression and without dictionary encoding; or {RAISE_LIMITS_HINT}"
        raise unpacked_size_error(allowed, path, hint=hint)


def check_schema(schema: Any) -> None:
    """Raises ValueError if columns are nested too deeply, or a name is not UTF-8."""
    level = list(schema)
    for _ in range(MAX_DEPTH):
        level = [below for field in level if field.name is not None for below in _fields_below(field)]
        if not level:
            return
    raise ValueError(f"columns are nested deeper than {MAX_DEPTH} levels")


def _fields_below(field: Any) -> list[Any]:
    kind = field.type
    while True:
        if hasattr(kind, "storage_type"):
            kind = kind.storage_type
        elif import_module("pyarrow.types").is_dictionary(kind):
            kind = kind.value_type
        else:
            return [kind.field(i) for i in range(kind.num_fields)]


def check_batch(batch: Any) -> int:
    """Check a record batch before a value is read. Returns the bytes that come out of it. Raises pyarrow's errors.

    Cost: texts, offsets and indices are read once, other values are not.
    """
    batch.validate()
    for column in batch.columns:
        column.validate(full=not _is_fixed_width(column.type))  # in full, it would refuse times out of range
    return unpacked_bytes(batch)


def _is_fixed_width(kind: Any) -> bool:
    """Whether values have a fixed size and refer to nothing."""
    types = import_module("pyarrow.types")
    return bool(types.is_primitive(kind) or types.is_fixed_size_binary(kind) or types.is_decimal(kind))


def unpacked_bytes(batch: Any) -> int:
    """The bytes of all values of a record batch, each counted as often as it occurs. The batch must be valid."""
    return sum(_array_bytes(column) for column in batch.columns)


def _array_bytes(array: Any) -> int:
    types, kind, count = import_module("pyarrow.types"), array.type, len(array)
    size: int
    if not count:  # validation skips the offset of such a column, which `flatten` follows
        size = 0
    elif hasattr(kind, "storage_type"):
        size = _array_bytes(array.storage)
    elif types.is_binary_view(kind) or types.is_string_view(kind):
        size = _view_bytes(array)
    elif types.is_dictionary(kind):
        size = _dictionary_bytes(array)
    elif types.is_struct(kind):
        size = VALUE_BYTES * count + sum(_array_bytes(array.field(i)) for i in range(kind.num_fields))
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        values = array.flatten()
        size = VALUE_BYTES * (count + len(values)) + _array_bytes(values)
    elif types.is_map(kind):
        first, end = (array.offsets[i].as_py() for i in (0, count))
        size = VALUE_BYTES * (count + end - first)
        size += sum(_array_bytes(each.slice(first, end - first)) for each in (array.keys, array.items))
    elif types.is_list_view(kind) or types.is_large_list_view(kind):
        listed = int(array.sizes.to_numpy(zero_copy_only=False).sum(dtype=np.int64))
        shared = listed > len(array.values)  # lists overlap: any of them may have the largest values
        size = VALUE_BYTES * (count + listed) + _array_bytes(array.values) * (count if shared else 1)
    elif types.is_run_end_encoded(kind):
        size = count * max((_array_bytes(array.values.slice(i, 1)) for i in range(len(array.values))), default=0)
    elif types.is_union(kind):
        below = [array.field(i) for i in range(kind.num_fields)]
        shared = kind.mode == "dense" and count > sum(map(len, below))
        size = VALUE_BYTES * count + sum(map(_array_bytes, below)) * (count if shared else 1)
    else:
        size = array.nbytes
    return size


def _view_bytes(array: Any) -> int:
    """The lengths in the views, which may refer to the same bytes. Of nulls, any length may be there."""
    views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64)
    if array.null_count:
        lengths = lengths[array.is_valid().to_numpy(zero_copy_only=False)]
    return VALUE_BYTES * len(array) + int(lengths.sum())


def _dictionary_bytes(array: Any) -> int:
    values, kind, types = array.dictionary, array.dictionary.type, import_module("pyarrow.types")
    if _is_fixed_width(kind) or not len(values):
        return len(array) * VALUE_BYTES
    compute = import_module("pyarrow.compute")
    if any(check(kind) for check in (types.is_binary, types.is_string, types.is_large_binary, types.is_large_string)):
        lengths = compute.binary_length(values).cast("int64")
        return VALUE_BYTES * len(array) + (compute.sum(lengths.take(array.indices)).as_py() or 0)
    return len(array) * max(_array_bytes(values.slice(i, 1)) for i in range(len(values)))
