"""Commands in hints, messages and pages: the options that they name exist in these commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests import sources
from tests.docs.pages import ROOT

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_COMMAND_LINE = re.compile(r"wdsctl ((?:view|catalog|checkpoint|job|config) [a-z]+|[a-z]+)((?: [^`\n|;&]*)?)")


def test_commands_in_texts_and_pages_have_their_options() -> None:
    options = _options_of_commands()
    pages = [
        ROOT / "README.md",
        ROOT / "wdsctl/core/codes.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/loader").glob("*.md"),
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line[0]}"
        for path in sorted([*pages, *_modules()])
        for line in _COMMAND_LINE.finditer(path.read_text(encoding="utf-8"))
        if line[1] in options and not set(_OPTION.findall(line[2].partition(" -- ")[0])) <= options[line[1]]
    ]

    assert found == []


def test_commands_in_hints_have_their_options() -> None:
    options = _options_of_commands()
    found = [
        f"{module}: {words}"
        for module in sources.modules_with("shell_command")
        for words in _shell_commands(sources.tree(module))
        for command in [next((word for word in words if word in options), "")]
        if command and not {word.partition("=")[0] for word in words if _OPTION.match(word)} <= options[command]
    ]

    assert found == []


def _options_of_commands() -> dict[str, set[str]]:
    """Command, such as `view create` -> its long options."""
    files = (ROOT / "tests/golden/help").glob("*.txt")
    return {path.stem.replace("-", " "): set(_OPTION.findall(path.read_text(encoding="utf-8"))) for path in files}


def _modules() -> list[Path]:
    return sorted((ROOT / "wdsctl").rglob("*.py"))


def _shell_commands(tree: ast.Module) -> Iterator[list[str]]:
    """The constant words of each call of `shell_command` and the like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith("shell_command"):
            yield [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
