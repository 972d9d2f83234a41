"""What the harness measures and what it reports."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.__main__ import BENCHES
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.measure import ContenderError, Cost, measure
from benchmarks.memory import tree_cpu_seconds
from benchmarks.places import DATA, PEERS, REPOSITORY, shown
from benchmarks.report import write_report
from benchmarks.results import Entry, Row, Subject, load_subjects, save_subject
from benchmarks.targets import TARGETS, Target, judge
from benchmarks.wording import COLUMNS, SUBJECTS

if TYPE_CHECKING:
    from pathlib import Path

BURN = "import time\nwhile time.process_time() < 0.3: pass"
BURN_IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
PIPED: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def an_entry(name: str, **median: float) -> Entry:
    return Entry(name=name, command=name, median=median, rounds=[median])


def a_subject(name: str, *rows: Row) -> Subject:
    machine = {"cpu": "a cpu", "cores": "2", "memory": "24 GiB", "system": "Linux 6", "python": "3.11.0"}
    versions = {"ours": {"wdsctl": "1"}, "peers": {"litdata": "2"}}
    return Subject(name=name, date="2026-01-01", machine=machine, versions=versions, rows=list(rows))


def test_measure_includes_cpu_of_child_processes() -> None:
    assert measure(python(BURN_IN_A_CHILD)).cpu_seconds >= 0.3


def test_peak_bytes_grow_with_memory_of_command() -> None:
    # In a process of its own: the kernel counts what a child shared with its parent before it began, and a test
    # runner may hold more memory than the command.
    code = (
        "import sys; from benchmarks.measure import measure\n"
        "for held in (0, 200_000_000):\n"
        "    print(measure((sys.executable, '-c', f'x = bytearray({held})')).peak_bytes)"
    )
    done = subprocess.run(python(code), capture_output=True, text=True, check=True, cwd=REPOSITORY)
    small, large = map(int, done.stdout.split())

    assert large - small > 150_000_000


def test_failing_contender_raises_error_with_its_stderr() -> None:
    with pytest.raises(ContenderError, match="no such luck"):
        measure(python("raise SystemExit('no such luck')"))


def test_compete_alternates_order_of_contenders_after_warm_up() -> None:
    order: list[str] = []

    def contender(name: str) -> Contender:
        def after(_: Cost) -> dict[str, float]:
            order.append(name)
            return {}

        return Contender(name=name, command=python("pass"), after=after)

    row = compete("a race", [contender("a"), contender("b")], rounds=2)

    assert order == ["a", "b", "a", "b", "b", "a"]
    assert [len(entry.rounds) for entry in row.entries] == [2, 2]


def test_shown_command_has_no_paths_of_this_machine() -> None:
    command = (str(PEERS / "bin" / "energon"), "prepare", str(DATA / "energon" / "tiny"), "--field-map", '{"a":"b"}')

    assert shown(command) == """energon prepare $DATA/energon/tiny --field-map '{"a":"b"}'"""


def test_judge_compares_with_best_rival() -> None:
    target = Target(subject="s", row="r", entry="us", figure="samples_per_second", bound=2, rivals=("a", "b"))
    row = Row(
        title="r", entries=[an_entry(name, samples_per_second=rate) for name, rate in (("us", 6), ("a", 1), ("b", 4))]
    )

    verdict = judge(target, row)

    assert verdict is not None
    assert (verdict.measured, verdict.is_met) == ("1.50 times", False)


def test_judge_treats_less_time_as_better() -> None:
    target = Target(subject="s", row="r", entry="us", figure="wall_seconds", bound=10, rivals=("a",))
    row = Row(title="r", entries=[an_entry("us", wall_seconds=2), an_entry("a", wall_seconds=30)])

    verdict = judge(target, row)

    assert verdict is not None
    assert (verdict.measured, verdict.is_met) == ("15.00 times", True)


def test_judge_returns_none_for_unmeasured_target() -> None:
    target = Target(subject="s", row="r", entry="us", figure="wall_seconds", bound=10, rivals=("a",))

    assert judge(target, Row(title="r", entries=[an_entry("a", wall_seconds=30)])) is None


def test_save_subject_keeps_other_subjects_in_file(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    first, second = a_subject("folder"), a_subject("loader", Row(title="r", entries=[an_entry("us", wall_seconds=1)]))

    save_subject(file, first)
    save_subject(file, second)

    assert load_subjects(file) == {"folder": first, "loader": second}


def test_report_lists_targets_with_measured_values(tmp_path: Path) -> None:
    row = Row(
        title="folder to shards",
        entries=[
            an_entry("wdsctl prepare, 2 workers", wall_seconds=2.0),
            an_entry("webdataset ShardWriter", wall_seconds=9.0),
        ],
    )
    save_subject(tmp_path / "results.json", a_subject("folder", row))

    write_report(tmp_path / "results.json", tmp_path / "docs" / "page.md")

    page = (tmp_path / "docs" / "page.md").read_text()
    assert "| ≥ 2 times webdataset ShardWriter | 4.50 times | met |" in page
    assert "| webdataset ShardWriter | 9.00 | 4.50 times |" in page


def test_every_target_has_subject_of_report() -> None:
    assert {target.subject for target in TARGETS} <= set(SUBJECTS)


def test_every_subject_has_bench_and_columns() -> None:
    assert set(BENCHES) == set(SUBJECTS) == set(COLUMNS)


def test_measure_includes_cpu_of_process_that_outlives_its_parent() -> None:
    # The middle process ends at once; its child runs on for a while.
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}])"

    assert measure(python(code)).cpu_seconds >= 0.3


def test_tree_cpu_seconds_include_running_and_ended_children() -> None:
    before = tree_cpu_seconds(os.getpid())
    with subprocess.Popen(python(f"{BURN}\nprint(1, flush=True)\ninput()"), **PIPED) as child:
        assert child.stdout is not None
        child.stdout.readline()
        running = tree_cpu_seconds(os.getpid()) - before
        child.communicate(b"\n")
    ended = tree_cpu_seconds(os.getpid()) - before

    assert running >= 0.25
    assert ended >= 0.25


def test_rate_target_below_one_allows_lower_rate_than_rival() -> None:
    target = Target(subject="s", row="r", entry="us", figure="samples_per_second", bound=0.85, rivals=("a",))
    row = Row(title="r", entries=[an_entry("us", samples_per_second=9), an_entry("a", samples_per_second=10)])

    verdict = judge(target, row)

    assert verdict is not None
    assert target.words == "≥ 0.85 times a"
    assert (verdict.measured, verdict.is_met) == ("0.90 times", True)


def test_memory_target_below_one_allows_more_memory_than_rival() -> None:
    target = Target(subject="s", row="r", entry="us", figure="tree_peak_bytes", bound=1 / 1.1, rivals=("a",))
    row = Row(title="r", entries=[an_entry("us", tree_peak_bytes=120), an_entry("a", tree_peak_bytes=100)])

    verdict = judge(target, row)

    assert verdict is not None
    assert target.words == "≤ 1.1 times as much as a"
    assert (verdict.measured, verdict.is_met) == ("1.20 times as much", False)
