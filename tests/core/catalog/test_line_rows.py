"""A catalog of lines keeps no rows, and answers as one that does."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder, samples
from wdsctl.core.catalog.by_name import Names
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.line_rows import give_rows
from wdsctl.core.place import locate
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.sql import sql
from wdsctl.core.verbs.view import create_view
from wdsctl.core.view_definition import Definition

ROWS = "SELECT id, key, offset, size, parts FROM sample ORDER BY id"


def lines(count: int) -> bytes:
    return b"".join(json.dumps({"id": f"q{i}é", "text": "t" * (i % 7)}).encode() + b"\r\n" for i in range(count))


@pytest.fixture(params=["", "id"])
def roots(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Two datasets alike: one as it is by default, and one with rows."""
    made = [a_folder(tmp_path / name, {"a.jsonl": lines(5), "b/c.jsonl": lines(30)}) for name in ("bare", "rows")]
    assert not index(made[0], key=request.param).sample_rows
    assert index(made[1], key=request.param, sample_rows=True).sample_rows
    return made[0], made[1]


def test_rows_are_those_that_a_catalog_would_keep(roots: tuple[str, str]) -> None:
    found = []
    for root in roots:
        path = locate(root).catalog
        with closing(sqlite3.connect(path)) as connection:
            given = give_rows(connection, path)
            found.append(connection.execute(ROWS).fetchall())
        assert given is (root == roots[0])
    assert found[0] == found[1]
    assert len(found[0]) == 35


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM v_sample ORDER BY id",
        "SELECT * FROM v_part ORDER BY id",
        "SELECT shard, count(*), sum(size) FROM V_Sample GROUP BY shard",
        "SELECT * FROM main.v_sample",
        "SELECT path, samples FROM v_shard ORDER BY path",
        "WITH mine AS (SELECT key FROM v_part WHERE size > 15) SELECT count(*) FROM mine",
    ],
)
@pytest.mark.parametrize("view", ["", "@long"])
def test_a_query_has_the_same_answer(roots: tuple[str, str], query: str, view: str) -> None:
    answers = []
    for root in roots:
        create_view(root, "long", Definition(where="size > 18 AND key LIKE '%1%'"))
        with sql(root + view, query) as answer:
            answers.append((answer.columns, list(answer.rows)))
    assert answers[0] == answers[1]
    assert answers[0][1]


def test_names_are_found(roots: tuple[str, str]) -> None:
    found = []
    for root in roots:
        with closing(sqlite3.connect(locate(root).catalog)) as connection:
            keys = [key for (key,) in connection.execute("SELECT key FROM sample")] or ["b/c/7", "q7é", "nothing"]
        with Names(locate(root).catalog) as names:
            found.append({key: names.find(f"{key}.json") for key in {*keys, "b/c/7", "q7é", "nothing"}})
    assert all(found[1][key] == places for key, places in found[0].items())
    assert any(found[0].values())


def test_keys_that_come_in_several_files_are_told(roots: tuple[str, str]) -> None:
    found = []
    for root in roots:
        with Catalog(locate(root).catalog) as catalog:
            found.append((catalog.repeated_keys(), catalog.repeated_keys(1)))
    assert found[0] == found[1]


def test_rows_are_kept_when_they_are_asked_for_and_that_is_remembered(roots: tuple[str, str]) -> None:
    bare, _ = roots
    assert index(bare, sample_rows=True).sample_rows
    assert index(bare).up_to_date
    a_folder(Path(bare), {"d.jsonl": lines(3)})
    assert index(bare).sample_rows
    assert not index(bare, sample_rows=False).sample_rows


def test_tars_without_rows_imply_none(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5)})
    index(root, sample_rows=False)
    path = locate(root).catalog
    with closing(sqlite3.connect(path)) as connection:
        assert not give_rows(connection, path)
