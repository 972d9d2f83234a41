from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.trace.trace import SampleCounter


@given(st.lists(st.lists(st.integers(0, 12), max_size=10), max_size=8))
def test_sample_counter_counts_every_id(pieces: list[list[int]]) -> None:
    expected = Counter(i for piece in pieces for i in piece)
    counter = SampleCounter()
    for n, piece in enumerate(pieces):
        counter.add(np.array(piece, np.int64))
        if n % 3 == 0:
            counter.merge_pending()
    counter.merge_pending()

    assert dict(zip(counter.ids.tolist(), counter.counts.tolist(), strict=True)) == expected
    assert counter.total == expected.total()
    assert counter.samples_by_count() == Counter(expected.values())
    assert counter.most_frequent(3) == sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:3]
