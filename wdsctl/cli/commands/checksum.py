"""`wdsctl checksum`: hashes of shards, as `sha256sum` writes and checks them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options
from wdsctl.core.errors import OptionConflict
from wdsctl.core.invocation import worker_count

if TYPE_CHECKING:
    from wdsctl.core.compare.checksum import ChecksumVerdict, ShardChecksum
    from wdsctl.core.errors import Finding
    from wdsctl.core.progress import Progress


EPILOG = """
\b
Examples:
  wdsctl checksum shards/ > SHA256SUMS
  wdsctl checksum shards/ --check SHA256SUMS
  (cd shards && sha256sum -c ../SHA256SUMS)     the same by coreutils

\b
Names are relative to ROOT. checksum takes a
hash from the catalog if `index --hash` recorded it and the shard has the same
size and time. --check reads all shards, and exits with 1 if a file differs or
cannot be read. Without --check, an unreadable shard is exit code 5.
"""


def command(
    root: options.RootArgument,
    *,
    check: Annotated[
        str | None,
        typer.Option("--check", "-c", metavar="FILE", help="Compare the files with the hashes in FILE; - reads stdin."),
    ] = None,
    algorithm: Annotated[
        Literal["sha256", "sha512", "blake2b", "sha1", "md5"] | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="sha256, sha512, blake2b, sha1 or md5. [default: sha256; with --check, by the length of the hashes]",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Read all shards, even if the catalog has their hash.")
    ] = False,
    workers: options.WorkersOption = None,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Write the hash of every shard, or check shards against hashes."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.compare.checksum import checksum, verify_checksums

    if check is not None and again:
        raise OptionConflict(
            "--again has no effect with --check, which always reads all shards",
            options=("--again", "--check"),
            are_exclusive=True,
            hint="omit --again",
        )
    count = worker_count(workers)
    with ExitStack() as open_:
        progress = open_.enter_context(show_progress(common.output, is_streaming=not common.json))
        if check is not None:
            lines = _read_lines(check)
            origin = "the hashes on stdin" if check == "-" else check
            verdicts = verify_checksums(
                root, lines, algorithm=algorithm, workers=count, catalog=catalog, origin=origin, progress=progress
            )
            return _check_checksums(root, open_.enter_context(closing(verdicts)), progress, common)
        sums = checksum(
            root,
            algorithm=algorithm or "sha256",
            ignore_catalog=again,
            workers=count,
            catalog=catalog,
            progress=progress,
        )
        return _write_checksums(root, open_.enter_context(closing(sums)), algorithm or "sha256", progress, common)


def _write_checksums(
    root: str, checksums: Iterator[ShardChecksum], algorithm: str, progress: Progress, common: options.CommonOptions
) -> int:
    from wdsctl.cli.output import json_document, to_json_types, write_plain
    from wdsctl.core.compare.checksum import format_checksum_line
    from wdsctl.core.urls import redact_secrets

    kept = []
    failed = noted = 0
    for each in checksums:
        failed += each.error is not None
        noted += each.source == "catalog"
        if common.json:
            kept.append(to_json_types(each))
        elif each.error is None:
            _write_line(format_checksum_line(each.digest, each.path))
        if each.error is not None:
            _report_error(each.error, progress, common)
    if noted:
        progress.note(f"took {noted:,} of these hashes from the catalog: size and time of these shards are unchanged")
    if common.json:
        write_plain(
            sys.stdout,
            json_document({"command": "checksum", "root": redact_secrets(root), "algorithm": algorithm, "sums": kept}),
        )
    return 5 if failed else 0


def _check_checksums(
    root: str, verdicts: Iterator[ChecksumVerdict | None], progress: Progress, common: options.CommonOptions
) -> int:
    from wdsctl.cli.output import json_document, to_json_types, write_plain
    from wdsctl.core.compare.checksum import format_verdict_line
    from wdsctl.core.text import pluralize
    from wdsctl.core.urls import redact_secrets

    kept = []
    odd = failed = unread = 0
    for each in verdicts:
        if each is None:
            odd += 1
            continue
        failed += each.result == "FAILED"
        unread += each.result == "FAILED open or read"
        if common.json:
            kept.append(to_json_types(each))
        else:
            _write_line(format_verdict_line(each.path, each.result))
        if each.error is not None:
            _report_error(each.error, progress, common)
    for number, noun, became in (
        (odd, "line", "no sum"),
        (unread, "file", "not readable"),
        (failed, "file", "changed"),
    ):
        if number:
            progress.note(f"{pluralize(number, noun)}: {became}")
    if common.json:
        write_plain(
            sys.stdout,
            json_document({"command": "checksum", "root": redact_secrets(root), "odd_lines": odd, "checked": kept}),
        )
    return 1 if failed or unread else 0


def _read_lines(file: str) -> list[bytes]:
    from wdsctl.core.errors import translate_os_errors
    from wdsctl.core.file_limits import iter_lines

    if file == "-":
        return list(iter_lines(sys.stdin.buffer, "stdin"))
    with translate_os_errors(file, "read"), open(file, "rb") as source:
        return list(iter_lines(source, file))


def _write_line(line: bytes) -> None:
    """Bytes as they are into files, which others check against; a terminal, and a pipe that may end in a pager, get
    nothing that a terminal obeys."""
    from wdsctl.cli.formatting import escape_line
    from wdsctl.cli.output import is_regular_file, write_bytes, write_plain
    from wdsctl.core.text import escape_control_chars

    text = line[:-1].decode("utf-8", "backslashreplace")
    if sys.stdout.isatty():
        write_plain(sys.stdout, f"{escape_line(text)}\n")
    elif is_regular_file(sys.stdout) or escape_control_chars(text) == text:
        write_bytes(sys.stdout, line)
    else:
        write_plain(sys.stdout, f"{text}\n")


def _report_error(error: Finding, progress: Progress, common: options.CommonOptions) -> None:
    """Report a shard that cannot be read on stderr: with --quiet, which silences notes, too."""
    from wdsctl.cli.output import write_plain

    if common.quiet:
        write_plain(sys.stderr, f"{_describe_finding(error)}\n")
    else:
        progress.note(_describe_finding(error))


def _describe_finding(error: Finding) -> str:
    from wdsctl.cli.formatting import escape_line

    return f"{escape_line(error.shard)}: {error.message} ({error.code})"
