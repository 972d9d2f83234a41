"""The threat model names tests, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "security.md"
_NAMED = re.compile(r"`((?:\.\./)?[\w/]+\.py)::(\w+)`")


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = _NAMED.findall(PAGE.read_text())
    assert len(named) > 30
    for file, name in named:
        path = TESTS / "security" / file
        assert re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), f"{file} has no {name}"


def test_every_line_of_the_threat_model_names_a_test() -> None:
    rows = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| Threat"))
    ]
    assert [line for line in rows if not _NAMED.search(line)] == []
