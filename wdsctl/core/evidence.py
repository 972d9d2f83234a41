"""What was seen of a dataset, and what it says of each part: how many samples have it, what its content is, which keys
its JSON has. Everything here is pure; who gathers the evidence decides how much is read.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.sniff import Content, sniff

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TEXTS = {"text", "integer", "number", "json"}
_NEARLY_ALL = 0.9
_SHOWN = {
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
}
_JSON = frozenset({"object", "array", "string", "integer", "number"})
_TEXT = frozenset({"text", "utf-16", "string", "integer", "number"})
#: What is expected under a part's last extension, as `Content` calls it. Extensions that are not here promise nothing.
PROMISED: dict[str, frozenset[str]] = {
    **{name: frozenset({name}) for name in ("png", "webp", "gif", "bmp", "tiff", "avif", "heic", "ico", "webm", "avi")},
    **{name: frozenset({name}) for name in ("flv", "ogg", "flac", "wav", "aac", "npy", "npz", "pickle", "pdf")},
    **{name: frozenset({name}) for name in ("aiff", "tga", "sgi", "pcx")},
    **dict.fromkeys(("jpg", "jpeg", "jpe", "jfif"), frozenset({"jpeg"})),
    **dict.fromkeys(("jp2", "j2k", "jpx", "jpf", "j2c", "jpc"), frozenset({"jpeg2000"})),
    **dict.fromkeys(("ppm", "pgm", "pbm", "pnm"), frozenset({"pnm"})),
    **dict.fromkeys(("mp4", "mov", "m4v", "m4a"), frozenset({"mp4", "mov", "m4a"})),
    **dict.fromkeys(("opus", "oga", "ogv"), frozenset({"ogg"})),
    **dict.fromkeys(("mpg", "mpeg"), frozenset({"mpeg", "mpegts"})),
    **dict.fromkeys(("wmv", "wma", "asf"), frozenset({"asf"})),
    **dict.fromkeys(("pt", "pth"), frozenset({"torch", "pickle"})),
    **dict.fromkeys(("txt", "text", "caption"), _TEXT),
    "tif": frozenset({"tiff"}),
    "apng": frozenset({"png"}),
    "dib": frozenset({"bmp"}),
    "bw": frozenset({"sgi"}),
    "mkv": frozenset({"matroska", "webm"}),
    "ts": frozenset({"mpegts"}),
    "mp3": frozenset({"mp3", "mp2"}),
    "aif": frozenset({"aiff"}),
    "pkl": frozenset({"pickle"}),
    "json": _JSON,
    "cls": frozenset({"integer"}),
}


@dataclass(frozen=True, slots=True)
class PartEvidence:
    """One part. `samples`: how many samples have it. `heads`: the first bytes of some, from several shards, JSON whole
    up to 1 MiB. `sizes`: their whole sizes in bytes, in the same order; empty if every head is the whole part."""

    name: str
    samples: int
    heads: tuple[bytes, ...] = ()
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """`samples`: how many the dataset has."""

    samples: int
    parts: tuple[PartEvidence, ...]


class KeyFact(NamedTuple):
    """A key of a JSON part. `share` of all samples that have it, and not as null: it was in `found` of the `looked`
    objects. `kind`: text, integer, number, boolean, object, list, list of text, list of numbers, or mixed."""

    path: tuple[str, ...]
    share: float
    kind: str
    found: int
    looked: int


@dataclass(frozen=True, slots=True)
class PartFacts:
    """`kind` is a kind of content, or mixed, or unknown if none was looked at; `form` the commonest format.

    `seen` is the sentence about the content, `oddities` are sentences about what does not fit the name or the rest.
    """

    name: str
    share: float
    kind: str
    form: str
    seen: str
    oddities: tuple[str, ...]
    keys: tuple[KeyFact, ...] = ()

    @property
    def label(self) -> str:
        """`image/jpeg`, `json/object`, `text`, `integer`."""
        is_plain = self.kind in {"text", "integer", "number"} or not self.form
        return self.kind if is_plain else f"{self.kind}/{self.form}"

    @property
    def words(self) -> tuple[str, ...]:
        """What the name says beside its type: `caption` of `caption.txt`, `cls` of `cls`."""
        words = tuple(self.name.lower().replace("-", "_").split("."))
        return words[:-1] if len(words) > 1 and words[-1] in PROMISED else words

    @property
    def prefix(self) -> str:
        """What stands before the last dot: parts with one prefix can be alternatives of each other."""
        return self.name.rpartition(".")[0]


def examine(part: PartEvidence, samples: int) -> PartFacts:
    """What the evidence says of one part of a dataset of `samples` samples."""
    share = part.samples / samples if samples else 0.0
    sizes = part.sizes or tuple(map(len, part.heads))
    contents = [sniff(head, size) for head, size in zip(part.heads, sizes, strict=True)]
    full = [content for content in contents if content.kind != "empty"]
    kind, form = _consensus(full, part.name) if full else ("empty" if contents else "unknown", "")
    wholes = [head for head, size in zip(part.heads, sizes, strict=True) if size <= len(head)]
    keys = _keys(wholes, share) if (kind, form) == ("json", "object") else ()
    return PartFacts(part.name, share, kind, form, _seen(contents), _oddities(part.name, kind, contents), keys)


def percent(share: float) -> str:
    """A share for people: 100 % only where it is all of them, 0 % only where it is none."""
    if 0.995 <= share < 1:
        return f"{min(99.9, 100 * share):.1f} %"
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def _consensus(contents: Sequence[Content], name: str) -> tuple[str, str]:
    kinds = Counter(content.kind for content in contents)
    kind: str
    kind, count = kinds.most_common(1)[0]
    # One word among numbers makes the part text, and so does much text among JSON; a few odd files are just odd.
    tolerated = 0 if kind in {"integer", "number"} else 1 - _NEARLY_ALL
    if len(contents) - count > tolerated * len(contents):
        if not set(kinds) <= _TEXTS:
            return "mixed", ""
        kind = "number" if set(kinds) == {"integer", "number"} else "text"
    forms = Counter(content.format for content in contents if content.kind == kind)
    form = forms.most_common(1)[0][0] if forms else ""
    if kind == "json" and form == "string" and not name.endswith("json"):
        return "text", "utf-8"  # captions in quotation marks
    return kind, form


def _seen(contents: Sequence[Content]) -> str:
    counts = Counter(_shown(content) for content in contents)
    if not counts:
        return "content not looked at"
    if len(counts) == 1:
        return f"content is {next(iter(counts))} ({len(contents)} of {len(contents)} looked at)"
    kinds = ", ".join(f"{name} ({count})" for name, count in counts.most_common(4))
    return f"content is {kinds} of {len(contents)} looked at"


def _oddities(name: str, kind: str, contents: Sequence[Content]) -> tuple[str, ...]:
    odd = []
    promised = PROMISED.get(name.lower().rpartition(".")[2])
    broken = [
        content for content in contents if promised and content.kind != "empty" and _term(content) not in promised
    ]
    for shown, count in Counter(_shown(content) for content in broken).most_common(3):
        odd.append(f"{name}: the name promises something else, but content is {shown} ({count} of {len(contents)})")
    if kind == "mixed":
        odd.append(f"{name}: the content is not of one kind: {_seen(contents).removeprefix('content is ')}")
    empty = sum(content.kind == "empty" for content in contents)
    if empty:
        odd.append(f"{name}: {empty} of {len(contents)} are empty")
    return tuple(odd)


def _term(content: Content) -> str:
    if content.kind == "text":
        return "utf-16" if content.format == "utf-16" else "text"
    return content.kind if content.kind in {"integer", "number"} else content.format


def _shown(content: Content) -> str:
    if content.kind == "integer":
        return "a whole number"
    if content.kind == "number":
        return "a number"
    return _SHOWN.get(content.format) or content.format.upper() or content.kind


def _keys(wholes: Sequence[bytes], share: float) -> tuple[KeyFact, ...]:
    """The keys, one level down included, in the order in which they first come."""
    objects = [parsed for parsed in map(_parsed, wholes) if isinstance(parsed, dict)]
    kinds: dict[tuple[str, ...], list[str]] = {}
    for path, value in chain.from_iterable(map(_pairs, objects)):
        if value is not None:
            kinds.setdefault(path, []).append(_value_kind(value))
    looked = len(objects)
    return tuple(
        KeyFact(path, share * len(found) / looked, _merged(set(found)), len(found), looked)
        for path, found in kinds.items()
    )


def _parsed(head: bytes) -> Any:
    try:
        return json.loads(head)
    except (ValueError, RecursionError):
        return None


def _pairs(value: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, inner in value.items():
        yield (key,), inner
        if isinstance(inner, dict):
            yield from (((key, below), deep) for below, deep in inner.items())


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
            return _list_kind({_value_kind(item) for item in value})
        case _:
            return "object"


def _list_kind(kinds: set[str]) -> str:
    if kinds == {"text"}:
        return "list of text"
    return "list of numbers" if kinds and kinds <= {"integer", "number"} else "list"


def _merged(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds == {"integer", "number"}:
        return "number"
    return "list" if all(kind.startswith("list") for kind in kinds) else "mixed"
