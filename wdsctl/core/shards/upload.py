"""Write one shard to a store, and scan it from the names and sizes of its files.

The index would otherwise read every shard back from the store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from wdsctl.core.samples.naming import RawSample, dotless_key
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import ScanUnit, scan_results
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.shards.write import ShardUpload, StreamWriter, WrittenShard, write_samples
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.upload_journal import journaled_upload
from wdsctl.core.tar_header import TAR_BLOCK_BYTES, build_tar_header


def upload_shard(target: ShardUpload, root: str, samples: Sequence[RawSample]) -> WrittenShard:
    """Write `samples` to a store, as `write_shard` does to a disk. Memory: that of an `Upload`, and 200 bytes a file.

    The shard appears when it is complete. Saves its scan in `target.scans`, under the version that the store reports.
    """
    url = f"{target.root}/{target.name}"
    with journaled_upload(ObjectStore(target.root), url, target.journal) as upload:
        size_bytes = write_samples(StreamWriter(upload.write), root, samples)
        stored = upload.finish()
    if target.scans and stored.number:
        scan = scan_samples(target.name, samples, size_bytes)
        unit = ScanUnit(target.root, ShardFile(target.name, size_bytes, stored.number))
        scan_results(target.scans).save([unit], [replace(scan, known_layout_hash=scan.layout_hash())])
    return WrittenShard(len(samples), size_bytes)


def scan_samples(shard: str, samples: Sequence[RawSample], size_bytes: int) -> ShardScan:
    """Return the scan of a tar that `write_samples` wrote, without reading the tar: a scan reads headers alone."""
    return scan_tar(shard, _HeaderReader(samples).read, size_bytes)


class _HeaderReader:
    """Reads the headers of a tar, with zeros in place of the data."""

    def __init__(self, samples: Sequence[RawSample]) -> None:
        self._members: list[tuple[bytes, int]] = []
        self._offsets: list[int] = []  # of the first header of each member
        at = 0
        for key, parts in samples:
            member = dotless_key(key)
            for part, size, _ in parts:
                self._members.append((f"{member}.{part}".encode(), size))
                self._offsets.append(at)
                at += len(build_tar_header(*self._members[-1])) + size + -size % TAR_BLOCK_BYTES

    def read(self, offset: int, size: int) -> bytes:
        data = bytearray(size)
        i = max(0, bisect_right(self._offsets, offset) - 1)
        while i < len(self._offsets) and self._offsets[i] < offset + size:
            header = build_tar_header(*self._members[i])
            start = self._offsets[i] - offset
            piece = header[max(0, -start) : size - start]
            data[max(0, start) : max(0, start) + len(piece)] = piece
            i += 1
        return bytes(data)
