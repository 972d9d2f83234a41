"""The sections of dataset.yaml that say how it is split: `split`, `split_sets` and `exclude`."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from wdsctl.core import yaml_nodes
from wdsctl.core.fields import did_you_mean
from wdsctl.core.split_rules import Excludes, Rules, SplitRule, plain_excludes
from wdsctl.core.yaml_sections import called, check_keys, section, texts, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wdsctl.core.yaml_nodes import Document

_WAYS = ("auto", "shard", "sample", "key")
_KEYS = tuple(each.name for each in fields(SplitRule))
_REMARK = "# how `wdsctl split` divided it; used again for new shards"
_SETS_REMARK = "# further sets: split_part is SET/NAME"
_EXCLUDE_REMARK = "# in no split"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_FREE_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff/]+")  # of splits that other tools named
_SEEDS = 1 << 63  # a catalog keeps no larger number


def split_of(document: Document, *path: str) -> SplitRule:
    """The rule at this place, such as ("split",). Raises DatasetError WDS220 with the line."""
    said = section(document, *path)
    check_keys(document, path, _KEYS)
    where = document.where(*path)
    rule = SplitRule(
        shares=_shares(document, *path),
        by=_by(document, said, *path),
        seed=_whole(document, said, "seed", *path),
        group_by=_text(document, said, "group_by", *path),
        stratify=_text(document, said, "stratify", *path),
        patterns={name: texts(document, *path, "patterns", name) for name in section(document, *path, "patterns")},
        keys={name: _list_file(document, _under(said, "keys"), name, *path, "keys") for name in _under(said, "keys")},
        rest=_text(document, said, "rest", *path),
        fold=_fold(document, said, *path),
        allow_empty=said.get("allow_empty") is True,
    )
    if not rule.names:
        raise wrong(f"{path[-1]}: shares are missing", where, hint="write shares: {train: 8, val: 1}")
    named = _FREE_NAME if path[-1] == "split" else _NAME
    odd = next((name for name in rule.names if not named.fullmatch(name)), None)
    if odd is not None:
        raise wrong(f"{odd!r} cannot name a split", where, hint="letters, digits, '.', '_' and '-' can")
    if not -_SEEDS <= rule.seed < _SEEDS:
        raise wrong("seed: expected a number of at most 64 bits", where, hint="such as seed: 1")
    ways = [name for name in ("patterns", "keys") if said.get(name)] + ["shares"] * bool(rule.shares)
    if len(ways) > 1:
        raise wrong(f"{path[-1]}: {' and '.join(ways)} exclude each other", where, hint="write one of them")
    return rule


def sets_of(document: Document) -> Rules:
    """The named sets."""
    sets = {}
    for name in section(document, "split_sets"):
        if not _NAME.fullmatch(name):
            hint = "letters, digits, '.', '_' and '-' can"
            raise wrong(f"{name!r} cannot name a set of splits", document.where("split_sets", name), hint=hint)
        sets[name] = split_of(document, "split_sets", name)
    return sets


def excludes_of(document: Document) -> Excludes:
    """What is in no split."""
    known = tuple(each.name for each in fields(Excludes))
    if document.data.get("exclude") is None:
        return Excludes()
    section(document, "exclude")
    check_keys(document, ("exclude",), known)
    excludes = Excludes(**{name: texts(document, "exclude", name) for name in known})
    for name in excludes.key_files:
        _check_list_file(name, document.where("exclude", "key_files"))
    return excludes


def _list_file(document: Document, said: dict[str, Any], name: str, *path: str) -> str:
    file = _text(document, said, name, *path)
    _check_list_file(file, document.where(*path))
    return file


def _check_list_file(name: str, where: str) -> None:
    """Refuse a list that lies elsewhere: what data says is no reason to open it."""
    if os.path.isabs(name) or ".." in name.split("/"):
        hint = "copy the list beside dataset.yaml; or name it yourself: `wdsctl split DATASET --keys`, `--exclude-keys`"
        raise wrong(f"lists of keys lie beside dataset.yaml, and {name!r} leads elsewhere", where, hint=hint)


def split_block(rule: SplitRule) -> str:
    """The section `split`."""
    return yaml_nodes.block("split", _entries(rule), remark=_REMARK)


def sets_block(sets: Mapping[str, SplitRule]) -> str:
    """The section `split_sets`; empty where there are none."""
    if not sets:
        return ""
    entries = {
        name: "{" + ", ".join(f"{key}: {value}" for key, value in _entries(rule).items()) + "}"
        for name, rule in sets.items()
    }
    return yaml_nodes.block("split_sets", entries, remark=_SETS_REMARK)


def exclude_block(excludes: Excludes) -> str:
    """The section `exclude`; empty where there is none."""
    entries = {name: _listed(each) for name, each in plain_excludes(excludes).items()}
    return yaml_nodes.block("exclude", entries, remark=_EXCLUDE_REMARK) if entries else ""


def _entries(rule: SplitRule) -> dict[str, str]:
    """A rule as YAML by key. What is as it is where nothing is said is left out, but for `by` and `seed` of shares."""
    said: dict[str, str] = {}
    if rule.shares:
        said["shares"] = _mapped({name: _number(share) for name, share in rule.shares.items()})
        said |= ({"by": rule.by} if rule.is_counted or rule.kind == "key" else {}) | {"seed": str(rule.seed)}
    for key in ("group_by", "stratify", "rest"):
        if getattr(rule, key):
            said[key] = yaml_nodes.scalar(getattr(rule, key))
    if rule.patterns:
        said["patterns"] = _mapped({name: _listed(each) for name, each in rule.patterns.items()})
    if rule.keys:
        said["keys"] = _mapped({name: yaml_nodes.scalar(file) for name, file in rule.keys.items()})
    if rule.fold is not None:
        said["fold"] = f"[{rule.fold[0]}, {rule.fold[1]}]"
    return said | ({"allow_empty": "true"} if rule.allow_empty else {})


def _mapped(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{yaml_nodes.scalar(name)}: {value}" for name, value in entries.items()) + "}"


def _listed(entries: tuple[str, ...] | list[str]) -> str:
    # In quotes: braces and commas mean something to YAML inside brackets.
    return "[" + ", ".join(_quoted(each) for each in entries) + "]"


def _quoted(text: str) -> str:
    plain = yaml_nodes.scalar(text)
    return plain if plain[0] == '"' or not set(text) & set(",[]{}") else yaml_nodes.quoted(text)


def _number(share: float) -> str:
    # Never with an exponent: to YAML, 1e-06 is a word.
    return str(int(share)) if share == int(share) else format(Decimal(repr(share)), "f")


def _under(said: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = said.get(key)
    return value if isinstance(value, dict) else {}


def _shares(document: Document, *path: str) -> dict[str, float]:
    shares = section(document, *path, "shares")
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < float("inf"):
            where = document.where(*path, "shares", name)
            raise wrong(f"{name}: expected a number above zero, found {called(share)}", where)
    return shares


def _by(document: Document, said: Mapping[str, Any], *path: str) -> Any:
    by = said.get("by", "auto")
    if by not in _WAYS:
        hint = did_you_mean(str(by), _WAYS) or f"write one of {', '.join(_WAYS)}"
        raise wrong(f"by: expected {', '.join(_WAYS)}, found {called(by)}", document.where(*path, "by"), hint=hint)
    return by


def _whole(document: Document, said: Mapping[str, Any], key: str, *path: str) -> int:
    value = said.get(key, 0)
    if type(value) is not int:
        raise wrong(f"{key}: expected a whole number, found {called(value)}", document.where(*path, key))
    return value


def _text(document: Document, said: Mapping[str, Any], key: str, *path: str) -> str:
    value = said.get(key, "")
    if not isinstance(value, str):
        raise wrong(f"{key}: expected a text, found {called(value)}", document.where(*path, key))
    return value


def _fold(document: Document, said: Mapping[str, Any], *path: str) -> tuple[int, int] | None:
    value = said.get("fold")
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
    if not is_pair or not 0 <= value[0] < value[1]:
        raise wrong(f"fold: expected [0, 5] and the like, found {called(value)}", document.where(*path, "fold"))
    return value[0], value[1]
