"""Parts in memory, as levels look at them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.build import reading
from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck

Codes = list[tuple[str, str]]  # (code, message)


def at_once(check: Callable[..., None], name: str, data: bytes, *more: object) -> Codes:
    found = LocatedFindingCollector("a.tar")
    check(reading(data), PartToCheck(0, "k", name, 0, len(data)), *more, found)
    return [(each.finding.code, each.finding.message) for each in found.to_findings()]


@pytest.fixture
def looked() -> Callable[..., Codes]:
    """Look at one part: (check, name, bytes, what else the check takes) -> what is found."""
    return at_once
