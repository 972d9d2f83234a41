"""How large YAML may become. A few hundred bytes of it can say values that no memory holds: by aliases of aliases, by
merge keys, by nesting, by numbers of digits without end. Every YAML file that is read goes through `compose`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

#: Levels of values in values, through aliases too: deeper than people write, shallower than Python's stack.
DEEPEST = 60
ALIASED = 100_000  # values that aliases and merge keys may make, besides those that are written
LONGEST_NUMBER = 100  # characters; digits cost the square of their number

_SUSPICIOUS = 5_000  # brackets and columns: of fewer, no nesting is made that could be too deep for PyYAML in C
_NUMBERS = frozenset(("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"))


class YamlLimit(ValueError):  # noqa: N818 - both readers of YAML make an error of theirs from it
    """`line` counts from 1; 0 where none is known."""

    def __init__(self, message: str, hint: str, line: int) -> None:
        super().__init__(message)
        self.message, self.hint, self.line = message, hint, line


def too_deep(line: int) -> YamlLimit:
    return YamlLimit(f"values are nested more than {DEEPEST} levels deep", "write it flatter", line)


def too_many(line: int) -> YamlLimit:
    return YamlLimit(f"the aliases here make more than {ALIASED:,} values", "write it with fewer aliases", line)


def compose(text: str) -> yaml.Node | None:
    """The nodes of the one document in a text, in C where PyYAML was built with it: ten times as fast.

    Raises YamlLimit, and what PyYAML raises of a text that is no YAML. Aliases are shared nodes: what walks them all
    calls `refuse_expansion` first.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _refuse_nesting(text, loader)
    node: yaml.Node | None = yaml.compose(text, Loader=loader)
    if node is not None:
        _refuse_long_numbers(node)
    return node


def refuse_expansion(root: yaml.Node) -> None:
    """Raises YamlLimit where aliases or merge keys make many more values than are written, or nest them too deep, or
    an anchor contains itself. Cost: one visit of each node that is written.
    """
    sizes: dict[int, tuple[int, int]] = {}  # by node: values in it, aliases followed, and levels
    written = [0]
    values, _ = _measured(root, sizes, set(), written)
    if values > written[0] + ALIASED:
        raise too_many(_line(root))


def _measured(node: yaml.Node, sizes: dict[int, tuple[int, int]], opened: set[int], written: list[int]) -> Any:
    known = sizes.get(id(node))
    if known is not None:
        return known
    if id(node) in opened:
        raise YamlLimit("an anchor contains itself", "let the alias name something else", _line(node))
    if len(opened) > DEEPEST:
        raise too_deep(_line(node))
    opened.add(id(node))
    written[0] += 1
    values, levels = 1, 0
    for child in _children(node):
        more, below = _measured(child, sizes, opened, written)
        values, levels = values + more, max(levels, below + 1)
    opened.discard(id(node))
    if levels > DEEPEST:
        raise too_deep(_line(node))
    if values > written[0] + ALIASED:
        raise too_many(_line(node))
    sizes[id(node)] = (values, levels)
    return sizes[id(node)]


def _refuse_nesting(text: str, loader: Any) -> None:
    """PyYAML's composer in C ends the process where values are nested too deep for its stack."""
    import yaml

    if text.count("[") + text.count("{") + 2 * max(map(len, text.splitlines()), default=0) < _SUSPICIOUS:
        return  # neither brackets nor columns enough
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise too_deep(event.start_mark.line + 1 if event.start_mark else 0)


def _refuse_long_numbers(root: yaml.Node) -> None:
    import yaml

    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            if len(node.value) > LONGEST_NUMBER and node.tag in _NUMBERS:
                message = f"a number of {len(node.value):,} characters, of which {LONGEST_NUMBER} are allowed"
                raise YamlLimit(message, "put it into quotes if it is text", _line(node))
        elif id(node) not in seen:
            seen.add(id(node))
            waiting += _children(node)


def _children(node: yaml.Node) -> list[Any]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark else 0
