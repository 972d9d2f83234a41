"""Commands write the same bytes for any order in which their units finish."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.core.executors.commands import COMMANDS, Command, everything, fresh_input, run_locally
from wdsctl.core.jobs import Executor, using_executor

_COMMANDS = dict(COMMANDS) | {
    f"split {name}": Command(
        COMMANDS["split"].prepare, [("index", "data"), ("split", "data", "6,3,1", "--allow-empty", *options)]
    )
    for name, options in {
        "in strata": ("--stratify", "json:group"),
        "of groups in strata": ("--group-by", "json:n", "--stratify", "json:group"),
    }.items()
}


class ReversedExecutor:
    """Runs units in this process and returns their results in reverse order."""

    workers = 2
    shares_files = True

    def run(self, fn: Callable[[Any], Any], units: Iterable[Any]) -> Generator[tuple[int, Any], None, None]:
        yield from reversed([(i, fn(unit)) for i, unit in enumerate(units)])


def _make_reversed_executor(_workers: int, _preload: Sequence[str]) -> Executor:
    return ReversedExecutor()


@pytest.mark.parametrize("name", _COMMANDS)
def test_completion_order_of_units_changes_no_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, root = _COMMANDS[name], tmp_path / "root"
    fresh_input(command, root)
    monkeypatch.chdir(root)
    expected = run_locally(command), everything(root)
    fresh_input(command, root)
    monkeypatch.chdir(root)
    with using_executor(_make_reversed_executor):
        code = run_locally(command)
    actual = everything(root)
    assert actual.keys() == expected[1].keys()
    assert [file for file in actual if actual[file] != expected[1][file]] == []
    assert code == expected[0]
