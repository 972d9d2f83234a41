from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.trace.trace import SampleCounter


@given(st.lists(st.lists(st.integers(0, 12), max_size=10), max_size=8))
def test_every_id_is_counted_however_they_come(pieces: list[list[int]]) -> None:
    wanted = Counter(i for piece in pieces for i in piece)
    tally = SampleCounter()
    for n, piece in enumerate(pieces):
        tally.add(np.array(piece, np.int64))
        if n % 3 == 0:
            tally.merge_pending()
    tally.merge_pending()

    assert dict(zip(tally.ids.tolist(), tally.counts.tolist(), strict=True)) == wanted
    assert tally.total == wanted.total()
    assert tally.samples_by_count() == Counter(wanted.values())
    assert tally.most_frequent(3) == sorted(wanted.items(), key=lambda item: (-item[1], item[0]))[:3]
