"""Energon's dataset.yaml: the sample type and its field map in Energon's spelling, where it has the type."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from wdsctl.core.energon.meta import find_meta_file
from wdsctl.core.errors import InputError
from wdsctl.core.export.source import ExportSource
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.safe_open import open_below
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.field_path import FieldPath
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES, is_custom_type
from wdsctl.core.text import pluralize
from wdsctl.core.yaml_files.document import dump_yaml

_PACKAGE = "megatron.energon"
_MODULES = dict.fromkeys(
    (
        "CaptioningSample",
        "ImageClassificationSample",
        "ImageSample",
        "InterleavedSample",
        "MultiChoiceVQASample",
        "OCRSample",
        "SimilarityInterleavedSample",
        "TextSample",
        "VQASample",
        "VidQASample",
    ),
    _PACKAGE,
) | {"VQAOCRSample": f"{_PACKAGE}.flavors.vqa_and_ocr"}  # which the package does not export

#: Fields of wdsctl's types that Energon's types of the same name lack.
_LACKING = {("CaptioningSample", "captions"), ("InterleavedSample", "images")}

_NAME = re.compile(r"[^\[\],]+")  # of a part or a key: Energon has no quotes


class EnergonConfig(NamedTuple):
    """`files`: code beside dataset.yaml that it refers to. `notes`: what Energon cannot express."""

    text: str
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def energon_config(source: ExportSource, offsets: Offsets) -> EnergonConfig:
    """The dataset.yaml that gives Energon's users the same fields; CrudeWebdataset if Energon lacks the type."""
    config = source.config
    module, name = _MODULES.get(config.sample_type, ""), config.sample_type
    if is_custom_type(config.sample_type):
        module, _, name = config.sample_type.partition(":")
    if not module:
        return _crude(source, [] if name == CRUDE else [f"Energon has no {name}: dataset.yaml names CrudeWebdataset"])
    document: dict[str, Any] = {"sample_type": {"__module__": module, "__class__": name}}
    if config.sample_loader:
        return _with_loader(source, document)
    if not config.field_map:
        return _crude(source, [f"{name} has no field map: dataset.yaml names CrudeWebdataset"])
    field_map: dict[str, str] = {}
    notes: list[str] = []
    required = {each.name for each in SAMPLE_TYPES.get(name, ()) if each.required}
    for field, path in parse_field_map(config.field_map).items():
        text = _path_text(path)
        lacking = _count_lacking(path, offsets)
        if (name, field) in _LACKING:
            notes.append(f"Energon's {name} has no field {field}: it is left out")
        elif text is None:
            return _crude(
                source, [f"Energon cannot express the path {path} of {field}: dataset.yaml names CrudeWebdataset"]
            )
        elif lacking and field not in required:
            notes.append(f"{field} is left out, as Energon would skip {pluralize(lacking, 'sample')} without it")
        else:
            field_map[field] = text
            if lacking:
                notes.append(f"Energon skips {pluralize(lacking, 'sample')} without {field}")
    if name == "InterleavedSample" and "images" in config.field_map:
        note = "Energon puts no images into the places of documents: dataset.yaml names CrudeWebdataset"
        return _crude(source, [note])
    document["field_map"] = field_map
    return EnergonConfig(dump_yaml(document | _subflavors(source)), notes=tuple(notes))


def _path_text(path: FieldPath) -> str | None:
    """A path in Energon's grammar; None if it has patterns, items of lists, or names that need quotes."""
    texts = []
    for access in path.alternatives:
        names = [access.part, *(str(step) for step in access.steps)]
        if access.is_pattern or None in access.steps or not all(map(_NAME.fullmatch, names)):
            return None
        texts.append(access.part + "".join(f"[{step}]" for step in access.steps))
    return ",".join(texts)


def _count_lacking(path: FieldPath, offsets: Offsets) -> int:
    """How many samples have none of the parts of a path."""
    parts = {access.part for access in path.alternatives}
    return offsets.find_with_layouts([i for i, layout in enumerate(offsets.layouts) if parts.isdisjoint(layout)])[0]


def _with_loader(source: ExportSource, document: dict[str, Any]) -> EnergonConfig:
    """A type whose samples the user's own code builds: Energon runs the same functions."""
    config = source.config
    document["sample_loader"] = config.sample_loader
    part_filter = config.part_filter
    if not isinstance(part_filter, str):  # which Energon needs with a loader
        part_filter = list(part_filter or (part.name for part in source.parts))  # type: ignore[assignment]
    document["part_filter"] = part_filter
    functions = [each for each in (config.sample_loader, part_filter) if isinstance(each, str)]
    files = tuple(dict.fromkeys(_code_file(source, each) for each in functions))
    return EnergonConfig(dump_yaml(document | _subflavors(source)), files)


def _code_file(source: ExportSource, function: str) -> str:
    """The path of the file of FILE.py:FUNCTION. Raises InputError if it does not exist."""
    name = function.rpartition(":")[0]
    path = find_meta_file(source.location, name)
    try:
        with open_below(path, source.location.root):
            return path
    except OSError as error:
        raise InputError(
            f"cannot read {name}, which dataset.yaml names: {error.strerror}",
            where=path,
            hint="put the file beside dataset.yaml",
        ) from error


def _crude(source: ExportSource, notes: list[str]) -> EnergonConfig:
    """A dataset.yaml for samples that are dicts of parts, which a cooker of the training script turns into fields."""
    if source.config.part_filter:
        notes.append("part_filter is left out: a CrudeWebdataset of Energon reads all parts")
    if source.config.sample_type == CRUDE and source.config.field_map:
        fields = ", ".join(source.config.field_map)
        notes.append(f"field_map is left out: in Energon, parts have their own names instead of {fields}")
    document = {"__module__": _PACKAGE, "__class__": "CrudeWebdataset"}
    return EnergonConfig(dump_yaml(document | _subflavors(source)), notes=tuple(notes))


def _subflavors(source: ExportSource) -> dict[str, Any]:
    return {"subflavors": source.config.subflavors} if source.config.subflavors else {}
