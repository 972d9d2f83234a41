"""The texts of the package's modules, read once, and their syntax trees, for the tests that are rules about code."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import wdsctl

PACKAGE = Path(wdsctl.__file__).parent


@functools.cache
def texts() -> dict[str, str]:
    """Path of each module below the package -> its text."""
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
    }


def tree(module: str) -> ast.Module:
    """The syntax tree of a module. It is not kept: the trees of all modules have 170 MB."""
    return ast.parse(texts()[module])


def modules_with(*words: str) -> list[str]:
    """The modules whose text has one of the words: no other module needs a tree for a rule about them."""
    return [module for module, text in texts().items() if any(word in text for word in words)]


def calls(*words: str) -> Iterator[tuple[str, ast.Call, str]]:
    """(module, call, name of the function) of all calls in the modules whose text has one of the words."""
    for module in modules_with(*words):
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Call):
                yield module, node, dotted_name(node.func)


def dotted_name(node: ast.expr) -> str:
    """`a.b.c` of an expression that is one, "" of others."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
