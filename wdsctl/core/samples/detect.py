"""Choose the sample type that fits the evidence: the type, its field map, the reasons, and the rejected candidates.

A type fits if at least 95 % of samples have all that it requires (`fill` finds the sources of its fields), half of them
for the text that belongs to a medium, and if the table `_TYPES` finds something in them that a more general type lacks.
Its score is the quality of its weakest required field, less a cost for every part that it leaves unused, more for every
field that it fills. The best score wins. If no type fits, the samples are `CrudeSample`: dicts of the parts.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.samples.evidence import (
    Evidence,
    JsonKeyFacts,
    PartEvidence,
    PartFacts,
    examine_part,
    find_class_names,
    percent,
)
from wdsctl.core.samples.field_path import FieldPath, PartAccess
from wdsctl.core.samples.fields import find_parts
from wdsctl.core.samples.fill import (
    MIN_FILLED_SHARE,
    MIN_PARTIAL_SHARE,
    FilledField,
    fill_field,
    is_label_key,
    is_text_key,
)
from wdsctl.core.samples.geometry import is_geometry_name
from wdsctl.core.samples.types import CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wdsctl.core.samples.types import SampleField


__all__ = ["Detection", "Evidence", "PartEvidence", "RejectedSampleType", "infer_sample_type"]

#: Keys of the annotations of a sample: VIA, SuperAnnotate, LabelMe, COCO.
_ANNOTATION_LISTS = frozenset(("regions", "instances", "objects", "shapes", "annotations"))
_TARGETS = frozenset(("ground_truth", "groundtruth", "gt_parse"))  # Donut

#: Below this confidence, the user has to confirm the type.
MIN_SURE_CONFIDENCE = 0.8
#: Candidates whose scores differ by less than this are rivals.
_RIVAL_MARGIN = 0.06

_MEDIA = {"image", "video", "audio"}
#: Kinds of parts that a type should use: if it leaves them unused, another type may be right.
_USEFUL_KINDS = _MEDIA | {"text", "integer", "number"}
#: Words in JSON keys whose value is the name of a medium, not the medium.
_MEDIA_REFERENCE_WORDS = {
    word + s for word in ("image", "img", "video", "audio", "clip", "sound", "photo") for s in ("", "s")
} | {
    "media",
    "wav",
    "jpg",
    "mp4",
}
#: Fields that hold what a text, a label, or the boxes of a sample say.
_TEXTS = {"caption", "captions", "text", "texts", "context", "messages", "prompt", "sequence"}
_LABELS = {"label", "label_name", "labels", "label_names", "answers", "choices"}
_BOXES = {"boxes", "mask", "masks", "segments"}
#: Kinds of parts that may be metadata, or that are not known.
_RECORDS = _MEDIA | {"number", "json", "empty", "unknown", "mixed"}
_CORNERS = frozenset({"xmin", "ymin", "xmax", "ymax"})
_UNREAD_COST = 0.3
_OCR_FIELDS = tuple(field.name for field in SAMPLE_TYPES["OCRSample"] if field.name not in ("image", "text"))


class _TypeRule(NamedTuple):
    """What distinguishes a type.

    `any_text`: the field that the only text fills, whatever its name. `marks`: the type fits only with one of these
    fields, or if the field `weak[0]` has another name than `weak[1]`, which would say nothing. `without`: why it does
    not fit otherwise; empty if the first mark's absence says it. `bonus`: added to the score for a mark. `needs_media`:
    whether samples without media never have this type.
    """

    any_text: str = ""
    marks: tuple[str, ...] = ()
    weak: tuple[str, str] = ("", "")
    without: str = ""
    bonus: float = 0.0
    needs_media: bool = True


_QUESTION = _TypeRule("", ("answers",), ("context", "prompt"), "{} may be a caption: the samples have no answers")
_OCR = _TypeRule(
    "",
    _OCR_FIELDS,
    ("text", "text"),
    "{} may be any text: no sign that the image shows it (ocr, words_boxes)",
    bonus=0.1,
)
_TYPES: dict[str, _TypeRule] = {
    "CaptioningSample": _TypeRule("caption"),
    "ImageClassificationSample": _TypeRule(marks=("label", "label_name")),
    "TextSample": _TypeRule("text", needs_media=False),
    "VQASample": _QUESTION,
    "VidQASample": _QUESTION,
    "MultiChoiceVQASample": _TypeRule(marks=("choices",), without="no choices", bonus=0.1),
    "OCRSample": _OCR,
    "VQAOCRSample": _OCR,
    "VideoSample": _TypeRule("text"),
    "AudioSample": _TypeRule("text"),
    # A text beside audio may describe a sound as well as transcribe speech: AudioSample takes both.
    "TranscriptionSample": _TypeRule(
        "text",
        ("language", "speaker", "segments"),
        without="no part shows that {} is a transcript (language, speaker, segments)",
        bonus=0.1,
    ),
    "DetectionSample": _TypeRule(marks=("boxes",), bonus=0.1),
    "InterleavedSample": _TypeRule(marks=("sequence",), bonus=0.1),
    "ConversationSample": _TypeRule(marks=("messages",), bonus=0.1, needs_media=False),
    "PreferenceSample": _TypeRule(marks=("chosen",), bonus=0.1, needs_media=False),
}


def _type_rule(sample_type: str) -> _TypeRule:
    return _TYPES.get(sample_type, _TypeRule())


class RejectedSampleType(NamedTuple):
    sample_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Detection:
    """The detected sample type and field map, with reasons.

    `confidence`: 0 to 1; 0 if no type fits. `rejected`: all other types, the next best first. `kinds`: the content of
    each part, such as `image/jpeg`. `unread`: what no field uses although it carries meaning: parts with media or
    arrays, and the only text, label or boxes. `optional`: the fields that some samples may lack. `json_keys`: the keys
    that the examined objects of each part have. `reasons`, and the reason of a rejected candidate, are short sentences
    for a terminal. `not_utf8`: of parts with text in another encoding, how many among how many that were read.
    """

    sample_type: str
    field_map: dict[str, str]
    confidence: float
    reasons: tuple[str, ...]
    rejected: tuple[RejectedSampleType, ...]
    kinds: dict[str, str]
    unread: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    json_keys: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    not_utf8: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @property
    def is_sure(self) -> bool:
        """Whether the type needs no confirmation by the user. `CrudeSample` never does: it hands out every part."""
        return self.sample_type == CRUDE or (self.is_confident and not self.unread)

    @property
    def is_confident(self) -> bool:
        """Whether the samples have this type rather than another one."""
        return self.confidence >= MIN_SURE_CONFIDENCE


class _Candidate(NamedTuple):
    sample_type: str
    filled: dict[str, FilledField]
    unused: tuple[PartFacts, ...]
    unread: tuple[str, ...]
    confidence: float
    score: float


class _Misfit(NamedTuple):
    """A type that does not fit. `has`: the share of its required fields that are filled."""

    sample_type: str
    reason: str
    has: float


def infer_sample_type(evidence: Evidence, *, is_jsonl: bool = False) -> Detection:
    """Return the sample type and the field map that fit best. Never fails: if no type fits, it is `CrudeSample`.

    `is_jsonl`: the samples are lines of JSON, which hold no media but may refer to some, so that only types without
    media can fit.
    """
    evidence = replace(evidence, parts=tuple(part for part in evidence.parts if part.samples))
    facts = find_class_names(evidence, [examine_part(part, evidence.samples) for part in evidence.parts])
    names = [name for name in SAMPLE_TYPES if not (is_jsonl and _type_rule(name).needs_media)]
    outcomes = [_try_jsonl(name, facts) if is_jsonl else _try_sample_type(name, facts) for name in names]
    kinds = {part.name: part.label for part in facts}
    json_keys = {part.name: tuple(dict.fromkeys(str(key.path[0]) for key in part.keys)) for part in facts if part.keys}
    not_utf8 = {part.name: (part.not_utf8, part.read) for part in facts if part.not_utf8}
    # sorted() is stable: of equal scores, the type that comes first in SAMPLE_TYPES wins.
    misfits = sorted((one for one in outcomes if isinstance(one, _Misfit)), key=lambda one: -one.has)
    fits = sorted((one for one in outcomes if isinstance(one, _Candidate)), key=lambda one: -one.score)
    rejected = tuple(RejectedSampleType(one.sample_type, one.reason) for one in misfits)
    if not fits:
        reasons = _crude_reasons(facts)
        return Detection(CRUDE, {}, 0.0, reasons, rejected, kinds, json_keys=json_keys, not_utf8=not_utf8)
    best, *others = fits
    rivals = [other for other in others if best.score - other.score < _RIVAL_MARGIN and not _is_subset_of(other, best)]
    lost = tuple(RejectedSampleType(other.sample_type, _rejection_reason(best, other)) for other in others)
    return Detection(
        best.sample_type,
        {name: str(filled.path) for name, filled in best.filled.items()},
        round(best.confidence * _tie_factor(best, rivals), 2),
        _reasons(best, rivals, facts),
        lost + rejected,
        kinds,
        best.unread,
        tuple(
            field.name
            for field in SAMPLE_TYPES[best.sample_type]
            if field.name in best.filled
            and (field.kind in MEDIA_LIST_KINDS or _may_be_none(field, best.filled[field.name]))
        ),
        json_keys=json_keys,
        not_utf8=not_utf8,
    )


def _may_be_none(field: SampleField, filled: FilledField) -> bool:
    """Whether the field is None in the samples that lack it. The loader skips samples without a required field."""
    return not field.required and filled.share < MIN_FILLED_SHARE


def _try_sample_type(sample_type: str, facts: Sequence[PartFacts]) -> _Candidate | _Misfit:
    rule = _type_rule(sample_type)
    fields = SAMPLE_TYPES[sample_type]
    has_media = any(field.required and field.kind in _MEDIA for field in fields)
    filled: dict[str, FilledField] = {}
    missing: dict[str, str] = {}
    for field in fields:
        taken = [str(other.path) for other in filled.values()]
        # Without this, the captions of most images would be left unused because some are missing.
        may_lack = (field.name in rule.marks and not field.required) or (field.name == rule.any_text and has_media)
        least = MIN_PARTIAL_SHARE if may_lack else MIN_FILLED_SHARE
        found = fill_field(field, facts, taken, lone_text=rule.any_text == field.name, min_share=least)
        if isinstance(found, FilledField):
            filled[field.name] = found
        else:
            missing[field.name] = found.reason
    required = [field.name for field in fields if field.required]
    has = sum(name in filled for name in required) / len(required)
    why_not = next((missing[name] for name in required if name in missing), "")
    why_not = why_not or _why_too_general(sample_type, rule, filled, missing, facts)
    return _Misfit(sample_type, why_not, has) if why_not else _score_candidate(sample_type, rule, filled, facts)


def _try_jsonl(sample_type: str, facts: Sequence[PartFacts]) -> _Candidate | _Misfit:
    """Try a type for lines of JSON.

    Lines that refer to media do not fit, because the media belong to the sample.
    """
    keys = [
        str(FieldPath((PartAccess(part.name, key.path),)))
        for part in facts
        for key in part.keys
        if _refers_to_media(key)
    ]
    if keys:
        return _Misfit(sample_type, f"{', '.join(keys)} may name media that a cooker loads", 0.0)
    found = _try_sample_type(sample_type, facts)
    is_whole_line = isinstance(found, _Candidate) and not any(
        access.steps for filled in found.filled.values() for access in filled.path.alternatives
    )
    if sample_type == "TextSample" and is_whole_line:
        return _Misfit(sample_type, "too few lines have text in a key with a name for text", 0.0)
    return found


def _refers_to_media(key: JsonKeyFacts) -> bool:
    words = set(str(key.path[-1]).lower().replace("-", "_").split("_"))
    is_name = bool(words & _MEDIA_REFERENCE_WORDS) and (key.kind in ("text", "object") or key.kind.startswith("list"))
    return is_name or key.kind == "conversation with media"


def _why_too_general(
    sample_type: str,
    rule: _TypeRule,
    filled: Mapping[str, FilledField],
    missing: Mapping[str, str],
    facts: Sequence[PartFacts],
) -> str:
    """Return why a type does not fit although its required fields are filled; empty if it fits."""
    media = sorted({part.kind for part in facts} & _MEDIA)
    if sample_type == "TextSample" and media:
        return f"the samples have {', '.join(media)} parts"
    if sample_type == "ConversationSample" and not media and "with media" in filled["messages"].reason:
        return "the turns refer to media, but the samples have no media parts"
    field, name = rule.weak
    if not rule.marks or set(rule.marks) & set(filled) or (field in filled and filled[field].name != name):
        return ""
    text = next((filled[each].path for each in (field, rule.any_text) if each in filled), "")
    return rule.without.format(text) if rule.without else missing[rule.marks[0]]


def _score_candidate(
    sample_type: str, rule: _TypeRule, filled: dict[str, FilledField], facts: Sequence[PartFacts]
) -> _Candidate:
    kinds = {field.name: field.kind for field in SAMPLE_TYPES[sample_type]}
    names = [part.name for part in facts]
    used = {part for name, one in filled.items() for part in find_parts(one.path, names, kinds[name])}
    unused = tuple(part for part in facts if part.name not in used and part.share >= 0.05)
    required = [filled[field.name] for field in SAMPLE_TYPES[sample_type] if field.required]
    marks = [filled[name] for name in rule.marks if name in filled]
    required += [max(marks, key=lambda mark: mark.quality)._replace(share=1.0)] if marks else []
    quality, share = min(one.quality for one in required), min(one.share for one in required)
    # A missing text makes the type uncertain. It hardly makes a type without the text better.
    rank = quality * share if share >= MIN_FILLED_SHARE else quality - 0.1 * (1 - share)
    costs = [(part, _unused_part_cost(part, {kinds[name] for name in filled})) for part in unused]
    # Unused records and arrays lower the confidence by 0.1 at most: they alone need no confirmation by the user.
    extra_cost = sum(cost for part, cost in costs if part.kind not in _USEFUL_KINDS)
    cost = sum(cost for part, cost in costs if part.kind in _USEFUL_KINDS)
    confidence = max(0.05, quality * share - min(0.6, cost + min(0.1, extra_cost)))
    weight = max(0.05, rank - min(0.6, cost + extra_cost))
    details = [name for name in filled if kinds[name] not in _MEDIA]
    bonus = rule.bonus if set(rule.marks) & set(filled) else 0.0
    unread = tuple(_find_unread(filled, unused, facts))
    loss = _UNREAD_COST if unread else 0.0
    return _Candidate(sample_type, filled, unused, unread, confidence, weight + 0.05 * len(details) + bonus - loss)


def _find_unread(
    filled: Mapping[str, FilledField], unused: Sequence[PartFacts], facts: Sequence[PartFacts]
) -> Iterator[str]:
    """What carries meaning and no field uses: media; texts, labels, arrays and other files that most samples have; and
    sentences, labels or boxes in JSON, if no field has a text, a label or boxes.
    """
    yield from (part.name for part in unused if part.kind in _MEDIA or _has_meaning(part))
    used = {(access.part, access.steps) for one in filled.values() for access in one.path.alternatives}
    has_text, has_label, has_boxes = (not names.isdisjoint(filled) for names in (_TEXTS, _LABELS, _BOXES))
    # JSON beside a text in a part of its own is metadata, such as that of a web crawl.
    has_text_part = any(
        name in _TEXTS and not access.steps for name, one in filled.items() for access in one.path.alternatives
    )
    for part in facts:
        corners = {_corner_name(key) for key in part.keys}
        for key in part.keys:
            if key.share < MIN_PARTIAL_SHARE or any((part.name, key.path[:at]) in used for at in range(4)):
                continue
            is_text = not has_text and is_text_key(key)
            is_label = not (has_label or has_text_part) and is_label_key(key, by_value=not has_text and not has_boxes)
            is_box = not has_boxes and (_has_boxes(key) or (_corner_name(key) != "" and corners.issuperset(_CORNERS)))
            is_annotation = not (has_text or has_label or has_boxes) and _has_annotations(key)
            if is_text or is_label or is_box or is_annotation:
                yield str(FieldPath((PartAccess(part.name, key.path),)))


def _has_annotations(key: JsonKeyFacts) -> bool:
    """Whether a key has what a labelling tool or a document has: a list of objects, or the JSON to be predicted."""
    name = str(key.path[-1]).lower()
    return (name in _ANNOTATION_LISTS and key.kind == "list of objects") or (
        name in _TARGETS and key.kind in ("text", "object", "list of objects")
    )


def _has_meaning(part: PartFacts) -> bool:
    """Whether most samples have the part, and it is no record of JSON and no score."""
    return part.share >= MIN_PARTIAL_SHARE and part.kind not in _RECORDS


def _corner_name(key: JsonKeyFacts) -> str:
    name = str(key.path[-1]).lower().replace("_", "")
    return name if name in _CORNERS and key.kind in ("integer", "number", "text") else ""


def _has_boxes(key: JsonKeyFacts) -> bool:
    is_list = key.kind in ("list", "list of numbers", "list of lists", "list of objects")
    return is_list and is_geometry_name(str(key.path[-1]))


def _unused_part_cost(part: PartFacts, kinds: set[str]) -> float:
    """Return how much an unused part lowers the confidence.

    JSON often records the origin of a sample and is not for training. A text or a number in a part of its own is.
    """
    if part.kind in _MEDIA:
        return 0.15 if part.kind in kinds else 0.4
    return {"text": 0.3, "integer": 0.25, "number": 0.15, "json": 0.1}.get(part.kind, 0.05)


def _is_subset_of(other: _Candidate, best: _Candidate) -> bool:
    """Whether `best` uses all sources of `other`: an image alone is no rival to an image with a caption."""
    return {str(one.path) for one in other.filled.values()} <= {str(one.path) for one in best.filled.values()}


def _rejection_reason(best: _Candidate, other: _Candidate) -> str:
    unused = [part.name for part in other.unused if part not in best.unused]
    if unused:
        return f"it would leave {', '.join(unused)} unused"
    fewer = len(other.filled) < len(best.filled)
    return "it fits, but fills fewer fields" if fewer else f"it fits less well than {best.sample_type}"


def _tie_factor(best: _Candidate, rivals: Sequence[_Candidate]) -> float:
    """The factor of the confidence for types that would fit nearly as well.

    A rival that uses the same parts differs only in the keys of a JSON part, such as a label beside a caption: the type
    that is chosen loses no part, and the user can change it in dataset.yaml without new shards.
    """
    if not rivals:
        return 1.0
    parts = {access.part for filled in best.filled.values() for access in filled.path.alternatives}
    others = {access.part for rival in rivals for one in rival.filled.values() for access in one.path.alternatives}
    return 0.85 if others <= parts else 0.7


def _reasons(best: _Candidate, rivals: Sequence[_Candidate], facts: Sequence[PartFacts]) -> tuple[str, ...]:
    required = {field.name for field in SAMPLE_TYPES[best.sample_type] if field.required}
    reasons = []
    for name, filled in best.filled.items():
        others = "the loader skips the others" if name in required else "None in the others"
        reasons.append(f"{filled.reason}{f'; {others}' if filled.share < MIN_FILLED_SHARE else ''}")
    if best.unused:
        reasons.append("not used: " + ", ".join(f"{part.name} ({part.label})" for part in best.unused))
    reasons += [anomaly for part in facts for anomaly in part.anomalies]
    if rivals:
        reasons.append(f"{' and '.join(rival.sample_type for rival in rivals)} would fit nearly as well")
    return tuple(reasons)


def _crude_reasons(facts: Sequence[PartFacts]) -> tuple[str, ...]:
    if not facts:
        return ("the dataset has no samples to examine",)
    parts = [f"{part.name} is in {percent(part.share)} of samples, {part.content_summary}" for part in facts]
    return (
        "no sample type fits, so samples are dicts of parts",
        *parts,
        *(anomaly for part in facts for anomaly in part.anomalies),
    )
