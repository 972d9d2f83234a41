from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from wdsctl.core.invocation import MAX_ARGUMENT_CHARS, current_invocation, describe_request, recording_invocation


@dataclass(frozen=True)
class Rule:
    shares: Mapping[str, float]
    seed: int = 0


@dataclass(frozen=True)
class Request:
    rule: Rule | None = None
    missing: str = "error"
    names: tuple[str, ...] = ()
    wait: float = 0.0
    hashed: bool | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(), []),
        (Request(missing="keep", names=("a", "b c")), ["missing=keep", "names=a,b c"]),
        (Request(hashed=False, wait=2.5), ["wait=2.5", "hashed=False"]),
        (Request(rule=Rule({"train": 8.0, "val": 1.0}, seed=3)), ["shares=train=8,val=1", "seed=3"]),
        (Request(facts={"key": "s3://me:word@host/x?sign=1"}), ["facts=key=s3://host/x"]),
    ],
)
def test_describe_request_lists_non_default_values_without_secrets(request_: Request, words: list[str]) -> None:
    assert describe_request(request_) == words


def test_describe_request_truncates_long_list() -> None:
    (word,) = describe_request(Request(names=("shard",) * 10_000))
    assert len(word) == MAX_ARGUMENT_CHARS


def test_truncated_list_contains_no_secret() -> None:
    (word,) = describe_request(Request(names=("x" * (MAX_ARGUMENT_CHARS - 20), "s3://me:password@host/x")))
    assert ":pass" not in word


def test_current_invocation_returns_typed_command_inside_block() -> None:
    with recording_invocation("index", ["s3://me:word@host/x", "--missing", "keep"]):
        assert current_invocation("prepare", ["x"])[:2] == ("index", ("s3://host/x", "--missing", "keep"))
        assert current_invocation("prepare", ["x"]).token == current_invocation("split", []).token
    assert current_invocation("prepare", ["x"])[:2] == ("prepare", ("x",))
