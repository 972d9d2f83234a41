"""YAML with its lines: parsed safely, every key's line known, no key twice; and written the same way every time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.yaml_limits import YamlLimit, compose, refuse_expansion

if TYPE_CHECKING:
    from collections.abc import Mapping

    import yaml

Path = tuple[str, ...]

_PLAIN = re.compile(r"[A-Za-z][\w.,\[\] -]*[\w.\]]|[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Document:
    """`data`: plain Python values. `lines`: the line of each key, counted from 1, by its path from the top."""

    path: str
    data: Any
    lines: dict[Path, int]

    def where(self, *path: object) -> str:
        """`dataset.yaml:7`: the line of the key, or of the nearest one above it."""
        keys = tuple(map(str, path))
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.lines:
                return f"{self.path}:{self.lines[keys[:end]]}"
        return self.path


def parse(text: str, path: str) -> Document:
    """Raises DatasetError WDS220 with the line: no YAML, unsafe tags, several documents, a key that stands twice."""
    import yaml

    lines: dict[Path, int] = {}
    try:
        node = compose(text)
        if node is not None:
            refuse_expansion(node)
            _note_lines(node, (), lines, path)
        return Document(path, None if node is None else _constructed(node), lines)
    except YamlLimit as error:
        raise _unparsed(error.message, path + f":{error.line}" * bool(error.line), error.hint) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise _unparsed(error.problem or "it does not parse", path + line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _unparsed(" ".join(str(error).split()), path) from error


def _constructed(node: yaml.Node) -> Any:
    import yaml

    return yaml.constructor.SafeConstructor().construct_document(node)


def lines_of_key(text: str, key: str) -> range | None:
    """The 0-based lines that a top-level key and its value take; an empty range at the end if it is absent.

    None if the top level is not written as `key: value` lines, but as `{...}`.
    """
    import yaml

    root = compose(text)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    end = root.end_mark.line + (root.end_mark.column > 0)
    for name, value in root.value:
        if name.value == key:
            return range(name.start_mark.line, max(name.end_mark.line, _last_line(value)) + 1)
    return range(end, end)


def block(key: str, entries: Mapping[str, str], *, remark: str = "") -> str:
    """`key:` and its entries, indented; the values are YAML already."""
    if not entries:
        return f"{key}: {{}}\n"
    head = f"{key}:" + f"            {remark}" * bool(remark)
    return "\n".join([head, *(f"  {scalar(name)}: {value}" for name, value in entries.items())]) + "\n"


def dump(value: Mapping[str, Any]) -> str:
    """Block style, keys in their order, non-ASCII text as it is."""
    import yaml

    plain = dict(value)
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    if yaml.safe_load(text) != plain:
        # PyYAML writes some line breaks of Unicode (U+0085) as they are, and reads them as blanks.
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, width=100)
    return text


def scalar(text: str) -> str:
    """A text as YAML: plain where it reads back as the same text, in quotes otherwise."""
    import yaml

    if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """A text as YAML in quotes."""
    import yaml

    said: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=2**30)
    return said.rstrip("\n")


def _note_lines(node: yaml.Node, path: Path, lines: dict[Path, int], file: str) -> None:
    import yaml

    # Nothing that we name lies deeper, and aliases can make a small file endlessly deep.
    if not isinstance(node, yaml.MappingNode) or len(path) == 3:
        return
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _unparsed("a key must be a word", f"{file}:{key.start_mark.line + 1}")
        here = (*path, key.value)
        line = key.start_mark.line + 1
        if here in lines:
            raise _unparsed(f"{key.value} stands twice, first in line {lines[here]}", f"{file}:{line}")
        lines[here] = line
        _note_lines(value, here, lines, file)


def _last_line(node: yaml.Node) -> int:
    """The 0-based line of a value's last character. The mark of a block lies beyond the comments that follow it."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    end = node.end_mark
    return end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line


def _unparsed(
    message: str, where: str, hint: str = "look at the line that is named and the one before it"
) -> DatasetError:
    return DatasetError(
        f"the file is not as it must be: {message}",
        hint=hint,
        where=where,
        code="WDS220",
    )
