"""Parses every line of a file, for `validate`: what the scan, which only finds lines, cannot see.

Cost: what Python's JSON parser takes, 100 to 300 MB/s a core. Memory: the lines that are read together, or one longer
one; for lines above 16 MB that is the line three times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.json_reader import JsonReader
from wdsctl.core.line_findings import LineFindings
from wdsctl.core.plain_members import Ints
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.units import ShardFile

#: What is read, and by others refused or read otherwise.
_ODD = {"WDS158": "lines with numbers that JSON does not have", "WDS159": "lines with a name twice in one object"}
TOGETHER = 4 << 20  # bytes read at a time; a longer line is read alone


def check_lines(root: str, shard: ShardFile, scan: ShardScan) -> tuple[Finding, ...]:
    """The findings of the scan, and those of the lines themselves, which say more of some."""
    path = os.path.join(root, shard.path)
    storage = storage_for(root, {path: shard.size})
    wrong: dict[str, tuple[int, str, int]] = {}  # code: first row, what is wrong with it, how many
    reader = JsonReader()
    try:
        for row, line in _lines(storage, path, scan):
            for code, message in wrong_with(line, reader).items():
                first, said, count = wrong.get(code, (row, message, 0))
                wrong[code] = first, said, count + 1
    except (StorageError, PermissionDenied) as error:
        gone = Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
        return (*scan.findings, gone)
    finally:
        storage.close()
    found = LineFindings(shard.path)
    for code, (row, message, count) in wrong.items():
        [key] = scan.key_list(slice(row, row + 1))
        severity: Severity = "warning" if code in _ODD else "error"
        found.line(code, message, key, int(scan.offsets[row]), count, severity=severity)
    return (*(each for each in scan.findings if each.code != "WDS121"), *found.all())


def wrong_with(line: bytes, reader: JsonReader) -> dict[str, str]:
    """The codes of what is wrong with a line, and words for lines like it; empty where nothing is."""
    try:
        value = reader.read(line)
    except UnicodeDecodeError as error:
        said = f"{error.reason} at byte {error.start:,} of the line"
        return {"WDS124": f"lines that are not UTF-8, such as one with {said}"}
    except json.JSONDecodeError as error:
        said = f"{error.msg}, at character {error.pos:,} of the line"
        return {"WDS123": f"lines that do not parse, such as one with: {said}"}
    except RecursionError:
        return {"WDS123": "lines that do not parse, such as one with objects nested too deep"}
    except ValueError:  # an integer of more digits than Python reads
        return {"WDS123": "lines that do not parse, such as one with a number of too many digits"}
    if not isinstance(value, dict):
        return {"WDS121": "lines that are no JSON objects"}
    return {code: f"{_ODD[code]}, such as one where {said}" for code, said in reader.odd.items()}


def _lines(storage: Storage, path: str, scan: ShardScan) -> Iterator[tuple[int, bytes]]:
    """Every line with its row, in order; many read together."""
    starts, stops = scan.offsets, scan.offsets + scan.sizes
    row = 0
    while row < scan.samples:
        last = _last_together(starts, stops, row)
        base = int(starts[row])
        data = storage.read(path, base, int(stops[last]) - base)
        for i in range(row, last + 1):
            yield i, data[int(starts[i]) - base : int(stops[i]) - base]
        row = last + 1


def _last_together(starts: Ints, stops: Ints, row: int) -> int:
    return max(row, int(stops.searchsorted(starts[row] + TOGETHER, "right")) - 1)
