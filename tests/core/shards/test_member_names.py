from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from wdsctl.core.samples.naming import split_name
from wdsctl.core.shards.tar_blocks import (
    ByteRows,
    PartNames,
    cut_names,
    first_dots,
    is_meta,
    name_lengths,
    rows_to_bytes,
)

texts = st.text(st.sampled_from("ab._/ é"), min_size=1, max_size=12)


def a_matrix(names: list[str]) -> ByteRows:
    encoded = [name.encode() for name in names]
    width = max(map(len, encoded))
    return np.array([list(name.ljust(width, b"\0")) for name in encoded], np.uint8)


@given(st.lists(texts, min_size=1, max_size=8))
@example(["__meta__.json", "__a.b__", "a/__b__.c", "_a", "a"])
@example(["./__meta__.json", "./__a.b__", "./a/__b__.c", "././__a__.b", "./__.c"])
@example([".a", "a.", "a/.b", "a/b", "a.b/c", "a.b/c.d.e", "/.", "/a.b"])
def test_vectorized_name_split_equals_split_name(names: list[str]) -> None:
    matrix = a_matrix(names)
    sizes, dots = name_lengths(matrix), first_dots(matrix)
    keyed = (dots > 0) & (dots < sizes - 1) & ~is_meta(matrix, dots)

    for i, name in enumerate(names):
        actual = (name.encode()[: dots[i]].decode(), name.encode()[dots[i] + 1 :].decode()) if keyed[i] else None
        assert actual == split_name(name)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12)), min_size=1, max_size=5))
def test_cut_names_slices_each_row(spans: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in spans])
    ends = np.array([start + size for start, size in spans])
    matrix = a_matrix(["abcdefghijklmnopqrst"] * len(spans))

    cut = rows_to_bytes(cut_names(matrix, starts, ends))

    assert cut == [b"abcdefghijklmnopqrst"[a:b] for a, b in zip(starts, ends, strict=True)]


@given(st.lists(st.lists(st.sampled_from(["jpg", "txt", "seg.png", "metadata.json", "é"]), min_size=1), min_size=1))
def test_part_names_encode_and_decode_all_names(chunks: list[list[str]]) -> None:
    table = PartNames()
    numbers = [table.encode(a_matrix(chunk)).tolist() for chunk in chunks]

    assert [[table.to_tuple()[number] for number in chunk] for chunk in numbers] == chunks
    assert sorted(table.to_tuple()) == sorted({name for chunk in chunks for name in chunk})


def test_part_names_with_equal_text_share_number() -> None:
    table = PartNames()

    assert table.number_of_part(b"\xff") == table.number_of_part(b"\\xff")
    assert table.to_tuple() == ("\\xff",)
