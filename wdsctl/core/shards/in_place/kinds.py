"""The table of shard formats: how a name shows the format, and what scans a shard of it.

Every format gives the same kind of scan: samples whose parts are ranges of bytes in the shard. What works on scans
(index, split, views, the loader) does not know the format.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wdsctl.core.dataset.shard_names import ShardFormat
from wdsctl.core.errors import Finding
from wdsctl.core.shards.in_place.errors import UNSUPPORTED_CODE, ShardFormatError
from wdsctl.core.shards.in_place.table_scan import bad_scan
from wdsctl.core.shards.readers import ReadBytes
from wdsctl.core.shards.shard_scan import ShardScan

#: Describes the shards of a folder, in MDS and LitData.
INDEX_FILE = "index.json"

ReadSibling = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class InPlaceFormat:
    """`importer`: the format of `--from` that copies the samples. `scanner`: module and function.

    `needs_index`: whether a scan reads the index.json of the shard's folder.
    """

    name: ShardFormat
    importer: str
    scanner: tuple[str, str]
    needs_index: bool = False

    @property
    def copy_command(self) -> str:
        """The command that copies the samples into tars, for messages that do not know the dataset."""
        if self.importer == "zip":
            return "wdsctl prepare ZIP DEST"
        return f"wdsctl convert --from {self.importer} SOURCE DEST"


IN_PLACE_FORMATS: dict[ShardFormat, InPlaceFormat] = {
    each.name: each
    for each in (
        InPlaceFormat("mds", "mds", ("mds", "scan_mds")),
        InPlaceFormat("litdata", "litdata", ("litdata", "scan_litdata"), needs_index=True),
        InPlaceFormat("parquet", "parquet", ("parquet", "scan_parquet")),
        InPlaceFormat("zip", "zip", ("zip", "scan_zip")),
    )
}


def scan_in_place(form: ShardFormat, shard: str, read: ReadBytes, size: int, read_sibling: ReadSibling) -> ShardScan:
    """Scan a shard of `size` bytes; findings name it `shard`. Raises what `read` raises, nothing else.

    `read_sibling`: reads a file of the shard's folder; None if there is none. A damaged shard, and one that cannot be
    read in place, has the status `bad` and a finding that says why; or `unreadable` if its index may be the reason, so
    that the next run of `index` scans it again.
    """
    known = IN_PLACE_FORMATS[form]
    module, function = known.scanner
    scan: Any = getattr(importlib.import_module(f"wdsctl.core.shards.in_place.{module}"), function)
    try:
        result: ShardScan = scan(shard, read, size, read_sibling) if known.needs_index else scan(shard, read, size)
    except ShardFormatError as error:
        message = error.message
        if error.code == UNSUPPORTED_CODE:
            message += f": it cannot be read in place; `{known.copy_command}` copies the samples into tars"
        finding = Finding(code=error.code, severity="error", message=message, shard=shard)
        return bad_scan(finding, "unreadable" if known.needs_index else "bad")
    return result
