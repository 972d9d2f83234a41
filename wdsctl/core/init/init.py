"""`init`: write train.py, blend.yaml and README.md for a prepared dataset into one folder."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.catalog.totals import MediaSummary
from wdsctl.core.dataset.config import DatasetConfig, load_config
from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command, shell_command_at
from wdsctl.core.dataset.polylithic import is_polylithic, read_marker, read_polylithic_folder
from wdsctl.core.dataset.sequences import FLOATS, SequenceConfig
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.errors import InputError, OptionConflict, UsageError
from wdsctl.core.files import make_folder, remove_file, write_text
from wdsctl.core.importers.lerobot.metadata import OBSERVATION, read_robot_dataset
from wdsctl.core.init.kinds import ACTION, KINDS, TrainingKind, choose_kind
from wdsctl.core.init.labels import Classes, read_classes
from wdsctl.core.init.render import render_blend_file, render_readme, render_script
from wdsctl.core.inspect.inspect import InspectReport, inspect
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.types import BoxFormat, has_geometry
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url

FILES = ("train.py", "blend.yaml", "README.md")

TRAIN = "train"
#: Names of a validation split, the likeliest first.
VALIDATION_NAMES = ("val", "validation", "valid", "dev")

_MAX_BATCH = 16
_VAL_BATCHES = 50

#: Sides of images that the scripts resize to, by kind. Those of smaller images are smaller.
_SIDES: dict[TrainingKind, int] = {
    "classify": 64,
    "captions": 128,
    "ocr": 256,
    "video": 64,
    "segment": 64,
    "robot": 64,
}
_SIDE_STEP = 32
_HORIZON = 16

_SCRIPTS: dict[TrainingKind, str] = {
    "vlm": "a transformer over the bytes of conversations and the patches of their images and films; the loss covers "
    "the turns of the assistant",
    "chat": "a transformer over the bytes of conversations; the loss covers the turns of the assistant",
    "captions": "a convolutional network for the image and a transformer over the bytes of its caption",
    "ocr": "a convolutional network for the image and a transformer over the bytes of its text",
    "video": "a convolutional network for four frames of the film and a transformer over the bytes of its caption",
    "speech": "convolutions and a GRU over spectrograms, with CTC over the bytes of the transcript; batches have "
    "recordings of similar length",
    "classify": "a convolutional network",
    "text": "a transformer over the bytes of texts, packed into rows without attention between texts",
    "detect": "a convolutional network whose grid cells predict the objects centered in them",
    "segment": "a convolutional network that predicts the class of each pixel",
    "robot": "a convolutional network for the cameras and a perceptron for the state, which predict the next actions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """What was written. `val_split`: empty if the dataset has no validation split. `classes`: None for a kind without
    classes. `unlabelled`: samples without a label, which the loader skips. `replaced`: files that existed before.
    """

    root: str
    folder: str
    files: tuple[str, ...]
    replaced: tuple[str, ...]
    kind: TrainingKind
    about: str
    sample_type: str
    train_samples: int
    val_split: str
    val_samples: int
    classes: int | None
    unlabelled: int
    dry_run: bool


def init(
    root: str,
    dest: str | None = None,
    *,
    kind: TrainingKind | None = None,
    box_format: BoxFormat | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int = 1,
    progress: Progress = SILENT_PROGRESS,
) -> InitReport:
    """Write a training script for the dataset at `root`, the blend file that it reads, and a README, into `dest`.

    `dest`: by default the folder `NAME-train` in the working directory. `kind`: by default that of the sample type.
    `box_format`: that of the boxes of a dataset whose samples do not say. Reads the catalog; for classes, also the
    labels of all samples, with so many `workers`.

    Raises DatasetError WDS224 if no script fits, InputError WDS211 without a split to train on, UsageError if a file
    exists and `overwrite` is False.
    """
    location = open_dataset(root).location
    samples_at, config_path = location, location.config_path
    if is_polylithic(location.root):
        halves = read_polylithic_folder(location.root)
        samples_at, config_path = locate(halves.primary), halves.config
    config = load_config(config_path)
    summary = inspect(samples_at.path, samples=0)
    parts = {part.name for part in summary.parts}
    if samples_at is not location:
        parts.update(map(str, read_marker(location.root).get("part_samples") or ()))
    kind = choose_kind(location, config, kind, config_path=config_path, parts=parts)
    samples = {split.name: split.samples for split in summary.splits}
    if not samples.get(TRAIN):
        raise _no_train_split_error(samples_at, samples)
    val = next((name for name in VALIDATION_NAMES if samples.get(name)), "")
    folder = _destination(location, dest)
    present = tuple(name for name in FILES if os.path.lexists(os.path.join(folder, name)))
    if present and not overwrite:
        raise UsageError(
            f"{present[0]} exists",
            where=folder,
            hint=f"choose another folder: {shell_command('init', root, 'FOLDER')}; or pass --yes to replace the files",
        )
    classes: Classes | None = None
    constants: dict[str, tuple[Any, str]] = {
        "HAS_VAL": (bool(val), "whether blend.yaml has a split val"),
        "VAL_BATCHES": (_VAL_BATCHES, "batches of each rank in a validation; None for all"),
        "BATCH": (min(_MAX_BATCH, samples[TRAIN]), "rows of a rank" if kind == "text" else "samples of a rank"),
    }
    label_field = _label_field(kind, config)
    if label_field:
        classes = read_classes(samples_at, summary.generation, config, label_field, workers=workers, progress=progress)
    constants |= _constants(kind, config, summary, label_field, classes, box_format)
    splits = {TRAIN: TRAIN, **({"val": val} if val else {})}
    texts = {
        "train.py": render_script(
            kind,
            constants,
            messages=_messages(kind, config),
            has_labels_on_images=has_geometry(config.field_map),
        ),
        "blend.yaml": render_blend_file(_check_reference(location.path), splits),
        "README.md": render_readme(
            _about(kind, samples[TRAIN], val, samples), shell_command_at(samples_at, "inspect")[1:-1]
        ),
    }
    if not dry_run:
        _write(folder, texts, present)
    return InitReport(
        root=location.display_path,
        folder=folder,
        files=tuple(texts),
        replaced=present,
        kind=kind,
        about=KINDS[kind].about,
        sample_type=config.sample_type,
        train_samples=samples[TRAIN],
        val_split=val,
        val_samples=samples.get(val, 0),
        classes=None if classes is None else len(classes.values),
        unlabelled=classes.unlabelled if classes else 0,
        dry_run=dry_run,
    )


def _no_train_split_error(location: DatasetLocation, samples: dict[str, int]) -> InputError:
    return InputError(
        f"the dataset has no samples in a split {TRAIN!r}; it has {', '.join(samples) or 'no splits'}",
        where=location.display_path,
        hint=f"{shell_command_at(location, 'split', 'train=8,val=1,test=1')} makes splits",
        code="WDS211",
    )


def _destination(location: DatasetLocation, dest: str | None) -> str:
    """The folder to write to, absolute."""
    if dest is not None and is_url(dest):
        raise UsageError("the destination is a URL", where=dest, hint="choose a folder on this machine")
    if dest is None:
        stem = os.path.basename(location.path.rstrip("/")).removesuffix(".tar").removesuffix(".jsonl")
        dest = f"{re.sub(r'[^A-Za-z0-9._-]', '-', stem).lstrip('.-') or 'dataset'}-train"
    return os.path.abspath(dest)


def _check_reference(path: str) -> str:
    """Return the path if a blend file can name it."""
    if is_blend_file(path) or not path.isprintable():
        raise UsageError(
            "a blend file cannot name this dataset",
            where=path,
            hint="move or link the dataset to a path of printable characters that does not end in .yaml",
        )
    return path


def _label_field(kind: TrainingKind, config: DatasetConfig) -> str:
    """The field that holds the class; empty for kinds without classes, and for boxes without labels."""
    names = {"classify": ("label", "label_name"), "detect": ("labels", "label_names")}.get(kind, ())
    return next((name for name in names if name in config.field_map), "")


def _messages(kind: TrainingKind, config: DatasetConfig) -> str:
    if kind not in ("vlm", "chat"):
        return ""
    return "vqa" if config.sample_type == "VQASample" else "conversation"


def _constants(
    kind: TrainingKind,
    config: DatasetConfig,
    summary: InspectReport,
    label_field: str,
    classes: Classes | None,
    box_format: BoxFormat | None,
) -> dict[str, tuple[Any, str]]:
    """The constants of one kind, with their remarks."""
    constants: dict[str, tuple[Any, str]] = {}
    media = summary.media.lines if summary.media else ()
    if kind in _SIDES:
        how = "resized and padded" if kind == "ocr" else "cropped and resized"
        constants["SIDE"] = (_image_side(media, _SIDES[kind]), f"pixels of the sides of an image, {how}")
    if kind == "robot" and config.sequences is not None:
        constants |= _robot_constants(summary.root, config.sequences)
    if kind == "speech":
        remark = "longer recordings are skipped, as their transcripts cannot be cut"
        constants["MAX_SECONDS"] = (_max_seconds(media), remark)
    if kind == "detect":
        if "box_format" not in config.field_map and box_format is None:
            raise UsageError(
                "the samples do not name the format of their boxes",
                where=summary.root,
                hint="pass `--box-format xywh` (left, top, width, height in pixels, as in COCO), xyxy, cxcywh, or one "
                "of these with normalized_ before it",
            )
        constants["BOX_FORMAT"] = (box_format, "of boxes whose sample does not say")
    if kind in ("classify", "detect"):
        constants["LABEL_FIELD"] = (label_field, "field of a sample that contains the class")
        values = list(classes.values) if classes else ["object"]
        if not values:
            raise InputError(
                f"no sample has a label: the field {label_field} is empty in all of them",
                where=summary.root,
                hint=f"map `{label_field}` to the part that contains the class; `wdsctl inspect` shows the parts",
                code="WDS224",
            )
        constants["CLASSES"] = (values, "")
    elif box_format is not None:
        raise OptionConflict(
            f"--box-format only applies to --detect, but the script is --{kind}",
            options=("--box-format",),
            hint="remove --box-format, or pass --detect",
        )
    return constants


def _robot_constants(root: str, sequences: SequenceConfig) -> dict[str, tuple[Any, str]]:
    dataset = read_robot_dataset(root, kept=sequences.features)
    sizes = {feature.name: math.prod(feature.shape) for feature in dataset.columns}
    states = {
        feature.name: sizes[feature.name]
        for feature in dataset.columns
        if feature.name.startswith(OBSERVATION) and feature.dtype in FLOATS
    }
    cameras = [feature.name for feature in (*dataset.videos, *dataset.images)]
    return {
        "FPS": (sequences.fps, "frames per second"),
        "HORIZON": (_HORIZON, "the frame, and those after it, whose actions the model predicts"),
        "CAMERAS": (cameras, "features with images"),
        "STATES": (states, "features with numbers, and how many each has"),
        "ACTION_SIZE": (sizes[ACTION], "numbers of an action"),
    }


def _image_side(media: Sequence[MediaSummary], default: int) -> int:
    """A multiple of 32 that loses nothing of small images, at most the default."""
    largest = [
        max(line.width[1], line.height[1]) for line in media if line.kind == "image" and line.width and line.height
    ]
    if not largest:
        return default
    return min(default, max(1, math.ceil(max(largest) / _SIDE_STEP)) * _SIDE_STEP)


def _max_seconds(media: Sequence[MediaSummary]) -> int:
    """Seconds of the longest recording if the catalog has them, from 1 to 60; otherwise 30."""
    longest = [line.seconds_range[1] for line in media if line.kind == "audio" and line.seconds_range]
    return min(60, max(1, math.ceil(max(longest)))) if longest else 30


def _about(kind: TrainingKind, train: int, val: str, samples: dict[str, int]) -> str:
    """The last paragraph of the README."""
    validation = (
        f"Every checkpoint follows a validation over {pluralize(samples[val], 'sample')}."
        if val
        else "There is no validation, because the dataset has no split `val`; run `wdsctl split` to create one."
    )
    return (
        f"Replace the small model by your own: {_SCRIPTS[kind]}. An epoch has {pluralize(train, 'sample')}.\n"
        f"{validation}\n"
    )


def _write(folder: str, texts: dict[str, str], present: Sequence[str]) -> None:
    """Write the files. If one fails, remove those that did not exist before."""
    make_folder(folder)
    done: list[str] = []
    try:
        for name, text in texts.items():
            write_text(os.path.join(folder, name), text)
            done.append(name)
    except BaseException:  # Ctrl-C too: half of the files would look like all of them
        for name in done:
            if name not in present:
                remove_file(os.path.join(folder, name))
        raise
