"""Tables beside those of splits, such as `validated.tsv` beside `train.tsv`: their rows become no samples."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.file_limits import iter_lines
from wdsctl.core.importers.common.compressed import open_text_file
from wdsctl.core.importers.common.folder_files import media_type_of, scan_folder, unused_finding
from wdsctl.core.invocation import current_invocation
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message

_TABLES = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet"})
_MAX_SIBLINGS = 20
_CELL = re.compile(rb"[^,;\t|\"'\r\n]+")


def find_other_tables(unnamed: Iterable[str], tables: Sequence[str], root: str) -> list[str]:
    """The files of these that lie beside tables of splits and have their ending. `tables`: the paths of those."""
    own = {os.path.relpath(path, root) for path in tables}
    places = {(os.path.dirname(path), _ending(path)) for path in own}
    return [path for path in unnamed if (os.path.dirname(path), _ending(path)) in places]


def other_table_findings(
    root: str, others: Sequence[str], media: Sequence[str], own: Sequence[str]
) -> Iterator[Finding]:
    """Warnings about tables that are left out, and about the media that only they name.

    `own`: the tables that are read.
    """
    if not others:
        return
    verb = current_invocation("convert", ())[0]
    largest = max(others, key=lambda path: source_files.stat_file(os.path.join(root, path)).size)
    command = shell_command(verb, os.path.join(root, largest), "DEST")
    shown = join_with_and([path_for_message(os.path.basename(path)) for path in own[:3]])
    why = f"only tables named after splits are read, such as {shown}. To prepare another one, run {command}"
    yield unused_finding(others, why, severity="warning")
    if media:
        yield unused_finding(media, "only tables that are left out name these files", severity="warning")


def sibling_findings(tables: Iterable[str]) -> Iterator[Finding]:
    """A warning about tables beside the one that the user names, which may have more about the same files.

    Many of them are data, such as a JSON file for each picture. Cost: lists the folders.
    """
    own = set(map(os.path.normpath, tables))
    for folder in dict.fromkeys(map(os.path.dirname, sorted(own))):
        with suppress(OSError, WdsctlError):
            names = scan_folder(folder or os.curdir, folder or os.curdir).files
            found = [name for name in names if _ending(name) in _TABLES and os.path.join(folder, name) not in own]
            if 0 < len(found) <= _MAX_SIBLINGS:
                yield unused_finding(
                    found, "only the table that you name is read, and no other is joined to it", severity="warning"
                )


def media_of_other_tables(root: str, others: Sequence[str], unnamed: Iterable[str]) -> list[str]:
    """The media of these whose names are in cells of the other tables. Cost: reads the tables."""
    media = {os.fsencode(os.path.basename(path)): path for path in unnamed if media_type_of(path)}
    found: list[str] = []
    for table in others:
        with suppress(OSError, WdsctlError), open_text_file(os.path.join(root, table)) as file:
            for line in iter_lines(file, table):
                names = (cell.rpartition(b"/")[2] for cell in _CELL.findall(line)) if media else ()
                found += [media.pop(name) for name in names if name in media]
    return sorted(found)


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()
