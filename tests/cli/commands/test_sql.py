from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import children
from tests.cli.conftest import Stream, Wdsctl

#: CPU ticks that a query may use after Ctrl-C (hundredths of a second on most systems), with the exit of Python.
MAX_TICKS_TO_EXIT = 200
INFINITE = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "


@pytest.fixture
def indexed(wdsctl: Wdsctl, shards: Path) -> Path:
    wdsctl("index", shards)
    return shards


def test_sql_prints_tsv_to_pipe_and_table_to_terminal(wdsctl: Wdsctl, indexed: Path) -> None:
    query = "SELECT key, part, size FROM v_part ORDER BY id, part LIMIT 2"
    assert wdsctl("sql", indexed, query).stdout == "key\tpart\tsize\n0/0000\tjson\t20\n0/0000\ttxt\t5\n"
    drawn = wdsctl("sql", indexed, query, stdout=Stream(is_terminal=True), stderr=Stream()).stdout
    assert "0/0000" in drawn
    assert "\t" not in drawn


def test_sql_formats_have_same_rows(wdsctl: Wdsctl, indexed: Path) -> None:
    query = (
        "SELECT key, 'a\tb\\' || char(10) || '\"' AS odd, NULL AS none, 1.5 AS n, x'ff' AS raw FROM v_sample LIMIT 1"
    )
    assert wdsctl("sql", indexed, query, "--tsv").stdout.splitlines()[1] == '0/0000\ta\\tb\\\\\\n"\t\t1.5\tff'
    rows = list(csv.reader(io.StringIO(wdsctl("sql", indexed, query, "--csv").stdout)))
    assert rows == [["key", "odd", "none", "n", "raw"], ["0/0000", 'a\tb\\\n"', "", "1.5", "ff"]]
    document = wdsctl("sql", indexed, query, "--json").document
    assert document["rows"] == [{"key": "0/0000", "odd": 'a\tb\\\n"', "none": None, "n": 1.5, "raw": "ff"}]
    assert (document["schema"], document["command"]) == (1, "sql")
    assert wdsctl("sql", indexed, query, "--table").stdout.splitlines()[0].split() == ["key", "odd", "none", "n", "raw"]


def test_sql_prints_headers_without_rows(wdsctl: Wdsctl, indexed: Path) -> None:
    query = "SELECT key, key FROM v_sample WHERE 0"
    assert wdsctl("sql", indexed, query).stdout == "key\tkey\n"
    document = wdsctl("sql", indexed, query, "--json").document
    assert (document["columns"], document["rows"]) == (["key", "key_2"], [])
    assert wdsctl("sql", indexed, query, "--table").stdout.split() == ["key", "key"]


def test_sql_completes_json_document_with_error_between_rows(wdsctl: Wdsctl, indexed: Path) -> None:
    numbers = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
    fails_at = f"SELECT abs(iif(n < {{}}, n, -9223372036854775808)) AS n FROM ({numbers})"
    late = wdsctl("sql", indexed, fails_at.format(700), "--json")
    assert (late.code, late.stderr) == (2, "")
    assert [row["n"] for row in late.document["rows"]] == list(range(1, 501))
    assert late.document["error"]["code"] == "WDS332"
    early = wdsctl("sql", indexed, fails_at.format(1), "--json")
    assert early.code == 2
    assert set(early.document) == {"schema", "error"}


def test_sql_limit_notes_further_rows(wdsctl: Wdsctl, indexed: Path) -> None:
    result = wdsctl("sql", indexed, "SELECT key FROM v_sample", "--limit", 7)
    assert len(result.stdout.splitlines()) == 8
    assert result.stderr == "note: the query has more than 7 rows\n"
    assert wdsctl("sql", indexed, "SELECT key FROM v_sample", "--limit", 30).stderr == ""


def test_sql_table_repeats_header_in_blocks(wdsctl: Wdsctl, indexed: Path) -> None:
    lines = wdsctl("sql", indexed, f"{INFINITE} n FROM r", "--table", "--limit", 1200).stdout.splitlines()
    assert lines.count("   n") + lines.count("n") + lines.count("  n") == 3
    assert lines[-1] == "1200"


def test_sql_output_formats_exclude_each_other(wdsctl: Wdsctl, indexed: Path) -> None:
    assert wdsctl("sql", indexed, "SELECT 1", "--csv", "--json").code == 2


def test_sql_reads_query_from_stdin(wdsctl: Wdsctl, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stream("SELECT count(*) AS n\nFROM v_sample -- all\n"))
    assert wdsctl("sql", indexed, "-").stdout == "n\n30\n"


def test_sql_errors_have_standard_exit_codes(wdsctl: Wdsctl, indexed: Path, tmp_path: Path) -> None:
    assert wdsctl("sql", indexed, "DELETE FROM v_sample").code == 2
    assert wdsctl("sql", indexed, f"{INFINITE} count(*) FROM r", "--timeout", 0.1).code == 2
    assert wdsctl("sql", tmp_path / "none", "SELECT 1").code == 3
    (tmp_path / "bare").mkdir()
    assert wdsctl("sql", tmp_path / "bare", "SELECT 1").code == 3


def test_sql_interrupt_stops_query_without_rows(indexed: Path) -> None:
    command = [sys.executable, "-m", "wdsctl", "sql", str(indexed), f"{INFINITE} count(*) FROM r"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not has_open(process.pid, "catalog.sqlite"):
            assert process.poll() is None
            time.sleep(0.01)
        # From here on the process runs only the query: after this much CPU time it is executing it.
        start = cpu_ticks(process.pid)
        while cpu_ticks(process.pid) < start + 50:
            time.sleep(0.01)
        signalled = cpu_ticks(process.pid)
        process.send_signal(signal.SIGINT)
        # Until it is reaped, an ended process still reports its CPU time. The limit is in CPU time, not wall time,
        # because a busy machine may run it slowly.
        while not has_ended(process.pid) and cpu_ticks(process.pid) < signalled + MAX_TICKS_TO_EXIT:
            time.sleep(0.01)
        assert cpu_ticks(process.pid) < signalled + MAX_TICKS_TO_EXIT
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


def has_open(pid: int, name: str) -> bool:
    found = False
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found |= os.readlink(path).endswith(name)
    return found


def has_ended(pid: int) -> bool:
    return read_stat(pid)[0] == "Z"


def cpu_ticks(pid: int) -> int:
    """The CPU time in ticks: hundredths of a second on most systems."""
    user, system = read_stat(pid)[11:13]
    return int(user) + int(system)


def read_stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, the state first; see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_sql_closed_pipe_ends_query(indexed: Path) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "wdsctl", "sql", str(indexed), f"{INFINITE} n FROM r"]
    with children.Popen(command, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        start = os.read(reader, 1)
        os.close(reader)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (start, process.returncode, err) == (b"n", 141, b"")
