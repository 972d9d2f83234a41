"""Read Arrow and Parquet as Python values, in small batches of rows, with the optional package pyarrow.

Times that Python cannot represent become ISO 8601 text or numbers, so that no row is lost.

Source: https://arrow.apache.org/docs/format/Columnar.html (types), https://www.iso.org/iso-8601-date-and-time-format.html.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, WdsctlError, wdsctl_error_from
from wdsctl.core.extras import missing_package_error
from wdsctl.core.file_limits import ROW_BYTES
from wdsctl.core.importers.common import arrow_checks, parquet_pages
from wdsctl.core.importers.common.arrow_messages import CheckedMessages
from wdsctl.core.importers.protocol import damaged_file_error
from wdsctl.core.json_text import read_json
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message
from wdsctl.core.urls import is_url

_STORE_BUFFER_BYTES = 1 << 20  # read at once at a URL: readers skip the columns that they do not need

_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def column_values(column: Any) -> list[Any]:
    """The values of an array as Python objects.

    Values that Python's types cannot represent are converted: times to ISO 8601 text, time spans to seconds, and times
    in years out of Python's range to the stored integer. Unknown time zones become UTC.
    """
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        found = [_scalar_value(each) for each in column]
    return found


def is_list_type(kind: Any) -> bool:
    """Whether a type of Arrow is one of its list types."""
    types = import_module("pyarrow.types")
    checks = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
    return any(getattr(types, check)(kind) for check in checks)


def _scalar_value(scalar: Any) -> Any:
    types = import_module("pyarrow.types")
    kind = scalar.type
    converted: Any
    if not scalar.is_valid:
        converted = None
    elif types.is_struct(kind):
        converted = {kind.field(i).name: _scalar_value(scalar[i]) for i in range(kind.num_fields)}
    elif types.is_map(kind):
        converted = [(_scalar_value(pair[0]), _scalar_value(pair[1])) for pair in scalar.values]
    elif is_list_type(kind):
        converted = [_scalar_value(each) for each in scalar.values]
    elif types.is_dictionary(kind) or hasattr(kind, "storage_type"):
        converted = _scalar_value(scalar.value)
    elif types.is_temporal(kind):
        converted = _time_value(scalar)
    else:
        converted = scalar.as_py()
    return converted


def _time_value(scalar: Any) -> Any:
    """A time or time span as a Python object; as text or a number if Python's types cannot represent it."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return _time_text(scalar)


def _time_text(scalar: Any) -> str | int | float:
    arrow, types, kind = import_module("pyarrow"), import_module("pyarrow.types"), scalar.type
    if types.is_duration(kind):
        seconds: float = scalar.value / _UNITS_PER_SECOND[kind.unit]
        return seconds
    if types.is_time(kind):
        text: str = str(scalar.cast(arrow.string()).as_py())
        return text if text[0].isdigit() else int(scalar.value)  # "<value out of range: -1>"
    if not types.is_timestamp(kind):
        return int(scalar.value)
    seconds_count, rest = divmod(scalar.value, _UNITS_PER_SECOND[kind.unit])
    for zone in dict.fromkeys((kind.tz, kind.tz and "UTC")):
        try:
            text = arrow.scalar(seconds_count, arrow.timestamp("s", zone)).as_py().isoformat()
        except (ValueError, OverflowError):
            continue
        digits = f"{rest:0{len(str(_UNITS_PER_SECOND[kind.unit])) - 1}d}".rstrip("0") if rest else ""
        return f"{text[:19]}{f'.{digits:0<6}' if digits else ''}{text[19:]}"
    return int(scalar.value)


BATCH_BYTES = 8 << 20  # bytes of Arrow data that are converted to Python objects at a time

_TABLE_ROWS = 65536  # read at once into a table


def import_arrow_module(module: str, what: str) -> Any:
    """Import a module of pyarrow. Raises UsageError WDS236, with the install command, if pyarrow is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package_error(what, "pyarrow") from error


@contextmanager
def translate_arrow_errors(path: str) -> Iterator[None]:
    """Translate pyarrow's errors in the block: to DatasetError WDS233 for a damaged file, else as for any OSError."""
    arrow = import_arrow_module("pyarrow", "the file")
    try:
        yield
    except WdsctlError:
        raise
    except (arrow.ArrowException, OSError, ValueError, EOFError, OverflowError, struct.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise wdsctl_error_from(error, path, "read") from error
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damaged_file_error(f"the file is damaged or truncated: {why}", path, copied="file") from error


def media_columns(schema: Any) -> tuple[str, ...]:
    """The columns that hold bytes, structs of `bytes` and `path`, or lists of these."""
    return tuple(column.name for column in schema if _is_media_type(column.type))


def _is_media_type(kind: Any) -> bool:
    types = import_arrow_module("pyarrow.types", "the file")
    kind = _value_type(kind)
    if is_list_type(kind):
        kind = _value_type(kind.value_type)
    if types.is_struct(kind):
        return {kind.field(i).name for i in range(kind.num_fields)} == {"bytes", "path"}
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(check(kind) for check in kinds)


def _value_type(kind: Any) -> Any:
    """The type of the values themselves, without extension type or dictionary encoding."""
    kind = getattr(kind, "storage_type", kind)
    return kind.value_type if import_arrow_module("pyarrow.types", "the file").is_dictionary(kind) else kind


def label_names(schema: Any) -> dict[str, list[str]]:
    """Column -> names of its labels, from the description of features that Hugging Face datasets add to a schema."""
    try:
        features = read_json((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return labels_of_features(features)


def labels_of_features(features: Any) -> dict[str, list[str]]:
    """Column -> names of its labels, or of the labels in its lists. `features`: as Hugging Face describes them."""
    found: dict[str, list[str]] = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        kind = feature[0] if isinstance(feature, list) and len(feature) == 1 else feature
        if isinstance(kind, dict) and kind.get("_type") in ("Sequence", "List", "LargeList"):
            kind = kind.get("feature")
        if isinstance(kind, dict) and kind.get("_type") == "ClassLabel" and isinstance(kind.get("names"), list):
            found[column] = [str(name) for name in kind["names"]]
    return found


def add_label_names(values: dict[str, Any], labels: Mapping[str, Sequence[str]]) -> None:
    """Add the name of each label to a row, as `COLUMN_name`, or the list of names. -1 and null have no name."""
    for column, names in labels.items():
        found = values.get(column)
        if isinstance(found, list):
            values.setdefault(f"{column}_name", [_label_name(each, names) for each in found])
        elif (name := _label_name(found, names)) is not None:
            values.setdefault(f"{column}_name", name)


def _label_name(number: Any, names: Sequence[str]) -> str | None:
    return names[number] if isinstance(number, int) and 0 <= number < len(names) else None


def check_column_names(schema: Any, path: str) -> None:
    """Raises DatasetError WDS233 if two columns have the same name, since one of them would be lost."""
    twice = sorted(name for name, times in Counter(schema.names).items() if times > 1)
    if twice:
        raise DatasetError(
            f"the column {twice[0]!r} is repeated",
            hint="rename one of the columns",
            where=path_for_message(path),
            code="WDS233",
        )


def iter_rows(batch: Any, skip: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the rows of a checked record batch after the first `skip`. Converts about 8 MiB at a time."""
    unpacked = arrow_checks.unpacked_bytes(batch)
    # `nbytes` follows the offsets of columns without values, which are not validated.
    is_uneven = unpacked > 2 * batch.get_total_buffer_size()  # some values take no space of their own
    step = max(1, min(1024, BATCH_BYTES * batch.num_rows // max(1, unpacked)))
    at = skip
    while at < batch.num_rows:
        some = batch.slice(at, step)
        while is_uneven and some.num_rows > 1 and arrow_checks.unpacked_bytes(some) > 4 * BATCH_BYTES:
            some = some.slice(0, some.num_rows // 2)
        columns = [column_values(column) for column in some.columns]
        yield from (dict(zip(some.schema.names, row, strict=True)) for row in zip(*columns, strict=True))
        at += some.num_rows


def open_random_access(path: str) -> Any:
    """Open a file for Arrow's readers: mapped, or read by ranges at a URL."""
    arrow = import_arrow_module("pyarrow", "an Arrow file")
    if not is_url(path):
        return arrow.BufferReader(arrow.py_buffer(source_files.map_source(path)))
    return arrow.PythonFile(source_files.open_file(path, buffer_bytes=_STORE_BUFFER_BYTES), "r")


class ArrowBatch(NamedTuple):
    """Rows of an Arrow file. `rows`: None for those before the first row to read, which are only counted."""

    row_count: int
    rows: Any


def arrow_batches(path: str, start: int = 0) -> Iterator[ArrowBatch]:
    """The record batches of an Arrow IPC file or stream, checked; those before row `start` are not read.

    Raises DatasetError WDS233.
    """
    with _open_stream(path, start) as (stream, messages):
        allowed, used, skipped = arrow_checks.allowed_bytes(path), 0, 0
        while True:
            batch = next(stream, None)
            if messages.skipped_rows > skipped:
                yield ArrowBatch(messages.skipped_rows - skipped, None)
                used += ROW_BYTES * (messages.skipped_rows - skipped)
                skipped = messages.skipped_rows
            if batch is None:
                arrow_checks.check_allowed_bytes(used, allowed, path)
                return
            used += ROW_BYTES * batch.num_rows + arrow_checks.check_batch(batch)
            arrow_checks.check_allowed_bytes(used, allowed, path)
            yield ArrowBatch(batch.num_rows, batch)


def arrow_schema(path: str) -> Any:
    """The schema of an Arrow IPC file or stream. Raises DatasetError WDS233."""
    with _open_stream(path) as (stream, _):
        return stream.schema


@contextmanager
def _open_stream(path: str, start: int = 0) -> Iterator[tuple[Any, CheckedMessages]]:
    """Open the record batches of an Arrow IPC file or stream: pyarrow's reader, and what it reads from."""
    arrow, ipc = (import_arrow_module(name, "an Arrow file") for name in ("pyarrow", "pyarrow.ipc"))
    with translate_arrow_errors(path):
        if source_files.stat_file(path).size == 0:
            raise ValueError("the file is empty")
        with source_files.open_file(path, buffer_bytes=_STORE_BUFFER_BYTES) as file:
            messages = CheckedMessages(file, path, arrow_checks.allowed_bytes(path), start)
            stream = ipc.open_stream(arrow.PythonFile(messages, "r"))
            arrow_checks.check_schema(stream.schema)
            yield stream, messages


def open_parquet(path: str) -> Any:
    """Open a Parquet file without read-ahead: a row group may be larger than the memory. Raises DatasetError WDS233.

    `parquet_batches` reads it.
    """
    parquet = import_arrow_module("pyarrow.parquet", "Parquet")
    with translate_arrow_errors(path):
        file = parquet.ParquetFile(open_random_access(path), pre_buffer=False)
        arrow_checks.check_schema(file.schema_arrow)
        rows = file.metadata.num_rows * ROW_BYTES
        arrow_checks.check_allowed_bytes(rows, arrow_checks.allowed_bytes(path), path)
        return file


class ParquetBatch(NamedTuple):
    """Some rows of a row group. `start`: the number of the first one in the file, `first` in its group."""

    start: int
    group: int
    first: int
    rows: Any


def parquet_batches(
    file: Any, path: str, rows: int, columns: Sequence[str] | None = None, start: int = 0
) -> Iterator[ParquetBatch]:
    """Yield the checked rows of an open Parquet file in batches of at most `rows` rows and about 8 MiB.

    Leaves out the row groups before row `start`. `columns`: None for all. Raises pyarrow's errors, and DatasetError
    WDS233 if more comes out of the file than `docs/limits.md` says.
    """
    parquet = import_arrow_module("pyarrow.parquet", "Parquet")
    allowed, used = arrow_checks.allowed_bytes(path), ROW_BYTES * file.metadata.num_rows
    source, row, unpacked = open_random_access(path), 0, 0
    chunks = [] if is_url(path) else parquet_pages.read_chunk_facts(source)
    for group in range(file.num_row_groups):
        facts = file.metadata.row_group(group)
        row += facts.num_rows
        if row <= start:
            continue
        step, reader = max(1, min(rows, BATCH_BYTES * facts.num_rows // max(1, facts.total_byte_size))), file
        if not is_url(path):  # the pages of an object would be fetched twice
            pages = parquet_pages.read_page_facts(chunks[group], facts.num_rows, source, columns)
            unpacked += pages.unpacked
            arrow_checks.check_allowed_bytes(unpacked, allowed, path)
            step = min(step, pages.rows)
            if pages.shared:
                reader = parquet.ParquetFile(
                    open_random_access(path), pre_buffer=False, read_dictionary=list(pages.shared)
                )
        first = 0
        for batch in reader.iter_batches(step, row_groups=[group], columns=columns, use_threads=False):
            used += arrow_checks.check_batch(batch)
            arrow_checks.check_allowed_bytes(used, allowed, path)
            yield ParquetBatch(row - facts.num_rows + first, group, first, batch)
            first += batch.num_rows
        if first != facts.num_rows:
            raise ValueError(f"row group {group} has {first:,} rows, and says {facts.num_rows:,}")
    if row != file.metadata.num_rows:
        raise ValueError(f"the row groups have {row:,} rows, and the file says {file.metadata.num_rows:,}")


def read_parquet(file: Any, path: str, columns: Sequence[str] | None = None) -> Any:
    """An open Parquet file as a table, checked like its batches."""
    arrow = import_arrow_module("pyarrow", "Parquet")
    batches = [batch.rows for batch in parquet_batches(file, path, _TABLE_ROWS, columns)]
    schema = file.schema_arrow
    if batches:
        schema = batches[0].schema
    elif columns is not None:
        schema = arrow.schema([schema.field(name) for name in columns])
    return arrow.Table.from_batches(batches, schema)
