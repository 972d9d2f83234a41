"""The quick tier: `pytest --quick` leaves out tests that take long, and runs up to three cases of each other one.

`tests/times.tsv` has the tests with a case of at least a tenth of a second, and the seconds of the longest one. Of
those, the quick tier runs one case. `make test-times` writes the file. A new test is quick until it is in this file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

TIMES = Path(__file__).with_name("times.tsv")
QUICK_SECONDS = 0.25  # of a case, with three processes on two cores
_RECORDED_SECONDS = 0.1
_CASES = 3  # of a test that is not recorded


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run a few cases of each test that does not take long")
    parser.addoption("--record-times", action="store_true", help=f"write {TIMES.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_times"):
        config.pluginmanager.register(_Times())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("quick"):
        return
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[find_test(item.nodeid)].append(item)
    seconds = read_times()
    kept: set[pytest.Item] = set()
    for test, its_cases in cases.items():
        if seconds.get(test, 0.0) <= QUICK_SECONDS:
            kept |= set(choose_cases(its_cases, 1 if test in seconds else _CASES))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def choose_cases(cases: Sequence[pytest.Item], count: int) -> list[pytest.Item]:
    """The first, the last and others at equal distances, in the order of the parameters, whatever the seed."""
    ordered = sorted(cases, key=lambda case: tuple(case.callspec.indices.values()) if hasattr(case, "callspec") else ())
    last = len(ordered) - 1
    return [ordered[index] for index in sorted({round(last * each / max(1, count - 1)) for each in range(count)})]


def find_test(nodeid: str) -> str:
    """The test without its case."""
    return nodeid.partition("[")[0]


def read_times() -> dict[str, float]:
    lines = TIMES.read_text(encoding="utf-8").splitlines()
    return {test: float(seconds) for test, seconds in (line.split("\t") for line in lines)}


class _Times:
    """Adds up the times of each case, and writes the file when all tests have run."""

    def __init__(self) -> None:
        self._cases: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._cases[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        tests: dict[str, float] = {}
        for nodeid, seconds in self._cases.items():
            tests[find_test(nodeid)] = max(seconds, tests.get(find_test(nodeid), 0.0))
        lines = [f"{test}\t{seconds:.2f}\n" for test, seconds in sorted(tests.items()) if seconds >= _RECORDED_SECONDS]
        TIMES.write_text("".join(lines), encoding="utf-8")
