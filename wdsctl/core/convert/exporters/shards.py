"""Write tar shards with reproducible headers, plain, or compressed with gzip for transfer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from typing import IO, cast

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.errors import UsageError, translate_os_errors
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE
from wdsctl.core.tar_header import END_OF_ARCHIVE, TAR_BLOCK_BYTES, build_tar_header

_PADDING = [bytes(length) for length in range(TAR_BLOCK_BYTES)]
_BUFFER_BYTES = 1 << 20
_OPTIONS = ("compress", "level")


class ShardsExporter:
    """Options: `-O compress=gz`, `level=1` to `9`. Headers hold only name and size: equal samples give equal bytes."""

    name = "shards"
    about = "WebDataset .tar shards"
    suffix = ".tar"
    template = DEFAULT_TEMPLATE

    def check(self, options: Options) -> None:
        """Raises UsageError for an unknown option or value."""
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise UsageError(f"shards have no option {unknown[0]!r}", hint=f"they have {', '.join(_OPTIONS)}")
        if options.get("compress", "gz") not in ("gz", "none"):
            raise UsageError(f"compress: expected gz or none, found {options['compress']!r}", hint="`--compress gz`")
        if options.get("level", "6") not in tuple("123456789"):
            raise UsageError(f"level: expected 1 to 9, found {options['level']!r}", hint="6 is the default")

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:
        """Write one tar. The parts keep their order: sample by sample, sorted by name."""
        is_packed = options.get("compress") == "gz"
        with translate_os_errors(path), open(path, "xb", buffering=_BUFFER_BYTES) as file:
            if is_packed:
                level = int(options.get("level", "6"))
                with gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=file, mtime=0) as packed:
                    count, size = _write_members(cast("IO[bytes]", packed), samples, None)
            else:
                count, size = _write_members(file, samples, file.fileno())
            stored = file.tell()
        return WrittenUnit(path, count, stored, json.dumps({"unpacked": size} if is_packed else {}))

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:
        """Do nothing: units share no files. `convert` indexes the shards."""


def _write_members(
    file: IO[bytes], samples: Iterable[tuple[str, Iterator[Part | FilePart]]], descriptor: int | None
) -> tuple[int, int]:
    """Write the tar; returns (samples, bytes of the uncompressed tar)."""
    count = size_bytes = 0
    for key, parts in samples:
        count += 1
        pieces: list[bytes] = []
        for part in parts:
            size = part.size if isinstance(part, FilePart) else len(part.data)
            pieces.append(build_tar_header(f"{key}.{part.name}".encode("utf-8", "surrogatepass"), size))
            size_bytes += len(pieces[-1]) + size + -size % TAR_BLOCK_BYTES
            if isinstance(part, FilePart):
                file.write(b"".join(pieces))
                _copy_large_part(part, file, descriptor)
                pieces = []
            else:
                pieces.append(part.data)
            pieces.append(_PADDING[-size % TAR_BLOCK_BYTES])
        file.write(b"".join(pieces))
    file.write(END_OF_ARCHIVE)
    return count, size_bytes + len(END_OF_ARCHIVE)


def _copy_large_part(part: FilePart, file: IO[bytes], descriptor: int | None) -> None:
    """Append a large part. With a descriptor, the kernel copies the bytes; compressed files have none."""
    if descriptor is None:
        for chunk in part.chunks():
            file.write(chunk)
        return
    file.flush()
    part.copy_to(descriptor)
    file.seek(0, 2)


EXPORTER = ShardsExporter()
