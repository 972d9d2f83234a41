"""What the harness measures, and what it tells."""

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


def test_the_cost_of_a_command_includes_the_cpu_of_its_children() -> None:
    assert measure(python(BURN_IN_A_CHILD)).cpu_seconds >= 0.3


def test_the_peak_memory_grows_with_what_the_command_holds() -> None:
    # From a process of its own: the kernel counts what a child shared with its parent before it began, and a test
    # runner may hold more than the command does.
    code = (
        "import sys; from benchmarks.measure import measure\n"
        "for held in (0, 200_000_000):\n"
        "    print(measure((sys.executable, '-c', f'x = bytearray({held})')).peak_bytes)"
    )
    done = subprocess.run(python(code), capture_output=True, text=True, check=True, cwd=REPOSITORY)
    small, large = map(int, done.stdout.split())

    assert large - small > 150_000_000


def test_a_contender_that_fails_is_an_error_with_its_last_words() -> None:
    with pytest.raises(ContenderError, match="no such luck"):
        measure(python("raise SystemExit('no such luck')"))


def test_every_contender_runs_once_a_round_after_a_warm_up_and_never_always_first() -> None:
    order: list[str] = []

    def contender(name: str) -> Contender:
        def after(_: Cost) -> dict[str, float]:
            order.append(name)
            return {}

        return Contender(name=name, command=python("pass"), after=after)

    row = compete("a race", [contender("a"), contender("b")], rounds=2)

    assert order == ["a", "b", "a", "b", "b", "a"]
    assert [len(entry.rounds) for entry in row.entries] == [2, 2]


def test_a_command_is_shown_without_paths_of_this_machine() -> None:
    command = (str(PEERS / "bin" / "energon"), "prepare", str(DATA / "energon" / "tiny"), "--field-map", '{"a":"b"}')

    assert shown(command) == """energon prepare $DATA/energon/tiny --field-map '{"a":"b"}'"""


def test_a_ratio_is_taken_against_the_best_rival() -> None:
    target = Target(subject="s", row="r", ours="us", figure="samples_per_second", bound=2, rivals=("a", "b"))
    row = Row(
        title="r", entries=[an_entry(name, samples_per_second=rate) for name, rate in (("us", 6), ("a", 1), ("b", 4))]
    )

    verdict = judge(target, row)

    assert verdict is not None
    assert (verdict.measured, verdict.is_met) == ("1.50 times", False)


def test_less_time_is_better() -> None:
    target = Target(subject="s", row="r", ours="us", figure="wall_seconds", bound=10, rivals=("a",))
    row = Row(title="r", entries=[an_entry("us", wall_seconds=2), an_entry("a", wall_seconds=30)])

    verdict = judge(target, row)

    assert verdict is not None
    assert (verdict.measured, verdict.is_met) == ("15.00 times", True)


def test_nothing_is_judged_that_was_not_measured() -> None:
    target = Target(subject="s", row="r", ours="us", figure="wall_seconds", bound=10, rivals=("a",))

    assert judge(target, Row(title="r", entries=[an_entry("a", wall_seconds=30)])) is None


def test_saving_a_subject_leaves_the_others_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    first, second = a_subject("folder"), a_subject("loader", Row(title="r", entries=[an_entry("us", wall_seconds=1)]))

    save_subject(file, first)
    save_subject(file, second)

    assert load_subjects(file) == {"folder": first, "loader": second}


def test_the_report_sets_every_target_beside_what_was_measured(tmp_path: Path) -> None:
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


def test_every_target_has_a_subject_of_the_report() -> None:
    assert {target.subject for target in TARGETS} <= set(SUBJECTS)


def test_every_subject_is_measured_and_has_its_words_and_columns() -> None:
    assert set(BENCHES) == set(SUBJECTS) == set(COLUMNS)


def test_the_cpu_of_a_process_that_outlives_its_parent_counts() -> None:
    # The middle process is gone at once; what it left behind goes on for a while.
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}])"

    assert measure(python(code)).cpu_seconds >= 0.3


def test_the_cpu_of_a_tree_has_that_of_children_under_way_and_of_those_that_ended() -> None:
    before = tree_cpu_seconds(os.getpid())
    with subprocess.Popen(python(f"{BURN}\nprint(1, flush=True)\ninput()"), **PIPED) as child:
        assert child.stdout is not None
        child.stdout.readline()
        under_way = tree_cpu_seconds(os.getpid()) - before
        child.communicate(b"\n")
    ended = tree_cpu_seconds(os.getpid()) - before

    assert under_way >= 0.25
    assert ended >= 0.25


def test_a_rate_may_fall_short_of_a_rival_by_a_share() -> None:
    target = Target(subject="s", row="r", ours="us", figure="samples_per_second", bound=0.85, rivals=("a",))
    row = Row(title="r", entries=[an_entry("us", samples_per_second=9), an_entry("a", samples_per_second=10)])

    verdict = judge(target, row)

    assert verdict is not None
    assert target.words == "≥ 0.85 times a"
    assert (verdict.measured, verdict.is_met) == ("0.90 times", True)


def test_memory_may_be_a_little_more_than_a_rivals() -> None:
    target = Target(subject="s", row="r", ours="us", figure="tree_peak_bytes", bound=1 / 1.1, rivals=("a",))
    row = Row(title="r", entries=[an_entry("us", tree_peak_bytes=120), an_entry("a", tree_peak_bytes=100)])

    verdict = judge(target, row)

    assert verdict is not None
    assert target.words == "≤ 1.1 times as much as a"
    assert (verdict.measured, verdict.is_met) == ("1.20 times as much", False)
