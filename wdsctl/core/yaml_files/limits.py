"""Parse YAML into nodes with their lines, within limits. wdsctl reads every YAML file with `compose_yaml`.

A few hundred bytes of YAML can expand to more values than fit into memory: by aliases of aliases, merge keys,
nesting, and very long numbers. All errors are a `YamlError` with the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml


#: Levels of nested values, including aliases: deeper than people write, shallower than Python's stack.
MAX_YAML_DEPTH = 60
MAX_ALIASED_VALUES = 100_000  # values that aliases and merge keys may add to those in the text
MAX_NUMBER_CHARS = 100  # converting digits costs the square of their number

_MIN_NESTING_CHARS = 5_000  # brackets and columns: fewer cannot nest too deeply for PyYAML's C parser
_NUMBER_TAGS = frozenset(("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"))


class YamlError(ValueError):
    """An error in a YAML text. `line` counts from 1; 0 if unknown. `is_syntax`: the text is not valid YAML."""

    def __init__(self, message: str, hint: str, line: int, *, is_syntax: bool = False) -> None:
        super().__init__(message)
        self.message, self.hint, self.line, self.is_syntax = message, hint, line, is_syntax


class YamlCycleError(YamlError):
    """An anchor that contains itself."""


@contextmanager
def translate_yaml_errors() -> Iterator[None]:
    """Turn PyYAML's errors within the block into YamlError."""
    import yaml

    hint = "check this line and the one before it"
    try:
        yield
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or "it does not parse"
        raise YamlError(message, hint, mark.line + 1 if mark else 0, is_syntax=True) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(" ".join(str(error).split()), hint, 0, is_syntax=True) from error


def mapping_entries(node: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys and values of a mapping. Raises YamlError for duplicate keys and keys that are not scalars."""
    import yaml

    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError("a key must be a single value", "write the key as one word or quoted text", line_of(key))
        if key.value in lines:
            message = f"duplicate key {key.value!r}, first in line {lines[key.value]}"
            raise YamlError(message, "remove one of them", line_of(key))
        lines[key.value] = line_of(key)
    entries: list[tuple[yaml.ScalarNode, yaml.Node]] = node.value
    return entries


def too_deep_error(line: int) -> YamlError:
    return YamlError(f"values are nested more than {MAX_YAML_DEPTH} levels deep", "reduce the nesting", line)


def too_many_aliases_error(line: int) -> YamlError:
    return YamlError(f"the aliases expand to more than {MAX_ALIASED_VALUES:,} values", "use fewer aliases", line)


def compose_yaml(text: str) -> yaml.Node | None:
    """Parse a text with one document into nodes; None if it is empty. PyYAML's C parser is ten times as fast.

    Raises YamlError. Aliases are shared nodes: call `refuse_expansion` before visiting them all.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with translate_yaml_errors():
        _refuse_nesting(text, loader)
        node: yaml.Node | None = yaml.compose(text, Loader=loader)
        if node is not None:
            _refuse_long_numbers(node)
    return node


def refuse_expansion(root: yaml.Node, *, max_aliased_values: int | None = MAX_ALIASED_VALUES) -> None:
    """Raise YamlError if aliases or merge keys add too many values or too much nesting.

    Also refuses an anchor that contains itself, with a YamlCycleError. Costs one visit of each node of the text.
    `max_aliased_values`: None if the caller keeps aliases as shared values.
    """
    sizes: dict[int, tuple[int, int]] = {}  # by node: number of values in it, with aliases, and levels
    opened: set[int] = set()
    written = 0

    def measure(node: yaml.Node) -> tuple[int, int]:
        nonlocal written
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in opened:
            hint = "remove the alias, or change it to another anchor"
            raise YamlCycleError("an anchor contains itself", hint, line_of(node))
        if len(opened) > MAX_YAML_DEPTH:
            raise too_deep_error(line_of(node))
        opened.add(id(node))
        written += 1
        values, levels = 1, 0
        for child in _children(node):
            more, below = measure(child)
            values, levels = values + more, max(levels, below + 1)
        opened.discard(id(node))
        if levels > MAX_YAML_DEPTH:
            raise too_deep_error(line_of(node))
        if max_aliased_values is not None and values > written + max_aliased_values:
            raise too_many_aliases_error(line_of(node))
        sizes[id(node)] = values, levels
        return values, levels

    measure(root)


def _refuse_nesting(text: str, loader: Any) -> None:
    """PyYAML's C parser ends the process if values are nested too deeply for its stack."""
    import yaml

    if text.count("[") + text.count("{") + 2 * max(map(len, text.splitlines()), default=0) < _MIN_NESTING_CHARS:
        return
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_YAML_DEPTH:
            raise too_deep_error(event.start_mark.line + 1 if event.start_mark else 0)


def _refuse_long_numbers(root: yaml.Node) -> None:
    import yaml

    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            if len(node.value) > MAX_NUMBER_CHARS and node.tag in _NUMBER_TAGS:
                message = f"a number of {len(node.value):,} characters; the limit is {MAX_NUMBER_CHARS}"
                raise YamlError(message, "put the value in quotes if it is text", line_of(node))
        elif id(node) not in seen:
            seen.add(id(node))
            waiting += _children(node)


def _children(node: yaml.Node) -> list[Any]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def line_of(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark else 0
