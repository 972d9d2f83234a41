from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from traceback import walk_stack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import a_dataset, a_folder, an_image, some_shards
from tests.core.pictures import Row, a_gallery, rows_of
from wdsctl.core.catalog.read import read_catalog_shards
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.views.sql_guard import Guard
from wdsctl.core.views.where import RowQuery

Fits = Callable[[Row], bool]
Sample = tuple[str, int]


def fitting(root: str, text: str) -> set[Sample]:
    """The samples that fit, by shard and place."""
    place = locate(root)
    shards = read_catalog_shards(place.catalog)
    paths = {shard.id: shard.path for shard in shards}
    with RowQuery(place, shards) as rows:
        return {(paths[shard], at) for shard, flags in rows.find_samples(text) for at in np.flatnonzero(flags).tolist()}


known_rows = cache(rows_of)


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_gallery(tmp_path_factory.mktemp("gallery"))


NUMBERS = {"width": 60, "height": 100, "size": 700, "position": 4, "bytes": 690}
WORDS = {
    "ext": ("jpg", "txt", "seg.jpg"),
    "part": ("txt",),
    "kind": ("image",),
    "split": ("train", "val"),
    "shard": ("s-001.tar",),
}


def a_number(name: str, sign: str, value: int) -> tuple[str, Fits]:
    judge: dict[str, Callable[[int], bool]] = {
        "<": lambda n: n < value,
        ">=": lambda n: n >= value,
        "=": lambda n: n == value,
        "<>": lambda n: n != value,
    }
    return f"{name} {sign} {value}", lambda row: row[name] is not None and judge[sign](row[name])


def a_word(name: str, value: str) -> tuple[str, Fits]:
    return f"{name} IS '{value}'", lambda row: row[name] == value


def negated(one: tuple[str, Fits]) -> tuple[str, Fits]:
    return f"NOT coalesce({one[0]}, 0)", lambda row: not one[1](row)


def both(one: tuple[str, Fits], other: tuple[str, Fits]) -> tuple[str, Fits]:
    return f"({one[0]}) AND ({other[0]})", lambda row: one[1](row) and other[1](row)


def either(one: tuple[str, Fits], other: tuple[str, Fits]) -> tuple[str, Fits]:
    return f"({one[0]}) OR\n-- or\n({other[0]})", lambda row: one[1](row) or other[1](row)


signs = st.sampled_from(["<", ">=", "=", "<>"])
leaves = st.one_of(
    st.sampled_from(sorted(NUMBERS)).flatmap(
        lambda name: st.builds(a_number, st.just(name), signs, st.integers(0, 2 * NUMBERS[name]))
    ),
    st.sampled_from(sorted(WORDS)).flatmap(lambda name: st.builds(a_word, st.just(name), st.sampled_from(WORDS[name]))),
)
expressions = st.recursive(
    leaves,
    lambda of: st.one_of(st.builds(negated, of), st.builds(both, of, of), st.builds(either, of, of)),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(expressions)
def test_a_sample_fits_where_some_part_of_it_does(gallery: str, expression: tuple[str, Fits]) -> None:
    text, fits = expression
    rows = known_rows(gallery)
    assert fitting(gallery, text) == {(row["shard"], row["position"]) for row in rows if fits(row)}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("key = 'it''s'", lambda row: row["key"] == "it's"),
        ("key LIKE '%DROP%'", lambda row: "DROP" in row["key"]),
        (
            "key REGEXP '^00(1|2)[0-3]$'",
            lambda row: row["key"] in {"0010", "0011", "0012", "0013", "0020", "0021", "0022", "0023"},
        ),
        ("width IS NULL", lambda row: row["width"] is None),
        ('"width" > [height] -- wider', lambda row: (row["width"] or 0) > (row["height"] or 0)),
        ("offset % 1024 = 512 and ext = 'jpg'", lambda row: row["offset"] % 1024 == 512 and row["ext"] == "jpg"),
        ("id >> 28 = 2 AND sample_size > 0", lambda row: row["shard"] == "s-001.tar"),
    ],
)
def test_expressions_are_those_of_sqlite(gallery: str, text: str, fits: Fits) -> None:
    assert fitting(gallery, text) == {(row["shard"], row["position"]) for row in known_rows(gallery) if fits(row)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("widht > 1", "no such column: widht"),
        ('ext = "jpg"', "no such column: jpg"),
        ("width > 1) OR (1", "the expression ends before"),
        ("width > 1; DROP TABLE sample", "the expression ends before"),
        ("id IN (SELECT id FROM v_media)", "an expression cannot contain a query"),
        ("EXISTS (VALUES (1))", "an expression cannot contain a query"),
        ("width > ?", "is a query parameter"),
        ("width > 1 --", None),
        ("count(*) > 1 AND width", "the function count is not allowed"),
        ("row_number() OVER () > 1 AND width", "row_number"),
        ("random() % 2 AND width", "the function random is not allowed"),
        ("load_extension(key)", "the function load_extension is not allowed"),
        ("wds_value(0, position)", "no such function: wds_value"),
        ("rowid > 1", "no such column: ROWID"),
        ("oid > 1 and width > 1", "no such column: ROWID"),
        ("1 = 1", "the expression does not use any column"),
        ("", "empty"),
        ("width > 1 COLLATE nonsense", "no such collation sequence"),
        ("key REGEXP '('", "is not a regular expression"),
        ("json_extract(key, '$.a') = 1", "malformed JSON"),
        ("size >=", "incomplete input"),
        ("(size > 1) and size between 1 and", "incomplete input"),
        ("(size > 1", "a parenthesis is not closed"),
        ("size > 1 ORDER BY size", "syntax error"),
        ("(size > ) and (size > 3)", r'near "\)": syntax error'),
    ],
)
def test_what_is_no_expression_is_refused(gallery: str, text: str, said: str | None) -> None:
    if said is None:
        assert fitting(gallery, text)
        return
    with pytest.raises(UsageError, match=said):
        fitting(gallery, text)


def test_facts_of_media_that_are_not_there_are_asked_for_by_a_command(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with pytest.raises(UsageError, match="no media facts, such as width") as raised:
        fitting(root, "size > 1 AND width > 1")
    assert raised.value.hint.startswith(f"run `wdsctl index {root} --media`")


def test_a_column_of_another_generation_is_refused(tmp_path: Path) -> None:
    def words(sample: Any) -> int:
        return len(sample["txt"])

    root = some_shards(tmp_path, 1)
    index(root, columns={"letters": "chars:txt", "width": "size:txt"})
    assert len(fitting(root, "letters = 8")) == 5
    with pytest.raises(UsageError, match="no media facts"):  # a column of that name does not hide the fact
        fitting(root, "width > 1")


def test_a_catalog_without_rows_of_samples_says_what_makes_them(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, sample_rows=False)
    with pytest.raises(CatalogError, match="no sample rows") as raised:
        fitting(root, "size > 1")
    assert "--sample-rows" in raised.value.hint


def test_a_folder_of_media_has_no_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jpg": an_image("JPEG")})
    index_media_folder(root, media=MediaRequest(selection="auto"))
    with pytest.raises(InputError) as raised:
        fitting(root, "size > 1")
    assert raised.value.code == "WDS322"


def test_ctrl_c_in_the_middle_of_an_expression_is_no_mistake_of_it(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"s.tar": {f"{'a' * 20}{i}.txt": b"1" for i in range(100)}})
    index(root)
    ours, is_over = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.001):
            if Guard._regexp.__code__ in {frame.f_code for frame, _ in walk_stack(sys._current_frames()[ours])}:
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fitting(root, "key REGEXP '(a+)+b'")
    finally:
        is_over.set()
        thread.join()


def test_a_value_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with pytest.raises(UsageError, match="too big"):
        fitting(root, "length(replace(printf('%.*c', 1000000, 'x'), 'x', printf('%.*c', 2000, key))) > 0")
