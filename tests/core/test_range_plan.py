from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.range_plan import planned
from wdsctl.core.storage import Range

FILES = {"a": bytes(range(256)) * 2, "b": bytes(reversed(range(256)))}

ranges = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 200), st.integers(0, 56)).map(lambda each: Range(*each)),
    max_size=12,
)


@given(ranges, st.integers(0, 40), st.integers(1, 64))
def test_every_range_is_cut_from_the_pieces_byte_for_byte(wanted: list[Range], gap: int, piece: int) -> None:
    plan = planned(wanted, gap=gap, piece=piece)
    fetched = [FILES[each.path][each.start : each.stop] for each in plan.pieces]

    assert plan.cut(fetched) == [FILES[each.path][each.offset : each.offset + each.size] for each in wanted]
    assert all(0 < each.stop - each.start <= piece for each in plan.pieces)


def test_neighbours_are_one_request_and_what_lies_apart_is_not() -> None:
    near = [Range("a", 0, 10), Range("a", 15, 10), Range("a", 100, 5), Range("b", 0, 5)]

    assert [tuple(piece) for piece in planned(near, gap=5).pieces] == [("a", 0, 25), ("a", 100, 105), ("b", 0, 5)]


def test_a_long_range_goes_in_pieces() -> None:
    assert [piece.stop for piece in planned([Range("a", 0, 25)], piece=10).pieces] == [10, 20, 25]
