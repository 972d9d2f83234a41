"""Injected faults: checks find them, nothing crashes or changes data. The table is in docs/validate.md."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.faults import BEGIN, EACH, END, KINDS, PAGE, Fault, injected_faults, run, table


@pytest.fixture(autouse=True)
def _silence_logging() -> Iterator[None]:
    """The loader logs every sample that it skips."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_hashes_find_every_kind_of_fault_and_nothing_crashes(tmp_path: Path) -> None:
    results = list(run([Fault(kind, seed) for kind in KINDS for seed in (0, 1)], tmp_path))
    assert all("hashes" in each.found for each in results), results


@pytest.mark.slow
def test_hashes_find_two_hundred_faults_and_docs_table_is_current(tmp_path: Path) -> None:
    results = list(run(injected_faults(), tmp_path))
    assert len(results) == len(KINDS) * EACH == 200
    assert [each.fault for each in results if "hashes" not in each.found] == []
    documented = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert table(results) == documented, "python -m tests.core.faults writes it"
