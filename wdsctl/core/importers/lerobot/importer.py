"""Recognises LeRobot datasets, and says what becomes of their features. `wdsctl prepare` prepares them in place."""

from __future__ import annotations

import os

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.sequences import IMAGE, TEXT, VIDEO
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.importers.lerobot.metadata import INFO_FILE, RobotDataset
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source
from wdsctl.core.json_text import read_json
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

_MAX_INFO_BYTES = 4 << 20


class LeRobotImporter:
    """Recognises the folder of a LeRobot dataset. Its videos stay where they are, so that it is not converted."""

    name = "lerobot"
    about = "LeRobot datasets v2.0, v2.1 and v3.0, prepared in place (needs pyarrow)"

    def recognise(self, path: str) -> FormatMatch | None:
        info = os.path.join(path, INFO_FILE)
        if not source_files.is_file(info):
            return None
        try:
            content = read_json(source_files.read_start(info, _MAX_INFO_BYTES))
        except (OSError, WdsctlError, ValueError):
            return None
        if not isinstance(content, dict) or not {"codebase_version", "features"} <= content.keys():
            return None
        return FormatMatch(1.0, f"{INFO_FILE} of LeRobot {str(content['codebase_version'])[:20]}")

    def open(self, path: str, options: Options) -> Source:  # noqa: ARG002 - of the protocol
        """Raises UsageError: the frames of a LeRobot dataset are not converted."""
        raise UsageError(
            "a LeRobot dataset is prepared in place, not converted: its videos stay as they are",
            where=path_for_message(path),
            hint=shell_command("prepare", path),
        )


IMPORTER = LeRobotImporter()


def describe_features(dataset: RobotDataset) -> tuple[FieldUse, ...]:
    """What samples have of each feature, in the order of the dataset."""
    uses = []
    for feature in dataset.features:
        if feature.dtype == VIDEO:
            becomes, note = "frames", "decoded from the video, which stays where it is"
        elif feature.dtype == IMAGE:
            becomes, note = "image", "copied from the table, which holds it compressed"
        elif feature.dtype == TEXT:
            becomes, note = "str", ""
        else:
            becomes, note = f"tensor{list(feature.shape)}", feature.dtype
        uses.append(FieldUse(feature.name, becomes, note))
    uses.append(FieldUse("task_index", "task", "the text of the task"))
    return (*uses, *(FieldUse(name, "", "dropped by `-O drop`") for name in dataset.dropped))
