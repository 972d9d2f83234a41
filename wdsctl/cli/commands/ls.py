"""`wdsctl ls`: shards, samples or parts, one a line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.printable import shell_word

if TYPE_CHECKING:
    from wdsctl.core.verbs.ls import Listed, Listing, What

EPILOG = """
\b
Examples:
  wdsctl ls shards/                           its shards
  wdsctl ls shards/ -l                        with bytes, samples and status
  wdsctl ls shards/ --samples | head          keys, in the order of the shards
  wdsctl ls shards/ cats/ --samples           keys that begin with cats/
  wdsctl ls shards/ --parts --split val       files, as in the shards
  wdsctl ls shards/ --samples -0 | xargs -0 -n1 wdsctl get shards/ -p txt

\b
PREFIX is of paths, and with --samples or --parts of keys. With a prefix,
samples come by key. -l adds: of shards bytes, samples, status; of samples
bytes, place in the shard, shard; of parts bytes, offset in the shard, shard.
A name with controls in it is written as a shell reads it: $'a\\x1bb'.
"""

#: Entries written together: the first ones at once, so that `head` and people do not wait.
FIRST, REST = 50, 2_000


def command(
    root: options.Root,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only what begins so.")] = "",
    *,
    shards: Annotated[bool, typer.Option("--shards", help="List shards. [default]")] = False,
    samples: Annotated[bool, typer.Option("--samples", help="List samples by their keys.")] = False,
    parts: Annotated[bool, typer.Option("--parts", help="List parts, as KEY.PART.")] = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="More of each.")] = False,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="End names with a NUL byte, and change nothing in them.")
    ] = False,
    split: Annotated[str | None, typer.Option("--split", metavar="NAME", help="Of this split alone.")] = None,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """List the shards of a dataset, its samples or their parts."""
    from wdsctl.core.verbs.ls import listing

    asked: dict[What, bool] = {"shards": shards, "samples": samples, "parts": parts}
    chosen = [what for what, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise UsageError(
            f"--{chosen[0]} and --{chosen[1]} exclude each other",
            hint=f"run it once with --{chosen[0]}, once with --{chosen[1]}",
        )
    with listing(root, prefix, what=chosen[0] if chosen else "shards", split=split, catalog=catalog) as found:
        pieces = document(found) if common.json else _lines(found, long=long, null=null)
        listed = write_all(pieces, as_is=null and not (common.json or sys.stdout.isatty()))
    if not listed:
        wanted = f" that begins with {prefix!r}" if prefix else ""
        common.output.say(f"nothing is there{wanted}")
    return 0 if listed else 3


def write_all(pieces: Iterable[tuple[str, int]], *, as_is: bool = False) -> int:
    """Write texts that come with how many entries they hold, in blocks; returns how many there were. `as_is`: for a
    program that reads them, with what a terminal would obey.

    What came before an error is written, too.
    """
    from wdsctl.cli.output import Answered, write, write_drawn

    put = write_drawn if as_is else write
    held: list[str] = []
    listed = pending = 0
    try:
        for text, entries in pieces:
            held.append(text)
            pending += entries
            if pending >= (FIRST if not listed else REST):
                put(sys.stdout, "".join(held))
                held, listed, pending = [], listed + pending, 0
    except (WdsctlError, Answered):
        put(sys.stdout, "".join(held))
        raise
    put(sys.stdout, "".join(held))
    return listed + pending


def _lines(found: Listing, *, long: bool, null: bool) -> Iterator[tuple[str, int]]:
    end = "\0" if null else "\n"
    # A pipe may end in a pager. Behind -0 a program reads names as they are, but for a terminal.
    clean: Callable[[str], str] = str if null and not sys.stdout.isatty() else shell_word
    shown = (_long(entry, clean) for entry in found.entries) if long else map(clean, found.names)
    for line in shown:
        yield line + end, 1


def _long(entry: Listed, clean: Callable[[str], str]) -> str:
    from wdsctl.core.verbs.ls import ListedPart, ListedShard

    if isinstance(entry, ListedShard):
        return f"{entry.size_bytes:>15,} {entry.samples:>11,}  {entry.status:<10}  {clean(entry.path)}"
    if isinstance(entry, ListedPart):
        return f"{entry.size_bytes:>15,} {entry.offset:>15,}  {clean(entry.shard)}  {clean(entry.name)}"
    return f"{entry.size_bytes:>15,} {entry.position:>9,}  {clean(entry.shard)}  {clean(entry.key)}"


def document(found: Listing) -> Iterator[tuple[str, int]]:
    """The one JSON document, in pieces: a dataset may have a billion entries."""
    from wdsctl.cli.output import in_json, listed, plain

    made = told = 0

    def entries() -> Iterator[str]:
        nonlocal made
        for entry in found.entries:
            made += 1
            yield f"  {in_json(plain(entry))}"

    for piece in listed({"command": "ls", "root": found.root, "what": found.what}, "entries", entries()):
        yield piece, made - told
        told = made
