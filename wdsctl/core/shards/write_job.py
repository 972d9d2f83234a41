"""The job of a worker that writes one shard, to a disk or to a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.safe_open import open_file_beneath
from wdsctl.core.samples.naming import RawSample
from wdsctl.core.shards.write import UNREADABLE_ERRNOS, WRITE_BUFFER_BYTES, ShardUpload, WrittenShard, write_shard


class ShardJob(NamedTuple):
    """The arguments of `write_shard` for a worker. `is_lenient`: report unreadable files instead of failing.

    `upload`: where the shard goes in a store, in place of `path`.
    """

    path: str
    root: str
    samples: Sequence[RawSample]
    is_lenient: bool = False
    upload: ShardUpload | None = None

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return self.path


class UnreadableFile(NamedTuple):
    """A file of a sample that is listed but cannot be read. `reason`: the operating system's message."""

    key: str
    part: str
    reason: str


def run_shard_job(job: ShardJob) -> WrittenShard | tuple[UnreadableFile, ...]:
    """Write a shard. If files cannot be read, a lenient job writes no shard and returns all unreadable files.

    Otherwise the job raises what `write_shard` raises. A shard that fails costs reading its files once more.
    """
    try:
        if job.upload is not None:
            from wdsctl.core.shards.upload import upload_shard

            return upload_shard(job.upload, job.root, job.samples)
        return write_shard(job.path, job.root, job.samples)
    except (StorageError, PermissionDenied) as error:
        unreadable = tuple(_unreadable(job)) if job.is_lenient and error.code != "WDS401" else ()
        if not unreadable:
            raise
        return unreadable


def _unreadable(job: ShardJob) -> Iterator[UnreadableFile]:
    for key, parts in job.samples:
        for part, _, _ in parts:
            try:
                with open_file_beneath(f"{job.root}/{key}.{part}", (job.root,)) as file:
                    while file.read(WRITE_BUFFER_BYTES):
                        pass
            except OSError as error:
                if error.errno in UNREADABLE_ERRNOS:
                    yield UnreadableFile(key, part, error.strerror or str(error))
