"""A blend file as a tree of values that know their lines. YAML in full: anchors, aliases, merge keys.

Aliases stay shared, so that a small file with many of them makes a small tree. Keys are the text that stands there
(`1:` and `yes:` are the words 1 and yes), as in Energon.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wdsctl.core.blend_file.problems import Place, called, wrong
from wdsctl.core.yaml_limits import ALIASED, DEEPEST, YamlLimit, compose, too_deep, too_many

if TYPE_CHECKING:
    import yaml

_YAML = "tag:yaml.org,2002:"
_HINT = "look at the line that is named and the one before it"


@dataclass(frozen=True, slots=True)
class Node:
    """`value`: dict[str, Node], list[Node], or a plain value. `keys`: where each key of a mapping stands."""

    value: Any
    place: Place
    keys: dict[str, Place] = field(default_factory=dict)

    def at(self, key: str) -> Place:
        """Where a key stands; without it, where the mapping begins."""
        return self.keys.get(key, self.place)


def from_yaml(text: str, source: str) -> Node:
    """Raises DatasetError with the line: WDS600 no YAML, a key that stands twice, a tag that means code; WDS601 an
    anchor that contains itself."""
    import yaml

    try:
        root = compose(text)
        return Node(None, Place(source)) if root is None else _Composed(source).node(root)
    except YamlLimit as error:
        raise wrong(error.message, Place(source, error.line), hint=error.hint) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(source, mark.line + 1 if mark else 0)
        raise wrong(f"the file is no YAML: {error.problem or 'it does not parse'}", place, hint=_HINT) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"the file is no YAML: {' '.join(str(error).split())}"
        raise wrong(message, Place(source), hint=_HINT) from error


def from_mapping(value: Mapping[str, Any], source: str) -> Node:
    """The same from values made in code. A place is the way to the value: `mapping.blend[1]`."""
    return _from_code(value, Place(source), 0)


def plain(node: Node) -> Any:
    """The values alone. Raises DatasetError WDS600 where aliases make them endlessly many."""
    return _plain(node, node.place, _Budget(ALIASED), 0)


class _Budget:
    def __init__(self, left: int) -> None:
        self.left = left


def _plain(node: Node, place: Place, budget: _Budget, depth: int) -> Any:
    budget.left -= 1
    if budget.left < 0:
        raise _limited(too_many(place.line), place)
    if depth > DEEPEST:
        raise _too_deep(place)
    if isinstance(node.value, dict):
        return {key: _plain(value, place, budget, depth + 1) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(value, place, budget, depth + 1) for value in node.value]
    return node.value


class _Composed:
    """Makes nodes of what PyYAML composed, each once."""

    def __init__(self, source: str) -> None:
        import yaml

        self._source = source
        self._scalars = yaml.constructor.SafeConstructor()
        self._made: dict[int, Node] = {}
        self._open: set[int] = set()
        self._left = ALIASED  # entries that merge keys may still copy

    def node(self, node: yaml.Node, depth: int = 0) -> Node:
        known = self._made.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            message = "an anchor contains itself"
            raise wrong(message, self._place(node), hint="let the alias name something else", code="WDS601")
        if depth > DEEPEST:
            raise _too_deep(self._place(node))
        self._open.add(id(node))
        made = self._made[id(node)] = self._new(node, depth)
        self._open.discard(id(node))
        return made

    def _new(self, node: yaml.Node, depth: int) -> Node:
        import yaml

        kind = node.tag.removeprefix(_YAML)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return Node([self.node(each, depth + 1) for each in node.value], self._place(node))
        if isinstance(node, yaml.ScalarNode) and kind in ("str", "timestamp", "value"):
            return Node(node.value, self._place(node))
        if isinstance(node, yaml.ScalarNode) and kind in ("null", "bool", "int", "float"):
            return Node(self._number(node), self._place(node))
        raise wrong(f"the tag !{kind} is not understood", self._place(node), hint="write the value without a tag")

    def _number(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._scalars.construct_object(node)
        except (ValueError, KeyError) as error:
            raise wrong(f"{node.value[:60]!r} is not what its tag says", self._place(node), hint=_HINT) from error

    def _mapping(self, node: yaml.MappingNode, depth: int) -> Node:
        values: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        merged: list[Node] = []
        for key, value in node.value:
            name, place = self._key(key)
            if name in keys:
                hint = "remove one of them"
                raise wrong(f"the key {name!r} stands twice, first at line {keys[name].line}", place, hint=hint)
            keys[name] = place
            if key.tag == _YAML + "merge":
                merged = self._merged(self.node(value, depth + 1), place)
            else:
                values[name] = self.node(value, depth + 1)
        self._left -= sum(len(each.value) for each in merged)
        if self._left < 0:
            raise _limited(too_many(0), self._place(node))
        for each in merged:  # what stands here wins, and the first of several to be merged
            for name in each.value.keys() - values.keys():
                keys[name] = each.at(name)
            values = {**each.value, **values}
        return Node(values, self._place(node), keys)

    def _merged(self, node: Node, place: Place) -> list[Node]:
        nodes: Iterable[Node] = node.value if isinstance(node.value, list) else [node]
        for each in nodes:
            if not isinstance(each.value, dict):
                hint = "write `<<: *anchor`, where the anchor is at a mapping"
                raise wrong(f"<<: expected a mapping to merge, found {called(each.value)}", place, hint=hint)
        return list(nodes)

    def _key(self, node: yaml.Node) -> tuple[str, Place]:
        import yaml

        if not isinstance(node, yaml.ScalarNode):
            raise wrong("a key must be a word", self._place(node), hint=_HINT)
        return node.value, self._place(node)

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._source, node.start_mark.line + 1)


def _from_code(value: Any, place: Place, depth: int) -> Node:
    if depth > DEEPEST:
        raise _too_deep(place)
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), "")
        if not isinstance(odd, str):
            raise wrong(f"the key {called(odd)} is no text", place, hint="keys are texts")
        keys = {key: Place(f"{place.source}.{key}") for key in value}
        return Node({key: _from_code(each, keys[key], depth + 1) for key, each in value.items()}, place, keys)
    if isinstance(value, list | tuple):
        each_place = [Place(f"{place.source}[{i}]") for i in range(len(value))]
        return Node([_from_code(each, at, depth + 1) for each, at in zip(value, each_place, strict=True)], place)
    return Node(os.fspath(value) if isinstance(value, os.PathLike) else value, place)


def _too_deep(place: Place) -> Exception:
    return _limited(too_deep(place.line), place)


def _limited(limit: YamlLimit, place: Place) -> Exception:
    return wrong(limit.message, place, hint=limit.hint)
