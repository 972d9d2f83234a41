from __future__ import annotations

import pytest

from wdsctl.core.dataset import timed_regex
from wdsctl.core.dataset.timed_regex import compile_path_regex
from wdsctl.core.errors import UsageError


def test_path_regex_matches_whole_path_with_line_breaks() -> None:
    matches = compile_path_regex("a.*|b", "re:a.*|b")
    assert [matches(path) for path in ("a\nb", "b", "bb", "xa")] == [True, True, False, False]


def test_match_timeout_applies_to_sum_of_slow_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_regex, "MATCH_TIMEOUT_SECONDS", 0.2)
    matches = compile_path_regex("(a|aa)+", "re:(a|aa)+")
    assert matches("a" * 60)
    with pytest.raises(UsageError, match=r"takes more than 0\.2 s"):
        [matches("a" * length + "b") for length in range(20, 60)]
