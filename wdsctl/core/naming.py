"""Where the key of a name ends: WebDataset's rule, directories and the file name up to its first dot, and two others.

Source of the first: https://github.com/webdataset/webdataset (README, "The WebDataset Format"). Tars are read by it
everywhere. Raw files may be named otherwise (`IMG_2024.01.07.jpg`), so for them there are two more rules; shards that
are made of them have keys without dots (`shard_key`), which every reader of WebDataset splits alike.
"""

from __future__ import annotations

from typing import Literal, get_args

KeyUntil = Literal["first-dot", "last-dot", "known-extension"]
FIRST_DOT: KeyUntil = "first-dot"
LAST_DOT: KeyUntil = "last-dot"
KNOWN_EXTENSION: KeyUntil = "known-extension"
KEY_RULES: tuple[KeyUntil, ...] = get_args(KeyUntil)

# What may stand before the last ending and belong to the part. These words decide keys: to add one renames samples of
# datasets that are kept by this rule, so that a test holds them.
_ROLES = (
    "image img jpg jpeg png video audio wav text txt json cls caption captions cap label labels title prompt question "
    "answer answers seg mask masks depth normal normals pose flow edge edges bbox boxes box ocr thumb thumbnail meta "
    "metadata info tags left right emb embedding embeddings feat features latent latents token tokens transcript "
    "alignment phonemes lang input output target"
)
_PACKED = "tar npy csv jsonl txt json xml pt pth nii pkl"  # what may stand before .gz, .zst and the like
_LANGUAGES = (
    "ar bg bn cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nl no pl pt ro ru sk sl sr sv ta th tr uk "
    "ur vi zh"
)
KNOWN_WORDS = frozenset(f"{_ROLES} {_PACKED} {_LANGUAGES}".split())


def as_rule(text: str) -> KeyUntil | None:
    """The rule of this name; None for any other text."""
    return next((rule for rule in KEY_RULES if rule == text), None)


def split_name(name: str) -> tuple[str, str] | None:
    """(key, part) of a member or a raw file, or None where the name has none.

    `a/b/7.seg.png` is key `a/b/7`, part `seg.png`. Names without a dot, names that begin with one (`.DS_Store`),
    names that end in their first dot, and WebDataset's own `__meta__` members have no key.
    """
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    if dot <= start or dot == len(name) - 1:
        return None
    if _is_meta(name[:dot]):
        return None
    return name[:dot], name[dot + 1 :]


def _is_meta(key: str) -> bool:
    return key.startswith("__") and "__" in key[2:]


def split_part(part: str, rule: KeyUntil) -> tuple[str, str]:
    """(what belongs to the key by this rule, the part) of what follows a name's first dot.

    `01.07.jpg` is ("01.07", "jpg") by the last dot, ("", "01.07.jpg") by the first. By known endings, words that are
    known to describe a part stay with it: `2024.seg.png` is ("2024", "seg.png").
    """
    if rule == FIRST_DOT or "." not in part:
        return "", part
    words = part.split(".")
    if not words[-1]:
        return "", part
    at = len(words) - 1
    while rule == KNOWN_EXTENSION and at and words[at - 1].lower() in KNOWN_WORDS:
        at -= 1
    inner = ".".join(words[:at])
    return (inner, ".".join(words[at:])) if inner else ("", part)


def split_by(name: str, rule: KeyUntil) -> tuple[str, str] | None:
    """As `split_name`, by any of the rules: they differ in names with two dots or more."""
    split = split_name(name)
    if split is None or rule == FIRST_DOT:
        return split
    inner, part = split_part(split[1], rule)
    return (f"{split[0]}.{inner}" if inner else split[0]), part


def shard_key(key: str) -> str:
    """The key as it stands in shards: dots of the file name become `_`, as other readers would end the key there.

    `-` where it would otherwise look like one of WebDataset's own members.
    """
    at = key.rfind("/") + 1
    member = key[:at] + key[at:].replace(".", "_")
    return key[:at] + key[at:].replace(".", "-") if member != key and _is_meta(member) else member


def spellings(name: str) -> tuple[tuple[str, str], ...]:
    """The (key, part) that a file of this name may have in a dataset, WebDataset's first, then as shards have them that
    were made of raw files by the other rules.
    """
    found = [split for rule in (FIRST_DOT, KNOWN_EXTENSION, LAST_DOT) if (split := split_by(name, rule)) is not None]
    return tuple(dict.fromkeys((shard_key(key), part) for key, part in found))
