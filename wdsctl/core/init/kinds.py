"""The kinds of training scripts: which sample types each of them reads, and which fields it needs."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Literal, NamedTuple, get_args

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation, shell_command, shell_command_at
from wdsctl.core.dataset.polylithic import is_polylithic
from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.field_path import parse_field_path
from wdsctl.core.samples.fields import find_parts
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES, FieldKind
from wdsctl.core.text import join_with_and

TrainingKind = Literal[
    "vlm", "chat", "captions", "ocr", "video", "speech", "classify", "text", "detect", "segment", "robot"
]  # fmt: skip
TRAINING_KINDS: tuple[TrainingKind, ...] = get_args(TrainingKind)


class KindSpec(NamedTuple):
    """`needs`: sample type -> its optional fields of which the field map must have one, besides the required ones."""

    about: str
    needs: dict[str, tuple[str, ...]]


KINDS: dict[TrainingKind, KindSpec] = {
    "vlm": KindSpec("conversations about images and films", {"ConversationSample": (), "VQASample": ("answers",)}),
    "chat": KindSpec("conversations without images", {"ConversationSample": ()}),
    "captions": KindSpec("captions of images", {"CaptioningSample": ()}),
    "ocr": KindSpec("text in images", {"OCRSample": ()}),
    "video": KindSpec("captions of films", {"VideoSample": ("text", "captions")}),
    "speech": KindSpec("transcripts of speech", {"TranscriptionSample": (), "AudioSample": ("text",)}),
    "classify": KindSpec("classes of images", {"ImageClassificationSample": ("label", "label_name")}),
    "text": KindSpec("texts", {"TextSample": ()}),
    "detect": KindSpec("boxes of objects in images", {"DetectionSample": ()}),
    "segment": KindSpec("masks of images", {"SegmentationSample": ()}),
    "robot": KindSpec("actions of a robot", {}),  # by `sequences`: frames have no sample type
}

#: The feature that the script for robot data predicts.
ACTION = "action"

#: Fields of media that the scripts for conversations cannot read.
_UNREAD_MEDIA: dict[TrainingKind, dict[str, FieldKind]] = {
    "vlm": {"audios": "audios"},
    "chat": {"images": "images", "videos": "videos", "audios": "audios"},
}


def choose_kind(
    location: DatasetLocation,
    config: DatasetConfig,
    requested: TrainingKind | None,
    *,
    config_path: str,
    parts: Collection[str],
) -> TrainingKind:
    """The kind of script for a dataset. `config_path`: the file of `config`. `parts`: names of all parts.

    Raises DatasetError WDS224 if no script fits, or the one of `requested` does not.
    """
    if _is_robot_data(config) and requested in (None, "robot"):
        return _check_robot_features(location, config)
    kind = requested or next((name for name in TRAINING_KINDS if config.sample_type in KINDS[name].needs), None)
    if (
        kind == "vlm"
        and not requested
        and config.sample_type == "ConversationSample"
        and not any(_has_media(config, parts, name) for name in ("images", "videos"))
    ):
        kind = "chat"
    if config.sample_loader:
        raise _no_script_error(
            location,
            f"dataset.yaml names code, {config.sample_loader!r}, that builds the samples",
            f"replace `sample_loader` by a `field_map` in {config_path}",
        )
    if kind is None or config.sample_type not in KINDS[kind].needs:
        raise _wrong_type_error(location, config, requested, config_path)
    fields = KINDS[kind].needs[config.sample_type]
    if fields and not any(field in config.field_map for field in fields):
        raise _no_script_error(
            location,
            f"the samples have no {' and no '.join(fields)}: the field map has "
            f"{join_with_and(tuple(config.field_map)) or 'no fields'}",
            f"add the field to `field_map` in {config_path}, such as `{fields[0]}: json[{fields[0]}]`",
        )
    unread = [
        field
        for field, media_kind in _UNREAD_MEDIA.get(kind, {}).items()
        if field in config.field_map and find_parts(parse_field_path(config.field_map[field]), parts, media_kind)
    ]
    if unread:
        raise _no_script_error(
            location,
            f"the conversations have {join_with_and(unread)}, but the script reads only "
            f"{'images and films' if kind == 'vlm' else 'texts'}",
            "select the other samples with `wdsctl view create`, and write them to a dataset with `wdsctl convert`",
        )
    return kind


def _has_media(config: DatasetConfig, parts: Collection[str], field: Literal["images", "videos"]) -> bool:
    path = config.field_map.get(field)
    return path is not None and bool(find_parts(parse_field_path(path), parts, field))


def _is_robot_data(config: DatasetConfig) -> bool:
    return config.sequences is not None and bool(config.sequences.features)


def _check_robot_features(location: DatasetLocation, config: DatasetConfig) -> TrainingKind:
    features = {} if config.sequences is None else config.sequences.features
    if ACTION not in features:
        raise _no_script_error(
            location,
            f"the frames have no feature {ACTION!r}, only {join_with_and(tuple(features))}",
            "write a training script by hand: docs/robots.md shows the loader",
        )
    return "robot"


def _wrong_type_error(
    location: DatasetLocation, config: DatasetConfig, requested: TrainingKind | None, config_path: str
) -> DatasetError:
    fitting = next((name for name in TRAINING_KINDS if config.sample_type in KINDS[name].needs), None)
    if _is_robot_data(config):
        fitting = "robot"
    above = os.path.dirname(location.root)
    if config.sample_type == CRUDE and is_polylithic(above):
        return _no_script_error(
            location,
            "the samples need the media in the folder beside this dataset",
            f"pass the folder that contains both: {shell_command('init', above)}",
        )
    if config.sample_type == CRUDE and fitting is None and requested != "robot":
        return _no_script_error(
            location,
            "the samples have no type (CrudeSample)",
            f"set `sample_type` and `field_map` in {config_path}; docs/loader/samples.md lists the types",
        )
    if requested is None:
        readable = ", ".join(sample_type for spec in KINDS.values() for sample_type in spec.needs)
        return _no_script_error(
            location,
            f"wdsctl has no script for {config.sample_type}",
            f"wdsctl has scripts for {readable}"
            if config.sample_type in SAMPLE_TYPES
            else f"use a built-in type in {config_path}: {readable}",
        )
    needed = " or ".join(KINDS[requested].needs) or "the frames of a LeRobot dataset"
    found = "frames of a LeRobot dataset" if fitting == "robot" else config.sample_type
    return _no_script_error(
        location,
        f"--{requested} needs {needed}, but the samples are {found}",
        f"run {shell_command_at(location, 'init')} to write the script for {KINDS[fitting].about}"
        if fitting
        else f"set `sample_type` and `field_map` in {config_path}; docs/loader/samples.md lists the types",
    )


def _no_script_error(location: DatasetLocation, message: str, hint: str) -> DatasetError:
    return DatasetError(f"no training script fits: {message}", where=location.display_path, hint=hint, code="WDS224")
