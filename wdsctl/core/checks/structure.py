"""Level `structure`: what a scan of all headers finds in a shard, and whether it is the shard that was indexed.

Cost: that of the scan. Of a file of lines every line is parsed: it has no headers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wdsctl.core.checks.placed import Placed
from wdsctl.core.findings import Finding
from wdsctl.core.line_checks import check_lines
from wdsctl.core.line_files import is_lines
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.units import ShardFile

_OF_KEYS = ("WDS104", "WDS105")


def check_structure(root: str, shard: ShardFile, scan: ShardScan, indexed_as: str) -> tuple[Placed, ...]:
    """`indexed_as`: the hash of the layout that the catalog has of a shard of this size; empty where it has none."""
    findings: Iterable[Finding] = scan.findings
    if is_lines(shard.path) and scan.samples:
        findings = check_lines(root, shard, scan)
    found = [Placed(finding, _places(finding.code, scan)) for finding in findings]
    if indexed_as and scan.status != "unreadable" and indexed_as != scan.layout_hash():
        words = "is not as it was indexed, though its size is the same"
        changed = Finding(code="WDS305", severity="error", message=words, shard=shard.path)
        found.append(Placed(changed, is_whole=True))
    return tuple(found)


def _places(code: str, scan: ShardScan) -> tuple[int, ...]:
    """The samples that a finding is about, where training would take them for something else than they are."""
    if code == "WDS107":
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        codes = np.sort((samples << 32) + scan.part_names)
        return tuple(np.unique(codes[1:][codes[1:] == codes[:-1]] >> 32).tolist())
    if code not in _OF_KEYS:
        return ()
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(scan.key_list()):
        rows.setdefault(key, []).append(row)
    # Of interleaved keys all pieces are incomplete; of duplicates the first one is as good as any.
    first = 0 if code == "WDS104" else 1
    places = [row for same in rows.values() if len(same) > 1 for row in same[first:]]
    return tuple(sorted(places)) if _is_alone(code, scan) else ()


def _is_alone(code: str, scan: ShardScan) -> bool:
    """A shard that has both kinds of repeated keys: which sample is of which kind is not worth the risk of a guess."""
    return {finding.code for finding in scan.findings if finding.code in _OF_KEYS} == {code}
