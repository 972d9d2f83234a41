"""Which sample type fits what was seen of a dataset, and why: evidence in, the answer and the rejected candidates out.

Every type is tried. One fits if all it needs is in at least 95 % of samples; among those that fit, the one that leaves
the least unused and fills the most wins. That nothing fits is a normal outcome, `CrudeSample`: a dict of the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.evidence import Evidence, KeyFact, PartEvidence, PartFacts, examine, percent
from wdsctl.core.field_path import Access, FieldPath
from wdsctl.core.fill import Filled, Unfilled, fill
from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Detection", "Evidence", "PartEvidence", "Rejected", "detect"]

_MEDIA = {"image", "video", "audio"}
#: What is there to be used: where nothing uses it, the type may be another.
_TOLD = _MEDIA | {"text", "integer", "number"}
#: Words in the names of keys that hold the name of a medium, and not the medium.
_REFERRING = {word + s for word in ("image", "img", "video", "audio", "clip", "sound", "photo") for s in ("", "s")} | {
    "media",
    "wav",
    "jpg",
    "mp4",
}
#: The types whose main text may be the only text part there is, whatever its name.
_LONE_TEXT = {"CaptioningSample": "caption", "TextSample": "text", "VideoSample": "text", "AudioSample": "text"}
_OCR_FIELDS = {field.name for field in SAMPLE_TYPES["OCRSample"]} - {"image", "text"}
#: Below this, somebody is asked.
SURE = 0.8
#: Two candidates nearer to each other than this are hard to tell apart.
_MARGIN = 0.06


class Rejected(NamedTuple):
    sample_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Detection:
    """`confidence` 0 to 1, and 0 where no type fits. `kinds`: what each part holds, such as `image/jpeg`.
    `unused_media`: parts with images, videos or sounds that no field is made of.

    `reasons` and the reason of a rejected candidate are short sentences for a terminal.
    """

    sample_type: str
    field_map: dict[str, str]
    confidence: float
    reasons: tuple[str, ...]
    rejected: tuple[Rejected, ...]
    kinds: dict[str, str]
    unused_media: tuple[str, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether it may be used without a question. Crude samples hand out everything, so nothing is guessed."""
        return self.sample_type == CRUDE or (self.confidence >= SURE and not self.unused_media)


class _Candidate(NamedTuple):
    sample_type: str
    filled: dict[str, Filled]
    unused: tuple[PartFacts, ...]
    confidence: float
    score: float


def detect(evidence: Evidence, *, of_lines: bool = False) -> Detection:
    """The sample type and the field map that fit best. Never fails: at worst the samples are crude.

    `of_lines`: the samples are lines of JSON, which hold no media but perhaps refer to some: only text can be all of
    them.
    """
    facts = tuple(examine(part, evidence.samples) for part in evidence.parts if part.samples)
    outcomes = [_text_in_lines(facts)] if of_lines else [_try(sample_type, facts) for sample_type in SAMPLE_TYPES]
    kinds = {part.name: part.label for part in facts}
    rejected = tuple(outcome for outcome in outcomes if isinstance(outcome, Rejected))
    # sorted() is stable: of equals, the type that SAMPLE_TYPES names first.
    fits = sorted((one for one in outcomes if isinstance(one, _Candidate)), key=lambda one: -one.score)
    if not fits:
        return Detection(CRUDE, {}, 0.0, _crude_reasons(facts), rejected, kinds)
    best, *others = fits
    rivals = [other for other in others if best.score - other.score < _MARGIN and not _is_part_of(other, best)]
    lost = tuple(Rejected(other.sample_type, _lost(best, other)) for other in others)
    field_map = {name: str(filled.path) for name, filled in best.filled.items()}
    confidence = round(best.confidence * (0.7 if rivals else 1.0), 2)
    unused = tuple(part.name for part in best.unused if part.kind in _MEDIA)
    reasons = _reasons(best, rivals, facts)
    return Detection(best.sample_type, field_map, confidence, reasons, lost + rejected, kinds, unused)


def _try(sample_type: str, facts: Sequence[PartFacts]) -> _Candidate | Rejected:
    filled: dict[str, Filled] = {}
    for field in SAMPLE_TYPES[sample_type]:
        taken = [str(other.path) for other in filled.values()]
        found = fill(field, facts, taken, lone_text=_LONE_TEXT.get(sample_type) == field.name)
        if isinstance(found, Filled):
            filled[field.name] = found
        elif field.required:
            return Rejected(sample_type, found.reason)
    why_not = _unmarked(sample_type, filled, facts)
    return Rejected(sample_type, why_not) if why_not else _weigh(sample_type, filled, facts)


def _text_in_lines(facts: Sequence[PartFacts]) -> _Candidate | Rejected:
    """The one type that samples in lines may have, unless they refer to media: these belong to the samples too."""
    keys = [str(FieldPath((Access(part.name, key.path),))) for part in facts for key in part.keys if _refers(key)]
    if keys:
        return Rejected("TextSample", f"{', '.join(keys)} may name media, which a cooker brings to the text")
    found = _try("TextSample", facts)
    if isinstance(found, _Candidate) and not all(access.steps for access in found.filled["text"].path.alternatives):
        return Rejected("TextSample", "no key of the objects is named like text")
    return found


def _refers(key: KeyFact) -> bool:
    words = set(key.path[-1].lower().replace("-", "_").split("_"))
    return bool(words & _REFERRING) and key.kind in ("text", "list of text", "object", "list")


def _unmarked(sample_type: str, filled: Mapping[str, Filled], facts: Sequence[PartFacts]) -> str:
    """Why the type does not fit although its required fields are filled: nothing tells it from a more general one."""
    match sample_type:
        case "ImageClassificationSample" if not {"label", "label_name"} & set(filled):
            return _no_label(facts)
        case "VQASample" | "VidQASample" if filled["context"].name == "prompt" and "answers" not in filled:
            return f"{filled['context'].path} may be a caption: there are no answers"
        case "MultiChoiceVQASample" if "choices" not in filled:
            return "no choices"
        case "OCRSample" | "VQAOCRSample" if not (_OCR_FIELDS & set(filled) or filled["text"].name != "text"):
            return f"{filled['text'].path} may be any text: nothing says that it stands in the image (ocr, words_boxes)"
        case "TextSample" if any(part.kind in _MEDIA for part in facts):
            return f"there are {', '.join(sorted({part.kind for part in facts} & _MEDIA))} parts"
    return ""


def _no_label(facts: Sequence[PartFacts]) -> str:
    tries = [
        fill(field, facts, (), lone_text=False)
        for field in SAMPLE_TYPES["ImageClassificationSample"]
        if not field.required
    ]
    return "; ".join(found.reason for found in tries[:1] if isinstance(found, Unfilled)) or "no label"


def _weigh(sample_type: str, filled: dict[str, Filled], facts: Sequence[PartFacts]) -> _Candidate:
    used = {access.part for one in filled.values() for access in one.path.alternatives}
    unused = tuple(part for part in facts if part.name not in used and part.share >= 0.05)
    kinds = {field.name: field.kind for field in SAMPLE_TYPES[sample_type]}
    required = [filled[field.name] for field in SAMPLE_TYPES[sample_type] if field.required]
    plain = min(one.quality for one in required) * min(one.share for one in required)
    costs = [(part, _cost(part, {kinds[name] for name in filled})) for part in unused]
    # However many records and arrays lie beside what is plain, nobody has to be asked for them.
    beside = sum(cost for part, cost in costs if part.kind not in _TOLD)
    cost = sum(cost for part, cost in costs if part.kind in _TOLD)
    confidence = max(0.05, plain - min(0.6, cost + min(0.1, beside)))
    weight = max(0.05, plain - min(0.6, cost + beside))
    detail = [name for name in filled if kinds[name] not in _MEDIA]
    is_marked = bool((_OCR_FIELDS | {"choices"}) & set(detail))
    return _Candidate(sample_type, filled, unused, confidence, weight + 0.05 * len(detail) + 0.1 * is_marked)


def _cost(part: PartFacts, kinds: set[str]) -> float:
    """What a part that nothing uses takes from the confidence. JSON is often a record of origins that nobody trains on;
    a text of its own, or a number of its own, is there to be used."""
    if part.kind in _MEDIA:
        return 0.15 if part.kind in kinds else 0.4
    return {"text": 0.3, "integer": 0.25, "number": 0.15, "json": 0.1}.get(part.kind, 0.05)


def _is_part_of(other: _Candidate, best: _Candidate) -> bool:
    """Whether it is the same with less: an image alone is no rival to an image with its caption."""
    return {str(one.path) for one in other.filled.values()} <= {str(one.path) for one in best.filled.values()}


def _lost(best: _Candidate, other: _Candidate) -> str:
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
    parts = [f"{part.name} is in {percent(part.share)} of samples, {part.seen}" for part in facts]
    return (
        "no sample type fits: samples are dicts of their parts",
        *parts,
        *(odd for part in facts for odd in part.oddities),
    )
