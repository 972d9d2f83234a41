"""Parses a blend file into a tree of nodes that know their lines: full YAML, with anchors, aliases and merge keys.

Aliases stay shared, so that a small file with many aliases makes a small tree. Keys are the literal text of the file
(`1:` and `yes:` are the words 1 and yes), as in Energon.

Also here, for the other modules of this room: errors that name the line, exact weights and repetitions (fractions from
0 up), and the resolution of paths. A path is relative to the folder of its blend file, unless it is absolute or a URL.
"""

from __future__ import annotations

import math
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.fields import nearest_word
from wdsctl.core.urls import is_url, normalize_root, protocol, redact_secrets, without_query
from wdsctl.core.yaml_files.document import describe_value
from wdsctl.core.yaml_files.limits import (
    MAX_ALIASED_VALUES,
    MAX_YAML_DEPTH,
    YamlCycleError,
    YamlError,
    compose_yaml,
    line_of,
    mapping_entries,
    refuse_expansion,
    too_deep_error,
    too_many_aliases_error,
)

if TYPE_CHECKING:
    import yaml


BLEND_DOC_PATH = "docs/blend-files.md"


class NodeLocation(NamedTuple):
    """A line of a file, or a key of a mapping that was built in code."""

    source: str
    line: int = 0  # from 1; 0: the mapping was built in code

    def __str__(self) -> str:
        return redact_secrets(self.source) + f":{self.line}" * bool(self.line)

    @property
    def at_line(self) -> str:
        """The location as the end of a sentence: `at line 7`."""
        return f"at line {self.line}" if self.line else f"at {redact_secrets(self.source)}"


def blend_error(message: str, location: NodeLocation, *, hint: str, code: str = "WDS600") -> DatasetError:
    return DatasetError(message, hint=hint, where=str(location), code=code)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'weight'?`, or an empty text if no known word is similar."""
    near = nearest_word(word, known)
    return f"; did you mean {near!r}?" if near else ""


def describe_node_value(value: object) -> str:
    """A phrase for a value, to use in a message."""
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else describe_value(value)


_YAML_TAG_PREFIX = "tag:yaml.org,2002:"
_HINT = "check this line and the one before it"


@dataclass(frozen=True, slots=True)
class Node:
    """`value`: dict[str, Node], list[Node], or a plain value. `key_locations`: of each key of a mapping."""

    value: Any
    location: NodeLocation
    key_locations: dict[str, NodeLocation] = field(default_factory=dict)

    def location_of(self, key: str) -> NodeLocation:
        """The location of a key, or of the mapping if it lacks the key."""
        return self.key_locations.get(key, self.location)


def check_keys(node: Node, known: Iterable[str]) -> None:
    """Raise DatasetError WDS600 for a key of a mapping that is not in `known`."""
    names = list(dict.fromkeys(known))
    for key in node.value:
        if key not in names:
            location = node.location_of(key)
            message = f"unknown key {key!r} {location.at_line}{suggestion(key, names)}"
            raise blend_error(message, location, hint=f"use one of the keys {', '.join(names)}")


def from_yaml(text: str, source: str) -> Node:
    """Parse YAML text.

    Raises DatasetError with the line: WDS600 for invalid YAML, duplicate keys and tags that name code; WDS601 for an
    anchor that contains itself.
    """
    try:
        root = compose_yaml(text)
        if root is None:
            return Node(None, NodeLocation(source))
        refuse_expansion(root, max_aliased_values=None)
        return _NodeBuilder(source).build(root)
    except YamlError as error:
        message = f"the file is not valid YAML: {error.message}" if error.is_syntax else error.message
        code = "WDS601" if isinstance(error, YamlCycleError) else "WDS600"
        raise blend_error(message, NodeLocation(source, error.line), hint=error.hint, code=code) from error


def from_mapping(value: Mapping[str, Any], source: str) -> Node:
    """The tree of a mapping that was built in code. Locations are paths to values: `mapping.blend[1]`."""
    return _node_from_value(value, NodeLocation(source), 0)


def node_value(node: Node) -> Any:
    """The plain values, without locations. Raises DatasetError WDS600 if aliases expand to too many values."""
    remaining = MAX_ALIASED_VALUES

    def expand(value: Any) -> Any:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise _limit_error(too_many_aliases_error(node.location.line), node.location)
        if isinstance(value, dict):
            return {key: expand(each.value) for key, each in value.items()}
        return [expand(each.value) for each in value] if isinstance(value, list) else value

    return expand(node.value)


class _NodeBuilder:
    """Builds a `Node` for each node that PyYAML composed, and reuses it for aliases."""

    def __init__(self, source: str) -> None:
        import yaml

        self._source = source
        self._scalar_constructor = yaml.constructor.SafeConstructor()
        self._built: dict[int, Node] = {}
        self._merge_budget = MAX_ALIASED_VALUES  # entries that merge keys may still copy

    def build(self, node: yaml.Node) -> Node:
        if id(node) not in self._built:
            self._built[id(node)] = self._build_new(node)
        return self._built[id(node)]

    def _build_new(self, node: yaml.Node) -> Node:
        import yaml

        kind = node.tag.removeprefix(_YAML_TAG_PREFIX)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return Node([self.build(each) for each in node.value], self._location(node))
        if isinstance(node, yaml.ScalarNode) and kind in ("str", "timestamp", "value"):
            return Node(node.value, self._location(node))
        if isinstance(node, yaml.ScalarNode) and kind in ("null", "bool", "int", "float"):
            return Node(self._scalar_value(node), self._location(node))
        raise blend_error(
            f"the tag !{kind} is not supported", self._location(node), hint="write the value without a tag"
        )

    def _scalar_value(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._scalar_constructor.construct_object(node)
        except (ValueError, KeyError) as error:
            raise blend_error(f"{node.value[:60]!r} does not fit its tag", self._location(node), hint=_HINT) from error

    def _mapping(self, node: yaml.MappingNode) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, NodeLocation] = {}
        merged: list[Node] = []
        for key, value in mapping_entries(node):
            name, location = key.value, self._location(key)
            keys[name] = location
            if key.tag == _YAML_TAG_PREFIX + "merge":
                merged = self._merged_mappings(self.build(value), location)
            else:
                values[name] = self.build(value)
        self._merge_budget -= sum(len(each.value) for each in merged)
        if self._merge_budget < 0:
            raise _limit_error(too_many_aliases_error(0), self._location(node))
        for each in merged:  # own keys override merged ones, and earlier merged mappings override later ones
            for name in each.value.keys() - values.keys():
                keys[name] = each.location_of(name)
            values = {**each.value, **values}
        return Node(values, self._location(node), keys)

    def _merged_mappings(self, node: Node, location: NodeLocation) -> list[Node]:
        nodes: Iterable[Node] = node.value if isinstance(node.value, list) else [node]
        for each in nodes:
            if not isinstance(each.value, dict):
                hint = "write `<<: *anchor` with the anchor of a mapping"
                raise blend_error(
                    f"<<: expected a mapping to merge, found {describe_node_value(each.value)}", location, hint=hint
                )
        return list(nodes)

    def _location(self, node: yaml.Node) -> NodeLocation:
        return NodeLocation(self._source, line_of(node))


def _node_from_value(value: Any, location: NodeLocation, depth: int) -> Node:
    if depth > MAX_YAML_DEPTH:
        raise _limit_error(too_deep_error(location.line), location)
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), "")
        if not isinstance(odd, str):
            raise blend_error(f"the key {describe_node_value(odd)} is not text", location, hint="put the key in quotes")
        keys = {key: NodeLocation(f"{location.source}.{key}") for key in value}
        return Node({key: _node_from_value(each, keys[key], depth + 1) for key, each in value.items()}, location, keys)
    if isinstance(value, list | tuple):
        locations = [NodeLocation(f"{location.source}[{i}]") for i in range(len(value))]
        return Node(
            [_node_from_value(each, at, depth + 1) for each, at in zip(value, locations, strict=True)], location
        )
    return Node(os.fspath(value) if isinstance(value, os.PathLike) else value, location)


def _limit_error(limit: YamlError, location: NodeLocation) -> Exception:
    return blend_error(limit.message, location, hint=limit.hint)


# The exponent has few digits: 1e999999999 would be a number of a billion digits.
_NUMBER = re.compile(r"\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?|\d{1,30}/\d{1,30}", re.ASCII)


def parse_amount(node: Node, key: str, location: NodeLocation) -> Fraction:
    """2, 0.1 (a tenth), 1e-3 or "1/3". Raises DatasetError WDS602 for anything else, and below zero."""
    value = _exact(node.value)
    if value is None or value < 0:
        hint = 'write a number such as 2, 0.5 or "1/3"; an entry with 0 is never read'
        raise blend_error(
            f"{key}: expected a number from zero up, found {describe_node_value(node.value)}",
            location,
            hint=hint,
            code="WDS602",
        )
    return value


def _exact(value: object) -> Fraction | None:
    match value:
        case bool():
            return None
        case Rational():
            return Fraction(int(value.numerator), int(value.denominator))
        case Real():
            # The decimal number that `repr` shows, not its nearest binary fraction.
            return Fraction(repr(float(value))) if math.isfinite(value) else None
        case str() if _NUMBER.fullmatch(value):
            denominator = value.partition("/")[2]
            return None if denominator and int(denominator) == 0 else Fraction(value)
    return None


_FILESYSTEM_PREFIX = "filesystem://"


def resolve_blend_path(path: str, folder: str) -> str:
    """The absolute path or URL. `folder`: that of the file that names the path, absolute or a URL."""
    if protocol(path):
        return normalize_root(path)
    if os.path.isabs(path):
        return path
    if is_url(folder):
        return _join_url(folder, path)
    joined = os.path.join(folder, path)
    # After a symbolic link, `..` leads to the parent of the link's target, so the system resolves it.
    return joined if ".." in path.split("/") else os.path.normpath(joined)


def resolve_aux_path(path: str, folder: str) -> str:
    """Like `resolve_blend_path`, for an auxiliary store, which may be a folder of files: `filesystem://dir`."""
    if not path.startswith(_FILESYSTEM_PREFIX):
        return resolve_blend_path(path, folder)
    inner = resolve_blend_path(path.removeprefix(_FILESYSTEM_PREFIX), folder)
    return f"filesystem+{inner}" if is_url(inner) else _FILESYSTEM_PREFIX + inner


def folder_of(path: str) -> str:
    if is_url(path):
        return path.partition("?")[0].rpartition("/")[0]
    return os.path.dirname(path)


def is_jsonl_reference(path: str) -> bool:
    return is_jsonl_name(without_query(path))


def real_file(path: str) -> str:
    """An identity that is equal for all paths to one file."""
    return path if is_url(path) else os.path.realpath(path)


def _join_url(folder: str, path: str) -> str:
    scheme, _, rest = folder.partition("://")
    bucket, _, inside = rest.partition("/")
    return f"{scheme}://{bucket}{posixpath.normpath(posixpath.join('/', inside, path))}"
