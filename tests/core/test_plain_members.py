from __future__ import annotations

import tarfile

import pytest

from tests.build import a_shard, samples
from wdsctl.core.plain_members import plain_members

FILES = samples(0, 5, size=700)


def names(data: bytes) -> list[str] | None:
    step = plain_members(data, 0, len(data))
    if step is None:
        return None
    return [bytes(row).rstrip(b"\0").decode() for row in step[0].names]


def test_plain_members_are_all_understood_up_to_the_mark() -> None:
    data = a_shard(FILES)
    step = plain_members(data, 0, len(data))

    assert step is not None
    members, then = step
    assert names(data) == list(FILES)
    assert then == 10 * 1536
    assert members.header.tolist() == [i * 1536 for i in range(10)]
    assert members.size.tolist() == [700] * 10


@pytest.mark.parametrize("at", [0, 3, 9])
def test_it_stops_before_what_is_not_plain(at: int) -> None:
    files = list(FILES.items())
    data = a_shard([*files[:at], ("n" * 120, b""), *files[at:]], format=tarfile.GNU_FORMAT)

    assert names(data) == ([name for name, _ in files[:at]] or None)


def test_a_member_whose_data_go_beyond_what_was_read_is_understood_and_one_beyond_the_file_is_not() -> None:
    data = a_shard(FILES)

    step = plain_members(data[:1024], 0, len(data))
    assert step is not None
    assert step[1] == 1536
    assert plain_members(data[:1024], 0, 1024) is None


def test_places_count_from_the_start_of_the_file() -> None:
    data = a_shard(FILES)
    step = plain_members(data[1536:], 1536, len(data))

    assert step is not None
    assert step[0].header.tolist() == [i * 1536 for i in range(1, 10)]


def test_a_pax_header_with_a_time_alone_is_plain_and_one_with_a_name_is_not() -> None:
    with_time = a_pax_pair(b"20 mtime=1234567.25\n")
    with_name = a_pax_pair(b"16 path=b/c.jpg\n")

    assert names(with_time) == ["a.jpg"]
    assert names(with_name) is None


def a_pax_pair(records: bytes) -> bytes:
    pax = bytearray(a_shard({"PaxHeader": records})[:1024])
    pax[156:157] = b"x"
    pax[148:156] = b"%06o\0 " % (sum(pax[:148]) + 256 + sum(pax[156:512]))
    return bytes(pax) + a_shard({"a.jpg": b""})
