from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from traceback import walk_stack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import a_dataset, a_folder, an_image, some_shards
from tests.core.pictures import Row, a_gallery, rows_of
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.views.sql_guard import Guard
from wdsctl.core.views.where import RowQuery

Predicate = Callable[[Row], bool]
Sample = tuple[str, int]


def find_samples(root: str, text: str) -> set[Sample]:
    """The matching samples, as shards and positions."""
    with open_dataset(root) as dataset, RowQuery(dataset, shards := dataset.catalog.shards()) as rows:
        paths = {shard.id: shard.path for shard in shards}
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


def number_condition(name: str, sign: str, value: int) -> tuple[str, Predicate]:
    comparisons: dict[str, Callable[[int], bool]] = {
        "<": lambda n: n < value,
        ">=": lambda n: n >= value,
        "=": lambda n: n == value,
        "<>": lambda n: n != value,
    }
    return f"{name} {sign} {value}", lambda row: row[name] is not None and comparisons[sign](row[name])


def text_condition(name: str, value: str) -> tuple[str, Predicate]:
    return f"{name} IS '{value}'", lambda row: row[name] == value


def negate(one: tuple[str, Predicate]) -> tuple[str, Predicate]:
    return f"NOT coalesce({one[0]}, 0)", lambda row: not one[1](row)


def conjunction(one: tuple[str, Predicate], other: tuple[str, Predicate]) -> tuple[str, Predicate]:
    return f"({one[0]}) AND ({other[0]})", lambda row: one[1](row) and other[1](row)


def disjunction(one: tuple[str, Predicate], other: tuple[str, Predicate]) -> tuple[str, Predicate]:
    return f"({one[0]}) OR\n-- or\n({other[0]})", lambda row: one[1](row) or other[1](row)


signs = st.sampled_from(["<", ">=", "=", "<>"])
leaves = st.one_of(
    st.sampled_from(sorted(NUMBERS)).flatmap(
        lambda name: st.builds(number_condition, st.just(name), signs, st.integers(0, 2 * NUMBERS[name]))
    ),
    st.sampled_from(sorted(WORDS)).flatmap(
        lambda name: st.builds(text_condition, st.just(name), st.sampled_from(WORDS[name]))
    ),
)
expressions = st.recursive(
    leaves,
    lambda of: st.one_of(st.builds(negate, of), st.builds(conjunction, of, of), st.builds(disjunction, of, of)),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None)
@given(expressions)
def test_sample_matches_when_one_of_its_parts_does(gallery: str, expression: tuple[str, Predicate]) -> None:
    text, fits = expression
    rows = known_rows(gallery)
    assert find_samples(gallery, text) == {(row["shard"], row["position"]) for row in rows if fits(row)}


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
def test_expressions_have_semantics_of_sqlite(gallery: str, text: str, fits: Predicate) -> None:
    assert find_samples(gallery, text) == {(row["shard"], row["position"]) for row in known_rows(gallery) if fits(row)}


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_invalid_expression_is_refused(gallery: str, text: str, message: str | None) -> None:
    if message is None:
        assert find_samples(gallery, text)
        return
    with pytest.raises(UsageError, match=message):
        find_samples(gallery, text)


def test_missing_media_facts_are_reported_with_command(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with pytest.raises(UsageError, match="no media facts, such as width") as caught:
        find_samples(root, "size > 1 AND width > 1")
    assert caught.value.hint.startswith(f"run `wdsctl index {root} --media`")


def test_column_is_queryable_and_does_not_hide_media_fact(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"letters": "chars:txt", "width": "size:txt"})
    assert len(find_samples(root, "letters = 8")) == 5
    with pytest.raises(UsageError, match="no media facts"):  # a column of that name does not hide the fact
        find_samples(root, "width > 1")


def test_column_of_earlier_generation_is_refused_with_command(tmp_path: Path) -> None:
    function = "tests.core.counting:number"  # `index` does not compute a column of Python code again by itself
    root = some_shards(tmp_path, 1)
    index(root, columns={"number": function, "letters": "chars:txt"})
    some_shards(tmp_path, 1, first=1)
    index(root)

    assert len(find_samples(root, "letters = 8")) == 10
    with pytest.raises(CatalogError, match="'number' was computed for generation 1, expected 2") as caught:
        find_samples(root, "number > 1")
    assert (caught.value.code, f"--column number={function}" in caught.value.hint) == ("WDS314", True)


def test_catalog_without_sample_rows_is_refused_with_hint(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, sample_rows=False)
    with pytest.raises(CatalogError, match="no sample rows") as caught:
        find_samples(root, "size > 1")
    assert "--sample-rows" in caught.value.hint


def test_media_folder_has_no_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jpg": an_image("JPEG")})
    index_media_folder(root, media=MediaRequest(selection="auto"))
    with pytest.raises(InputError) as caught:
        find_samples(root, "size > 1")
    assert caught.value.code == "WDS322"


def test_ctrl_c_during_expression_raises_keyboard_interrupt(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"s.tar": {f"{'a' * 20}{i}.txt": b"1" for i in range(100)}})
    index(root)
    main_thread, is_finished = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        while not is_finished.wait(0.001):
            if Guard._regexp.__code__ in {frame.f_code for frame, _ in walk_stack(sys._current_frames()[main_thread])}:
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            find_samples(root, "key REGEXP '(a+)+b'")
    finally:
        is_finished.set()
        thread.join()


def test_oversized_value_is_refused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with pytest.raises(UsageError, match="too big"):
        find_samples(root, "length(replace(printf('%.*c', 1000000, 'x'), 'x', printf('%.*c', 2000, key))) > 0")
