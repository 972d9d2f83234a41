from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.core.validate.request import ValidateRequest, parse_share
from wdsctl.core.validate.unit import draw_positions


@given(st.floats(0.0001, 0.99), st.integers(0, 5), st.integers(0, 500))
def test_draw_positions_returns_share_and_at_least_one_sample(share: float, seed: int, samples: int) -> None:
    rows = draw_positions(ValidateRequest(share=share, seed=seed), "a.tar", samples)
    assert list(rows) == sorted(set(rows))
    assert all(0 <= row < samples for row in rows)
    assert samples == 0 or max(1, samples * share - 1e-9) <= len(rows) <= samples * share + 1


def test_draw_positions_depends_on_seed_and_shard() -> None:
    request, other_seed = (ValidateRequest(share=0.1, seed=seed) for seed in (7, 8))
    rows = draw_positions(request, "a.tar", 1000)
    assert rows == draw_positions(request, "a.tar", 1000)
    assert rows != draw_positions(request, "b.tar", 1000)
    assert rows != draw_positions(other_seed, "a.tar", 1000)


def test_draw_positions_returns_all_samples_without_share() -> None:
    assert draw_positions(ValidateRequest(), "a.tar", 3) == range(3)


@pytest.mark.parametrize(
    ("text", "share"), [("1%", 0.01), ("0.5", 0.5), (".5", 0.5), ("100%", 1.0), (" 2.5% ", 0.025), ("1e-2", 0.01)]
)
def test_parse_share_accepts_number_or_percent(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0", "0%", "101%", "1.5", "-1%", "x", ""])
def test_parse_share_refuses_invalid_text(text: str) -> None:
    with pytest.raises(UsageError, match="--sample"):
        parse_share(text)
