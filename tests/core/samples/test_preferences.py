from __future__ import annotations

import json
from typing import Any

import pytest

from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.preferences import normalize_preference


def turn(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": words}]}


ASKED = {"role": "user", "content": "hi"}
GOOD = {"role": "assistant", "content": "hello"}
BAD = {"role": "assistant", "content": "no"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hi", "chosen": "hello", "rejected": "no"},
        {"instruction": "hi", "chosen": "hello", "rejected": "no"},
        {"prompt": [ASKED], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": "hi", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]},
        {"chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]},
        {"conversations": [ASKED], "chosen": GOOD, "rejected": BAD},
        {
            "conversations": [{"from": "human", "value": "hi"}],
            "chosen": {"from": "gpt", "value": "hello"},
            "rejected": {"from": "gpt", "value": "no"},
        },
    ],
)
def test_every_form_gives_a_prompt_and_two_answers(row: dict[str, Any]) -> None:
    found = normalize_preference(json.dumps(row).encode(), row["chosen"], row["rejected"])

    assert found.prompt == [turn("user", "hi")]
    assert found.chosen == [turn("assistant", "hello")]
    assert found.rejected == [turn("assistant", "no")]


def test_the_media_are_in_the_prompt() -> None:
    found = normalize_preference("<image>what?", "a cat", "a dog", images=["A"])

    assert [item["type"] for item in found.prompt[0]["content"]] == ["image", "text"]
    assert found.prompt[0]["content"][0]["image"] == "A"


def test_a_system_prompt_begins_the_prompt_and_is_not_asked_of_the_answers() -> None:
    row = {"system": "Be brief.", "prompt": "hi", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}

    found = normalize_preference(row, row["chosen"], row["rejected"])

    assert found.prompt == [turn("system", "Be brief."), turn("user", "hi")]
    assert found.chosen == [turn("assistant", "hello")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"chosen": "hello", "rejected": "no"}, "it has no prompt"),
        ({"prompt": [ASKED], "chosen": [ASKED], "rejected": [BAD]}, "`chosen` has no turn after the prompt"),
        ({"prompt": "hi", "chosen": "<image>", "rejected": "no"}, "1 <image> token, but the sample has 0 images"),
        ({"prompt": "hi", "chosen": 7, "rejected": "no"}, "turn 0 is 7"),
    ],
)
def test_what_lacks_a_piece_is_refused(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(DatasetError) as refused:
        normalize_preference(row, row["chosen"], row["rejected"])

    assert refused.value.code == "WDS161"
    assert problem in refused.value.message
