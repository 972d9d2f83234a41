"""A table that is left over in a folder of raw files: its rows name the other files, or it says itself why not."""

from __future__ import annotations

import os
import re
from itertools import islice

from wdsctl.core.dataset.raw_folder import RawFolderError
from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers import get_importer
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.folder_files import media_type_of
from wdsctl.core.importers.common.tables import iter_files
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.importers.jsonl import is_object_per_line
from wdsctl.core.importers.protocol import DetailedSource, Source
from wdsctl.core.text import path_for_message

_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet"}
#: Errors about the rows' files. Others, such as those of JSON without rows, say that the file is no table.
_CODES = ("WDS001", "WDS230", "WDS239", "WDS243")
_PROBED_SAMPLES = 16
_PROBED_MEDIA = 10_000
_WORD = re.compile(r"[^,;\t|\"'\s:\[\]{}#]+")


def check_lone_tables(source: str, error: RawFolderError, *skipping: str) -> None:
    """Raise the error of the first table among lone files of a folder, if its rows name none of the folder's media. If
    they name some, put the command that takes the table first into the hint of `error`.

    `error`: that of the folder. `skipping`: the words of a command line that leave such files out.
    """
    for name in error.lone_files:
        path, ending = os.path.join(source, name), os.path.splitext(name)[1].lower()
        form = _FORMATS.get(ending, "csv" if ending == ".txt" else "")
        if not form:
            continue
        form = "jsonl" if form == "json" and is_object_per_line(path) else form
        try:
            with get_importer(form).open(path, {}) as table:
                names_files = _names_files(table)
        except WdsctlError as reason:
            if reason.code in _CODES and ending in _FORMATS:
                reason.hint += f"; or leave it out: {repeat_command(source, source, {}, *skipping)}"
                raise reason from error
            if reason.code in ("WDS233", "WDS243") and reason.hint and _mentions_media(source, path):
                command = repeat_command(source, path, {}, "--from", form)
                error.hint = (
                    f"if {path_for_message(name)} contains the labels of the files, run {command}, which says how to "
                    f"read them; or {error.hint}"
                )
                return
            continue
        if names_files:
            command = repeat_command(source, path, {}, "--from", form)
            error.hint = f"if {path_for_message(name)} contains the labels of the files, run {command}; or {error.hint}"
            return


def _names_files(table: Source) -> bool:
    """Whether one of the first samples of a table has files that its rows name."""
    return isinstance(table, DetailedSource) and any(
        any(sample.files) for sample in islice(table.list_samples(), _PROBED_SAMPLES)
    )


def _mentions_media(source: str, path: str) -> bool:
    """Whether the beginning of a file has the name of a medium of the folder, with or without its ending."""
    media = (os.path.basename(each) for each in iter_files(source) if media_type_of(each))
    names = {name for each in islice(media, _PROBED_MEDIA) for name in (each, os.path.splitext(each)[0])}
    words = _WORD.findall(read_head(path).decode("utf-8", "replace"))
    return any(word.rpartition("/")[2] in names for word in words)
