"""Planted faults: what finds them, and what does not. The table is in docs/validate.md."""

from __future__ import annotations

from pathlib import Path

from tests.core.planted import BEGIN, END, PAGE, run, sound_datasets, table, the_faults


def test_the_datasets_that_faults_are_planted_into_are_sound_on_every_level(tmp_path: Path) -> None:
    assert [each for each in run(sound_datasets(), tmp_path) if each.found] == []


def test_what_finds_seventy_two_planted_faults_of_fifteen_kinds_is_as_the_docs_say(tmp_path: Path) -> None:
    faults = the_faults()
    assert (len(faults), len({fault.kind for fault in faults})) == (72, 15)
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert table(run(faults, tmp_path)) == written, "python -m tests.core.planted writes it"
