"""The tests that the threat model names exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "security.md"
_NAMED = re.compile(r"`((?:\.\./)?[\w/]+\.py)::(\w+)`")


def test_every_test_named_in_threat_model_exists() -> None:
    references = _NAMED.findall(PAGE.read_text())
    assert len(references) > 30
    for file, name in references:
        path = TESTS / "security" / file
        assert re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), f"{file} has no {name}"


def test_every_threat_names_test() -> None:
    rows = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| Threat"))
    ]
    assert [line for line in rows if not _NAMED.search(line)] == []
