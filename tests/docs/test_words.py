"""Names are the field's terms (docs/glossary.md). Retired words are not used again."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

FOLDERS = ("wdsctl", "tests", "examples", "benchmarks", "docs")

#: Words for which the field has a term, or that name neither a type nor a role.
RETIRED_IN_NAMES = frozenset(
    [
        "afresh",
        "anew",
        "arm",
        "arms",
        "around",
        "asked",
        "asking",
        "barren",
        "beside",
        "bring",
        "brings",
        "brought",
        "came",
        "comes",
        "deal",
        "deals",
        "dealt",
        "era",
        "eras",
        "film",
        "films",
        "foresee",
        "foreseen",
        "freight",
        "gave",
        "goes",
        "ground",
        "hear",
        "heard",
        "heirs",
        "kin",
        "landing",
        "leg",
        "legs",
        "luggage",
        "made",
        "manieth",
        "mine",
        "noticed",
        "nursery",
        "ours",
        "patience",
        "placed",
        "said",
        "say",
        "saying",
        "says",
        "seat",
        "sight",
        "standing",
        "stands",
        "stood",
        "strand",
        "strands",
        "telling",
        "tells",
        "theirs",
        "told",
        "travel",
        "travelling",
        "twin",
        "wanted",
        "wants",
        "worth",
    ]
)

#: Retired words in texts: docstrings, comments, messages, help and pages.
RETIRED_IN_TEXT = re.compile(
    r"\b(afresh|anew|barren|freight|manieth|nursery|(?:is|are|be|been|was|were) told|tells? of)\b", re.IGNORECASE
)


def test_names_contain_no_retired_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in _modules()
        if _may_name_retired_word(text := path.read_text(encoding="utf-8"))
        for name, line in _names(ast.parse(text))
        if _has_retired_word(name)
    ]

    assert found == []


def test_texts_and_pages_contain_no_retired_word() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")]
    pages += [*(ROOT / "docs" / "loader").glob("*.md"), ROOT / "wdsctl" / "core" / "codes.md"]
    pages += [path for path in _modules() if path != Path(__file__)]

    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(pages)
        if RETIRED_IN_TEXT.search(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if RETIRED_IN_TEXT.search(line)
    ]

    assert found == []


def _modules() -> list[Path]:
    """All Python files of the repository, without environments and other hidden folders."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(ROOT).parts))


#: Strings and comments, which define no names.
_NOT_CODE = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|'
    r"'''(?:[^\\]|\\.)*?'''|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'(?:[^'\\\n]|\\.)*'|"
    r"#[^\n]*",
    re.DOTALL,
)


def _may_name_retired_word(text: str) -> bool:
    """Whether the text has a retired word outside of strings and comments. To parse every file takes seconds."""
    return any(map(_has_retired_word, set(re.findall(r"\w+", _NOT_CODE.sub("", text)))))


@functools.cache
def _has_retired_word(name: str) -> bool:
    return not RETIRED_IN_NAMES.isdisjoint(_words(name))


def _words(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def _names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names that a module defines: classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case _:
                pass
