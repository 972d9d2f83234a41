"""`wdsctl checksum`: hashes of shards, as `sha256sum` writes and checks them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options

if TYPE_CHECKING:
    from wdsctl.core.findings import Finding
    from wdsctl.core.progress import Progress
    from wdsctl.core.verbs.checksum import Checked, Summed

EPILOG = """
\b
Examples:
  wdsctl checksum shards/ > SHA256SUMS
  wdsctl checksum shards/ --check SHA256SUMS
  (cd shards && sha256sum -c ../SHA256SUMS)     the same by coreutils

\b
Names are relative to ROOT. A hash that `index --hash` noted is taken from
the catalog while the shard has the same size and time; --check reads all.
Exits with 1 where a file fails, 5 where a shard cannot be read.
"""


def command(
    root: options.Root,
    *,
    check: Annotated[
        str | None, typer.Option("--check", "-c", metavar="FILE", help="Hold the files against these sums; - is stdin.")
    ] = None,
    algorithm: Annotated[
        Literal["sha256", "sha512", "blake2b", "sha1", "md5"] | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="sha256, sha512, blake2b, sha1 or md5. [default: sha256; of sums, by their length]",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Read shards whose hash the catalog has, too.")] = False,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Write the hash of every shard, or check shards against hashes."""
    from wdsctl.cli.progress import listening
    from wdsctl.core.verbs.checksum import check_sums, checksum

    count = options.worker_count(workers)
    with ExitStack() as open_:
        progress = open_.enter_context(listening(common.output, is_streaming=not common.json))
        if check is not None:
            lines = _lines_of(check)
            origin = "the sums on stdin" if check == "-" else check
            verdicts = check_sums(
                root, lines, algorithm=algorithm, workers=count, catalog=catalog, origin=origin, progress=progress
            )
            return _check(root, open_.enter_context(closing(verdicts)), progress, common)
        sums = checksum(
            root, algorithm=algorithm or "sha256", again=again, workers=count, catalog=catalog, progress=progress
        )
        return _write(root, open_.enter_context(closing(sums)), algorithm or "sha256", progress, common)


def _write(root: str, sums: Iterator[Summed], algorithm: str, progress: Progress, common: options.Common) -> int:
    from wdsctl.cli.output import document, plain, write
    from wdsctl.core.sums import line
    from wdsctl.core.urls import shown

    kept = []
    failed = noted = 0
    for each in sums:
        failed += each.error is not None
        noted += each.source == "catalog"
        if common.json:
            kept.append(plain(each))
        elif each.error is None:
            _put(line(each.digest, each.path))
        if each.error is not None:
            progress.note(_said(each.error))
    if noted:
        progress.note(f"{noted:,} of these hashes are from the catalog, whose shards have the same size and time")
    if common.json:
        write(sys.stdout, document({"command": "checksum", "root": shown(root), "algorithm": algorithm, "sums": kept}))
    return 5 if failed else 0


def _check(root: str, verdicts: Iterator[Checked | None], progress: Progress, common: options.Common) -> int:
    from wdsctl.cli.output import document, plain, write
    from wdsctl.core.counted import counted
    from wdsctl.core.sums import verdict
    from wdsctl.core.urls import shown

    kept = []
    odd = failed = unread = 0
    for each in verdicts:
        if each is None:
            odd += 1
            continue
        failed += each.result == "FAILED"
        unread += each.result == "FAILED open or read"
        if common.json:
            kept.append(plain(each))
        else:
            _put(verdict(each.path, each.result))
        if each.error is not None:
            progress.note(_said(each.error))
    for number, noun, became in (
        (odd, "line", "no sum"),
        (unread, "file", "not readable"),
        (failed, "file", "changed"),
    ):
        if number:
            progress.note(f"{counted(number, noun)}: {became}")
    if common.json:
        write(sys.stdout, document({"command": "checksum", "root": shown(root), "odd_lines": odd, "checked": kept}))
    return 1 if failed or unread else 0


def _lines_of(file: str) -> list[bytes]:
    from wdsctl.core.os_errors import translated

    if file == "-":
        return sys.stdin.buffer.readlines()
    with translated(file, "read"), open(file, "rb") as source:
        return source.readlines()


def _put(line: bytes) -> None:
    """Bytes as they are into files, which others check against; a terminal, and a pipe that may end in a pager, get
    nothing that a terminal obeys."""
    from wdsctl.cli.figures import safe
    from wdsctl.cli.output import is_file, write, write_bytes
    from wdsctl.core.printable import harmless

    text = line[:-1].decode("utf-8", "backslashreplace")
    if sys.stdout.isatty():
        write(sys.stdout, f"{safe(text)}\n")
    elif is_file(sys.stdout) or harmless(text) == text:
        write_bytes(sys.stdout, line)
    else:
        write(sys.stdout, f"{text}\n")


def _said(error: Finding) -> str:
    from wdsctl.cli.figures import safe

    return f"{safe(error.shard)}: {error.message} ({error.code})"
