"""Checks of single parts in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.build import memory_reader
from wdsctl.core.catalog.ledger_checks import LocatedFindingCollector, PartToCheck

Codes = list[tuple[str, str]]  # (code, message)


def run_check(check: Callable[..., None], name: str, data: bytes, *arguments: object) -> Codes:
    collector = LocatedFindingCollector("a.tar")
    check(memory_reader(data), PartToCheck(0, "k", name, 0, len(data)), *arguments, collector)
    return [(each.finding.code, each.finding.message) for each in collector.to_findings()]


@pytest.fixture
def check_part() -> Callable[..., Codes]:
    """A function that checks one part: (check, name, bytes, further arguments of the check) -> findings."""
    return run_check
