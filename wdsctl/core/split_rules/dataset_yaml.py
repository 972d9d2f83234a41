"""Parse and format the sections of dataset.yaml about splits: `split`, `split_sets` and `exclude`."""

from __future__ import annotations

import os
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, get_args

from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.split_rules.excludes import Excludes, excludes_to_plain
from wdsctl.core.split_rules.names import can_name_split, is_split_name
from wdsctl.core.split_rules.rule import SplitBy, SplitRule, SplitRules, is_seed
from wdsctl.core.yaml_files.document import (
    check_known_keys,
    config_error,
    describe_value,
    format_block,
    format_flow_scalar,
    format_scalar,
    get_section,
    get_texts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wdsctl.core.yaml_files.document import YamlDocument


_BY_VALUES: tuple[str, ...] = get_args(SplitBy)
_KEYS = tuple(each.name for each in fields(SplitRule))
_TEXT_KEYS = tuple(each.name for each in fields(SplitRule) if each.type == "str")
_REMARK = "# the rule of `wdsctl split`, also applied to new shards"
_SETS_REMARK = "# further sets: split_part is SET/NAME"
_EXCLUDE_REMARK = "# excluded from all splits"


def parse_split_section(document: YamlDocument, *path: str) -> SplitRule:
    """Parse the rule at a path such as ("split",). Raises DatasetError WDS220 with the line."""
    section = get_section(document, *path)
    check_known_keys(document, path, _KEYS)
    where = document.where(*path)
    texts: dict[str, Any] = {name: _parse_text(document, section, name, *path) for name in _TEXT_KEYS}
    rule = SplitRule(
        shares=_parse_shares(document, *path),
        by=_parse_by(document, section, *path),
        seed=_parse_int(document, section, "seed", *path),
        patterns={
            name: get_texts(document, *path, "patterns", name) for name in get_section(document, *path, "patterns")
        },
        keys=_parse_key_files(document, *path, "keys"),
        fold=_parse_fold(document, section, *path),
        allow_empty=section.get("allow_empty") is True,
        **texts,
    )
    if not (rule.names or rule.methods):
        raise config_error(f"{path[-1]}: missing ratios", where, hint="write ratios as `shares: {train: 8, val: 1}`")
    can_name = can_name_split if path[-1] == "split" else is_split_name
    odd = next((name for name in rule.names if not can_name(name)), None)
    if odd is not None:
        raise config_error(f"{odd!r} is not a valid split name", where, hint="use letters, digits, '.', '_' and '-'")
    if not is_seed(rule.seed):
        raise config_error(
            "seed: expected a whole number of at most 64 bits", where, hint="write a seed such as `seed: 1`"
        )
    if len(rule.methods) > 1:
        methods = " and ".join(rule.methods)
        raise config_error(f"{path[-1]}: {methods} exclude each other", where, hint="keep one of them")
    return rule


def parse_split_sets(document: YamlDocument) -> SplitRules:
    """Parse the section `split_sets`: rules by the name of their set."""
    sets = {}
    for name in get_section(document, "split_sets"):
        if not is_split_name(name):
            hint = "use letters, digits, '.', '_' and '-'"
            raise config_error(
                f"{name!r} is not a valid name of a split set", document.where("split_sets", name), hint=hint
            )
        sets[name] = parse_split_section(document, "split_sets", name)
    return sets


def parse_excludes(document: YamlDocument) -> Excludes:
    """Parse the section `exclude`."""
    known = tuple(each.name for each in fields(Excludes))
    if document.data.get("exclude") is None:
        return Excludes()
    get_section(document, "exclude")
    check_known_keys(document, ("exclude",), known)
    excludes = Excludes(**{name: get_texts(document, "exclude", name) for name in known})
    for name in excludes.key_files:
        _check_key_file(name, document.where("exclude", "key_files"))
    return excludes


def _parse_key_files(document: YamlDocument, *path: str) -> dict[str, str]:
    section = get_section(document, *path)
    files = {name: _parse_text(document, section, name, *path) for name in section}
    for file in files.values():
        _check_key_file(file, document.where(*path))
    return files


def _check_key_file(name: str, where: str) -> None:
    """Raise DatasetError for a key file in another folder: data must not decide which files wdsctl opens."""
    if os.path.isabs(name) or ".." in name.split("/"):
        hint = "copy the key list beside dataset.yaml, or pass it to `wdsctl split` with `--keys` or `--exclude-keys`"
        raise config_error(f"key lists must be beside dataset.yaml, but {name!r} is elsewhere", where, hint=hint)


def format_split_section(rule: SplitRule) -> str:
    """Format the section `split`."""
    return format_block("split", _rule_entries(rule), remark=_REMARK)


def format_sets_section(sets: Mapping[str, SplitRule]) -> str:
    """Format the section `split_sets`; empty if there are no sets."""
    if not sets:
        return ""
    entries = {
        name: "{" + ", ".join(f"{key}: {value}" for key, value in _rule_entries(rule).items()) + "}"
        for name, rule in sets.items()
    }
    return format_block("split_sets", entries, remark=_SETS_REMARK)


def format_exclude_section(excludes: Excludes) -> str:
    """Format the section `exclude`; empty if it excludes nothing."""
    entries = {name: _format_list(each) for name, each in excludes_to_plain(excludes).items()}
    return format_block("exclude", entries, remark=_EXCLUDE_REMARK) if entries else ""


def _rule_entries(rule: SplitRule) -> dict[str, str]:
    """Return the YAML values of a rule by key, without defaults except `by` and `seed` of shares."""
    entries: dict[str, str] = {}
    if rule.shares:
        # Without an exponent: YAML reads 1e-06 as text.
        shares = {
            name: str(int(share)) if share == int(share) else format(Decimal(repr(share)), "f")
            for name, share in rule.shares.items()
        }
        entries["shares"] = _format_mapping(shares)
        entries |= ({"by": rule.by} if rule.is_counted or rule.kind == "key" else {}) | {"seed": str(rule.seed)}
    for key in _TEXT_KEYS:
        if getattr(rule, key):
            entries[key] = format_scalar(getattr(rule, key))
    if rule.patterns:
        entries["patterns"] = _format_mapping({name: _format_list(each) for name, each in rule.patterns.items()})
    if rule.keys:
        entries["keys"] = _format_mapping({name: format_flow_scalar(file) for name, file in rule.keys.items()})
    if rule.fold is not None:
        entries["fold"] = f"[{rule.fold[0]}, {rule.fold[1]}]"
    return entries | ({"allow_empty": "true"} if rule.allow_empty else {})


def _format_mapping(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{format_flow_scalar(name)}: {value}" for name, value in entries.items()) + "}"


def _format_list(entries: tuple[str, ...] | list[str]) -> str:
    # Braces, brackets and commas are YAML syntax inside brackets.
    return "[" + ", ".join(map(format_flow_scalar, entries)) + "]"


def _parse_shares(document: YamlDocument, *path: str) -> dict[str, float]:
    shares = get_section(document, *path, "shares")
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < float("inf"):
            where = document.where(*path, "shares", name)
            raise config_error(f"{name}: expected a number above 0, found {describe_value(share)}", where)
    return shares


def _parse_by(document: YamlDocument, section: Mapping[str, Any], *path: str) -> Any:
    by = section.get("by", "auto")
    if by not in _BY_VALUES:
        hint = did_you_mean(str(by), _BY_VALUES) or f"write one of {', '.join(_BY_VALUES)}"
        raise config_error(
            f"by: expected {', '.join(_BY_VALUES)}, found {describe_value(by)}", document.where(*path, "by"), hint=hint
        )
    return by


def _parse_int(document: YamlDocument, section: Mapping[str, Any], key: str, *path: str) -> int:
    value = section.get(key, 0)
    if type(value) is not int:
        raise config_error(f"{key}: expected a whole number, found {describe_value(value)}", document.where(*path, key))
    return value


def _parse_text(document: YamlDocument, section: Mapping[str, Any], key: str, *path: str) -> str:
    value = section.get(key, "")
    if not isinstance(value, str):
        raise config_error(f"{key}: expected text, found {describe_value(value)}", document.where(*path, key))
    return value


def _parse_fold(document: YamlDocument, section: Mapping[str, Any], *path: str) -> tuple[int, int] | None:
    value = section.get("fold")
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
    if not is_pair or not 0 <= value[0] < value[1]:
        raise config_error(
            f"fold: expected a fold and the number of folds, such as [0, 5], found {describe_value(value)}",
            document.where(*path, "fold"),
        )
    return value[0], value[1]
