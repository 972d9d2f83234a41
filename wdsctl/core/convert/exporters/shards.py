"""Shards as a target: tars with our own headers, plain, or compressed with gzip to be sent somewhere."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from typing import IO, cast

from wdsctl.core.convert.source import LargePart, Options, Part
from wdsctl.core.convert.target import Unit
from wdsctl.core.errors import UsageError
from wdsctl.core.os_errors import translated
from wdsctl.core.tar import BLOCK
from wdsctl.core.tar_header import END, header

_GAPS = [bytes(length) for length in range(BLOCK)]
_BUFFER = 1 << 20  # bytes gathered for one write
_OPTIONS = ("compress", "level")


class ShardsTarget:
    """`-O compress=gz`, `level=1` to 9. The same samples give the same bytes: headers say nothing but name and size."""

    name = "shards"
    about = "WebDataset .tar shards"
    suffix = ".tar"

    def check(self, options: Options) -> None:
        """Raises UsageError."""
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise UsageError(f"shards have no option {unknown[0]!r}", hint=f"they have {', '.join(_OPTIONS)}")
        if options.get("compress", "gz") not in ("gz", "none"):
            raise UsageError(f"compress: expected gz or none, found {options['compress']!r}", hint="`--compress gz`")
        if options.get("level", "6") not in tuple("123456789"):
            raise UsageError(f"level: expected 1 to 9, found {options['level']!r}", hint="6 is the default")

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:
        """One tar. Parts come as they stand: sorted by name, whole samples one after the other."""
        is_packed = options.get("compress") == "gz"
        with translated(path), open(path, "xb", buffering=_BUFFER) as file:
            if is_packed:
                level = int(options.get("level", "6"))
                with gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=file, mtime=0) as packed:
                    count, size = _written(cast("IO[bytes]", packed), samples, None)
            else:
                count, size = _written(file, samples, file.fileno())
            stored = file.tell()
        return Unit(path, count, stored, json.dumps({"unpacked": size} if is_packed else {}))

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:
        """Shards need nothing more; the engine indexes them."""


def _written(
    file: IO[bytes], samples: Iterable[tuple[str, Iterator[Part | LargePart]]], descriptor: int | None
) -> tuple[int, int]:
    """(samples, bytes of the tar)."""
    count = size_bytes = 0
    for key, parts in samples:
        count += 1
        pieces: list[bytes] = []
        for part in parts:
            size = part.size if isinstance(part, LargePart) else len(part.data)
            pieces.append(header(f"{key}.{part.name}".encode("utf-8", "surrogatepass"), size))
            size_bytes += len(pieces[-1]) + size + -size % BLOCK
            if isinstance(part, LargePart):
                file.write(b"".join(pieces))
                _copy(part, file, descriptor)
                pieces = []
            else:
                pieces.append(part.data)
            pieces.append(_GAPS[-size % BLOCK])
        file.write(b"".join(pieces))
    file.write(END)
    return count, size_bytes + len(END)


def _copy(part: LargePart, file: IO[bytes], descriptor: int | None) -> None:
    """A large part, by the kernel where the file is a plain one."""
    if descriptor is None:
        for chunk in part.chunks():
            file.write(chunk)
        return
    file.flush()
    part.copy_to(descriptor)
    file.seek(0, 2)


EXPORTER = ShardsTarget()
