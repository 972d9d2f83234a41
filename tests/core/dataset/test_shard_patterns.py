from __future__ import annotations

from contextlib import suppress

import pytest

from wdsctl.core.dataset import timed_regex
from wdsctl.core.dataset.shard_patterns import ShardPatterns, compile_shard_pattern
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("shard-{000..009}.tar", "shard-004.tar", "shard-010.tar"),
        ("a b.tar", "a b.tar", "x/a b.tar"),
        ("train/*.tar", "train/1.tar", "train/x/1.tar"),
        ("glob:train/**.tar", "train/x/1.tar", "val/1.tar"),
        ("{train,val}/*.tar", "val/1.tar", "test/1.tar"),
        (r"re:shard-\d+[02468]\.tar", "shard-12.tar", "shard-12.tar.tar"),
        ("re:a|b", "b", "ab"),
    ],
)
def test_shard_pattern_matches_whole_path(pattern: str, yes: str, no: str) -> None:
    assert (compile_shard_pattern(pattern)(yes), compile_shard_pattern(pattern)(no)) == (True, False)


@pytest.mark.parametrize("pattern", ["", "glob:", "re:(", "re:[a"])
def test_invalid_shard_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        compile_shard_pattern(pattern)


def test_shard_patterns_find_all_matching_patterns() -> None:
    table = ShardPatterns(["a.tar", "glob:b*", "c{1..3}.tar", "{a,a}.tar"])
    assert [table.find(path) for path in ("a.tar", "b1.tar", "c2.tar", "d.tar")] == [[0, 3], [1], [2], []]
    with pytest.raises(UsageError):
        ShardPatterns(["a.tar", ""])


def test_hundred_thousand_named_shards_are_found_fast() -> None:
    names = [f"part-{i // 1000}/shard-{i:06}.tar" for i in range(100_000)]
    table = ShardPatterns(names)
    # Comparing every name with every pattern would take hours.
    assert all(table.find(name) == [i] for i, name in enumerate(names))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["re:(a+)+b", "glob:" + "*a" * 20 + "b", "*" + "a*" * 20 + "b", "**/" * 30 + "*b"])
@pytest.mark.parametrize("path", ["a" * 60, "a/" * 30 + "a" * 60])
def test_slow_pattern_matches_nothing_or_is_refused(pattern: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_regex, "MATCH_TIMEOUT_SECONDS", 0.2)
    with suppress(UsageError):
        assert not compile_shard_pattern.__wrapped__(pattern)(path)


def test_slow_pattern_is_named_in_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_regex, "MATCH_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(UsageError, match=r"'re:\(a\|aa\)\+' takes more than 0\.2 s"):
        compile_shard_pattern.__wrapped__("re:(a|aa)+")("a" * 60 + "b")


def test_glob_with_too_many_expansions_is_refused() -> None:
    with pytest.raises(UsageError, match="more than 100,000 names"):
        compile_shard_pattern("*" + "{a,b}" * 19)
