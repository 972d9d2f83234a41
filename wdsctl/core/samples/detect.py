"""Choose the sample type that fits the evidence: the type, its field map, the reasons, and the rejected candidates.

Detection tries every type. A type fits if at least 95 % of samples have all that it requires. Of the types that fit,
the one that leaves the fewest parts unused and fills the most fields wins. If none fits, the type is `CrudeSample`: a
dict of the parts. A table says which part, or which key of a JSON part, can fill each field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.media.kinds import media_extensions
from wdsctl.core.samples.evidence import Evidence, JsonKeyFacts, PartEvidence, PartFacts, examine_part, percent
from wdsctl.core.samples.fields import FieldPath, PartAccess
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wdsctl.core.samples.types import SampleField


#: A part or key can fill a field if at least this share of the samples have it.
MIN_FILLED_SHARE = 0.95

#: The usual part names of a sample's only image, video or audio, the likeliest first.
_USUAL_MEDIA_NAMES = {
    "image": (*media_extensions("image"), "image", "img"),
    "video": (*media_extensions("video"), "video"),
    "audio": (*media_extensions("audio"), "audio"),
}
_TEXT_PARTS = ("txt", "text")
#: Further names, whose content decides: `label` is the name of a label if it is text; `class` is a label if it is a
#: number.
_FURTHER_FIELD_NAMES = {"label_name": ("label", "target", "cls"), "label": ("class", "category")}
#: JSON keys by the kind of field that they can fill.
_KEY_KINDS = {
    "text": {"text"},
    "integer": {"integer"},
    "number": {"integer", "number"},
    "list": {"list", "list of text", "list of numbers"},
    "object": {"object"},
}


class FilledField(NamedTuple):
    """A source for a field.

    `quality`: 0 to 1, how clearly the source is this field. `share`: the share of samples that have it. `name`: the
    name by which detection recognised it.
    """

    path: FieldPath
    quality: float
    share: float
    name: str
    reason: str


class UnfilledField(NamedTuple):
    reason: str


def fill_field(
    field: SampleField, facts: Sequence[PartFacts], used_paths: Iterable[str], *, lone_text: bool
) -> FilledField | UnfilledField:
    """Return the best source of a field, or why there is none. `used_paths`: the paths that other fields use already.

    `lone_text`: the only text part is a source, whatever its name.
    """
    if field.kind in _USUAL_MEDIA_NAMES:
        return _fill_from_media(field, facts)
    used = set(used_paths)
    options: list[FilledField] = [
        *_parts_by_name(field, facts),
        *(_parts_named_text(field, facts) if lone_text else ()),
    ]
    options += _json_keys_by_name(field, facts, allow_lists=lone_text)
    options += _only_text(field, facts) if lone_text else ()
    free = [option for option in options if str(option.path) not in used]
    for option in free:
        if option.share >= MIN_FILLED_SHARE:
            return option
    if free:
        return UnfilledField(f"no {field.name}: {free[0].path} is in {percent(free[0].share)} of samples only")
    return UnfilledField(f"no {field.name}: {_describe_what_there_is(field, facts, lone_text=lone_text)}")


def _fill_from_media(field: SampleField, facts: Sequence[PartFacts]) -> FilledField | UnfilledField:
    usual = _USUAL_MEDIA_NAMES[field.kind]
    found = [part for part in facts if part.kind == field.kind]
    if not found:
        named = [part for part in facts if part.name.lower().rpartition(".")[2] in usual]
        seen = "; ".join(
            f"{part.name} is in {percent(part.share)} of samples, {part.content_summary}" for part in named
        )
        return UnfilledField(f"no {field.kind} part{seen and f': {seen}'}")
    # A part such as `seg.png` describes an image. The image itself has no dot in its name, or a word such as `image`.
    best, *others = sorted(found, key=lambda part: (_name_rank(part, usual), -part.share, part.name))
    rivals = [
        part
        for part in others
        if _name_rank(part, usual) == _name_rank(best, usual) and part.share + best.share > 1.005
    ]
    if rivals:
        names = ", ".join(part.name for part in found)
        return UnfilledField(f"{len(found)} {field.kind} parts, and no telling which is meant: {names}")
    chosen = _with_alternatives(best, others)
    share = min(1.0, sum(part.share for part in chosen))
    names = ",".join(part.name for part in chosen)
    if share < MIN_FILLED_SHARE:
        return UnfilledField(f"no {field.kind} in every sample: {names} is in {percent(share)} only")
    path = FieldPath(tuple(PartAccess(part.name) for part in chosen))
    reason = "; ".join(f"{part.name} is in {percent(part.share)} of samples, {part.content_summary}" for part in chosen)
    return FilledField(path, 1.0, share, best.name, f"{field.name}: {reason}")


def _name_rank(part: PartFacts, usual: Sequence[str]) -> int:
    if part.name.lower() in usual:
        return usual.index(part.name.lower())
    if not part.prefix:
        return len(usual)
    return len(usual) + (1 if set(part.name_words) & set(usual) else 2)


def _with_alternatives(best: PartFacts, others: Sequence[PartFacts]) -> list[PartFacts]:
    """Return `best` and parts that other samples have in its place.

    A part is an alternative only if no sample seems to have it together with `best`: their shares add up to at most 1.
    """
    chosen = [best]
    for part in sorted(others, key=lambda part: -part.share):
        if part.prefix == best.prefix and sum(one.share for one in chosen) + part.share <= 1.005:
            chosen.append(part)
    return chosen


def _parts_by_name(field: SampleField, facts: Sequence[PartFacts]) -> list[FilledField]:
    names = _field_names(field)
    found = []
    for part in facts:
        name = next((name for name in names if name in part.name_words), "")
        if name and _part_fits(field, part):
            found.append(_fill_from_part(field, part, 1 - 0.01 * names.index(name), name))
    return sorted(found, key=lambda option: -option.quality)


def _part_fits(field: SampleField, part: PartFacts) -> bool:
    match field.kind:
        case "text":
            return part.kind == "text"
        case "integer":
            return part.kind == "integer"
        case "number":
            return part.kind in {"integer", "number"}
        case "list":
            return part.label == "json/array"
        case "object":
            return part.label == "json/object"
        case _:
            return part.kind in {"text", "integer", "number"} or part.label == "json/array"


def _parts_named_text(field: SampleField, facts: Sequence[PartFacts]) -> list[FilledField]:
    named = [part for name in _TEXT_PARTS for part in facts if part.name.lower() == name and part.kind == "text"]
    return [_fill_from_part(field, part, 0.95, part.name) for part in named]


def _only_text(field: SampleField, facts: Sequence[PartFacts]) -> list[FilledField]:
    texts = [part for part in facts if part.kind == "text"]
    return [_fill_from_part(field, part, 0.85, part.name, ", the only text part") for part in texts if len(texts) == 1]


def _fill_from_part(field: SampleField, part: PartFacts, quality: float, name: str, remark: str = "") -> FilledField:
    reason = f"{field.name}: {part.name} is in {percent(part.share)} of samples, {part.content_summary}{remark}"
    return FilledField(FieldPath((PartAccess(part.name),)), quality, part.share, name, reason)


def _json_keys_by_name(field: SampleField, facts: Sequence[PartFacts], *, allow_lists: bool) -> list[FilledField]:
    names = _field_names(field)
    kinds = _KEY_KINDS.get(field.kind)
    found = []
    for part in facts:
        for key in part.keys:
            name = key.path[-1].lower().replace("-", "_")
            is_list = allow_lists and field.kind == "text" and key.kind == "list of text"
            if name not in names or not (is_list or kinds is None or key.kind in kinds):
                continue
            path = FieldPath((PartAccess(part.name, (*key.path, 0) if is_list else key.path),))
            quality = 1 - 0.01 * names.index(name) - 0.02 * (len(key.path) - 1) - 0.1 * is_list
            seen = f"{key.found} of {key.examined}"
            reason = f"{field.name}: {path} is in {percent(key.share)} of samples, {key.kind} ({seen} looked at)"
            found.append(FilledField(path, quality, key.share, name, reason))
    return sorted(found, key=lambda option: -option.quality)


def _field_names(field: SampleField) -> tuple[str, ...]:
    return field.json_names + _FURTHER_FIELD_NAMES.get(field.name, ())


def _describe_what_there_is(field: SampleField, facts: Sequence[PartFacts], *, lone_text: bool) -> str:
    """List the parts and JSON keys in which detection looked for the field."""
    facts_found = []
    texts = [part.name for part in facts if part.kind == "text"]
    if field.kind == "text" and not lone_text and texts:
        facts_found.append(f"{', '.join(texts)} may be any text")
    elif field.kind == "text":
        facts_found.append(
            f"{len(texts)} text parts, none named like it: {', '.join(texts)}" if texts else "no text part"
        )
    for part in (part for part in facts if part.keys):
        keys = [key.path[0] for key in part.keys if len(key.path) == 1]
        more = f" and {len(keys) - 6} more" if len(keys) > 6 else ""
        facts_found.append(f"{part.name} has {', '.join(keys[:6])}{more}")
    return "; ".join(facts_found) or f"nothing is named like it ({', '.join(_field_names(field)[:3])})"


__all__ = ["Detection", "Evidence", "PartEvidence", "RejectedSampleType", "infer_sample_type"]

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
#: Types whose main text may be the only text part, whatever its name.
_LONE_TEXT_FIELDS = {"CaptioningSample": "caption", "TextSample": "text", "VideoSample": "text", "AudioSample": "text"}
_OCR_FIELDS = {field.name for field in SAMPLE_TYPES["OCRSample"]} - {"image", "text"}
#: Below this confidence, the user has to confirm the type.
MIN_SURE_CONFIDENCE = 0.8
#: Candidates whose scores differ by less than this are rivals.
_RIVAL_MARGIN = 0.06


class RejectedSampleType(NamedTuple):
    sample_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Detection:
    """The detected sample type and field map, with reasons.

    `confidence`: 0 to 1; 0 if no type fits. `kinds`: the content of each part, such as `image/jpeg`. `unused_media`:
    parts with images, video or audio that no field uses. `reasons`, and the reason of a rejected candidate, are short
    sentences for a terminal.
    """

    sample_type: str
    field_map: dict[str, str]
    confidence: float
    reasons: tuple[str, ...]
    rejected: tuple[RejectedSampleType, ...]
    kinds: dict[str, str]
    unused_media: tuple[str, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether the type needs no confirmation by the user. `CrudeSample` never does: it hands out every part."""
        return self.sample_type == CRUDE or (self.confidence >= MIN_SURE_CONFIDENCE and not self.unused_media)


class _Candidate(NamedTuple):
    sample_type: str
    filled: dict[str, FilledField]
    unused: tuple[PartFacts, ...]
    confidence: float
    score: float


def infer_sample_type(evidence: Evidence, *, is_jsonl: bool = False) -> Detection:
    """Return the sample type and the field map that fit best. Never fails: if no type fits, it is `CrudeSample`.

    `is_jsonl`: the samples are lines of JSON, which hold no media but may refer to some, so that only `TextSample` can
    fit.
    """
    facts = tuple(examine_part(part, evidence.samples) for part in evidence.parts if part.samples)
    outcomes = (
        [_try_jsonl_text(facts)] if is_jsonl else [_try_sample_type(sample_type, facts) for sample_type in SAMPLE_TYPES]
    )
    kinds = {part.name: part.label for part in facts}
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, RejectedSampleType))
    # sorted() is stable: of equal scores, the type that comes first in SAMPLE_TYPES wins.
    fits = sorted((one for one in outcomes if isinstance(one, _Candidate)), key=lambda one: -one.score)
    if not fits:
        return Detection(CRUDE, {}, 0.0, _crude_reasons(facts), rejected, kinds)
    best, *others = fits
    rivals = [other for other in others if best.score - other.score < _RIVAL_MARGIN and not _is_subset_of(other, best)]
    lost = tuple(RejectedSampleType(other.sample_type, _why_lost(best, other)) for other in others)
    field_map = {name: str(filled.path) for name, filled in best.filled.items()}
    confidence = round(best.confidence * (0.7 if rivals else 1.0), 2)
    unused = tuple(part.name for part in best.unused if part.kind in _MEDIA)
    reasons = _reasons(best, rivals, facts)
    return Detection(best.sample_type, field_map, confidence, reasons, lost + rejected, kinds, unused)


def _try_sample_type(sample_type: str, facts: Sequence[PartFacts]) -> _Candidate | RejectedSampleType:
    filled: dict[str, FilledField] = {}
    for field in SAMPLE_TYPES[sample_type]:
        taken = [str(other.path) for other in filled.values()]
        found = fill_field(field, facts, taken, lone_text=_LONE_TEXT_FIELDS.get(sample_type) == field.name)
        if isinstance(found, FilledField):
            filled[field.name] = found
        elif field.required:
            return RejectedSampleType(sample_type, found.reason)
    why_not = _why_too_general(sample_type, filled, facts)
    return RejectedSampleType(sample_type, why_not) if why_not else _score_candidate(sample_type, filled, facts)


def _try_jsonl_text(facts: Sequence[PartFacts]) -> _Candidate | RejectedSampleType:
    """Try `TextSample`, the only type for JSONL.

    Lines that refer to media do not fit, because the media belong to the sample.
    """
    keys = [
        str(FieldPath((PartAccess(part.name, key.path),)))
        for part in facts
        for key in part.keys
        if _refers_to_media(key)
    ]
    if keys:
        return RejectedSampleType("TextSample", f"{', '.join(keys)} may name media, which a cooker brings to the text")
    found = _try_sample_type("TextSample", facts)
    if isinstance(found, _Candidate) and not all(access.steps for access in found.filled["text"].path.alternatives):
        return RejectedSampleType("TextSample", "no key of the objects is named like text")
    return found


def _refers_to_media(key: JsonKeyFacts) -> bool:
    words = set(key.path[-1].lower().replace("-", "_").split("_"))
    return bool(words & _MEDIA_REFERENCE_WORDS) and key.kind in ("text", "list of text", "object", "list")


def _why_too_general(sample_type: str, filled: Mapping[str, FilledField], facts: Sequence[PartFacts]) -> str:
    """Return why a type does not fit although its required fields are filled; empty if it fits.

    It does not fit if nothing distinguishes it from a more general type.
    """
    match sample_type:
        case "ImageClassificationSample" if not {"label", "label_name"} & set(filled):
            return _why_no_label(facts)
        case "VQASample" | "VidQASample" if filled["context"].name == "prompt" and "answers" not in filled:
            return f"{filled['context'].path} may be a caption: there are no answers"
        case "MultiChoiceVQASample" if "choices" not in filled:
            return "no choices"
        case "OCRSample" | "VQAOCRSample" if not (_OCR_FIELDS & set(filled) or filled["text"].name != "text"):
            return f"{filled['text'].path} may be any text: nothing says that it stands in the image (ocr, words_boxes)"
        case "TextSample" if any(part.kind in _MEDIA for part in facts):
            return f"there are {', '.join(sorted({part.kind for part in facts} & _MEDIA))} parts"
    return ""


def _why_no_label(facts: Sequence[PartFacts]) -> str:
    tries = [
        fill_field(field, facts, (), lone_text=False)
        for field in SAMPLE_TYPES["ImageClassificationSample"]
        if not field.required
    ]
    return "; ".join(found.reason for found in tries[:1] if isinstance(found, UnfilledField)) or "no label"


def _score_candidate(sample_type: str, filled: dict[str, FilledField], facts: Sequence[PartFacts]) -> _Candidate:
    used = {access.part for one in filled.values() for access in one.path.alternatives}
    unused = tuple(part for part in facts if part.name not in used and part.share >= 0.05)
    kinds = {field.name: field.kind for field in SAMPLE_TYPES[sample_type]}
    required = [filled[field.name] for field in SAMPLE_TYPES[sample_type] if field.required]
    plain = min(one.quality for one in required) * min(one.share for one in required)
    costs = [(part, _unused_part_cost(part, {kinds[name] for name in filled})) for part in unused]
    # Unused records and arrays lower the confidence by 0.1 at most: they alone need no confirmation by the user.
    extra_cost = sum(cost for part, cost in costs if part.kind not in _USEFUL_KINDS)
    cost = sum(cost for part, cost in costs if part.kind in _USEFUL_KINDS)
    confidence = max(0.05, plain - min(0.6, cost + min(0.1, extra_cost)))
    weight = max(0.05, plain - min(0.6, cost + extra_cost))
    detail = [name for name in filled if kinds[name] not in _MEDIA]
    is_marked = bool((_OCR_FIELDS | {"choices"}) & set(detail))
    return _Candidate(sample_type, filled, unused, confidence, weight + 0.05 * len(detail) + 0.1 * is_marked)


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


def _why_lost(best: _Candidate, other: _Candidate) -> str:
    unused = [part.name for part in other.unused if part not in best.unused]
    if unused:
        return f"it would leave {', '.join(unused)} unused"
    fewer = len(other.filled) < len(best.filled)
    return "it fits, and fills fewer fields" if fewer else f"it fits less plainly than {best.sample_type}"


def _reasons(best: _Candidate, rivals: Sequence[_Candidate], facts: Sequence[PartFacts]) -> tuple[str, ...]:
    reasons = [filled.reason for filled in best.filled.values()]
    if best.unused:
        reasons.append("not used: " + ", ".join(f"{part.name} ({part.label})" for part in best.unused))
    reasons += [oddity for part in facts for oddity in part.oddities]
    if rivals:
        reasons.append(f"{' and '.join(rival.sample_type for rival in rivals)} would fit nearly as well")
    return tuple(reasons)


def _crude_reasons(facts: Sequence[PartFacts]) -> tuple[str, ...]:
    if not facts:
        return ("there are no samples to look at",)
    parts = [f"{part.name} is in {percent(part.share)} of samples, {part.content_summary}" for part in facts]
    return (
        "no sample type fits: samples are dicts of their parts",
        *parts,
        *(odd for part in facts for odd in part.oddities),
    )
