"""Check the structure of every shard in a folder, or read them as `cat` does: seconds, once the modules are loaded.

python -m benchmarks.contenders.structure indexed|scanned|read FOLDER CATALOG

`indexed` is what `wdsctl validate` does to shards that were sound when they were indexed: headers are held against the
catalog. `scanned` is what it does to others: headers are looked for. The catalog is made, and the shards are brought
into the page cache, off the clock.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.validate.request import ValidateRequest
from wdsctl.core.validate.unit import CheckContext, CheckUnit, check_shard

_CHUNK = 128 << 10  # bytes: what coreutils' cat reads at a time


def read(context: CheckContext, units: Sequence[CheckUnit]) -> None:
    buffer = bytearray(_CHUNK)
    for unit in units:
        with open(os.path.join(context.root, unit.shard.path), "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def check(context: CheckContext, units: Sequence[CheckUnit]) -> None:
    for unit in units:
        found = check_shard(context, unit).findings["structure"]
        if found:
            raise SystemExit(f"{unit.shard.path}: {found[0].finding.message}")


def units_of(folder: str, catalog: str, *, are_indexed: bool) -> tuple[CheckContext, list[CheckUnit]]:
    index(folder, catalog=catalog)
    location = locate(folder, catalog)
    with Catalog.open(location.catalog_path) as published:
        rows, offsets = published.shards(), location.offsets_path(published.generation)
    context = CheckContext(root=folder, request=ValidateRequest(), offsets_path=offsets if are_indexed else "")
    return context, [
        CheckUnit(shard=ShardFile(row.path, row.size, row.mtime_ns), levels=("structure",), row=row) for row in rows
    ]


def main() -> None:
    what, folder, catalog = sys.argv[1:]
    context, units = units_of(folder, catalog, are_indexed=what == "indexed")
    read(context, units)
    check(context, units[:1])  # what is imported and opened once
    started = time.perf_counter()
    (read if what == "read" else check)(context, units)
    seconds = time.perf_counter() - started
    size = sum(unit.shard.size for unit in units)
    print(json.dumps({"pass_seconds": seconds, "gigabytes_per_second": size / 1e9 / seconds}))


if __name__ == "__main__":
    main()
