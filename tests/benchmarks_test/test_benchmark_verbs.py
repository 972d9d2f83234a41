"""The parts of the benchmarks of daily commands: their corpora and roots, and the checks that a figure must pass."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest

from benchmarks import verbs_bench
from benchmarks.lines import caption, conversation, write_lines
from benchmarks.measure import ContenderError
from benchmarks.results import Entry, Row
from benchmarks.roots import linked_root
from benchmarks.targets import TARGETS, Target, judge
from wdsctl.core.index.index import index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def two_lines(tmp_path: Path) -> Path:
    write_lines(tmp_path / "a.jsonl", 0, 2, caption)
    return tmp_path


@pytest.mark.parametrize(("text", "least", "most"), [(caption, 300, 520), (conversation, 1500, 2600)])
def test_write_lines_writes_numbered_objects_within_size_range(
    tmp_path: Path, text: Callable[[Random], str], least: int, most: int
) -> None:
    write_lines(tmp_path / "a.jsonl", 7, 300, text)

    lines = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(7, 307))
    assert all(least <= len(line) <= most for line in lines)


def test_write_lines_is_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / name, 0, 20, conversation)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_linked_root_limits_shards_and_takes_name(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for name in ("a.tar", "b.tar", "c.jsonl", "notes.txt"):
        (tmp_path / "corpus" / name).touch()

    root = linked_root("somebody", "corpus", shards=1, name="small", data=tmp_path)

    assert [path.relative_to(tmp_path).as_posix() for path in root.iterdir()] == ["somebody/small/a.tar"]
    whole = linked_root("somebody", "corpus", data=tmp_path)
    assert {path.name for path in whole.iterdir()} == {"a.tar", "b.tar", "c.jsonl"}


@pytest.mark.parametrize("has_rows", [True, False])
def test_check_indexed_verifies_samples_and_presence_of_rows(two_lines: Path, *, has_rows: bool) -> None:
    index(str(two_lines), sample_rows=has_rows)

    verbs_bench.check_indexed(two_lines, 2, has_rows=has_rows)
    with pytest.raises(ContenderError, match="rows of them"):
        verbs_bench.check_indexed(two_lines, 2, has_rows=not has_rows)
    with pytest.raises(ContenderError, match="2 samples of 3"):
        verbs_bench.check_indexed(two_lines, 3, has_rows=has_rows)


def test_rate_target_without_rivals_is_an_absolute_bound() -> None:
    target = Target(subject="s", row="r", entry="us", figure="gigabytes_per_second", bound=0.5)

    assert target.words == "≥ 0.50 GB/s"
    for rate, is_met in ((0.4, False), (0.6, True)):
        figures = {"gigabytes_per_second": rate}
        entry = Entry(name="us", command="us", median=figures, rounds=[figures])
        verdict = judge(target, Row(title="r", entries=[entry]))
        assert verdict is not None
        assert (verdict.measured, verdict.is_met) == (f"{rate:.2f} GB/s", is_met)


def test_verb_targets_name_existing_rows_and_contenders() -> None:
    rows = {
        verbs_bench.GET_TITLE: set(verbs_bench.GET_NAMES),
        verbs_bench.MEMORY_TITLE: set(map(verbs_bench.size_name, verbs_bench.SIZES)),
        **{title: set(verbs_bench.LINES_NAMES) for title in verbs_bench.LINES_TITLES.values()},
    }
    targets = [target for target in TARGETS if target.subject == "verbs"]

    assert targets
    for target in targets:
        assert {target.entry, *target.rivals} <= rows[target.row]
