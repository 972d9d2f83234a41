"""`view refresh` and `view diff` run the definitions stored in a ledger; a timeout ends hostile ones."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.build import a_dataset
from tests.security.hostile import statements
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view, refresh_views

pytestmark = pytest.mark.timeout(60)

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
BACKTRACKS = "(a|aa)+b"

DEFINITIONS = {
    "a query without end": ViewDefinition(sql=ENDLESS),
    "a query with an expression that tries for ever": ViewDefinition(
        sql=f"SELECT id FROM v_sample WHERE key REGEXP '{BACKTRACKS}'"
    ),
    "an expression that tries for ever": ViewDefinition(where=f"key REGEXP '{BACKTRACKS}'"),
}


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = a_dataset(tmp_path, {"s.tar": {f"{'a' * 80}{i}.txt": b"1" for i in range(3)}})
    index(root)
    return root


@pytest.mark.parametrize("name", DEFINITIONS)
def test_create_view_stops_endless_definitions_at_timeout(root: str, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        create_view(root, "v", DEFINITIONS[name], timeout_seconds=0.3)
    assert caught.value.code == "WDS334"


def test_refresh_views_stops_hostile_definition_at_timeout(root: str) -> None:
    create_view(root, "v", ViewDefinition(where="size > 0"))
    text = DEFINITIONS["an expression that tries for ever"].as_text().replace("'", "''")
    statements(f"UPDATE view SET expression = '{text}'")(Path(root) / ".wdsctl" / "ledger.sqlite")
    with pytest.raises(UsageError) as caught:
        refresh_views(root, timeout_seconds=0.3)
    assert caught.value.code == "WDS334"


def test_ctrl_c_interrupts_regexp_query(root: str) -> None:
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            _run_query(root, f"SELECT id FROM v_sample WHERE key REGEXP '{BACKTRACKS}'")
    finally:
        timer.cancel()  # otherwise it interrupts the next test
    assert time.monotonic() - start < 8


#: One call of each would take minutes, in which SQLite does not look at the clock.
SLOW_CALLS = {
    "a precision of printf": "printf('%.*c', 2000000000, 'x')",
    "a precision as text": "printf('%.*c', '2000000000', 'x')",
    "a precision as a float": "printf('%.*c', 2e9, 'x')",
    "a precision in the format": "printf('%-,.2000000000c', 'x')",
    "a precision that SQLite cuts to 32 bits": "printf('%.1000000000000000000c', 'x')",
    "a format of many precisions": "printf(replace(substr(zero, 1, 1000), 'z', '%.1000000c'), 'x')",
    "replace": "replace(zero, substr(zero, 1000000) || 'b', '')",
    "instr": "instr(zero, substr(zero, 1000000) || 'b')",
    "trim": "trim(zero, substr(hex(zero), 1000000) || 'b')",
    "LIKE": "zero LIKE replace(substr(zero, 1, 1000), 'z', '%z')",
    "GLOB": "zero GLOB '*[' || substr(hex(zero), 1, 1000) || ']*'",
    "nested counts of REGEXP": "key REGEXP '((a{1000}){1000}){1000}'",
    "a long pattern of REGEXP": "key REGEXP substr(zero, 1, 20000)",
}


@pytest.mark.parametrize("name", SLOW_CALLS)
def test_calls_that_no_clock_could_end_are_refused(root: str, name: str) -> None:
    call = SLOW_CALLS[name].replace("zero", "replace(printf('%2000000s', key), ' ', 'z')")
    with pytest.raises(UsageError) as caught:
        _run_query(root, f"SELECT {call} FROM v_sample")
    assert caught.value.code == "WDS332"
    with pytest.raises(UsageError) as caught:
        create_view(root, "v", ViewDefinition(where=f"length({call}) > size"))
    assert caught.value.code == "WDS332"


def test_timeout_that_passes_during_compilation_is_reported(root: str) -> None:
    with pytest.raises(UsageError) as caught, sql(root, "SELECT key FROM v_sample", timeout_seconds=1e-9):
        pass
    assert caught.value.code == "WDS334"


def _run_query(root: str, text: str) -> None:
    with sql(root, text) as answer:
        list(answer.rows)
