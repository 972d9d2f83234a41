"""A table that is left over in a folder of raw files says itself why its rows name none of them."""

from __future__ import annotations

import os

from wdsctl.core.dataset.raw_folder import RawFolderError
from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers import get_importer
from wdsctl.core.importers.common.commands import repeat_command

_FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet"}
#: Errors about the rows' files. Others, such as those of JSON without rows, say that the file is no table.
_CODES = ("WDS001", "WDS230", "WDS239", "WDS243")


def check_lone_tables(source: str, error: RawFolderError, *skipping: str) -> None:
    """Raise the error of the first table among lone files of a folder, if its rows name none of the folder's media.

    `error`: that of the folder. `skipping`: the words of a command line that leave such files out.
    """
    for name in error.lone_files:
        path, form = os.path.join(source, name), _FORMATS.get(os.path.splitext(name)[1].lower(), "")
        if not form:
            continue
        try:
            with get_importer(form).open(path, {}):
                pass
        except WdsctlError as reason:
            if reason.code in _CODES:
                reason.hint += f"; or leave it out: {repeat_command(source, source, {}, *skipping)}"
                raise reason from error
