"""Failures with one reason have one cause, whatever sample failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.loader.pipeline.fake_stages import failures_of
from wdsctl.core.errors import InputError
from wdsctl.loader.runtime.failure_causes import describe_cause
from wdsctl.loader.runtime.failures import MAX_CAUSES, OTHER_CAUSES


def encode(sample: Any) -> Any:
    if sample is None:
        raise ValueError("no sample")
    if sample == "helped":
        return helper(sample)
    return json.loads(sample)


def helper(sample: Any) -> Any:
    raise ValueError(f"no {sample}")


def cause_of(sample: Any) -> str:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - any line of `encode`
        encode(sample)
    return describe_cause("encode_sample", raised.value)


def test_cause_names_line_in_file_of_hook() -> None:
    causes = {name: cause_of(sample) for name, sample in (("own", None), ("helper", "helped"), ("library", "{"))}

    assert causes["own"].startswith("encode_sample: ValueError at test_failure_causes.py:")
    assert causes["library"].startswith("encode_sample: JSONDecodeError at test_failure_causes.py:")
    assert len(set(causes.values())) == 3, "three lines of one file"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (("the field 'caption' has no part", "the field 'text' has no part"), "the field ... has no part"),
        (("image has 5,000 x 7 pixels", "image has 3 x 7 pixels"), "image has ... x ... pixels"),
        (("cannot read /a/b.png: no file", "cannot read c/d.png: no file"), "cannot read ...: no file"),
        (("cannot identify <io.BytesIO at 0x7f>", "cannot identify <io.BytesIO at 0x8a>"), "cannot identify ..."),
        (("it isn't an image", "it isn't an image"), "it isn't an image"),
    ],
)
def test_cause_has_message_without_values(messages: tuple[str, str], expected: str) -> None:
    causes = {describe_cause("load", InputError(each, hint="x", code="WDS503")) for each in messages}

    assert causes == {f"load: WDS503: {expected}"}


def test_different_messages_of_one_code_are_different_causes() -> None:
    failures = failures_of(lambda *_: None, tolerance=0)
    for message in ("no part for the field", "the JPEG ends early", "no part for the field"):
        failures.record_failure("load", InputError(message, hint="x", code="WDS503"), None, "here")

    assert failures.stats.causes == {"load: WDS503: no part for the field": 2, "load: WDS503: the JPEG ends early": 1}


def test_causes_above_limit_are_counted_together() -> None:
    failures = failures_of(lambda *_: None, tolerance=0)
    for i in range(MAX_CAUSES + 10):
        message = "x" * (i % 50) + "y" * (i // 50)
        failures.record_failure("load", InputError(message, hint="x", code="WDS503"), None, "here")

    assert failures.stats.causes.total() == failures.stats.failed == MAX_CAUSES + 10
    assert failures.stats.causes[OTHER_CAUSES] == 10
