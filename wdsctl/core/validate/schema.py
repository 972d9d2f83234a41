"""Level `schema`: do the parts of each sample provide the fields of its sample type, with values of the right kind?

`wdsctl/core/samples/types.py` defines the types and the kinds of their fields. This module adds the kinds of list
items and rules between fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck
from wdsctl.core.dataset.config import DatasetConfig, required_fields
from wdsctl.core.errors import DatasetError
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import MAX_DECODABLE_BYTES, MEDIA_KINDS, part_kind
from wdsctl.core.media.probe import HEADER_READ_BYTES, probe_image
from wdsctl.core.media.sniff import sniff
from wdsctl.core.samples.boxes import convert_boxes, read_boxes
from wdsctl.core.samples.clips import check_clip_within, medium_length, read_clip
from wdsctl.core.samples.conversations import begins_with_assistant, normalize_conversation
from wdsctl.core.samples.documents import ImagePlace, document_keys, normalize_document, read_document
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.field_path import FieldPath, PartAccess, PathStep
from wdsctl.core.samples.fields import as_integer, find_parts, follow_steps, is_collecting
from wdsctl.core.samples.picture_change import PictureForm
from wdsctl.core.samples.picture_sizes import (
    PictureSizes,
    describe_disagreement,
    describe_sizes,
    stated_size,
)
from wdsctl.core.samples.preferences import ANSWER_KEYS, normalize_preference
from wdsctl.core.samples.subtitles import is_subtitles, read_subtitles
from wdsctl.core.samples.types import (
    BOX_FORMATS,
    DRAWN_ON,
    MEDIA_LIST_KINDS,
    SAMPLE_TYPES,
    DrawnOn,
    FieldKind,
    SampleField,
    has_geometry,
)
from wdsctl.core.text import short_repr
from wdsctl.core.validate.content import json_defect, text_defect

ReadPart = Callable[[PartToCheck, int, int], bytes]  # (part, start in the part, bytes) -> exactly these bytes

#: The kind of all items of a field's list.
LIST_ITEM_KINDS: dict[str, FieldKind] = {
    **dict.fromkeys(
        ("answers", "choices", "texts", "block_text", "lines_text", "words_text", "chars_text", "captions"), "text"
    ),
    "answer_weights": "number",
    "matched_text_indices": "integer",
}
#: Fields of kind `any` that are a list of texts, or one text.
_SINGLE_ITEM_FIELDS = frozenset(("answers",))
#: Lists that must have equal lengths, because their items correspond.
_PARALLEL_LISTS = (
    ("answers", "answer_weights"),
    ("block_boxes", "block_text"),
    ("block_boxes", "block_classes"),
    ("lines_boxes", "lines_text"),
    ("words_boxes", "words_text"),
    ("chars_boxes", "chars_text"),
    *(("boxes", name) for name in ("labels", "label_names", "masks", "is_crowd", "areas", "keypoints")),
)

#: Pixels that a box may reach outside of its image, since tools round.
_BOX_TOLERANCE = 1

_KIND_PHRASES: dict[str, str] = {
    "integer": "a whole number",
    "number": "a number",
    "list": "a list",
    "object": "an object",
}


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """The rules for all samples of a dataset. `field_paths`: the mapped fields and the parts they come from.

    `required_fields`: the fields that every sample needs.
    """

    sample_type: str
    field_paths: tuple[tuple[SampleField, FieldPath], ...]
    required_fields: frozenset[str] = frozenset()
    drawn_on: DrawnOn | Literal[""] = ""


def schema_rules_of(config: DatasetConfig) -> SchemaRules | None:
    """Return the rules of dataset.yaml; None without a field map. A custom type's fields can have any kind."""
    fields = {field.name: field for field in SAMPLE_TYPES.get(config.sample_type, ())}
    paths = parse_field_map(config.field_map)
    known = tuple((fields.get(name, SampleField(name, "any")), path) for name, path in paths.items())
    required = frozenset(required_fields(config))
    return SchemaRules(config.sample_type, known, required, config.drawn_on) if known else None


def check_sample_schema(
    read: ReadPart,
    parts: Mapping[str, PartToCheck],
    rules: SchemaRules,
    findings: LocatedFindingCollector,
    *,
    reports_unparsable: bool,
    reports_missing: bool = False,
) -> None:
    """Check one sample; `parts` are its parts by name. Raises storage errors.

    Reads the parts that contain text, numbers and lists, and the first bytes of media. `reports_unparsable`: whether
    to report parts that do not parse, which the level `content` reports too. `reports_missing`: whether to report
    fields without a part, which the level `structure` reports (WDS108) if all parts are in the shard.
    """
    parsed: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for field, path in rules.field_paths:
        if not find_parts(path, parts, field.kind):
            if reports_missing and field.name in rules.required_fields:
                message = f"{field.name} is required by the field map: the sample has no part {path}"
                findings.add("WDS148", message, next(iter(parts.values())))
            continue
        if is_collecting(path, field.kind):
            _check_collected(read, parts, field, path, findings)
            continue
        value: Any = _ABSENT
        access, *others = (access for access in path.alternatives if access.part in parts)
        # The first alternative that has a value, as in the loader.
        for alternative in (access, *others):
            value = _read_field_value(
                read,
                parts[alternative.part],
                field,
                alternative.steps,
                parsed,
                findings if reports_unparsable else None,
                allows_gaps=field.name not in rules.required_fields,
            )
            if value is not _ABSENT:
                access = alternative
                break
        if value is _UNPARSABLE:
            continue
        if value is _ABSENT or value is None:
            if field.name in rules.required_fields:
                problem = "is missing" if value is _ABSENT else "is null"
                findings.add(
                    "WDS148", f"{field.name} is required by the field map: {access} {problem}", parts[access.part]
                )
            continue
        values[field.name] = value
        _check_value(field, value, access, parts[access.part], findings)
    _check_composed(read, parts, rules, values, parsed, findings)
    for inconsistency in _find_inconsistencies(values):
        findings.add("WDS150", inconsistency, next(iter(parts.values())))


def _check_value(
    field: SampleField, value: Any, access: PartAccess, part: PartToCheck, findings: LocatedFindingCollector
) -> None:
    if field.name == "sequence" and document_keys(value):
        return  # a document, which `_check_document` checks
    if mismatch := _describe_mismatch(field, value):
        findings.add("WDS149", f"{field.name} {mismatch}", part)
    elif field.kind == "text" and not value.strip():
        findings.add("WDS169", f"{field.name} is empty: {access}", part, "note")


def _check_composed(
    read: ReadPart,
    parts: Mapping[str, PartToCheck],
    rules: SchemaRules,
    values: Mapping[str, Any],
    parsed: Mapping[str, Any],
    findings: LocatedFindingCollector,
) -> None:
    """Check what several fields must be together. `parsed`: the parts that were parsed, by name."""
    found = {field.name: find_parts(path, parts, field.kind) for field, path in rules.field_paths}
    if rules.sample_type == "ConversationSample" and "messages" in values:
        _check_conversation(values, found, parts[found["messages"][0]], findings)
    if rules.sample_type == "InterleavedSample" and "sequence" in values:
        _check_document(values["sequence"], found, parts[found["sequence"][0]], findings)
    if rules.sample_type == "PreferenceSample" and {"prompt", *ANSWER_KEYS} <= values.keys():
        _check_preference(values, found, parts[found["prompt"][0]], findings)
    if values.get("clip") is not None:
        _check_clip(read, parts, values["clip"], found, findings)
    if has_geometry(found) and found.get("image"):
        image = parts[found["image"][0]]
        picture = _picture_form(read, image)
        if picture is not None:
            _check_sizes(read, picture, parts, parsed, found, rules, image, findings)
    else:
        picture = None
    if rules.sample_type == "DetectionSample" and isinstance(values.get("boxes"), list):
        _check_boxes(values, picture, rules, parts[found["boxes"][0]], findings)


def _check_conversation(
    values: Mapping[str, Any],
    media: Mapping[str, tuple[str, ...]],
    part: PartToCheck,
    findings: LocatedFindingCollector,
) -> None:
    """Check whether the turns of a sample are a conversation with its media. `media`: the parts of each list."""
    try:
        conversation = normalize_conversation(values["messages"], **_media_lists(media), tools=values.get("tools"))
    except DatasetError as error:
        findings.add("WDS161", error.message, part)
        return
    if begins_with_assistant(conversation):
        findings.add("WDS162", "the first turn is the assistant's", part, "warning")


def _check_document(
    sequence: Any, media: Mapping[str, tuple[str, ...]], part: PartToCheck, findings: LocatedFindingCollector
) -> None:
    """Check whether a sample is a document with its images, whose places name parts in their order if they name any."""
    if "images" not in media and not document_keys(sequence):
        return  # the loader hands it out as it is
    images = media.get("images", ())
    try:
        normalize_document(sequence, images)
        places = [item.value for item in read_document(sequence) if isinstance(item, ImagePlace)]
    except DatasetError as error:
        findings.add("WDS174", error.message, part)
        return
    if sorted(map(str, places)) == sorted(images) and tuple(places) != images:
        message = f"its places name {', '.join(places[:4])}, but the loader puts {', '.join(images[:4])} there"
        findings.add("WDS174", message, part)


def _check_clip(
    read: ReadPart,
    parts: Mapping[str, PartToCheck],
    value: Any,
    found: Mapping[str, Sequence[str]],
    findings: LocatedFindingCollector,
) -> None:
    """Check whether a clip is a range, and its medium long enough."""
    medium = next((parts[found[name][0]] for name in ("video", "audio") if found.get(name)), None)
    try:
        clip = read_clip(value)
        if medium is not None and medium.size:
            check_clip_within(clip, medium_length(partial(read, medium), medium.size, medium.part, clip.unit))
    except DatasetError as error:
        if error.code != "WDS175":
            raise
        findings.add("WDS175", error.message, parts[found["clip"][0]])


def _check_preference(
    values: Mapping[str, Any],
    media: Mapping[str, tuple[str, ...]],
    part: PartToCheck,
    findings: LocatedFindingCollector,
) -> None:
    """Check whether a sample has a prompt with its media, and two answers."""
    try:
        normalize_preference(
            *(values[name] for name in ("prompt", *ANSWER_KEYS)), **_media_lists(media), tools=values.get("tools")
        )
    except DatasetError as error:
        findings.add("WDS161", error.message, part)


def _media_lists(media: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: media.get(name, ()) for name in ("images", "videos", "audios")}


def _check_boxes(
    values: Mapping[str, Any],
    picture: PictureForm | None,
    rules: SchemaRules,
    part: PartToCheck,
    findings: LocatedFindingCollector,
) -> None:
    """Check the boxes of a sample. If their format is known, also their sizes and whether they are in the image."""
    try:
        boxes = read_boxes(values["boxes"])
    except DatasetError as error:
        findings.add("WDS163", error.message, part)
        return
    box_format = values.get("box_format")
    if box_format is None or not len(boxes):
        return
    if box_format not in BOX_FORMATS:
        findings.add("WDS163", f"box_format {short_repr(box_format)} is none of {', '.join(BOX_FORMATS)}", part)
        return
    if picture is None:
        return
    # Without a rule, an image may be delivered either way.
    sides = zip(*(picture.size(each) for each in ([rules.drawn_on] if rules.drawn_on else DRAWN_ON)), strict=True)
    width, height = map(max, sides)
    corners = convert_boxes(boxes, box_format, "xyxy", width=width, height=height)
    negative = np.flatnonzero((corners[:, 2:] < corners[:, :2]).any(axis=1))
    if len(negative):
        found = short_repr(values["boxes"][negative[0]])
        findings.add("WDS163", f"box {negative[0]} has a negative size as {box_format}: {found}", part, "warning")
    limit = np.asarray([width, height], np.float32) + _BOX_TOLERANCE
    outside = np.flatnonzero((corners[:, :2] < -_BOX_TOLERANCE).any(axis=1) | (corners[:, 2:] > limit).any(axis=1))
    if len(outside):
        found = short_repr(values["boxes"][outside[0]])
        message = f"box {outside[0]} reaches outside of the image of {width} x {height} as {box_format}: {found}"
        findings.add("WDS163", message, part, "warning")


def _picture_form(read: ReadPart, part: PartToCheck) -> PictureForm | None:
    """The size and orientation of an image; None if its header cannot be read, which the level `headers` reports."""
    facts = probe_image(partial(read, part), part.size, part.part)
    return None if facts is None else PictureForm(facts.width, facts.height, facts.orientation)


def _check_sizes(
    read: ReadPart,
    picture: PictureForm,
    parts: Mapping[str, PartToCheck],
    parsed: Mapping[str, Any],
    found: Mapping[str, Sequence[str]],
    rules: SchemaRules,
    image: PartToCheck,
    findings: LocatedFindingCollector,
) -> None:
    """Check whether image, mask and the size that JSON states agree."""
    mask = _picture_form(read, parts[found["mask"][0]]) if found.get("mask") else None
    stated, is_voc = None, False
    for name, part in parts.items():
        if part_kind(name) == "json" and stated is None and part.size <= MAX_DECODABLE_BYTES:
            with suppress(ValueError):  # the level `content` reports it
                value = parsed[name] if name in parsed else read_json(read(part, 0, part.size))
                stated, is_voc = stated_size(value)
    sizes = PictureSizes(picture, stated, is_voc, None if mask is None else mask[:2])
    if text := describe_disagreement(sizes, rules.drawn_on):
        findings.add("WDS170", f"{text}: {describe_sizes(sizes)}", image, "warning")


def _check_collected(
    read: ReadPart,
    parts: Mapping[str, PartToCheck],
    field: SampleField,
    path: FieldPath,
    findings: LocatedFindingCollector,
) -> None:
    """Check the media of a list. The lists of custom types may hold anything."""
    if field.kind not in MEDIA_LIST_KINDS:
        return
    item = field._replace(kind=MEDIA_LIST_KINDS[field.kind])
    for name in find_parts(path, parts, field.kind):
        if mismatch := _describe_mismatch(item, _sniff_medium(read, parts[name])):
            findings.add("WDS149", f"an item of {field.name} {mismatch}", parts[name])


_UNPARSABLE: Any = object()
_ABSENT: Any = object()


class _MediaPlaceholder(NamedTuple):
    """Stands for the bytes of a medium, with the kind of content detected from their beginning."""

    kind: str


def _sniff_medium(read: ReadPart, part: PartToCheck) -> _MediaPlaceholder:
    head = read(part, 0, min(part.size, HEADER_READ_BYTES))
    return _MediaPlaceholder(sniff(head, part.size, name=part.part).kind)


def _read_field_value(
    read: ReadPart,
    part: PartToCheck,
    field: SampleField,
    steps: tuple[PathStep, ...],
    parsed: dict[str, Any],
    findings: LocatedFindingCollector | None,
    *,
    allows_gaps: bool = False,
) -> Any:
    if not steps and field.kind in (*MEDIA_KINDS, "mask"):
        return _sniff_medium(read, part)
    if part.size > MAX_DECODABLE_BYTES:
        return _UNPARSABLE
    kind = part_kind(part.part)
    is_json = bool(steps) or kind == "json"
    if not is_json and field.kind in ("list", "object", "any") and kind not in ("text", "integer"):
        return _UNPARSABLE  # an array, a medium or bytes, not JSON
    if part.part not in parsed:
        data = read(part, 0, part.size)
        code, message = json_defect(data) if is_json else text_defect(data)
        if code and findings is not None and part.size:
            findings.add(code, message, part)
        parsed[part.part] = _UNPARSABLE if code else read_json(data) if is_json else data.decode()
    value = parsed[part.part]
    if field.name == "segments" and isinstance(value, str) and is_subtitles(value):
        return _read_cues(value, part, findings)
    if not steps and isinstance(value, str) and field.kind in ("integer", "number"):
        for number_type in (int, float):  # a number in a part of its own, such as `cls`
            with suppress(ValueError):
                return number_type(value)
    if value is not _UNPARSABLE:
        value = _value_at_steps(value, steps, allows_gaps=allows_gaps)
    if field.kind == "integer":
        value = _ABSENT if value == "" else as_integer(value)  # an empty cell of a table is no value
    return value


def _read_cues(text: str, part: PartToCheck, findings: LocatedFindingCollector | None) -> Any:
    try:
        return read_subtitles(text)
    except DatasetError as error:
        if findings is not None:
            findings.add(error.code, error.message, part)
        return _UNPARSABLE


def _value_at_steps(value: Any, steps: tuple[PathStep, ...], *, allows_gaps: bool) -> Any:
    try:
        return follow_steps(value, steps, allows_gaps=allows_gaps)
    except LookupError:
        return _ABSENT


def _describe_mismatch(field: SampleField, value: Any) -> str:
    """Describe how the kind of a value differs from that of its field; empty if it fits."""
    if isinstance(value, _MediaPlaceholder):
        kind = "image" if field.kind == "mask" else field.kind
        is_array = field.kind == "mask" and value.kind == "array"
        is_right = value.kind == kind or {value.kind, kind} == {"audio", "video"} or value.kind == "empty" or is_array
        article = "an" if kind[0] in "ai" else "a"
        return "" if is_right else f"must be {article} {kind}, but its part is {value.kind}"
    if field.kind in (*MEDIA_KINDS, "mask"):
        return ""  # the user's own code creates it from JSON
    expected: str = "list" if field.kind == "any" and field.name in LIST_ITEM_KINDS else field.kind
    if field.name in _SINGLE_ITEM_FIELDS and _KIND_PREDICATES["text"](value):
        return ""
    if not _KIND_PREDICATES[expected](value):
        return f"must be {_KIND_PHRASES.get(expected, 'text')}, but is {_describe_json_value(value)}"
    item = LIST_ITEM_KINDS.get(field.name)
    if item is not None and isinstance(value, list):
        index = next((i for i, each in enumerate(value) if not _KIND_PREDICATES[item](each)), None)
        if index is not None:
            plural = {"text": "texts", "number": "numbers", "integer": "whole numbers"}[item]
            return f"must be a list of {plural}, but item {index} is {_describe_json_value(value[index])}"
    return ""


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KIND_PREDICATES: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: _is_integer(value) or isinstance(value, float),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "any": lambda value: True,  # noqa: ARG005
}


def _find_inconsistencies(values: Mapping[str, Any]) -> list[str]:
    """Describe fields that contradict each other."""
    inconsistencies = []
    choices, chosen = values.get("choices"), values.get("correct_choice_idx")
    if isinstance(choices, list) and isinstance(chosen, int) and not 0 <= chosen < len(choices):
        inconsistencies.append(f"correct_choice_idx is {chosen}, but there are {len(choices)} choices")
    for one, other in _PARALLEL_LISTS:
        first, second = values.get(one), values.get(other)
        if isinstance(first, list) and isinstance(second, list) and len(first) != len(second):
            inconsistencies.append(f"{one} has {len(first)} items, but {other} {len(second)}")
    return inconsistencies


def _describe_json_value(value: Any) -> str:
    names = {
        str: "text",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)
