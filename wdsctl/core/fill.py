"""Which part, or which key of a JSON part, could fill one field of a sample type."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.evidence import PartFacts, percent
from wdsctl.core.field_path import Access, FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wdsctl.core.sample_types import Field

#: A field is filled by what at least this share of the samples have.
ENOUGH = 0.95

#: The usual names of a sample's one image, video or sound, the likeliest first.
_USUAL = {
    "image": ("jpg", "jpeg", "png", "webp", "image", "img", "avif", "tif", "tiff", "bmp", "gif", "jp2", "ppm"),
    "video": ("mp4", "video", "mov", "webm", "mkv", "avi", "m4v", "flv"),
    "audio": ("wav", "flac", "mp3", "audio", "opus", "ogg", "m4a", "aac"),
}
_TEXT_PARTS = ("txt", "text")
#: Further names, told apart by their content: a `label` that is text is a label's name, a `class` that is a number a
#: label.
_ALSO = {"label_name": ("label", "target", "cls"), "label": ("class", "category")}
#: JSON keys by the kind of field that they can fill.
_KEY_KINDS = {
    "text": {"text"},
    "integer": {"integer"},
    "number": {"integer", "number"},
    "list": {"list", "list of text", "list of numbers"},
    "object": {"object"},
}


class Filled(NamedTuple):
    """`quality` 0 to 1: how plainly it is this field. `share` of the samples have it. `name`: what it was known by."""

    path: FieldPath
    quality: float
    share: float
    name: str
    reason: str


class Unfilled(NamedTuple):
    reason: str


def fill(field: Field, facts: Sequence[PartFacts], taken: Iterable[str], *, lone_text: bool) -> Filled | Unfilled:
    """The best source of a field; `taken` are the paths that other fields use already.

    `lone_text`: any text part will do if it is the only one, whatever its name.
    """
    if field.kind in _USUAL:
        return _medium(field, facts)
    used = set(taken)
    options: list[Filled] = [*_parts_by_name(field, facts), *(_usual_text(field, facts) if lone_text else ())]
    options += _keys_by_name(field, facts, lists=lone_text)
    options += _only_text(field, facts) if lone_text else ()
    free = [option for option in options if str(option.path) not in used]
    for option in free:
        if option.share >= ENOUGH:
            return option
    if free:
        return Unfilled(f"no {field.name}: {free[0].path} is in {percent(free[0].share)} of samples only")
    return Unfilled(f"no {field.name}: {_instead(field, facts, lone_text=lone_text)}")


def _medium(field: Field, facts: Sequence[PartFacts]) -> Filled | Unfilled:
    usual = _USUAL[field.kind]
    found = [part for part in facts if part.kind == field.kind]
    if not found:
        named = [part for part in facts if part.name.lower().rpartition(".")[2] in usual]
        seen = "; ".join(f"{part.name} is in {percent(part.share)} of samples, {part.seen}" for part in named)
        return Unfilled(f"no {field.kind} part{seen and f': {seen}'}")
    # A part named `seg.png` belongs to something; the image itself has no dot, or a word such as `image`.
    best, *others = sorted(found, key=lambda part: (_rank(part, usual), -part.share, part.name))
    rivals = [part for part in others if _rank(part, usual) == _rank(best, usual) and part.share + best.share > 1.005]
    if rivals:
        names = ", ".join(part.name for part in found)
        return Unfilled(f"{len(found)} {field.kind} parts, and no telling which is meant: {names}")
    chosen = _with_alternatives(best, others)
    share = min(1.0, sum(part.share for part in chosen))
    names = ",".join(part.name for part in chosen)
    if share < ENOUGH:
        return Unfilled(f"no {field.kind} in every sample: {names} is in {percent(share)} only")
    path = FieldPath(tuple(Access(part.name) for part in chosen))
    reason = "; ".join(f"{part.name} is in {percent(part.share)} of samples, {part.seen}" for part in chosen)
    return Filled(path, 1.0, share, best.name, f"{field.name}: {reason}")


def _rank(part: PartFacts, usual: Sequence[str]) -> int:
    if part.name.lower() in usual:
        return usual.index(part.name.lower())
    if not part.prefix:
        return len(usual)
    return len(usual) + (1 if set(part.words) & set(usual) else 2)


def _with_alternatives(best: PartFacts, others: Sequence[PartFacts]) -> list[PartFacts]:
    """`best`, and the parts that samples without it may have instead: only as many as there are such samples."""
    chosen = [best]
    for part in sorted(others, key=lambda part: -part.share):
        if part.prefix == best.prefix and sum(one.share for one in chosen) + part.share <= 1.005:
            chosen.append(part)
    return chosen


def _parts_by_name(field: Field, facts: Sequence[PartFacts]) -> list[Filled]:
    names = _names(field)
    found = []
    for part in facts:
        name = next((name for name in names if name in part.words), "")
        if name and _part_fits(field, part):
            found.append(_whole_part(field, part, 1 - 0.01 * names.index(name), name))
    return sorted(found, key=lambda option: -option.quality)


def _part_fits(field: Field, part: PartFacts) -> bool:
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


def _usual_text(field: Field, facts: Sequence[PartFacts]) -> list[Filled]:
    named = [part for name in _TEXT_PARTS for part in facts if part.name.lower() == name and part.kind == "text"]
    return [_whole_part(field, part, 0.95, part.name) for part in named]


def _only_text(field: Field, facts: Sequence[PartFacts]) -> list[Filled]:
    texts = [part for part in facts if part.kind == "text"]
    return [_whole_part(field, part, 0.85, part.name, ", the only text part") for part in texts if len(texts) == 1]


def _whole_part(field: Field, part: PartFacts, quality: float, name: str, remark: str = "") -> Filled:
    reason = f"{field.name}: {part.name} is in {percent(part.share)} of samples, {part.seen}{remark}"
    return Filled(FieldPath((Access(part.name),)), quality, part.share, name, reason)


def _keys_by_name(field: Field, facts: Sequence[PartFacts], *, lists: bool) -> list[Filled]:
    names = _names(field)
    kinds = _KEY_KINDS.get(field.kind)
    found = []
    for part in facts:
        for key in part.keys:
            name = key.path[-1].lower().replace("-", "_")
            is_list = lists and field.kind == "text" and key.kind == "list of text"
            if name not in names or not (is_list or kinds is None or key.kind in kinds):
                continue
            path = FieldPath((Access(part.name, (*key.path, 0) if is_list else key.path),))
            quality = 1 - 0.01 * names.index(name) - 0.02 * (len(key.path) - 1) - 0.1 * is_list
            seen = f"{key.found} of {key.looked}"
            reason = f"{field.name}: {path} is in {percent(key.share)} of samples, {key.kind} ({seen} looked at)"
            found.append(Filled(path, quality, key.share, name, reason))
    return sorted(found, key=lambda option: -option.quality)


def _names(field: Field) -> tuple[str, ...]:
    return field.names + _ALSO.get(field.name, ())


def _instead(field: Field, facts: Sequence[PartFacts], *, lone_text: bool) -> str:
    """What there is where the field was looked for."""
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
    return "; ".join(facts_found) or f"nothing is named like it ({', '.join(_names(field)[:3])})"
