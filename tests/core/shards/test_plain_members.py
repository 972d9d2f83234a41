from __future__ import annotations

import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_shard, samples
from wdsctl.core.shards.tar_blocks import ByteRows, plain_members, valid_checksums

FILES = samples(0, 5, size=700)


def names(data: bytes) -> list[str] | None:
    step = plain_members(data, 0, len(data))
    if step is None:
        return None
    return [bytes(row).rstrip(b"\0").decode() for row in step[0].names]


def test_plain_members_reads_all_members_up_to_end_mark() -> None:
    data = a_shard(FILES)
    step = plain_members(data, 0, len(data))

    assert step is not None
    members, next_offset = step
    assert names(data) == list(FILES)
    assert next_offset == 10 * 1536
    assert members.header_offsets.tolist() == [i * 1536 for i in range(10)]
    assert members.sizes.tolist() == [700] * 10


@pytest.mark.parametrize("at", [0, 3, 9])
def test_plain_members_stops_before_special_header(at: int) -> None:
    files = list(FILES.items())
    data = a_shard([*files[:at], ("n" * 120, b""), *files[at:]], format=tarfile.GNU_FORMAT)

    assert names(data) == ([name for name, _ in files[:at]] or None)


def test_plain_members_accepts_data_beyond_buffer_but_not_beyond_file() -> None:
    data = a_shard(FILES)

    step = plain_members(data[:1024], 0, len(data))
    assert step is not None
    assert step[1] == 1536
    assert plain_members(data[:1024], 0, 1024) is None


def test_plain_member_offsets_count_from_file_start() -> None:
    data = a_shard(FILES)
    step = plain_members(data[1536:], 1536, len(data))

    assert step is not None
    assert step[0].header_offsets.tolist() == [i * 1536 for i in range(1, 10)]


def test_pax_header_with_only_mtime_is_plain() -> None:
    with_time = a_pax_pair(b"20 mtime=1234567.25\n")
    with_name = a_pax_pair(b"16 path=b/c.jpg\n")

    assert names(with_time) == ["a.jpg"]
    assert names(with_name) is None


def a_pax_pair(records: bytes) -> bytes:
    pax = bytearray(a_shard({"PaxHeader": records})[:1024])
    pax[156:157] = b"x"
    pax[148:156] = b"%06o\0 " % (sum(pax[:148]) + 256 + sum(pax[156:512]))
    return bytes(pax) + a_shard({"a.jpg": b""})


@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 40),
    odd=st.sets(st.integers(0, 511)),
    lowest=st.sampled_from([0, 128, 255]),
)
def test_valid_checksums_checks_every_header(seed: int, count: int, odd: set[int], lowest: int) -> None:
    """The headers differ only in the bytes at `odd`."""
    rng = np.random.default_rng(seed)
    heads = np.repeat(rng.integers(lowest, 256, (1, 512), np.uint8), count, axis=0)
    for at in odd:
        heads[:, at] = rng.integers(lowest, 256, count)
    is_right = rng.random(count) < 0.7
    write_checksums(heads, np.where(is_right, 0, rng.integers(1, 9, count)))
    assert valid_checksums(heads).tolist() == is_right.tolist()


def write_checksums(heads: ByteRows, errors: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    for head, off in zip(heads, errors, strict=True):
        head[148:156] = ord(" ")
        head[148:156] = np.frombuffer(b"%06o\0 " % int(head.sum(dtype=np.int64) + off), np.uint8)
