"""Fill the fields of a sample type: the table of ways in which a part, or a key of a JSON part, can be the source of a
field, the clearest first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.core.media.kinds import media_extensions
from wdsctl.core.samples.clips import CLIP_KEYS
from wdsctl.core.samples.drawn_numbers import is_other_key
from wdsctl.core.samples.evidence import JsonKeyFacts, PartFacts, percent
from wdsctl.core.samples.field_path import EVERY_ITEM, FieldPath, PartAccess, PathStep
from wdsctl.core.samples.fields import find_parts
from wdsctl.core.samples.naming import MASK_WORDS
from wdsctl.core.samples.preferences import ANSWER_KEYS
from wdsctl.core.samples.subtitles import has_subtitle_extension
from wdsctl.core.samples.types import CAPTION_NAMES, CLIP_FIELD, MEDIA_LIST_KINDS, TRANSCRIPT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wdsctl.core.samples.types import SampleField


#: A part or key can fill a field if at least this share of the samples have it.
MIN_FILLED_SHARE = 0.95
#: The same for a field that distinguishes a type: the samples of a test set may lack their label, and some captions of
#: images may be missing.
MIN_PARTIAL_SHARE = 0.5
#: The usual part names of a sample's only image, video or audio, the likeliest first.
_USUAL_MEDIA_NAMES = {
    "image": (*media_extensions("image"), "image", "img"),
    "video": (*media_extensions("video"), "video"),
    "audio": (*media_extensions("audio"), "audio"),
}
#: Further names, whose content decides: `label` is the name of a label if it is text; `class` is a label if it is a
#: number.
_FURTHER_FIELD_NAMES = {
    "label_name": ("label", "target", "cls"),
    "label": ("class", "category"),
}
#: Further names of JSON keys, of which columns of tables are made.
_FURTHER_KEY_NAMES = {
    "caption": ("txt", "alt", "sentence", "comment"),
    "labels": ("categories", "category", "label", "class_id"),
    "label_names": ("categories", "label", "class", "class_name"),
}
_LISTS = ("list", "list of text", "list of numbers", "list of lists", "list of objects")
#: Whole parts by the kind of field that they can fill: kinds of content, or labels such as `json/array`.
_PART_KINDS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "integer": ("integer", "boolean"),
    "number": ("integer", "number"),
    "list": ("json/array",),
    "object": ("json/object",),
    "any": ("text", "integer", "number", "json/array"),
}
#: JSON keys by the kind of field that they can fill; the second table overrides it for fields by name.
_KEY_KINDS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "integer": ("integer", "boolean"),
    "number": ("integer", "number"),
    "list": _LISTS,
    "object": ("object",),
}
_KEY_KINDS_OF_FIELD: dict[str, tuple[str, ...]] = {
    "boxes": ("list of lists", "list"),  # "list of numbers" is one box
    "labels": ("list of numbers", "list of text", "list"),
    "label_names": ("list of text",),
    "captions": ("list of text",),
    "messages": ("conversation", "conversation with media"),
    # No text in JSON is a medium: `SimilarityInterleavedSample` takes decoded ones.
    **dict.fromkeys(("images", "audio", "video"), ()),
    **dict.fromkeys(ANSWER_KEYS, ("text", "object", "list of objects", "conversation", "conversation with media")),
}
#: Keys of an object that is a question, or an instruction, with its answer.
_PAIRS = (("instruction", "output"), ("instruction", "response"))
#: The same for objects without media: with an image, they are an answer to a question about it.
_TEXT_PAIRS = (("question", "answer"), ("question", "response"), ("prompt", "completion"), ("prompt", "response"))


_TEXT_NAMES = frozenset((*CAPTION_NAMES, *TRANSCRIPT_NAMES))
_LABEL_NAMES = frozenset(
    (
        "label",
        "labels",
        "label_name",
        "class",
        "class_id",
        "class_name",
        "cls",
        "category",
        "target",
        "sentiment",
        "emotion",
        "intent",
    )
)
#: Names of keys whose values repeat and are no classes.
_NO_CLASSES = frozenset(
    [
        "width",
        "height",
        "fps",
        "duration",
        "sample_rate",
        "format",
        "mode",
        "split",
        "subset",
        "fold",
        "source",
        "dataset",
        "license",
        "lang",
        "language",
        "status",
        "year",
        "index",
        "frame",
    ]
)
#: The factor of the quality of a source that only the user can tell from others.
_UNCERTAIN = 0.85


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


class _FillRule(NamedTuple):
    """A way to fill a field: sources are sought by `find`, the best first, and are of `quality` or a little less.

    `takes_any_text`: only for the field `_TypeRule.any_text`.
    """

    quality: float
    find: Callable[[SampleField, Sequence[PartFacts]], Iterable[FilledField]]
    takes_any_text: bool = False


def fill_field(
    field: SampleField,
    facts: Sequence[PartFacts],
    used_paths: Iterable[str],
    *,
    lone_text: bool,
    min_share: float = MIN_FILLED_SHARE,
) -> FilledField | UnfilledField:
    """Return the best source of a field, or why there is none. `used_paths`: the paths that other fields use already.

    `lone_text`: the only text part is a source, whatever its name. `min_share`: the share of the samples that must have
    a source; a source that more samples have comes first.
    """
    if field.kind in _USUAL_MEDIA_NAMES:
        return _fill_from_media(field, facts)
    used = set(used_paths)
    free = [
        found._replace(quality=found.quality * rule.quality)
        for rule in _FILL_RULES
        if lone_text or not rule.takes_any_text
        for found in sorted(rule.find(field, facts), key=lambda found: -found.quality)
        # Lists of other media have the same pattern, and subtitles are the text and its segments.
        if str(found.path) not in used or field.kind in MEDIA_LIST_KINDS or field.name == "segments"
    ]
    shares = (MIN_FILLED_SHARE, min_share)
    best = next((found for share in shares for found in free if found.share >= share), None)
    if best is not None:
        return best
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
    found = [part for part in found if not _is_mask(part)] or found
    best, *others = sorted(found, key=lambda part: (_name_rank(part, usual), -part.share, part.name))
    rivals = [
        part
        for part in others
        if _name_rank(part, usual) == _name_rank(best, usual) and part.share + best.share > 1.005
    ]
    if rivals:
        names = ", ".join(part.name for part in found)
        return UnfilledField(f"{len(found)} {field.kind} parts, and only one can be the field: {names}")
    # A few `MP4` among many `mp4` may not have been looked at.
    unseen = [part for part in facts if part.kind == "unknown" and part.name.lower() in usual]
    chosen = _with_alternatives(best, [*others, *unseen])
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


def _is_mask(part: PartFacts) -> bool:
    """Whether an image holds ids by its name. JPEG would change them."""
    return part.kind == "image" and part.format != "jpeg" and bool(MASK_WORDS & set(part.name_words))


def _parts_by_name(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    names = _field_names(field)
    for part in facts:
        name = next((name for name in names if name in part.name_words), "")
        if name and _part_fits(field, part):
            yield _from_part(field, part, name, penalty=0.01 * names.index(name))


def _masks(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    if field.kind == "mask":
        yield from (_from_part(field, part, part.name) for part in facts if _is_mask(part))


def _media_lists(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """All media of a type, which only some samples may have."""
    media = [part for part in facts if part.kind == MEDIA_LIST_KINDS.get(field.kind)]
    path = FieldPath((PartAccess("*", is_pattern=True),))
    names = find_parts(path, [part.name for part in media], field.kind)
    if names:
        listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        yield FilledField(path, 1.0, 1.0, "*", f"{field.name}: all {field.kind} of a sample ({listed})")


def _documents(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """JSON that is an interleaved document, whose images are parts in the order of their places."""
    images = [part.name for part in facts if part.kind == "image"]
    for part in facts if field.name == "sequence" else ():
        if (
            part.documents
            and (images or not any(part.places))
            and all(_are_in_order(each, images) for each in part.places)
        ):
            reason = f"{field.name}: {part.name} is a document in {percent(part.documents)} of samples"
            yield FilledField(FieldPath((PartAccess(part.name),)), 1.0, part.documents, part.name, reason)


def _are_in_order(places: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the places of images name parts in the order in which the loader lists them, or no parts at all."""
    names = [place.rpartition("/")[2] for place in places]
    path = FieldPath((PartAccess("*", is_pattern=True),))
    return not set(names) <= set(parts) or names == list(find_parts(path, set(names), "images"))


def _subtitles(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """Subtitles, whose cues are the segments of speech."""
    if field.name == "segments":
        yield from (_from_part(field, part, part.name) for part in _subtitle_parts(facts))


def _subtitle_parts(facts: Sequence[PartFacts]) -> list[PartFacts]:
    return [part for part in facts if part.kind == "text" and has_subtitle_extension(part.name)]


def _parts_called_text(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    for name in ("txt", "text"):
        for part in facts:
            if part.name.lower() == name and part.kind == "text" and not part.is_structured:
                yield _from_part(field, part, part.name)
    yield from (_from_part(field, part, part.name) for part in _subtitle_parts(facts))


def _names_of_numbers(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """Texts that name the classes whose numbers are in another part."""
    if field.name == "label_name":
        for part in facts:
            if part.names_of:
                yield _from_part(field, part, part.name, remark=f", one for each number in {part.names_of}")


def _only_text(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    texts = [part for part in facts if part.kind == "text"]
    if len(texts) == 1 and not texts[0].is_structured:
        yield _from_part(field, texts[0], texts[0].name, remark=", the only text part")


def _keys_with_sentences(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """Keys of JSON whose texts are sentences, whatever their names: the only one, or the only one that is named as such
    a field; else each, uncertain. Of several sentences, the first.
    """
    found = [(part, key) for part in facts for key in part.keys if key.is_prose and key.share >= MIN_PARTIAL_SHARE]
    named = [each for each in found if set(_name_of(each[1]).split("_")) & set(_field_names(field))] or found
    quality = 1.0 if len(named) == 1 else _UNCERTAIN
    for part, key in named:
        first = tuple(0 if step is EVERY_ITEM else step for step in key.path)
        is_list = key.kind != "text" and EVERY_ITEM not in key.path
        takes_one = EVERY_ITEM in key.path and field.name != "caption"  # one object of many is not the sample's text
        sure = _UNCERTAIN if takes_one else quality
        yield _from_value(field, part, key, (*first, 0) if is_list else first, sure, "sentences")


def _lists_of_sentences(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """The only list of sentences, whatever its name."""
    found = [(part, key) for part in facts for key in part.keys if key.is_prose and key.kind != "text"]
    if field.name == "captions" and len(found) == 1:
        yield _from_value(field, *found[0], found[0][1].path, 1.0, "sentences")


def _from_value(
    field: SampleField, part: PartFacts, key: JsonKeyFacts, steps: tuple[PathStep, ...], quality: float, values: str
) -> FilledField:
    path = FieldPath((PartAccess(part.name, steps),))
    reason = (
        f"{field.name}: {path} is in {percent(key.share)} of samples, {values} ({key.found} of {key.examined} read)"
    )
    return FilledField(path, quality, key.share, _name_of(key), reason)


def is_text_key(key: JsonKeyFacts) -> bool:
    """Whether a key is a text by its name, or because its texts are sentences."""
    return key.is_prose or (_name_of(key) in _TEXT_NAMES and key.kind in ("text", "list of text"))


def is_label_key(key: JsonKeyFacts, *, by_value: bool) -> bool:
    """Whether a key is a label by its name, or, with `by_value`, because samples repeat its values."""
    name = _name_of(key)
    if name in _LABEL_NAMES:
        return key.kind in ("text", "integer", "number") or key.kind.startswith("list")
    return by_value and key.is_class and name not in _NO_CLASSES and not is_other_key(name)


def _keys_with_classes(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """Keys of JSON whose values samples repeat, as they do the names of classes: uncertain, since others do, too."""
    for part in facts:
        for key in part.keys:
            is_number = key.kind == "integer" or key.spelled_share > 0
            if (
                field.name == ("label" if is_number else "label_name")
                and key.is_class
                and is_label_key(key, by_value=True)
            ):
                yield _from_value(field, part, key, key.path, _UNCERTAIN, "values that repeat")


def _keys_by_name(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    kinds = _KEY_KINDS_OF_FIELD.get(field.name, _KEY_KINDS.get(field.kind))
    for part in facts:
        clips = _find_clips(part) if field.name == CLIP_FIELD.name else set()
        for key in part.keys:
            if field.name == "labels" and key.kind == "list of text" and _name_of(key) not in field.json_names:
                continue  # `category` is a list of names
            if field.name == CLIP_FIELD.name and key.path not in clips:
                continue
            if kinds is None or key.kind in kinds or (field.kind == "integer" and key.spelled_share):
                # `messages` takes the whole object, whose system prompt and tools belong to the conversation.
                is_whole = field.name == "messages" and len(key.path) == 1
                yield from _from_key(field, part, key, () if is_whole else key.path)


def _find_clips(part: PartFacts) -> set[tuple[str | None, ...]]:
    """The paths of the objects that have the start of a clip, and no other names than those of its range."""
    names_by_path: dict[tuple[str | None, ...], set[str | None]] = {}
    for key in part.keys:
        names_by_path.setdefault(key.path[:-1], set()).add(key.path[-1])
    ranges = CLIP_KEYS.values()
    return {path for path, inside in names_by_path.items() if any({*each[:1]} <= inside <= {*each} for each in ranges)}


def _objects_of_pairs(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """Objects that are a question with its answer, or a prompt with two answers."""
    pairs = {"prompt": (ANSWER_KEYS,), "messages": _PAIRS}.get(field.name, ())
    if field.name == "messages" and not any(part.kind in _USUAL_MEDIA_NAMES for part in facts):
        pairs += _TEXT_PAIRS
    for part in facts:
        keys = {key.path[0]: key for key in part.keys if len(key.path) == 1}
        for pair in pairs:
            kinds = _KEY_KINDS_OF_FIELD[ANSWER_KEYS[0]] if pair == ANSWER_KEYS else ("text",)
            found = [keys[name] for name in pair if name in keys and keys[name].kind in kinds]
            if len(found) == len(pair):
                share = min(key.share for key in found)
                reason = f"{field.name}: {part.name} has {' and '.join(pair)} in {percent(share)} of samples"
                yield FilledField(FieldPath((PartAccess(part.name),)), 0.95, share, pair[0], reason)


def _first_items_by_name(field: SampleField, facts: Sequence[PartFacts]) -> Iterator[FilledField]:
    """The first of several texts: `json[captions][0]`, `json[annotations][0][caption]`."""
    for part in facts:
        for key in part.keys:
            if field.kind == "text" and key.kind == "list of text":
                if EVERY_ITEM not in key.path:
                    yield from _from_key(field, part, key, (*key.path, 0))
                elif field.name == "caption":
                    yield from _from_key(
                        field, part, key, tuple(0 if step is EVERY_ITEM else step for step in key.path)
                    )


#: The ways to fill a field that is no image, video or audio.
_FILL_RULES = (
    _FillRule(1.0, _media_lists),
    _FillRule(1.0, _masks),
    _FillRule(1.0, _documents),
    _FillRule(1.0, _subtitles),
    _FillRule(1.0, _parts_by_name),
    _FillRule(0.95, _parts_called_text, takes_any_text=True),
    _FillRule(1.0, _keys_by_name),
    _FillRule(1.0, _objects_of_pairs),
    _FillRule(0.95, _names_of_numbers),
    _FillRule(0.9, _first_items_by_name, takes_any_text=True),
    _FillRule(0.85, _only_text, takes_any_text=True),
    _FillRule(0.85, _keys_with_sentences, takes_any_text=True),
    _FillRule(0.85, _lists_of_sentences),
    _FillRule(0.85, _keys_with_classes),
)


def _from_part(
    field: SampleField, part: PartFacts, name: str, *, penalty: float = 0.0, remark: str = ""
) -> FilledField:
    reason = f"{field.name}: {part.name} is in {percent(part.share)} of samples, {part.content_summary}{remark}"
    return FilledField(FieldPath((PartAccess(part.name),)), 1 - penalty, part.share, name, reason)


def _from_key(
    field: SampleField, part: PartFacts, key: JsonKeyFacts, steps: tuple[str | int | None, ...]
) -> Iterator[FilledField]:
    names = _field_names(field) + _FURTHER_KEY_NAMES.get(field.name, ())
    name = _name_of(key)
    if name not in names:
        return
    path = FieldPath((PartAccess(part.name, steps),))
    quality = 1 - 0.01 * names.index(name) - 0.02 * (len(key.path) - 1)
    seen = f"{key.found} of {key.examined}"
    empty = f", {key.empty} of them empty" if key.empty else ""
    share, kind = key.share, key.kind
    if field.kind == "integer" and key.spelled_share:
        share, kind = key.spelled_share, "whole numbers as text"
    reason = f"{field.name}: {path} is in {percent(share)} of samples, {kind} ({seen} read{empty})"
    yield FilledField(path, quality, share, name, reason)


def _name_of(key: JsonKeyFacts) -> str:
    return str(key.path[-1]).lower().replace("-", "_")


def _part_fits(field: SampleField, part: PartFacts) -> bool:
    return not {part.kind, part.label}.isdisjoint(_PART_KINDS.get(field.kind, ()))


def _field_names(field: SampleField) -> tuple[str, ...]:
    return field.json_names + _FURTHER_FIELD_NAMES.get(field.name, ())


def _describe_what_there_is(field: SampleField, facts: Sequence[PartFacts], *, lone_text: bool) -> str:
    """List the parts and JSON keys in which detection looked for the field."""
    if field.kind == "mask":
        return "no image has a mask name (seg.png, mask.png)"
    facts_found = []
    texts = [part.name for part in facts if part.kind == "text"]
    if field.kind == "text" and not lone_text and texts:
        facts_found.append(f"{', '.join(texts)} may be any text")
    elif field.kind == "text":
        facts_found.append(
            f"{len(texts)} text parts, none with a matching name: {', '.join(texts)}" if texts else "no text part"
        )
    for part in (part for part in facts if part.keys):
        keys = [str(key.path[0]) for key in part.keys if len(key.path) == 1]
        more = f" and {len(keys) - 6} more" if len(keys) > 6 else ""
        facts_found.append(f"{part.name} has {', '.join(keys[:6])}{more}")
    return "; ".join(facts_found) or f"no matching name ({', '.join(_field_names(field)[:3])})"
