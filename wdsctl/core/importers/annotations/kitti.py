"""KITTI's 2D and 3D objects: `label_2/000007.txt` for `image_2/000007.png`.

`json` has `boxes` (xyxy, in pixels), `label_names`, and one list for each of the other columns. Regions whose objects
were not labelled (`DontCare`) are objects with `is_crowd` 1. The right picture, the calibration and the point cloud of
a frame are parts of its sample: `image_3.png`, `calib.txt`, `velodyne.bin`.

Source: https://www.cvlibs.net/datasets/kitti/eval_object.php (the readme of the development kit: the 15 columns of a
line, and a 16th, the score, in results).
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.file_limits import MAX_DOCUMENT_BYTES
from wdsctl.core.importers.annotations.annotated import AnnotatedSample
from wdsctl.core.importers.annotations.labelled import Labels, label_format, refuse_labels
from wdsctl.core.importers.common.folder_files import FolderFiles, list_folder, media_type_of, probe_folders
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.importers.protocol import FieldUse
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.text import path_for_message, pluralize

_PICTURES, _LABELS = "image_2", "label_2"
_EXTRAS = ("image_3", "calib", "velodyne")
_MAX_DEPTH = 3  # folders above label_2: data_object_label_2/training/label_2
_LINE = re.compile(rb"[A-Za-z_]+( -?[0-9.]+(e-?[0-9]+)?){14,15}\s*")
#: Columns after the type and before the score, apart from the box.
_COLUMNS = {"truncated": 0, "occluded": 1, "alpha": 2, "rotation_y": 13}
_RANGES = {"dimensions": slice(7, 10), "location": slice(10, 13)}


def _find(path: str) -> str:
    above = (prefix for prefix, names in probe_folders(path, depth=_MAX_DEPTH) if _LABELS in names.folders)
    prefix = next(above, None)
    if prefix is None:
        return ""
    folder = f"{prefix}{_LABELS}"
    names = [name for name in list_folder(os.path.join(path, folder), path).files if name.endswith(".txt")]
    heads = (read_head(os.path.join(path, folder, name), 1 << 12) for name in names[:20])
    line = next((head.splitlines()[0] for head in heads if head.strip()), b"")
    return f"{path_for_message(f'{folder}/{names[0]}')} has lines of KITTI's objects" if _LINE.fullmatch(line) else ""


def _read(files: FolderFiles, _: str) -> Labels:
    by_frame: dict[tuple[str, str], dict[str, str]] = {}
    for path in files.paths:
        folders, _, name = path.rpartition("/")
        kind = folders.rpartition("/")[2]
        half = "testing" if "testing" in folders.split("/") else ""
        if kind in (_PICTURES, _LABELS, *_EXTRAS):
            by_frame.setdefault((half, strip_extension(name)), {})[kind] = path
    halves = {half for (half, _), frame in by_frame.items() if _LABELS in frame}
    pictures, left_out = list[AnnotatedSample](), list[str]()
    for (half, stem), frame in sorted(by_frame.items()):
        if half not in halves:
            left_out += frame.values()
            continue
        label, picture = frame.get(_LABELS), frame.get(_PICTURES, "")
        if picture or label:
            found = [(kind, frame[kind]) for kind in _EXTRAS if kind in frame]
            extras = tuple((f"{kind}{os.path.splitext(path)[1].lower()}", path) for kind, path in found)
            where = path_for_message(os.path.join(files.root, label or picture))
            pictures.append(AnnotatedSample(picture, label, where, f"{_PICTURES}/{stem}.png", extras=extras))

    def parse(path: str | None) -> dict[str, Any]:
        facts: dict[str, Any] = {"boxes": [], "box_format": "xyxy", "label_names": [], "is_crowd": []}
        facts |= {name: [] for name in (*_COLUMNS, *_RANGES)}
        if path is None:
            return facts
        shown = path_for_message(os.path.join(files.root, path))
        for number, line in enumerate(files.read(path, MAX_DOCUMENT_BYTES).splitlines(), 1):
            if line.strip():
                _add_object(facts, line, f"{shown}:{number}")
        return facts

    unlabelled = [path for path in left_out if media_type_of(path) == "image"]
    reason = ""
    if unlabelled:
        folder = os.path.dirname(unlabelled[0])
        command = shell_command("prepare", os.path.join(files.root, folder), "DEST")
        reason = (
            f"{pluralize(len(left_out), 'file')} of a half without labels, such as {path_for_message(left_out[0])}. To "
            f"prepare its pictures alone, run {command}"
        )
    uses = [FieldUse(f"{_LABELS}/*.txt", "json", "boxes are xyxy in pixels; one list for each other column")]
    for name in sorted({name for each in pictures for name, _ in each.extras}):
        kind, _, ending = name.partition(".")
        uses.append(FieldUse(f"{kind}/*.{ending}", name))
    labels = [each.label for each in pictures if each.label is not None]
    return Labels(pictures, parse, labels, uses, left_out, reason)


def _add_object(facts: dict[str, Any], line: bytes, where: str) -> None:
    """Add the columns of a line to the lists. Raises DatasetError WDS232."""
    kind, *words = line.decode("ascii", "replace").split()
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = []
    if len(values) not in (14, 15) or not all(map(math.isfinite, values)):
        refuse_labels(f"the line has {len(words)} columns after the type, expected 14 or 15 numbers", where)
    facts["boxes"].append(values[3:7])
    facts["label_names"].append(kind)
    facts["is_crowd"].append(int(kind == "DontCare"))
    for name, at in _COLUMNS.items():
        facts[name].append(values[at])
    for name, span in _RANGES.items():
        facts[name].append(values[span])
    if len(values) == 15:
        facts.setdefault("score", []).append(values[14])


IMPORTER = label_format(
    "kitti",
    "KITTI's objects: label_2 with a text file for each picture of image_2",
    _find,
    _read,
    f"folder {_LABELS} with KITTI's objects",
)
