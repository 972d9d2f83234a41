"""Evidence about a dataset: for each part, how many samples have it, its content, and the keys of its JSON.

The functions read no files: the caller gathers the evidence and decides how much to read.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.errors import DatasetError
from wdsctl.core.json_text import read_json_or_none
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, decoder_package, has_reader
from wdsctl.core.media.sniff import SniffedContent, sniff
from wdsctl.core.media.tiff_tags import has_unlimited_range
from wdsctl.core.samples.conversations import is_conversation, normalize_conversation
from wdsctl.core.samples.documents import ImagePlace, is_document, read_document
from wdsctl.core.samples.field_path import EVERY_ITEM
from wdsctl.core.samples.fields import as_integer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_TEXT_KINDS = {"text", "integer", "number", "json"}
_CONSENSUS_SHARE = 0.9
_MAX_NAME_BYTES = 80  # of the name of a class
_MIN_REPEATED_NAMES = 2
_MAX_CLASSES = 100_000
_PROSE_WORDS = 3
#: A word of letters, or a character of a script without spaces between words.
_PROSE_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff]+")
_NO_PROSE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*://|www\.|[/~<{\[]|[a-z]:\\|[!-~]+$)", re.IGNORECASE)
#: The beginning of markup, or of a row with four numbers or more.
_NO_SENTENCE = re.compile(rb"\s*(?:<[?!a-z]|[\[{]|[^\s,;]*(?:[ \t,;]+[-+]?\d+(?:\.\d+)?){4})", re.IGNORECASE)
_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?")
_MIN_NUMBERS = 4  # in a text that consists of numbers
_CLASS_NAME = re.compile(r"[^\W\d][\w '&()-]{0,79}")
_DISPLAY_NAMES = {
    "jpeg2000": "JPEG 2000",
    "matroska": "Matroska",
    "webm": "WebM",
    "npy": "a NumPy array",
    "npz": "NumPy arrays",
    "pickle": "pickle",
    "torch": "a torch file",
    "safetensors": "safetensors",
    "utf-8": "text",
    "utf-16": "text in UTF-16",
    "object": "a JSON object",
    "array": "a JSON array",
    "string": "a JSON string",
    "not UTF-8": "text that is not UTF-8",
}
_NOT_UTF8 = "not UTF-8"
_JSON_FORMATS = frozenset({"object", "array", "string", "integer", "number"})
_TEXT_FORMATS = frozenset({"text", "utf-16", "string", "integer", "number"})
TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

#: The formats that a part's last extension promises, as `SniffedContent` calls them. Other extensions promise nothing.
FORMATS_BY_EXTENSION: dict[str, frozenset[str]] = {
    **{name: frozenset((each.name, *each.also_holds)) for name, each in FORMAT_BY_EXTENSION.items()},
    **{name: frozenset({name}) for name in ("npy", "npz", "pickle", "pdf")},
    **dict.fromkeys(("pt", "pth"), frozenset({"torch", "pickle"})),
    **dict.fromkeys(("txt", "text", "caption"), _TEXT_FORMATS),
    "pkl": frozenset({"pickle"}),
    "json": _JSON_FORMATS,
    "cls": frozenset({"integer"}),
}


@dataclass(frozen=True, slots=True)
class PartEvidence:
    """Evidence about one part.

    `samples`: how many samples have it. `heads`: the first bytes of some parts from several shards; JSON is whole up to
    1 MiB. `sizes`: the sizes of these parts in bytes, in the same order; empty if every head is a whole part.
    """

    name: str
    samples: int
    heads: tuple[bytes, ...] = ()
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence about all parts of a dataset of `samples` samples."""

    samples: int
    parts: tuple[PartEvidence, ...]


class JsonKeyFacts(NamedTuple):
    """A key of a JSON part: of the object, of an object directly inside, or of all objects in a list, whose path has
    `EVERY_ITEM`.

    `share`: the share of all samples in which the key is present and not null. `found`: how many of the `examined`
    objects have it. `kind`: text, integer, number, boolean, object, list (also "list of text", "list of numbers",
    "list of lists", "list of objects"), conversation, "conversation with media", or mixed. `spelled_share`: the
    share in which the key is a text or a float that stands for a whole number, as in CSV; 0 if it is anything else in
    some. `empty`: in how many of the examined objects the key is a text without characters, as an empty cell of a CSV.
    `is_prose`: whether the texts, or the lists of texts, are sentences, which differ from sample to sample. `is_class`:
    whether the values are words or whole numbers that samples repeat, as names and numbers of classes do.
    """

    path: tuple[str | None, ...]
    share: float
    kind: str
    found: int
    examined: int
    spelled_share: float = 0.0
    empty: int = 0
    is_prose: bool = False
    is_class: bool = False


@dataclass(frozen=True, slots=True)
class PartFacts:
    """Facts about one part.

    `kind`: a kind of content, or mixed, or unknown if no content was examined. `format`: the most frequent format.
    `content_summary`: the content in words. `anomalies`: warnings for the user, of content that contradicts the name or
    the rest, or that the loader does not decode. `names_of`: the part whose numbers a text names, see
    `find_class_names`; empty for other parts. `is_structured`: whether texts are markup or mostly numbers. `documents`:
    the share of the samples whose JSON is an interleaved document, as far as examined; `places`: the names that these
    have in the places of images, those of one document each. `read`: how many parts were examined; `not_utf8`: how many
    have text or JSON in another encoding, which the loader cannot read.
    """

    name: str
    share: float
    kind: str
    format: str
    content_summary: str
    anomalies: tuple[str, ...]
    keys: tuple[JsonKeyFacts, ...] = ()
    names_of: str = ""
    is_structured: bool = False
    documents: float = 0.0
    places: tuple[tuple[str, ...], ...] = ()
    read: int = 0
    not_utf8: int = 0

    @property
    def label(self) -> str:
        """Kind and format: `image/jpeg`, `json/object`, `text`, `integer`."""
        is_plain = self.kind in {"text", "integer", "number"} or not self.format
        return self.kind if is_plain else f"{self.kind}/{self.format}"

    @property
    def name_words(self) -> tuple[str, ...]:
        """The words of the name without a known extension: `caption` for `caption.txt`, `cls` for `cls`."""
        words = tuple(self.name.lower().replace("-", "_").split("."))
        return words[:-1] if len(words) > 1 and words[-1] in FORMATS_BY_EXTENSION else words

    @property
    def prefix(self) -> str:
        """The name up to its last dot: parts with the same prefix can be alternatives of each other."""
        return self.name.rpartition(".")[0]


def examine_part(part: PartEvidence, samples: int) -> PartFacts:
    """Return the facts about one part of a dataset of `samples` samples."""
    share = part.samples / samples if samples else 0.0
    sizes = part.sizes or tuple(map(len, part.heads))
    contents = [_sniff_part(part.name, head, size) for head, size in zip(part.heads, sizes, strict=True)]
    full = [content for content in contents if content.kind != "empty"]
    kind, form = _consensus(full, part.name) if full else ("empty" if contents else "unknown", "")
    wholes = [head for head, size in zip(part.heads, sizes, strict=True) if size <= len(head)]
    objects = _parse_objects(wholes) if (kind, form) == ("json", "object") else []
    places = tuple(_image_names(each) for each in objects if is_document(each))
    return PartFacts(
        part.name,
        share,
        kind,
        form,
        _summarize_contents(contents),
        (*_find_anomalies(part.name, kind, contents), *_find_unlimited_ranges(part)),
        _json_key_facts(objects, share),
        is_structured=kind == "text" and sum(map(_is_no_prose, part.heads)) > len(part.heads) / 2,
        documents=share * len(places) / len(objects) if objects else 0.0,
        places=places,
        read=len(contents),
        not_utf8=_count_not_utf8(contents),
    )


def _is_no_prose(head: bytes) -> bool:
    """Whether a text is markup, begins with a row of numbers, or consists of numbers for the most part."""
    words = re.split(rb"[\s,;]+", head.strip())
    numbers = sum(1 for word in words if _NUMBER.fullmatch(word))
    return bool(_NO_SENTENCE.match(head)) or (numbers >= _MIN_NUMBERS and 2 * numbers > len(words))


def find_class_names(evidence: Evidence, facts: Sequence[PartFacts]) -> tuple[PartFacts, ...]:
    """Return the facts, with `names_of` of the texts that name the numbers in another part, such as `cat` for `0`.

    Both parts are in all samples. Each number has one short text, and each text one number. At least two samples repeat
    the text of another one: captions differ from sample to sample.
    """
    values = {
        part.name: _short_values(part)
        for part, fact in zip(evidence.parts, facts, strict=True)
        if part.samples == evidence.samples and fact.kind in ("text", "integer")
    }
    numbers = [fact.name for fact in facts if fact.kind == "integer" and values.get(fact.name)]
    return tuple(
        replace(fact, names_of=next((each for each in numbers if _are_names(values[each], values[fact.name])), ""))
        if fact.kind == "text" and values.get(fact.name)
        else fact
        for fact in facts
    )


def _sniff_part(name: str, head: bytes, size: int) -> SniffedContent:
    """`sniff`, but of a text or JSON in another encoding than UTF-8 its kind, and `_NOT_UTF8`: most encodings have the
    ASCII characters, and no control characters."""
    found = sniff(head, size, name=name)
    if found.kind != "binary" or found.format or not _promises_text(name) or not head:
        return found
    text = head.decode("latin-1").encode()
    found = sniff(text, len(text) + max(0, size - len(head)), name=name)
    return found if found.kind == "binary" else SniffedContent(found.kind, _NOT_UTF8)


def _promises_text(name: str) -> bool:
    promised = FORMATS_BY_EXTENSION.get(_extension(name), frozenset())
    return bool(promised & (_TEXT_FORMATS | _JSON_FORMATS))


def _extension(name: str) -> str:
    return name.lower().rpartition(".")[2]


def _short_values(part: PartEvidence) -> list[str]:
    """The values of the samples that were read, in their order; empty if one is empty or long, or has several lines."""
    sizes = part.sizes or tuple(map(len, part.heads))
    values = [head[: _MAX_NAME_BYTES + 1].decode("utf-8", "replace").strip() for head in part.heads]
    are_short = all(size <= _MAX_NAME_BYTES for size in sizes) and all(len(each.splitlines()) == 1 for each in values)
    return values if are_short else []


def _are_names(numbers: list[str], texts: list[str]) -> bool:
    pairs = len(set(zip(numbers, texts, strict=False)))
    is_one_to_one = len(numbers) == len(texts) and pairs == len(set(numbers)) == len(set(texts))
    return is_one_to_one and pairs > 1 and len(texts) - pairs >= _MIN_REPEATED_NAMES


def percent(share: float) -> str:
    """Format a share for people: 100 % only for all samples, 0 % only for none."""
    if 0.995 <= share < 1:
        return f"{min(99.9, 100 * share):.1f} %"
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def _consensus(contents: Sequence[SniffedContent], name: str) -> tuple[str, str]:
    kinds = Counter(content.kind for content in contents)
    kind: str
    kind, count = kinds.most_common(1)[0]
    # One word among numbers makes the part text, and so does much text among JSON. A few other files are anomalies, and
    # so are up to half of the files if the others are what the name promises.
    forms_of_name = FORMATS_BY_EXTENSION.get(_extension(name), frozenset())
    is_promised = any(content.kind == kind and _format_name(content) in forms_of_name for content in contents)
    tolerated = 0 if kind in {"integer", "number"} else 0.5 if is_promised else 1 - _CONSENSUS_SHARE
    if len(contents) - count > tolerated * len(contents):
        if not set(kinds) <= _TEXT_KINDS:
            return "mixed", ""
        kind = "number" if set(kinds) == {"integer", "number"} else "text"
    forms = Counter(content.format for content in contents if content.kind == kind and content.format != _NOT_UTF8)
    form = forms.most_common(1)[0][0] if forms else ""
    if kind == "json" and form == "string" and not name.endswith("json"):
        return "text", "utf-8"  # captions in quotation marks, not JSON
    return kind, form


def _summarize_contents(contents: Sequence[SniffedContent]) -> str:
    counts = Counter(_display_name(content) for content in contents)
    if not counts:
        return "content not read"
    if len(counts) == 1:
        return f"content is {next(iter(counts))} ({len(contents)} of {len(contents)} read)"
    kinds = ", ".join(f"{name} ({count})" for name, count in counts.most_common(4))
    return f"content is {kinds} of {len(contents)} read"


def _find_anomalies(name: str, kind: str, contents: Sequence[SniffedContent]) -> tuple[str, ...]:
    odd = []
    promised = FORMATS_BY_EXTENSION.get(_extension(name))
    if not_utf8 := _count_not_utf8(contents):
        odd.append(f"{name}: {not_utf8} of {len(contents)} read are not UTF-8")
    broken = [
        content
        for content in contents
        if promised and content.kind != "empty" and _format_name(content) not in promised
        if content.format != _NOT_UTF8
    ]
    for shown, count in Counter(_display_name(content) for content in broken).most_common(3):
        odd.append(f"{name}: the extension does not match the content, which is {shown} ({count} of {len(contents)})")
    if kind == "mixed":
        odd.append(
            f"{name}: the content is not of one kind: {_summarize_contents(contents).removeprefix('content is ')}"
        )
    empty = sum(content.kind == "empty" for content in contents)
    if empty:
        odd.append(f"{name}: {empty} of {len(contents)} are empty")
    hint = "convert the files, or pass a decoder of your own"
    odd.extend(
        f"{name}: the loader does not decode {_display_name(content)}: {hint} ({decoder_package(content.format)})"
        for content in dict.fromkeys(content for content in contents if not has_reader(content.format))
    )
    return tuple(odd)


def _find_unlimited_ranges(part: PartEvidence) -> Iterator[str]:
    count = sum(head[:4] in TIFF_MAGICS and has_unlimited_range(head) for head in part.heads)
    if count:
        what = "TIFF of floats, of signed or of 32-bit numbers, whose black and white are unknown"
        hint = "convert the files, or decode with SampleDecoder(image_decode='pil')"
        yield f"{part.name}: the loader does not decode {what} ({count} of {len(part.heads)}): {hint}"


def _count_not_utf8(contents: Sequence[SniffedContent]) -> int:
    return sum(content.format == _NOT_UTF8 for content in contents)


def _format_name(content: SniffedContent) -> str:
    if content.kind == "text":
        return "utf-16" if content.format == "utf-16" else "text"
    return content.kind if content.kind in {"integer", "number"} else content.format


def _display_name(content: SniffedContent) -> str:
    if content.kind == "integer":
        return "a whole number"
    if content.kind == "number":
        return "a number"
    return _DISPLAY_NAMES.get(content.format) or content.format.upper() or content.kind


def _parse_objects(wholes: Sequence[bytes]) -> list[dict[str, Any]]:
    return [parsed for parsed in map(read_json_or_none, wholes) if isinstance(parsed, dict)]


def _image_names(document: dict[str, Any]) -> tuple[str, ...]:
    """What a document has in the places of its images, in their order."""
    return tuple(str(item.value) for item in read_document(document) if isinstance(item, ImagePlace))


def _json_key_facts(objects: Sequence[dict[str, Any]], share: float) -> tuple[JsonKeyFacts, ...]:
    """Return the keys of the objects and of objects directly inside them, in order of first appearance."""
    values: dict[tuple[str | None, ...], list[Any]] = {}
    for path, value in chain.from_iterable(map(_walk_json_keys, objects)):
        if value is not None:
            values.setdefault(path, []).append(value)
    looked = len(objects)
    facts = []
    for path, found in values.items():
        # An empty list has every key that the items of other lists have.
        count = len(found) + sum(EVERY_ITEM in path and each.get(str(path[0])) == [] for each in objects)
        kind = _merge_kinds(set(map(_value_kind, found)))
        whole = [isinstance(as_integer(each), int) for each in found if each != ""]
        spelled = len(whole) if kind not in ("integer", "boolean") and all(whole) else 0
        empty = sum(isinstance(each, str) and not each.strip() for each in found)
        facts.append(
            JsonKeyFacts(
                path,
                share * count / looked,
                kind,
                count,
                looked,
                share * spelled / looked,
                empty,
                is_prose=_are_prose(found),
                is_class=_are_classes(found),
            )
        )
    return tuple(facts)


def _walk_json_keys(value: dict[str, Any]) -> Iterator[tuple[tuple[str | None, ...], Any]]:
    for key, inner in value.items():
        yield (key,), inner
        if isinstance(inner, dict):
            yield from (((key, below), deep) for below, deep in inner.items())
        elif isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner):
            for below in inner[0]:
                if all(item.get(below) is not None for item in inner):
                    yield (key, EVERY_ITEM, below), [item[below] for item in inner]


def _are_prose(values: Sequence[Any]) -> bool:
    """Whether most texts, or the first of lists of texts, are three words or more, and most differ."""
    found = [each for each in values if each not in ("", [])]
    texts = [each[0] if isinstance(each, list) else each for each in found]
    if not texts or not all(isinstance(text, str) for text in texts):
        return False
    prose = sum(len(_PROSE_WORD.findall(text)) >= _PROSE_WORDS and not _NO_PROSE.match(text) for text in texts)
    return prose > len(texts) / 2 and len(set(texts)) > len(texts) / 2


def _are_classes(values: Sequence[Any]) -> bool:
    found = [as_integer(value) for value in values if value != ""]
    are_words = all(isinstance(value, str) and _CLASS_NAME.fullmatch(value) for value in found)
    are_numbers = all(isinstance(value, int) and -1 <= value < _MAX_CLASSES for value in found)
    return (are_words or are_numbers) and 1 < len(set(found)) <= len(found) - _MIN_REPEATED_NAMES


def _value_kind(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "text"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return _conversation_kind(value) or _list_kind({_value_kind(item) for item in value})
        case _:
            return "object"


def _conversation_kind(value: list[Any]) -> str:
    if not is_conversation(value):
        return ""
    try:
        normalize_conversation(value)
    except DatasetError:
        return "conversation with media"
    return "conversation"


def _list_kind(kinds: set[str]) -> str:
    if kinds == {"text"}:
        return "list of text"
    if kinds == {"object"}:
        return "list of objects"
    if kinds and all(kind.startswith("list") for kind in kinds):
        return "list of lists"
    return "list of numbers" if kinds and kinds <= {"integer", "number"} else "list"


def _merge_kinds(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds == {"integer", "number"}:
        return "number"
    if not all(kind.startswith(("list", "conversation")) for kind in kinds):
        return "mixed"
    return max((kind for kind in kinds if kind.startswith("conversation")), default="list")
