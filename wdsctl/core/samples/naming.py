"""Split file names into key and part, and name samples and shards.

WebDataset's rule (https://github.com/webdataset/webdataset, "The WebDataset Format"): the key is the folders and the
file name up to its first dot. wdsctl reads all tars by this rule. Raw files may have other names
(`IMG_2024.01.07.jpg`), for which this file has two more rules. Shards made of such files have keys without dots
(`dotless_key`), which every WebDataset reader splits alike.

`RawSample` holds the files of a raw folder that share a key. It is a tuple, because a folder may have millions. A
sample's id consists of the number of its shard and its position in the shard. A template such as
`train/shard-{index:06d}.tar` names shards.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import Literal, NamedTuple, get_args

from wdsctl.core.errors import UsageError

KeyRuleName = Literal["first-dot", "last-dot", "known-extension"]
#: What to do about incomplete samples, stray files and unreadable files of raw folders.
OnMissing = Literal["error", "skip", "keep"]
FIRST_DOT: KeyRuleName = "first-dot"
LAST_DOT: KeyRuleName = "last-dot"
KNOWN_EXTENSION: KeyRuleName = "known-extension"
KEY_RULES: tuple[KeyRuleName, ...] = get_args(KeyRuleName)

# Words that may precede the last extension and belong to the part. They decide keys: a new word renames samples of
# datasets that use this rule, so a test pins the list.
_PART_WORDS = (
    "image img jpg jpeg png video audio wav text txt json cls caption captions cap label labels title prompt question "
    "answer answers seg mask masks depth normal normals pose flow edge edges bbox boxes box ocr thumb thumbnail meta "
    "metadata info tags left right emb embedding embeddings feat features latent latents token tokens transcript "
    "alignment phonemes lang input output target"
)
_COMPRESSIBLE_EXTENSIONS = (
    "tar npy csv jsonl txt json xml pt pth nii pkl"  # extensions that may precede .gz, .zst and the like
)
_LANGUAGES = (
    "ar bg bn cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nl no pl pt ro ru sk sl sr sv ta th tr uk "
    "ur vi zh"
)
#: Words in the name of an image that holds ids, not a picture.
MASK_WORDS = frozenset({"mask", "masks", "seg", "segmentation", "semantic", "panoptic", "label", "labels"})
KNOWN_PART_WORDS = frozenset(f"{_PART_WORDS} {_COMPRESSIBLE_EXTENSIONS} {_LANGUAGES}".split())


def parse_key_rule(text: str) -> KeyRuleName | None:
    """Return the rule with this name, or None."""
    return next((rule for rule in KEY_RULES if rule == text), None)


def split_name(name: str) -> tuple[str, str] | None:
    """Split the name of a member or raw file into (key, part), or return None if it has no key.

    `a/b/7.seg.png` has the key `a/b/7` and the part `seg.png`. Names without a dot, names that begin with one
    (`.DS_Store`), names that end in their first dot, and WebDataset's own `__meta__` members have no key.
    """
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    if dot <= start or dot == len(name) - 1:
        return None
    if _is_meta(name[:dot]):
        return None
    return name[:dot], name[dot + 1 :]


def _is_meta(key: str) -> bool:
    name = key.removeprefix("./")  # `tar cf a.tar .` writes names with this prefix
    return name.startswith("__") and "__" in name[2:]


def split_part(part: str, rule: KeyRuleName) -> tuple[str, str]:
    """Split the text after a name's first dot into (what belongs to the key by this rule, the part).

    `01.07.jpg` is ("01.07", "jpg") by the last dot, and ("", "01.07.jpg") by the first. By known extension, known words
    for parts stay with the part: `2024.seg.png` is ("2024", "seg.png").
    """
    if rule == FIRST_DOT or "." not in part:
        return "", part
    words = part.split(".")
    if not words[-1]:
        return "", part
    at = len(words) - 1
    while rule == KNOWN_EXTENSION and at and words[at - 1].lower() in KNOWN_PART_WORDS:
        at -= 1
    inner = ".".join(words[:at])
    return (inner, ".".join(words[at:])) if inner else ("", part)


def split_name_by_rule(name: str, rule: KeyRuleName) -> tuple[str, str] | None:
    """Split a name as `split_name` does, by any rule. The rules differ for names with two dots or more."""
    split = split_name(name)
    if split is None or rule == FIRST_DOT:
        return split
    inner, part = split_part(split[1], rule)
    return (f"{split[0]}.{inner}" if inner else split[0]), part


def dotless_key(key: str) -> str:
    """Return the key as shards hold it: dots of the file name become `_`, because readers end keys at the first dot.

    They become `-` if the key would otherwise look like one of WebDataset's own members.
    """
    at = key.rfind("/") + 1
    member = key[:at] + key[at:].replace(".", "_")
    return key[:at] + key[at:].replace(".", "-") if member != key and _is_meta(member) else member


def possible_keys(name: str) -> tuple[tuple[str, str], ...]:
    """Return each (key, part) that a file of this name may have in a dataset, that of WebDataset's rule first.

    The others are those that shards made of raw files by the other rules have.
    """
    found = [
        split
        for rule in (FIRST_DOT, KNOWN_EXTENSION, LAST_DOT)
        if (split := split_name_by_rule(name, rule)) is not None
    ]
    return tuple(dict.fromkeys((dotless_key(key), part) for key, part in found))


class RawPart(NamedTuple):
    """One file. `name` is the text after the key and a dot."""

    name: str
    size_bytes: int
    mtime_ns: int


class RawSample(NamedTuple):
    """The files of one key, sorted by part name. The path of a part is ROOT/`key`.`name`.

    The key may have dots; in shards it has none (`dotless_key`).
    """

    key: str
    parts: tuple[RawPart, ...]


INDEX_BITS = 28  # bits of a sample id that hold the position in the shard


#: The names of shards, unless the user names others.
DEFAULT_TEMPLATE = "shard-{index:06d}.tar"

_INDEX_FORMAT = re.compile(r"\d{0,4}d?")


def check_shard_template(template: str) -> str:
    """Return `template` unchanged. Raises UsageError if it does not give each index a name below the destination."""
    try:
        fields = [
            (name, spec, conversion) for _, name, spec, conversion in Formatter().parse(template) if name is not None
        ]
    except ValueError as error:
        raise _template_error(template, str(error)) from error
    if not fields:
        raise _template_error(template, "it has no {index}, so all shards would have the same name")
    for name, spec, conversion in fields:
        if name != "index" or conversion or not _INDEX_FORMAT.fullmatch(spec or ""):
            raise _template_error(template, "use only the field {index}, with a width if needed: {index:06d}")
    _check_path(template, template.format(index=0))
    return template


def _check_path(template: str, example: str) -> None:
    if not example.endswith(".tar"):
        raise _template_error(template, "it does not end in .tar")
    for name in example.split("/"):
        if not name or name.startswith("."):
            raise _template_error(template, "it must be a path below the destination, without hidden folders")
    if not example.isprintable():
        raise _template_error(template, "it has characters that cannot be printed")


def _template_error(template: str, reason: str) -> UsageError:
    return UsageError(
        f"the template {template!r} cannot name shards: {reason}",
        hint="write for example train/shard-{index:06d}.tar, or omit the template for shard-{index:06d}.tar",
    )


KEY_COLUMN = "__key__"  # rows with this field are exported samples: their other fields are parts
PARTS_COLUMN = "__parts__"  # of exported rows: the parts of a sample, if not all samples have the same

MAX_KEY_BYTES = 200  # bytes in UTF-8: with the name of a part, a file name stays below the usual limit of 255

_NOT_KEY_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\\]")


def strip_extension(path: str) -> str:
    """The path without its last extension, from which the key of a file is made: `a/b.c.jpg` gives `a/b.c`."""
    folder, slash, name = path.rpartition("/")
    base, dot, _ = name.rpartition(".")
    return f"{folder}{slash}{base if dot and base else name}"


def safe_key(text: str) -> str:
    """Turn `text` into a valid key, or an empty string if nothing is left.

    The key has no dot in its last segment (parts begin there), no control characters or backslashes, no segments `.`
    and `..`, and at most 200 bytes. Different texts may give the same key: `convert` detects collisions.
    """
    segments = [_NOT_KEY_CHARACTERS.sub("_", segment) for segment in text.split("/")]
    segments = ["_" * len(segment) if set(segment) == {"."} else segment for segment in segments if segment]
    if not segments:
        return ""
    key = "/".join([*segments[:-1], segments[-1].replace(".", "_")])
    if key.startswith("__"):
        key = key[1:]  # names that begin like __this__ are not samples to readers of WebDataset
        key = f"x{key}" if key.startswith("__") else key
    return key if len(key.encode()) <= MAX_KEY_BYTES else _shorten_key(key)


def _shorten_key(key: str) -> str:
    """Keep the beginning of the key, and append a hash of the whole: a key is always shortened in the same way."""
    from hashlib import blake2b  # loads OpenSSL, and few keys are too long

    digest = blake2b(key.encode(), digest_size=8).hexdigest()
    head = key.encode()[: MAX_KEY_BYTES - 17].decode("utf-8", "ignore").rstrip("/")
    folder, slash, name = head.rpartition("/")
    return f"{folder}{slash}{name.replace('.', '_')}-{digest}"


def exported_key(text: str) -> str:
    """The key of a row that has it in `KEY_COLUMN`; made safe if it is not a valid key, since the file may be foreign.

    Empty if nothing valid is left.
    """
    is_key = split_name(f"{text}.x") == (text, "x") and not text.startswith("/") and ".." not in text.split("/")
    return text if is_key and "\0" not in text else safe_key(text)


_NOT_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")


def part_name_of_field(field: str) -> str:
    """The name of a field as the first piece of a part's name; characters that are not allowed become `_`."""
    return _NOT_NAME_CHARACTERS.sub("_", field) or "field"
