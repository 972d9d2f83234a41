from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.trace.counts import Tally


@given(st.lists(st.lists(st.integers(0, 12), max_size=10), max_size=8))
def test_every_id_is_counted_however_they_come(pieces: list[list[int]]) -> None:
    wanted = Counter(i for piece in pieces for i in piece)
    tally = Tally()
    for n, piece in enumerate(pieces):
        tally.add(np.array(piece, np.int64))
        if n % 3 == 0:
            tally.settle()
    tally.settle()

    assert dict(zip(tally.ids.tolist(), tally.times.tolist(), strict=True)) == wanted
    assert tally.total == wanted.total()
    assert tally.by_times() == Counter(wanted.values())
    assert tally.most(3) == sorted(wanted.items(), key=lambda item: (-item[1], item[0]))[:3]
