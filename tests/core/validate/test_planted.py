"""Which levels find planted faults, and which do not. The table is in docs/validate.md."""

from __future__ import annotations

from pathlib import Path

from tests.core.planted import BEGIN, END, PAGE, planted_faults, run, sound_datasets, table


def test_datasets_without_planted_faults_have_no_findings(tmp_path: Path) -> None:
    assert [each for each in run(sound_datasets(), tmp_path) if each.found] == []


def test_table_of_planted_faults_matches_docs(tmp_path: Path) -> None:
    faults = planted_faults()
    page = PAGE.read_text(encoding="utf-8")
    count = f"{len(faults)} faults of {len({fault.kind for fault in faults})} kinds"
    assert count in " ".join(page.split()), f"the text beside the table does not say {count}"
    documented = page.partition(BEGIN)[2].partition(END)[0].strip()
    assert table(run(faults, tmp_path)) == documented, "python -m tests.core.planted writes it"
