"""`wdsctl get`: write the bytes of a part by its key."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_size
from wdsctl.core.errors import OptionConflict, UsageError

if TYPE_CHECKING:
    from wdsctl.core.inspect.get import GetTarget


EPILOG = """
\b
Examples:
  wdsctl get shards/ 000042 txt               a part, to stdout
  wdsctl get shards/ 000042.jpg -o cat.jpg    KEY.PART, as `ls --parts` lists
  wdsctl get shards/ 000042 -o out/           every part, as out/000042.*
  wdsctl get shards/ 000042 --part jpg --json where it is, for other tools
  wdsctl get labels.jsonl 17 | jq .           a line of a JSONL file

\b
`get` costs one search in the catalog and one ranged read, also at URLs. If
several samples have the key, choose with --shard. `wdsctl inspect --key KEY`
renders a sample for people.
"""


def command(
    root: options.SamplesArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The sample's key, or KEY.PART.")],
    part_argument: Annotated[str | None, typer.Argument(metavar="PART", help="As --part.", show_default=False)] = None,
    *,
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
    """Write one part of a sample to stdout or a file, by its key."""
    from wdsctl.core.inspect.get import find_target, write_target

    if part is not None and part_argument is not None:
        raise OptionConflict(
            "PART and --part exclude each other",
            options=("PART", "--part"),
            are_exclusive=True,
            hint="omit one of them",
        )
    part = part_argument if part is None else part
    is_file = output not in (None, "-")
    target = find_target(
        root, key, part=part, shard=shard, position=position, all_parts=is_file or common.json, catalog=catalog
    )
    if output is not None and is_file:
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


def _where_text(target: GetTarget) -> str:
    """What a dry run says of the part that would go to stdout."""
    part, file = target.parts[0], display_path(target.report().file)
    size = format_size(part.size)
    return f"would write part {escape_line(part.name)} to stdout: {size} at byte {part.offset:,} of {file}"


def _write_to_stdout(target: GetTarget) -> None:
    from wdsctl.cli.output import write_bytes
    from wdsctl.core.dataset.location import shell_command_at
    from wdsctl.core.inspect.get import read_part

    is_terminal = sys.stdout.isatty()
    text_filter = PlainTextFilter()
    chunk = b""
    for chunk in read_part(target):
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
