"""The job of a worker that writes one shard, to a disk or to a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.safe_open import open_file_beneath
from wdsctl.core.samples.naming import RawSample
from wdsctl.core.shards.write import UNREADABLE_ERRNOS, WRITE_BUFFER_BYTES, ShardUpload, WrittenShard, write_shard
from wdsctl.core.storage.source_files import CHANGED_CODES, find_changed
from wdsctl.core.urls import is_url


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
    """A file of a sample that is listed but cannot be read. `reason`: what the system says, or what changed."""

    key: str
    part: str
    reason: str


def run_shard_job(job: ShardJob) -> WrittenShard | tuple[UnreadableFile, ...]:
    """Write a shard. If files cannot be read, a lenient job writes no shard and returns all unreadable files.

    Any job returns objects of a store that are gone or have another size than in its listing.

    Otherwise the job raises what `write_shard` raises. A shard that fails costs reading its files once more.
    """
    try:
        if job.upload is not None:
            from wdsctl.core.shards.upload import upload_shard

            return upload_shard(job.upload, job.root, job.samples)
        return write_shard(job.path, job.root, job.samples)
    except (StorageError, PermissionDenied) as error:
        if is_url(job.root):
            unreadable = tuple(_changed_objects(job)) if error.code in CHANGED_CODES else ()
        else:
            unreadable = tuple(_unreadable(job)) if job.is_lenient and error.code != "WDS401" else ()
        if not unreadable:
            raise
        return unreadable


def _changed_objects(job: ShardJob) -> Iterator[UnreadableFile]:
    files = [(key, part, size) for key, parts in job.samples for part, size, _ in parts]
    found = find_changed([(f"{job.root}/{key}.{part}", size) for key, part, size in files])
    yield from (UnreadableFile(*files[position][:2], reason) for position, reason in found)


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
