"""The kinds of training scripts: which sample types each of them reads, and which fields it needs."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES
from wdsctl.core.text import join_with_and

TrainingKind = Literal["vlm", "captions", "speech", "classify", "text", "detect"]
TRAINING_KINDS: tuple[TrainingKind, ...] = get_args(TrainingKind)


class KindSpec(NamedTuple):
    """`needs`: sample type -> its optional fields of which the field map must have one, besides the required ones."""

    about: str
    needs: dict[str, tuple[str, ...]]


KINDS: dict[TrainingKind, KindSpec] = {
    "vlm": KindSpec("conversations about images", {"ConversationSample": (), "VQASample": ("answers",)}),
    "captions": KindSpec("captions of images", {"CaptioningSample": ()}),
    "speech": KindSpec("transcripts of speech", {"TranscriptionSample": (), "AudioSample": ("text",)}),
    "classify": KindSpec("classes of images", {"ImageClassificationSample": ("label", "label_name")}),
    "text": KindSpec("texts", {"TextSample": ()}),
    "detect": KindSpec("boxes of objects in images", {"DetectionSample": ()}),
}

#: Fields of media that the script for conversations cannot read.
_UNREAD_MEDIA = ("videos", "audios")


def choose_kind(location: DatasetLocation, config: DatasetConfig, requested: TrainingKind | None) -> TrainingKind:
    """The kind of script for a dataset. Raises DatasetError WDS224 if none fits, or `requested` does not."""
    kind = requested or next((name for name in TRAINING_KINDS if config.sample_type in KINDS[name].needs), None)
    if config.sample_loader:
        raise _no_script_error(
            location,
            f"dataset.yaml names code, {config.sample_loader!r}, that builds the samples",
            f"replace `sample_loader` by a `field_map` in {location.dataset_yaml}",
        )
    if kind is None or config.sample_type not in KINDS[kind].needs:
        raise _wrong_type_error(location, config, requested)
    fields = KINDS[kind].needs[config.sample_type]
    if fields and not any(field in config.field_map for field in fields):
        raise _no_script_error(
            location,
            f"the samples have no {' and no '.join(fields)}: the field map has "
            f"{join_with_and(tuple(config.field_map)) or 'no fields'}",
            f"add the field to `field_map` in {location.dataset_yaml}, such as `{fields[0]}: json[{fields[0]}]`",
        )
    unread = [field for field in _UNREAD_MEDIA if field in config.field_map]
    if kind == "vlm" and unread:
        raise _no_script_error(
            location,
            f"the conversations have {join_with_and(unread)}, and the script reads images alone",
            "make a dataset of the other samples: `wdsctl view create` selects them, `wdsctl convert` writes them",
        )
    return kind


def _wrong_type_error(location: DatasetLocation, config: DatasetConfig, requested: TrainingKind | None) -> DatasetError:
    fitting = next((name for name in TRAINING_KINDS if config.sample_type in KINDS[name].needs), None)
    if config.sample_type == CRUDE:
        return _no_script_error(
            location,
            "the samples have no type (CrudeSample)",
            f"set `sample_type` and `field_map` in {location.dataset_yaml}; docs/loader/samples.md lists the types",
        )
    if requested is None:
        readable = ", ".join(sample_type for spec in KINDS.values() for sample_type in spec.needs)
        return _no_script_error(
            location,
            f"there is no script for {config.sample_type}",
            f"there are scripts for {readable}"
            if config.sample_type in SAMPLE_TYPES
            else f"use a built-in type in {location.dataset_yaml}: {readable}",
        )
    return _no_script_error(
        location,
        f"--{requested} needs {' or '.join(KINDS[requested].needs)}, and the samples are {config.sample_type}",
        f"{shell_command_at(location, 'init')} writes the script for {KINDS[fitting].about}"
        if fitting
        else f"set `sample_type` and `field_map` in {location.dataset_yaml}; docs/loader/samples.md lists the types",
    )


def _no_script_error(location: DatasetLocation, message: str, hint: str) -> DatasetError:
    return DatasetError(f"no training script fits: {message}", where=location.display_path, hint=hint, code="WDS224")
