"""Arrow and Parquet through pyarrow, which is optional: batches of rows, kept small whatever the file's own are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from wdsctl.core.convert.rows.arrow_values import is_list, values_of
from wdsctl.core.errors import DatasetError, UsageError, WdsctlError
from wdsctl.core.os_errors import translate
from wdsctl.core.printable import named

BYTES_AT_ONCE = 8 << 20  # of rows that are Python objects at a time

_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream; every writer since Arrow 0.15 puts it there

#: The command that installs what these forms need.
INSTALL = "pip install 'wdsctl[parquet]'"


def loaded(module: str, what: str) -> Any:
    """A module of pyarrow. Raises UsageError WDS236 that has the command where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(f"{what} needs pyarrow, which is not installed", hint=INSTALL, code="WDS236") from error


@contextmanager
def damage_told(path: str) -> Iterator[None]:
    """What pyarrow raises in the block as ours: WDS233 for a file that is not what it should be."""
    arrow = loaded("pyarrow", "the file")
    try:
        yield
    except WdsctlError:
        raise
    except (arrow.ArrowException, OSError, ValueError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise translate(error, path, "read") from error
        raise DatasetError(
            f"the file is damaged or cut short: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            hint="copy it again from its origin",
            where=named(path),
            code="WDS233",
        ) from error


def media_columns(schema: Any) -> tuple[str, ...]:
    """The columns that hold bytes, alone or with a path beside them, or lists of these."""
    return tuple(column.name for column in schema if _is_media(column.type))


def _is_media(kind: Any) -> bool:
    types = loaded("pyarrow.types", "the file")
    kind = _plain(kind)
    if is_list(kind):
        kind = _plain(kind.value_type)
    if types.is_struct(kind):
        return {kind.field(i).name for i in range(kind.num_fields)} == {"bytes", "path"}
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(check(kind) for check in kinds)


def _plain(kind: Any) -> Any:
    """What values of a type are, however they are stored: by their places in a dictionary, say."""
    kind = getattr(kind, "storage_type", kind)
    return kind.value_type if loaded("pyarrow.types", "the file").is_dictionary(kind) else kind


def check_names(schema: Any, path: str) -> None:
    """Raises DatasetError where a column's name comes twice: one of the two would be lost."""
    twice = sorted(name for name, times in Counter(schema.names).items() if times > 1)
    if twice:
        raise DatasetError(
            f"the column {twice[0]!r} is there twice", hint="rename one of them", where=named(path), code="WDS233"
        )


def dicts(batch: Any, skip: int = 0) -> Iterator[dict[str, Any]]:
    """The rows of a record batch, without the first `skip`, a few at a time."""
    step = max(1, min(1024, BYTES_AT_ONCE * batch.num_rows // max(1, batch.nbytes)))
    for at in range(skip, batch.num_rows, step):
        some = batch.slice(at, step)
        columns = [values_of(column) for column in some.columns]
        yield from (dict(zip(some.schema.names, row, strict=True)) for row in zip(*columns, strict=True))


def arrow_batches(path: str) -> Iterator[Any]:
    """The record batches of an Arrow IPC file or stream, mapped: a batch that is passed over is not read.

    Source: https://arrow.apache.org/docs/format/Columnar.html (streams and files; files begin with ARROW1).
    """
    arrow, ipc = loaded("pyarrow", "an Arrow file"), loaded("pyarrow.ipc", "an Arrow file")
    with damage_told(path):
        if os.path.getsize(path) == 0:
            raise ValueError("the file is empty")
        with arrow.memory_map(path) as mapped:
            if mapped.read(6) == b"ARROW1":
                file = ipc.open_file(mapped)
                for i in range(file.num_record_batches):
                    yield file.get_batch(i)
            else:
                mapped.seek(0)
                yield from ipc.open_stream(mapped)
                mapped.seek(mapped.size() - len(_END))
                if mapped.read() != _END:
                    raise ValueError("the stream has no end: it was cut between two batches")


def arrow_schema(path: str) -> Any:
    """The schema of an Arrow IPC file or stream."""
    arrow, ipc = loaded("pyarrow", "an Arrow file"), loaded("pyarrow.ipc", "an Arrow file")
    with damage_told(path), arrow.memory_map(path) as mapped:
        if mapped.read(6) == b"ARROW1":
            return ipc.open_file(mapped).schema
        mapped.seek(0)
        return ipc.open_stream(mapped).schema
