"""What the frames of a LeRobot dataset, prepared in place, name: videos, long enough for their tables, and images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from wdsctl.core.dataset.sequences import IMAGE, VIDEO, SequenceConfig
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.importers.common.files import resolve_reference
from wdsctl.core.importers.lerobot.metadata import INFO_FILE, read_robot_dataset
from wdsctl.core.importers.lerobot.videos import video_files, videos_with_errors
from wdsctl.core.json_text import read_json
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import open_below

_MAX_LINE_BYTES = 16 << 20


def robot_media_findings(
    root: str, sequences: SequenceConfig | None, shards: Iterable[str], progress: Progress, *, decodes: bool
) -> Iterator[Finding]:
    """A finding for each video and file of images that training could not read, and for unreadable metadata.

    `sequences`: of dataset.yaml; features that it does not name were left out of the dataset. `decodes`: decode every
    frame of the videos, too. Yields nothing for other datasets. Cost: some milliseconds a video unless `decodes`, and a
    read of each file of lines for its last one.
    """
    dtypes = set() if sequences is None else set(sequences.features.values())
    if sequences is None or not os.path.isfile(os.path.join(root, INFO_FILE)):
        return
    if IMAGE in dtypes:
        yield from _image_findings(root, sequences, shards)
    if VIDEO not in dtypes:
        return
    try:
        dataset = read_robot_dataset(root, kept=sequences.features)
    except WdsctlError as error:
        yield _to_finding(error)
        return
    progress.phase("check videos", items=len(video_files(dataset)))
    for _, problem in videos_with_errors(dataset, decodes=decodes):
        progress.advance(items=1)
        if problem is not None:
            yield _to_finding(problem)


def _image_findings(root: str, sequences: SequenceConfig, shards: Iterable[str]) -> Iterator[Finding]:
    """The images of a file of lines lie one after the other in another file, which ends with the last one."""
    names = [name for name, dtype in sequences.features.items() if dtype == IMAGE]
    for shard in shards:
        try:
            places = [place for place in map(_last_line(os.path.join(root, shard), root).get, names) if place]
            needed = {str(place["path"]): 0 for place in places}
            for place in places:
                path = str(place["path"])
                needed[path] = max(needed[path], int(place["offset"]) + int(place["size"]))
        except (OSError, IndexError, ValueError):
            continue  # the level `structure` reports files that cannot be read, and lines that are not JSON
        except (TypeError, KeyError, AttributeError):
            message = "the last line does not say where its images are: run `wdsctl prepare` again"
            yield Finding(code="WDS233", severity="error", message=message, shard=shard)
            continue
        for path, size in needed.items():
            try:
                found = os.path.getsize(resolve_reference(root, path, shard))
            except (OSError, WdsctlError):
                found = -1
            if found != size:
                problem = "is missing" if found < 0 else f"has {found:,} bytes, but its lines need {size:,}"
                message = f"the file of images {path} {problem}: run `wdsctl prepare` again"
                yield Finding(code="WDS231", severity="error", message=message, shard=shard)


def _last_line(path: str, root: str) -> Any:
    with open_below(path, root) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - _MAX_LINE_BYTES))
        return read_json(file.read(_MAX_LINE_BYTES).splitlines()[-1])


def _to_finding(error: WdsctlError) -> Finding:
    where = f" ({error.where})" if error.where else ""
    return Finding(code=error.code, severity="error", message=f"{error.message}{where}")
