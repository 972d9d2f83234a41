from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.storage.ranges import plan_requests
from wdsctl.core.storage.storage import FileRange

FILES = {"a": bytes(range(256)) * 2, "b": bytes(reversed(range(256)))}

ranges = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 200), st.integers(0, 56)).map(lambda each: FileRange(*each)),
    max_size=12,
)


@given(ranges, st.integers(0, 40), st.integers(1, 64))
def test_plan_requests_covers_every_range_byte_for_byte(file_ranges: list[FileRange], gap: int, piece: int) -> None:
    plan = plan_requests(file_ranges, max_gap_bytes=gap, max_request_bytes=piece)
    fetched = [FILES[each.path][each.start : each.stop] for each in plan.requests]

    assert plan.slice_data(fetched) == [FILES[each.path][each.offset : each.offset + each.size] for each in file_ranges]
    assert all(0 < each.stop - each.start <= piece for each in plan.requests)


def test_neighbouring_ranges_share_one_request_and_distant_ones_do_not() -> None:
    near = [FileRange("a", 0, 10), FileRange("a", 15, 10), FileRange("a", 100, 5), FileRange("b", 0, 5)]

    assert [tuple(piece) for piece in plan_requests(near, max_gap_bytes=5).requests] == [
        ("a", 0, 25),
        ("a", 100, 105),
        ("b", 0, 5),
    ]


def test_long_range_is_divided_into_pieces() -> None:
    assert [piece.stop for piece in plan_requests([FileRange("a", 0, 25)], max_request_bytes=10).requests] == [
        10,
        20,
        25,
    ]
