"""Values that no file or run can have, in what a stranger wrote, end in an error of wdsctl."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.dumps import catalog_of
from wdsctl.core.energon import migrate
from wdsctl.core.energon.migrate import migrate_text
from wdsctl.core.errors import PermissionDenied, StorageError, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.get import find_target, read_part
from wdsctl.core.opened.history import read_log
from wdsctl.core.safe_open import check_store, open_beneath, open_named
from wdsctl.core.trace.format import RunFacts, run_facts_from_json, run_facts_to_json


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "data", 1)
    index(root)
    return root


def change(path: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_names_that_no_file_can_have_are_not_found(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    for open_it in (lambda: open_beneath(path, (str(tmp_path),)), lambda: open_named(path)):
        with pytest.raises(FileNotFoundError):
            open_it()
    with pytest.raises(PermissionDenied):
        check_store(f"/elsewhere/{name}", str(tmp_path), "")


def test_shard_whose_name_has_nul_is_missing(root: str) -> None:
    change(catalog_of(root), "UPDATE shard SET path = cast(x'73006100' AS TEXT)")
    with pytest.raises(WdsctlError):
        b"".join(read_part(find_target(root, "000000", part="txt")))


@pytest.mark.parametrize("key", ["000000", "{shard}"])
def test_part_before_the_first_header_of_a_tar_is_damage(root: str, key: str) -> None:
    (shard,) = (each for each in os.listdir(root) if each.endswith(".tar"))
    key = key.format(shard=shard)
    change(catalog_of(root), "UPDATE sample SET key = ?, parts = '[[0,1,600]]' WHERE key = '000000'", key)
    with pytest.raises(StorageError, match="differs from the indexed one"):
        b"".join(read_part(find_target(root, key)))


@pytest.mark.parametrize(
    "details",
    ['{"process": 5, "before": 7, "after": {"shards": "x"}, "findings": [1]}', "[]", '{"findings": {"a": []}}'],
)
def test_details_of_runs_may_be_anything(root: str, details: str) -> None:
    change(catalog_of(root).with_name("ledger.sqlite"), "UPDATE run SET details = ?, argv = '5'", details)
    (run,) = read_log(root).runs
    assert (run.before, run.after, dict(run.findings), run.argv) == (None, None, {}, ())


@pytest.mark.parametrize(
    "program", [b"# coding: hex\nimport megatron\n", b"megatron" + b".a" * 5000, b"x = " + b"megatron+" * 20_000 + b"1"]
)
def test_program_that_python_cannot_parse_needs_a_hand(program: bytes) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # hypothesis raises it
    try:
        (use,), rewritten, _ = migrate_text("x.py", program)
    finally:
        sys.setrecursionlimit(limit)
    assert (use.kind, use.found, rewritten) == ("hand", "the file", None)


def test_many_names_in_a_row_are_not_each_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(migrate, "_variable", lambda node, real=migrate._variable: (next(calls), real(node))[1])
    assert migrate_text("x.py", b"megatron" + b".a" * 150) == ([], None, "utf-8")
    assert next(calls) <= 25 * 25, "150 * 150 if each looks at all before it"


@pytest.mark.parametrize("world", [0, 10**30])
def test_header_of_trace_with_impossible_ranks_is_invalid(world: int) -> None:
    header = run_facts_to_json(RunFacts(rank=0, world=world, started=1, sources=(), run={}, wdsctl="1"))
    with pytest.raises(ValueError, match="ranks"):
        run_facts_from_json(header)
