"""Read dataset.yaml as values with the lines of their keys, access its sections strictly, and format values.

Unknown keys and wrong types are errors with their line. Equal values are always formatted as the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.text import escape_control_chars
from wdsctl.core.yaml_files.limits import (
    YamlError,
    compose_yaml,
    line_of,
    mapping_entries,
    refuse_expansion,
    translate_yaml_errors,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import yaml


YamlPath = tuple[str, ...]

_PLAIN_SCALAR = re.compile(r"[A-Za-z][\w.,\[\] -]*[\w.\]]|[A-Za-z]")


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed document. `data`: plain Python values. `lines`: the line of each key by its path, from 1."""

    path: str
    data: Any
    lines: dict[YamlPath, int]

    def where(self, *path: object) -> str:
        """Return `dataset.yaml:7`: the line of the key, or of the nearest key above it."""
        keys = tuple(map(str, path))
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.lines:
                return f"{self.path}:{self.lines[keys[:end]]}"
        return self.path


def parse_yaml(text: str, path: str, *, joined_lists: Collection[str] = ()) -> YamlDocument:
    """Parse a document. `joined_lists`: top-level keys that may be repeated, if all their values are lists.

    Raises DatasetError WDS220, with the line, for invalid YAML, unsafe tags, several documents, and duplicate keys.
    """
    import yaml

    lines: dict[YamlPath, int] = {}
    try:
        node = compose_yaml(text)
        if node is None:
            return YamlDocument(path, None, lines)
        refuse_expansion(node)
        _join_lists(node, joined_lists)
        _record_lines(node, (), lines)
        with translate_yaml_errors():
            return YamlDocument(path, yaml.constructor.SafeConstructor().construct_document(node), lines)
    except YamlError as error:
        where = path + f":{error.line}" * bool(error.line)
        raise DatasetError(f"invalid file: {error.message}", hint=error.hint, where=where, code="WDS220") from error


def key_line_range(text: str, key: str) -> range | None:
    """Return the 0-based lines of a top-level key and its value; an empty range at the end without the key.

    Returns None if the top level is written as `{...}`, not as `key: value` lines.
    """
    import yaml

    root = compose_yaml(text)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    end = root.end_mark.line + (root.end_mark.column > 0)
    for name, value in root.value:
        if name.value == key:
            return range(name.start_mark.line, max(name.end_mark.line, _last_line(value)) + 1)
    return range(end, end)


def format_block(key: str, entries: Mapping[str, str], *, remark: str = "") -> str:
    """Format `key:` and its indented entries, whose values are YAML text."""
    if not entries:
        return f"{key}: {{}}\n"
    head = f"{key}:" + f"            {remark}" * bool(remark)
    return "\n".join([head, *(f"  {format_scalar(name)}: {value}" for name, value in entries.items())]) + "\n"


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Format values in block style, in order, with non-ASCII text unescaped."""
    import yaml

    plain = dict(value)
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    if escape_control_chars(text) != text or yaml.safe_load(text) != plain:
        # PyYAML escapes neither characters that reorder text nor some line breaks (U+0085), which it reads as spaces.
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, width=100)
    return text


def format_scalar(text: str) -> str:
    """Format text as YAML: plain if it parses back to the same text, quoted otherwise."""
    import yaml

    if _PLAIN_SCALAR.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return quote_scalar(text)


def format_flow_scalar(text: str) -> str:
    """Format text as YAML within brackets, where commas and brackets also need quotes."""
    plain = format_scalar(text)
    return plain if plain[0] == '"' or not set(text) & set(",[]{}") else quote_scalar(text)


def quote_scalar(text: str) -> str:
    """Format text as quoted YAML."""
    import yaml

    quoted: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=2**30)
    return quoted.rstrip("\n")


def _join_lists(node: yaml.Node, keys: Collection[str]) -> None:
    """Append the items of repeated keys to the list of the first one."""
    import yaml

    if not (keys and isinstance(node, yaml.MappingNode)):
        return
    first: dict[str, yaml.SequenceNode] = {}
    kept = []
    for key, value in node.value:
        is_list = key.value in keys and isinstance(value, yaml.SequenceNode)
        if is_list and key.value in first:
            first[key.value].value = [*first[key.value].value, *value.value]
            continue
        if is_list:
            first[key.value] = value
        kept.append((key, value))
    node.value = kept


def _record_lines(node: yaml.Node, path: YamlPath, lines: dict[YamlPath, int]) -> None:
    import yaml

    # Sections are not deeper, and aliases can nest the values of a small file very deeply.
    if isinstance(node, yaml.MappingNode) and len(path) < 3:
        for key, value in mapping_entries(node):
            lines[(*path, key.value)] = line_of(key)
            _record_lines(value, (*path, key.value), lines)


def _last_line(node: yaml.Node) -> int:
    """Return the 0-based line of a value's last character. PyYAML's end mark of a block is after comments."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    end = node.end_mark
    return end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line


REDETECT_HINT = "correct the line, or run `wdsctl prepare DATASET --redetect` to write the file again"


def get_section(document: YamlDocument, *path: str) -> dict[str, Any]:
    """Return the mapping at a path, with text as keys; empty if it is absent."""
    value = _value_at(document, path)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise config_error(
            f"{path[-1]}: expected `name: value` pairs, found {describe_value(value)}", document.where(*path)
        )
    for key in value:
        if not isinstance(key, str):  # such as null for an empty key
            raise config_error(
                f"{path[-1]}: {describe_value(key)} is not a name; put it in quotes", document.where(*path, key)
            )
    return value


def get_texts(document: YamlDocument, *path: str) -> tuple[str, ...]:
    """Return a list of text, or one text as a list, at a path; empty if it is absent."""
    value = _value_at(document, path)
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
        raise config_error(
            f"{path[-1]}: expected text or a list of text, found {describe_value(value)}", document.where(*path)
        )
    return tuple(texts)


def _value_at(document: YamlDocument, path: YamlPath) -> Any:
    value: Any = document.data
    for key in path:
        value = value.get(key)
    return value


def check_known_keys(document: YamlDocument, path: YamlPath, known: tuple[str, ...]) -> None:
    """Raise DatasetError WDS220 for the first unknown key at a path."""
    for key in _value_at(document, path):
        if key not in known:
            shown = [name for name in known if not name.startswith("__")] or list(known)
            hint = did_you_mean(str(key), shown) or f"choose one of {', '.join(shown)}"
            raise config_error(f"unknown key {key!r}", document.where(*path, key), hint=hint)


def describe_value(value: object) -> str:
    """Format a value for an error."""
    return "nothing" if value is None else repr(value)[:60]


def config_error(message: str, where: str, *, hint: str = REDETECT_HINT) -> DatasetError:
    """Build the error for an invalid value in dataset.yaml."""
    return DatasetError(message, hint=hint, where=where, code="WDS220")
