from __future__ import annotations

import json
from typing import Any

import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.preferences import normalize_preference


def turn(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": words}]}


PROMPT_TURN = {"role": "user", "content": "hi"}
GOOD = {"role": "assistant", "content": "hello"}
BAD = {"role": "assistant", "content": "no"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hi", "chosen": "hello", "rejected": "no"},
        {"instruction": "hi", "chosen": "hello", "rejected": "no"},
        {"prompt": [PROMPT_TURN], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": "hi", "chosen": [PROMPT_TURN, GOOD], "rejected": [PROMPT_TURN, BAD]},
        {"chosen": [PROMPT_TURN, GOOD], "rejected": [PROMPT_TURN, BAD]},
        {"conversations": [PROMPT_TURN], "chosen": GOOD, "rejected": BAD},
        {
            "conversations": [{"from": "human", "value": "hi"}],
            "chosen": {"from": "gpt", "value": "hello"},
            "rejected": {"from": "gpt", "value": "no"},
        },
    ],
)
def test_normalize_preference_reads_every_form(row: dict[str, Any]) -> None:
    found = normalize_preference(json.dumps(row).encode(), row["chosen"], row["rejected"])

    assert found.prompt == [turn("user", "hi")]
    assert found.chosen == [turn("assistant", "hello")]
    assert found.rejected == [turn("assistant", "no")]


def test_preference_media_are_in_prompt() -> None:
    found = normalize_preference("<image>what?", "a cat", "a dog", images=["A"])

    assert [item["type"] for item in found.prompt[0]["content"]] == ["image", "text"]
    assert found.prompt[0]["content"][0]["image"] == "A"


def test_system_prompt_is_added_to_prompt_only() -> None:
    row = {"system": "Be brief.", "prompt": "hi", "chosen": [PROMPT_TURN, GOOD], "rejected": [PROMPT_TURN, BAD]}

    found = normalize_preference(row, row["chosen"], row["rejected"])

    assert found.prompt == [turn("system", "Be brief."), turn("user", "hi")]
    assert found.chosen == [turn("assistant", "hello")]


def test_system_prompt_is_kept_if_answers_begin_with_prompt() -> None:
    row = {"system": "Be brief.", "chosen": [PROMPT_TURN, GOOD], "rejected": [PROMPT_TURN, BAD]}

    found = normalize_preference(row, row["chosen"], row["rejected"])

    assert found.prompt == [turn("system", "Be brief."), turn("user", "hi")]
    assert (found.chosen, found.rejected) == ([turn("assistant", "hello")], [turn("assistant", "no")])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"system": "a", "conversations": [{"role": "system", "content": "b"}, PROMPT_TURN]}
            | {"chosen": GOOD, "rejected": BAD},
            "both have a system prompt",
        ),
        ({"chosen": "hello", "rejected": "no"}, "it has no prompt"),
        (
            {"prompt": [PROMPT_TURN], "chosen": [PROMPT_TURN], "rejected": [BAD]},
            "`chosen` has no turn after the prompt",
        ),
        ({"prompt": "hi", "chosen": "<image>", "rejected": "no"}, "1 <image> token, but the sample has 0 images"),
        ({"prompt": "hi", "chosen": 7, "rejected": "no"}, "turn 0 is 7"),
    ],
)
def test_incomplete_preference_is_refused(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(DatasetError) as caught:
        normalize_preference(row, row["chosen"], row["rejected"])

    assert caught.value.code == "WDS161"
    assert problem in caught.value.message
