"""Copy objects of a store into local files, for readers that need a file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from wdsctl.core.errors import translate_os_errors
from wdsctl.core.storage.objects import StoredObject

PIECE_BYTES = 32 << 20


def download(objects: Sequence[StoredObject], path: str) -> None:
    """Write objects into one new file, one after another. Memory: 32 MiB, whatever their sizes."""
    from wdsctl.core.storage.remote import FsspecStorage
    from wdsctl.core.storage.storage import FileRange

    folder = objects[0].url.rpartition("/")[0]
    ranges = [
        FileRange(each.url, start, min(PIECE_BYTES, each.size - start))
        for each in objects
        for start in range(0, each.size, PIECE_BYTES)
    ]
    with closing(FsspecStorage(folder)) as storage, translate_os_errors(path), open(path, "xb") as file:
        while ranges:
            count, total = 1, ranges[0].size
            while count < len(ranges) and total + ranges[count].size <= PIECE_BYTES:
                total += ranges[count].size
                count += 1
            file.writelines(storage.read_many(ranges[:count]))
            del ranges[:count]
