"""XML of annotation tools, as values. Entities are refused, since they can expand without end."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.protocol import damaged_file_error

_MAX_DEPTH = 32


def parse_xml(data: bytes, where: str) -> dict[str, Any] | str:
    """The content of an XML document: an element is its text, or an object of its elements; `object` and repeated
    elements are lists. Attributes get names such as `@id`.

    Raises DatasetError WDS233 for XML that is damaged, declares entities, or nests deeper than 32.
    """
    stack: list[tuple[dict[str, Any], list[str]]] = [({}, [])]

    def refuse(*_: Any) -> int:
        raise _xml_error("it declares entities, which can expand without end", where)

    def start(_: str, attributes: dict[str, str]) -> None:
        if len(stack) > _MAX_DEPTH:
            raise _xml_error(f"elements nest deeper than {_MAX_DEPTH}", where)
        stack.append(({f"@{name}": value for name, value in attributes.items()}, []))

    def characters(text: str) -> None:
        stack[-1][1].append(text)

    def end(name: str) -> None:
        children, texts = stack.pop()
        text = "".join(texts).strip()
        if children and text:
            children["#text"] = text
        value = children or text
        parent = stack[-1][0]
        if name in parent:
            if not isinstance(parent[name], list):
                parent[name] = [parent[name]]
            parent[name].append(value)
        else:
            parent[name] = [value] if name == "object" else value

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise _xml_error(str(error), where) from error
    content: dict[str, Any] | str = next(iter(stack[0][0].values()), "")
    return content


def _xml_error(why: str, where: str) -> DatasetError:
    return damaged_file_error(f"the XML cannot be read: {why}", where, copied="file")
