"""Name the files beside shards that are in no sample, such as labels in a table or a manifest."""

from __future__ import annotations

import os

from wdsctl.core.dataset.raw_folder_walk import DOCUMENT_KEYS
from wdsctl.core.errors import WdsctlError
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import open_below
from wdsctl.core.shards.list import ShardListing
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url

_MAX_SIDECARS = 32  # JSON files and texts whose content is looked at
_HEAD_BYTES = 1 << 14


def note_left_out(root: str, listing: ShardListing, progress: Progress) -> None:
    """Say which files beside the shards are in no sample. Of JSON and texts, those that may be labels of the samples.

    Cost: lists the folder, and reads the heads of some JSON files and texts in it. Looks at no store for these.
    """
    names = (
        [] if is_url(root) else sorted(name for name in os.listdir(root) if name.lower().endswith((".json", ".txt")))
    )
    labels = [name for name in names[:_MAX_SIDECARS] if _may_be_labels(root, name, listing)]
    count = listing.other_files + len(labels)
    if count:
        are_no = "is no shard" if count == 1 else "are no shards"
        example = path_for_message(labels[0] if labels else listing.other_example)
        progress.note(f"left out: {pluralize(count, 'file')} that {are_no}, such as {example}")


def _may_be_labels(root: str, path: str, listing: ShardListing) -> bool:
    """Whether a file beside shards has several rows: a JSON list of objects, lines of objects, or lines of text.

    Files that are named after a shard, such as `00000_stats.json`, and documents do not count.
    """
    stem = os.path.splitext(path)[0]
    if os.path.basename(stem).lower() in DOCUMENT_KEYS:
        return False
    if any(stem.startswith(os.path.splitext(shard.path)[0]) for shard in listing.shards):
        return False
    try:
        with open_below(os.path.join(root, path), root) as file:
            lines = file.read(_HEAD_BYTES).split(b"\n")
    except (OSError, WdsctlError):
        return False  # the file is in no sample in any case
    if path.lower().endswith(".txt"):
        return len(list(filter(None, lines))) > 1
    start = lines[0].strip()
    is_list = start.startswith(b"[") and b"".join(lines).replace(b" ", b"")[1:2] == b"{"
    return is_list or (start.endswith(b"}") and len(lines) > 1 and lines[1].startswith(b"{"))
