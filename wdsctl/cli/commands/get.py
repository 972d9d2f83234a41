"""`wdsctl get`: write the bytes of a part by its key."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_size, shell_argument
from wdsctl.core.errors import OptionConflict, UsageError

if TYPE_CHECKING:
    from wdsctl.core.inspect.get import GetReport, GetTarget
    from wdsctl.core.storage.storage import Storage


EPILOG = """
\b
Examples:
  wdsctl get shards/ 000042 txt               a part, to stdout
  wdsctl get shards/ 000042.jpg -o cat.jpg    KEY.PART, as `ls --parts` lists
  wdsctl get shards/ 000042 -o out/           every part, as out/000042.*
  wdsctl get shards/ 000042 --part jpg --json where it is, for other tools
  wdsctl get labels.jsonl 17 | jq .           a line of a JSONL file
  wdsctl get shards/ --keys keys.txt -o out/  every part of many samples
  wdsctl ls shards/ --samples a/ | wdsctl get shards/ --keys - --part txt

\b
`get` costs one search in the catalog and one ranged read, also at URLs. If
several samples have the key, choose with --shard. With --keys, samples are
written in the order of the list, without -o one after another; keys without
a sample are an error at the end. `wdsctl inspect --key KEY` renders a sample
for people.
"""


def command(
    root: options.SamplesArgument,
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="The sample's key, or KEY.PART.")] = None,
    part_argument: Annotated[str | None, typer.Argument(metavar="PART", help="As --part.", show_default=False)] = None,
    *,
    keys: Annotated[
        str | None,
        typer.Option(
            "--keys", metavar="FILE", help="Samples whose keys are in FILE: one per line, or .jsonl; - for stdin."
        ),
    ] = None,
    part: Annotated[str | None, typer.Option("--part", "-p", metavar="NAME", help="Part, such as jpg.")] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE|DIR/|-", help="Write to a file or folder instead of stdout."),
    ] = None,
    shard: options.ShardOption = None,
    position: Annotated[
        int | None,
        typer.Option("--position", metavar="N", min=0, help="Only the sample at position N of its shard, from 0."),
    ] = None,
    dry_run: options.DryRunOption = False,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Write one part of a sample to stdout or a file, by its key. With --keys, of many samples."""
    from wdsctl.core.inspect.get import find_target, write_target

    if part is not None and part_argument is not None:
        raise OptionConflict(
            "PART and --part exclude each other",
            options=("PART", "--part"),
            are_exclusive=True,
            hint="omit one of them",
        )
    part = part_argument if part is None else part
    output = None if output == "-" else output
    if keys is not None:
        _check_keys_options(key, position, output)
        return _get_many(root, keys, part, output, shard, dry_run=dry_run, catalog=catalog, common=common)
    if key is None:
        raise UsageError("missing argument 'KEY'", hint="pass a key, or `--keys FILE` for many; `wdsctl ls` lists keys")
    target = find_target(
        root,
        key,
        part=part,
        shard=shard,
        position=position,
        all_parts=output is not None or common.json,
        catalog=catalog,
    )
    if output is not None:
        is_folder = output.endswith(os.sep) or os.path.isdir(output)
        if len(target.parts) > 1 and not is_folder:
            target = find_target(root, key, part=part, shard=shard, position=position, catalog=catalog)
        report = write_target(target, output, overwrite=common.yes, dry_run=dry_run)
        if common.json or common.quiet or common.output.is_for_agent:
            common.output.answer("get", report, lambda _: (), names=(each.output or "" for each in report.parts))
        else:
            verb = "would write" if report.dry_run else "wrote"
            common.output.note(
                *(f"{verb} {display_path(part.output or '')} ({format_size(part.size_bytes)})" for part in report.parts)
            )
    elif common.json or (dry_run and common.output.is_for_agent):
        common.output.answer("get", target.report(dry_run=dry_run), lambda _: ())
    elif dry_run:
        common.output.note(_where_text(target))
    else:
        _write_to_stdout(target)
    return 0


def _check_keys_options(key: str | None, position: int | None, output: str | None) -> None:
    if key is not None:
        raise OptionConflict(
            "KEY and --keys exclude each other",
            options=("KEY", "--keys"),
            are_exclusive=True,
            hint="omit one of them; name the part with --part",
        )
    if position is not None:
        raise OptionConflict(
            "--position selects one sample, and --keys many",
            options=("--position",),
            hint='omit --position; a .jsonl list names positions: {"key": "7", "shard": "a.tar", "position": 3}',
        )
    if output is not None and not (output.endswith(os.sep) or os.path.isdir(output)):
        raise UsageError(
            "--keys writes a file for each part, and -o is no folder",
            where=output,
            hint=f"add a slash to write into a folder: -o {shell_argument(output)}/",
        )


def _get_many(
    root: str,
    keys: str,
    part: str | None,
    output: str | None,
    shard: str | None,
    *,
    dry_run: bool,
    catalog: str | None,
    common: options.CommonOptions,
) -> int:
    """Write, or with --json list, one sample after another. The error at the end names the keys that failed."""
    from wdsctl.cli.output import json_line, json_list_document, to_json_types, write_plain
    from wdsctl.core.inspect.get import write_target
    from wdsctl.core.inspect.get_many import as_entry, open_targets

    writes_files = output is not None
    with open_targets(
        root, keys, part=part, shard=shard, all_parts=writes_files or common.json, catalog=catalog
    ) as found:

        def reports() -> Iterator[GetReport]:
            for target in found.targets:
                if output is None:
                    yield target.report(dry_run=dry_run)
                else:
                    yield write_target(target, output, overwrite=common.yes, dry_run=dry_run, storage=found.storage)

        if common.json or (common.output.is_for_agent and (writes_files or dry_run)):
            head = {"command": "get", "root": found.location.display_path, "dry_run": dry_run}
            entries = (f"  {json_line(to_json_types(as_entry(report)))}" for report in reports())
            for text in json_list_document(head, "samples", entries):
                write_plain(sys.stdout, text)
        elif writes_files:
            _write_files(reports(), output or "", common, dry_run=dry_run)
        elif dry_run:
            for target in found.targets:
                common.output.note(_where_text(target))
        else:
            for target in found.targets:
                _write_to_stdout(target, found.storage)
    return 0


def _write_files(reports: Iterator[GetReport], output: str, common: options.CommonOptions, *, dry_run: bool) -> None:
    """Write the files, and say how many there are, also if an error ends them; with --quiet, print their names."""
    samples = files = size_bytes = 0
    try:
        for report in reports:
            samples += 1
            files += len(report.parts)
            size_bytes += sum(part.size_bytes for part in report.parts)
            if common.quiet:
                common.output.answer("get", report, lambda _: (), names=[part.output or "" for part in report.parts])
    finally:
        if samples:
            common.output.note(
                f"{'would write' if dry_run else 'wrote'} {format_count(files, 'file')} of "
                f"{format_count(samples, 'sample')} to {display_path(output)} ({format_size(size_bytes)})"
            )


def _where_text(target: GetTarget) -> str:
    """What a dry run says of the part that would go to stdout."""
    part, file = target.parts[0], display_path(target.report().file)
    size = format_size(part.size)
    return f"would write part {escape_line(part.name)} to stdout: {size} at byte {part.offset:,} of {file}"


def _write_to_stdout(target: GetTarget, storage: Storage | None = None) -> None:
    from wdsctl.cli.output import write_bytes
    from wdsctl.core.dataset.location import shell_command_at
    from wdsctl.core.inspect.get import read_part

    is_terminal = sys.stdout.isatty()
    text_filter = PlainTextFilter()
    chunk = b""
    for chunk in read_part(target, storage):
        if is_terminal and not text_filter.accepts(chunk):
            inspect = shell_command_at(target.location, "inspect", "--key", target.sample.key)
            raise UsageError(
                f"wdsctl writes only plain text to a terminal; the part has {format_count(target.parts[0].size)} "
                "bytes of other data",
                where=f"{target.location.display_path}, sample {target.sample.key}, part {target.parts[0].name}",
                hint=f"write the part to a file with `-o FILE`, or show the sample: {inspect}",
                code="WDS006",
            )
        write_bytes(sys.stdout, chunk)
    if is_terminal and chunk and not chunk.endswith(b"\n"):
        write_bytes(sys.stdout, b"\n")  # so that the prompt is on a line of its own


class PlainTextFilter:
    """Accepts text without control characters, which could move the cursor, reorder text or query the terminal."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ends_in_return = False

    def accepts(self, data: bytes) -> bool:
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError:
            return False
        # A carriage return without a newline would overwrite the line.
        text = "\r" * self._ends_in_return + text
        self._ends_in_return = text.endswith("\r")
        rest = text.removesuffix("\r").replace("\r\n", "\n")
        return all(char.isprintable() or char in _HARMLESS_CHARACTERS for char in set(rest))


#: Not printable for Python, but harmless in a terminal: line ends, blanks, and joiners of scripts and emojis.
_HARMLESS_CHARACTERS = frozenset("\n\t\u00a0\u3000\u2009\u202f\ufeff\u200b\u200c\u200d")
