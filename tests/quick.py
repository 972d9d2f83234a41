"""The quick tier: `pytest --quick` runs one case of each test, and leaves out tests that take long.

`tests/times.tsv` has the tests with a case of at least a tenth of a second, and the seconds of the longest one.
`make test-times` writes it. A new test is quick until it is in this file.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

TIMES = Path(__file__).with_name("times.tsv")
QUICK_SECONDS = 0.25  # of a case, with three processes on two cores
_RECORDED_SECONDS = 0.1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run one case of each test that does not take long")
    parser.addoption("--record-times", action="store_true", help=f"write {TIMES.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_times"):
        config.pluginmanager.register(_Times())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("quick"):
        return
    long = {test for test, seconds in read_times().items() if seconds > QUICK_SECONDS}
    first = {find_test(item.nodeid): item for item in reversed(items)}
    kept = [item for item in items if first[test := find_test(item.nodeid)] is item and test not in long]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


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
