"""`wdsctl ls`: list shards, samples or parts, one per line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.core.errors import OptionConflict, WdsctlError
from wdsctl.core.text import quote_ansi_c

if TYPE_CHECKING:
    from wdsctl.core.inspect.ls import DatasetListing, ListingEntry, ListingKind


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
PREFIX matches paths of shards; with --samples or --parts, keys. With PREFIX,
samples are listed by key. -l adds for shards: bytes, samples, status; for
samples: bytes, position, shard; for parts: bytes, offset in the shard, shard.
The first line has the names of the columns, except with -0.
Names with control characters are quoted for the shell: $'a\\x1bb'.
"""

#: Entries per write: few in the first, so that output starts at once.
FIRST_BLOCK_ENTRIES, BLOCK_ENTRIES = 50, 2_000


def command(
    root: options.SamplesArgument,
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="List only names that begin with this.")] = "",
    *,
    shards: Annotated[bool, typer.Option("--shards", help="List shards. [default]")] = False,
    samples: Annotated[bool, typer.Option("--samples", help="List samples by their keys.")] = False,
    parts: Annotated[bool, typer.Option("--parts", help="List parts, as KEY.PART.")] = False,
    long: Annotated[bool, typer.Option("--long", "-l", help="Show more columns, see below.")] = False,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="End names with a NUL byte, and do not quote them.")
    ] = False,
    split: options.SplitOption = None,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """List the shards, samples or parts of a dataset."""
    from wdsctl.core.inspect.ls import open_listing

    options_of_kinds: dict[ListingKind, bool] = {"shards": shards, "samples": samples, "parts": parts}
    kinds = [kind for kind, is_set in options_of_kinds.items() if is_set]
    if len(kinds) > 1:
        raise OptionConflict(
            f"--{kinds[0]} and --{kinds[1]} exclude each other",
            options=[f"--{kind}" for kind in kinds],
            are_exclusive=True,
            hint="pass only one of them",
        )
    layout = next((flag for flag, is_given in {"--long": long, "--null": null}.items() if is_given), "")
    if common.json and layout:
        raise OptionConflict(
            f"{layout} has no effect with --json, which has all columns",
            options=(layout, "--json"),
            are_exclusive=True,
            hint=f"omit {layout}",
        )
    with open_listing(root, prefix, what=kinds[0] if kinds else "shards", split=split, catalog=catalog) as listing:
        texts = (
            listing_document(listing)
            if common.json
            else _lines(
                listing, long=long and not common.quiet, null=null, is_tsv=common.output.is_for_agent and not null
            )
        )
        listed = write_entries(texts, is_raw=null and not (common.json or sys.stdout.isatty()))
    if not listed:
        common.output.note(_nothing_found_text(root, prefix, kinds[0] if kinds else "shards"))
    return 0 if listed else 3


def _nothing_found_text(root: str, prefix: str, kind: ListingKind) -> str:
    from wdsctl.core.dataset.location import shell_command

    if not prefix:
        return "nothing found"
    found = f"no {kind.removesuffix('s')} begins with {prefix!r}"
    return (
        found if kind != "shards" else f"{found}; search the samples: {shell_command('ls', root, prefix, '--samples')}"
    )


def write_entries(texts: Iterable[tuple[str, int]], *, is_raw: bool = False) -> int:
    """Write (text, number of entries in it) in blocks, and return the number of entries.

    `is_raw`: do not escape control characters, for a program that reads them. If iterating raises an error, writes what
    came before it.
    """
    from wdsctl.cli.output import PartialDocument, write_plain, write_styled

    write = write_styled if is_raw else write_plain
    block: list[str] = []
    written = pending = 0
    try:
        for text, entries in texts:
            block.append(text)
            pending += entries
            if pending >= (FIRST_BLOCK_ENTRIES if not written else BLOCK_ENTRIES):
                write(sys.stdout, "".join(block))
                block, written, pending = [], written + pending, 0
    except (WdsctlError, PartialDocument):
        write(sys.stdout, "".join(block))
        raise
    write(sys.stdout, "".join(block))
    return written + pending


def _lines(listing: DatasetListing, *, long: bool, null: bool, is_tsv: bool) -> Iterator[tuple[str, int]]:
    end = "\0" if null else "\n"
    # Names in a pipe are quoted too, since it may end in a pager. With -0, a program reads them.
    quote: Callable[[str], str] = str if null and not sys.stdout.isatty() else quote_ansi_c
    if not long:
        yield from ((quote(name) + end, 1) for name in listing.names)
        return
    if is_tsv:
        yield from _tsv(listing)
        return
    for i, entry in enumerate(listing.entries):
        header = "" if i or null else f"{_HEADERS[listing.what]}\n"
        yield f"{header}{_long_line(entry, quote)}{end}", 1


def _tsv(listing: DatasetListing) -> Iterator[tuple[str, int]]:
    from wdsctl.cli.output import TsvTable, tsv_lines

    columns = _TSV_COLUMNS[listing.what]
    yield tsv_lines([columns]), 0
    for row in TsvTable(columns, listing.entries).rows():
        yield tsv_lines([row]), 1


_TSV_COLUMNS: dict[ListingKind, tuple[str, ...]] = {
    "shards": ("path", "size_bytes", "samples", "status"),
    "samples": ("key", "shard", "position", "size_bytes", "parts"),
    "parts": ("name", "key", "part", "shard", "offset", "size_bytes"),
}

#: The first line of a long listing, aligned with `_long_line`.
_HEADERS: dict[ListingKind, str] = {
    "shards": f"{'bytes':>15} {'samples':>11}  {'status':<10}  shard",
    "samples": f"{'bytes':>15} {'position':>9}  shard  key",
    "parts": f"{'bytes':>15} {'offset':>15}  shard  part",
}


def _long_line(entry: ListingEntry, quote: Callable[[str], str]) -> str:
    from wdsctl.core.inspect.ls import ListedPart, ListedShard

    if isinstance(entry, ListedShard):
        return f"{entry.size_bytes:>15,} {entry.samples:>11,}  {entry.status:<10}  {quote(entry.path)}"
    if isinstance(entry, ListedPart):
        return f"{entry.size_bytes:>15,} {entry.offset:>15,}  {quote(entry.shard)}  {quote(entry.name)}"
    return f"{entry.size_bytes:>15,} {entry.position:>9,}  {quote(entry.shard)}  {quote(entry.key)}"


def listing_document(listing: DatasetListing) -> Iterator[tuple[str, int]]:
    """Format one JSON document piece by piece, as a dataset may have a billion entries: (text, number of entries)."""
    from wdsctl.cli.output import json_line, json_list_document, to_json_types

    formatted = counted = 0

    def entries() -> Iterator[str]:
        nonlocal formatted
        for entry in listing.entries:
            formatted += 1
            yield f"  {json_line(to_json_types(entry))}"

    head = {"command": "ls", "root": listing.root, "what": listing.what}
    for text in json_list_document(head, "entries", entries()):
        yield text, formatted - counted
        counted = formatted
