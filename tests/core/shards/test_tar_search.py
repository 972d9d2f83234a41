from __future__ import annotations

import pytest

from tests.build import a_shard, memory_reader, samples
from wdsctl.core.shards.tar_search import find_headers

GOOD = a_shard(samples(0, 2))  # members of 1,024 bytes, four of them


@pytest.mark.parametrize(
    ("data", "offsets"),
    [
        (GOOD, [0, 1024, 2048, 3072]),
        (bytes(512) + GOOD, [512, 1536, 2560, 3584]),
        (b"?" * 100 + GOOD, []),  # not at a block boundary
        (b"?" * 512 + GOOD[:1700], [512]),  # the second is cut within its data, so no header follows it
        (GOOD[:512] + b"?" * 512 + GOOD[1024:], [0, 1024, 2048, 3072]),  # the content of data does not matter
        (GOOD[:1024] + b"?" * 2048 + GOOD[3072:], [3072]),  # the first is followed by something that is no header
        (b"ustar" * 1000, []),
        (b"", []),
    ],
)
def test_find_headers_finds_chained_headers_only(data: bytes, offsets: list[int]) -> None:
    assert list(find_headers(memory_reader(data), len(data), 0)) == offsets
