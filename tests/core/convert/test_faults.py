"""Injected faults: what finds them, and that nothing crashes or changes data. The table is in docs/validate.md."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.faults import BEGIN, EACH, END, KINDS, PAGE, Fault, run, table, the_faults


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The loader tells of every sample that it leaves out."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_a_fault_of_every_kind_is_found_by_hashes_and_nothing_crashes(tmp_path: Path) -> None:
    seen = list(run([Fault(kind, seed) for kind in KINDS for seed in (0, 1)], tmp_path))
    assert all("hashes" in each.found for each in seen), seen


@pytest.mark.slow
def test_two_hundred_faults_are_found_by_hashes_and_the_table_in_the_docs_is_current(tmp_path: Path) -> None:
    seen = list(run(the_faults(), tmp_path))
    assert len(seen) == len(KINDS) * EACH == 200
    assert [each.fault for each in seen if "hashes" not in each.found] == []
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert table(seen) == written, "python -m tests.core.faults writes it"
