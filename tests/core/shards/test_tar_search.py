from __future__ import annotations

import pytest

from tests.build import a_shard, reading, samples
from wdsctl.core.shards.tar_search import find_headers

GOOD = a_shard(samples(0, 2))  # members of 1,024 bytes, four of them


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (GOOD, [0, 1024, 2048, 3072]),
        (bytes(512) + GOOD, [512, 1536, 2560, 3584]),
        (b"?" * 100 + GOOD, []),  # not at the border of a block
        (b"?" * 512 + GOOD[:1700], [512]),  # the second is cut within its data, and leads nowhere
        (GOOD[:512] + b"?" * 512 + GOOD[1024:], [0, 1024, 2048, 3072]),  # of data nothing is asked
        (GOOD[:1024] + b"?" * 2048 + GOOD[3072:], [3072]),  # the first leads to what is no header
        (b"ustar" * 1000, []),
        (b"", []),
    ],
)
def test_headers_are_found_where_they_lead_to_others_or_to_the_end(data: bytes, found: list[int]) -> None:
    assert list(find_headers(reading(data), len(data), 0)) == found
