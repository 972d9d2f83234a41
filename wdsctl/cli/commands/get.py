"""`wdsctl get`: the bytes of one part by its key."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.figures import count, path, size
from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from wdsctl.core.verbs.get import GetReport, Wanted

EPILOG = """
\b
Examples:
  wdsctl get shards/ 000042 --part txt        to stdout
  wdsctl get shards/ 000042.jpg -o cat.jpg    KEY.PART, as `ls --parts` lists
  wdsctl get shards/ 000042 -o out/           every part, as out/000042.*
  wdsctl get shards/ 000042 --part jpg --json where it is, for other tools
  wdsctl get labels.jsonl 17 | jq .           a line of a JSONL file

\b
One search in the catalog and one ranged read, at a URL too. Where a key
stands several times, --shard chooses. `wdsctl inspect --key KEY` shows a
sample to people.
"""


def command(
    root: options.Root,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The sample's key, or KEY.PART.")],
    *,
    part: Annotated[str | None, typer.Option("--part", "-p", metavar="NAME", help="Its part, such as jpg.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE|DIR/|-", help="Write here instead of stdout.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="PATH", help="Of the samples of this key, the one in PATH.")
    ] = None,
    position: Annotated[
        int | None, typer.Option("--position", metavar="N", min=0, help="The one at place N of its shard, from 0.")
    ] = None,
    dry_run: options.DryRun = False,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Write one part of a sample to stdout or a file, by its key."""
    from wdsctl.core.verbs.get import find, write

    is_file = output not in (None, "-")
    wanted = find(
        root, key, part=part, shard=shard, position=position, all_parts=is_file or common.json, catalog=catalog
    )
    if output is not None and is_file:
        if len(wanted.parts) > 1 and not _names_a_folder(output):
            wanted = find(root, key, part=part, shard=shard, position=position, catalog=catalog)
        report = write(wanted, output, overwrite=common.yes, dry_run=dry_run)
        if common.json:
            common.output.answer("get", report, lambda _: ())
        else:
            common.output.say(*_written(report))
    elif common.json:
        common.output.answer("get", wanted.report(), lambda _: ())
    elif not dry_run:
        _to_stdout(wanted)
    return 0


def _names_a_folder(output: str) -> bool:
    return output.endswith(os.sep) or os.path.isdir(output)


def _written(report: GetReport) -> list[str]:
    would = "would write" if report.dry_run else "wrote"
    return [f"{would} {path(part.output or '')} ({size(part.size_bytes)})" for part in report.parts]


def _to_stdout(wanted: Wanted) -> None:
    from wdsctl.cli.output import write_bytes
    from wdsctl.core.command_line import command_at
    from wdsctl.core.verbs.get import read

    is_terminal = sys.stdout.isatty()
    plain = Plain()
    piece = b""
    for piece in read(wanted):
        if is_terminal and not plain.takes(piece):
            raise UsageError(
                f"the part is no plain text, {count(wanted.parts[0].size)} bytes that would go to the terminal",
                where=f"{wanted.place.shown}, sample {wanted.sample.key}, part {wanted.parts[0].name}",
                hint=f"write it to a file with `-o FILE`, or look at it: "
                f"{command_at(wanted.place, 'inspect', '--key', wanted.sample.key)}",
                code="WDS006",
            )
        write_bytes(sys.stdout, piece)
    if is_terminal and piece and not piece.endswith(b"\n"):
        write_bytes(sys.stdout, b"\n")  # or the prompt stands behind the text


class Plain:
    """Text without anything that moves a cursor, sets a colour, turns words or asks the terminal a question."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ends_in_return = False

    def takes(self, data: bytes) -> bool:
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError:
            return False
        # A return that no newline follows goes back over what was written.
        text = "\r" * self._ends_in_return + text
        self._ends_in_return = text.endswith("\r")
        rest = text.removesuffix("\r").replace("\r\n", "\n")
        return all(letter.isprintable() or letter in _HARMLESS for letter in set(rest))


#: What Python does not call printable, and no terminal minds: line ends, kinds of blanks, joiners in words and emojis.
_HARMLESS = frozenset("\n\t\u00a0\u3000\u2009\u202f\ufeff\u200b\u200c\u200d")
