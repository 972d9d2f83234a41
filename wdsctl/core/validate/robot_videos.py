"""The videos of a LeRobot dataset that was prepared in place: are they there, and long enough for their tables?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from wdsctl.core.dataset.sequences import VIDEO, SequenceConfig
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.importers.lerobot.metadata import INFO_FILE, read_robot_dataset
from wdsctl.core.importers.lerobot.videos import video_files, videos_with_errors
from wdsctl.core.progress import Progress


def robot_video_findings(root: str, sequences: SequenceConfig | None, progress: Progress) -> Iterator[Finding]:
    """A finding for each video that training could not read, and for metadata that cannot be read.

    `sequences`: of dataset.yaml; features that it does not name were left out of the dataset. Yields nothing for other
    datasets. Cost: some milliseconds a video.
    """
    if sequences is None or VIDEO not in sequences.features.values():
        return
    if not os.path.isfile(os.path.join(root, INFO_FILE)):
        return
    try:
        dataset = read_robot_dataset(root, kept=sequences.features)
    except WdsctlError as error:
        yield _to_finding(error)
        return
    progress.phase("check videos", items=len(video_files(dataset)))
    for _, problem in videos_with_errors(dataset):
        progress.advance(items=1)
        if problem is not None:
            yield _to_finding(problem)


def _to_finding(error: WdsctlError) -> Finding:
    where = f" ({error.where})" if error.where else ""
    return Finding(code=error.code, severity="error", message=f"{error.message}{where}")
