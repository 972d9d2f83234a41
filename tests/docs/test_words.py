"""Names are the field's terms (docs/glossary.md). A word that was retired does not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import wdsctl
from tests.docs.pages import ROOT

PACKAGE = Path(wdsctl.__file__).parent

#: Each of these named something for which the field has a term, or named neither a type nor a role.
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

#: The same for texts that people read: docstrings, comments, messages, help and pages.
RETIRED_IN_TEXT = re.compile(
    r"\b(afresh|anew|barren|freight|manieth|nursery|(?:is|are|be|been|was|were) told|tells? of)\b", re.IGNORECASE
)


def test_no_name_in_the_package_is_a_retired_word() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, line in _names(ast.parse(path.read_text(encoding="utf-8")))
        if RETIRED_IN_NAMES.intersection(_words(name))
    ]

    assert found == []


def test_no_text_in_the_package_or_on_a_page_has_a_retired_word() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")]
    pages += [*(ROOT / "docs" / "loader").glob("*.md"), PACKAGE / "core" / "codes.md", *PACKAGE.rglob("*.py")]

    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(pages)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if RETIRED_IN_TEXT.search(line)
    ]

    assert found == []


def _words(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def _names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What a module names: classes, functions, parameters, variables and attributes."""
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
