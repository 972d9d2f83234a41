from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.conversations import begins_with_assistant, is_conversation, normalize_conversation


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(medium: Any) -> dict[str, Any]:
    return {"type": "image", "image": medium}


def said(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": speaker, "value": words} for speaker, words in turns]


ANSWERED = {"role": "assistant", "content": [text("a cat")]}


@pytest.mark.parametrize(
    ("raw", "media", "messages"),
    [
        (
            said(("human", "<image>\nWhat is it?"), ("gpt", "a cat")),
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("What is it?")]}, ANSWERED],
        ),
        (
            said(("human", "Compare <image> with <image>."), ("gpt", "a cat")),
            {"images": ["A", "B"]},
            [
                {"role": "user", "content": [text("Compare "), image("A"), text(" with "), image("B"), text(".")]},
                ANSWERED,
            ],
        ),
        (
            said(("human", "<image>\n<image>\nWhat is it?"), ("gpt", "a cat")),
            {"images": ["A", "B"]},
            [{"role": "user", "content": [image("A"), image("B"), text("What is it?")]}, ANSWERED],
        ),
        (
            said(("system", "Be brief."), ("human", "What is it?"), ("gpt", "a cat")),
            {"images": ["A"]},
            [
                {"role": "system", "content": [text("Be brief.")]},
                {"role": "user", "content": [image("A"), text("What is it?")]},
                ANSWERED,
            ],
        ),
        (
            {"instruction": "What is it?", "input": "", "output": "a cat"},
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("What is it?")]}, ANSWERED],
        ),
        (
            {"instruction": "Name it.", "input": "It purrs.", "output": "a cat", "history": [["hi", "a cat"]]},
            {},
            [
                {"role": "user", "content": [text("hi")]},
                ANSWERED,
                {"role": "user", "content": [text("Name it.\nIt purrs.")]},
                ANSWERED,
            ],
        ),
        (
            {"system": "Be brief.", "conversations": said(("human", "hi"), ("gpt", "a cat"))},
            {},
            [
                {"role": "system", "content": [text("Be brief.")]},
                {"role": "user", "content": [text("hi")]},
                ANSWERED,
            ],
        ),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is it?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    ],
                },
                {"role": "assistant", "content": "a cat"},
            ],
            {"images": ["A"]},
            [{"role": "user", "content": [text("What is it?"), image("A")]}, ANSWERED],
        ),
        (
            [
                {"role": "user", "content": [{"image": "a.jpg"}, {"text": "hi"}]},
                {"role": "assistant", "content": "a cat"},
            ],
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("hi")]}, ANSWERED],
        ),
        (
            {"question": "What is it?", "answer": "a cat"},
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("What is it?")]}, ANSWERED],
        ),
        (
            {"question": "What is it?", "answers": ["a cat", "a cat"]},
            {},
            [{"role": "user", "content": [text("What is it?")]}, ANSWERED],
        ),
        (
            [{"question": "What is it?", "answer": "a cat"}],
            {},
            [{"role": "user", "content": [text("What is it?")]}, ANSWERED],
        ),
        (
            said(("human", "<video>\n<audio>\nhi"), ("gpt", "a cat")),
            {"videos": ["V"], "audios": ["S"]},
            [
                {
                    "role": "user",
                    "content": [{"type": "video", "video": "V"}, {"type": "audio", "audio": "S"}, text("hi")],
                },
                ANSWERED,
            ],
        ),
        (
            said(("human", "<image>\nhi"), ("gpt", "a cat")),
            {"videos": ["V"]},
            [{"role": "user", "content": [{"type": "video", "video": "V"}, text("hi")]}, ANSWERED],
        ),
        (
            said(("gpt", "a cat"), ("human", "hi")),
            {},
            [ANSWERED, {"role": "user", "content": [text("hi")]}],
        ),
        (
            json.dumps(said(("human", "hi"), ("gpt", "a cat"))).encode(),
            {},
            [{"role": "user", "content": [text("hi")]}, ANSWERED],
        ),
    ],
)
def test_all_forms_of_a_conversation_become_messages_with_their_media_in_place(
    raw: Any, media: dict[str, list[str]], messages: list[Any]
) -> None:
    before = json.dumps(raw) if not isinstance(raw, bytes) else ""

    assert normalize_conversation(raw, **media).messages == messages
    assert not before or json.dumps(raw) == before


def test_calls_of_functions_and_their_observations_are_kept_as_tool_calls() -> None:
    raw = {
        "conversations": said(
            ("human", "weather?"),
            ("function_call", '{"name": "weather", "arguments": {"city": "Rome"}}'),
            ("observation", '{"sun": true}'),
            ("gpt", "sunny"),
        ),
        "tools": '[{"name": "weather"}]',
    }

    conversation = normalize_conversation(raw)

    assert conversation.tools == [{"name": "weather"}]
    assert conversation.messages[1:3] == [
        {
            "role": "assistant",
            "content": [],
            "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}],
        },
        {"role": "tool", "content": [text('{"sun": true}')]},
    ]


def test_tool_calls_and_other_keys_of_a_turn_stay_as_they_are() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    raw = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    ]

    messages = normalize_conversation(raw, tools=[{"name": "weather"}]).messages

    assert messages[1] == {"role": "assistant", "content": [], "tool_calls": calls}
    assert messages[2] == {"role": "tool", "content": [text("sunny")], "tool_call_id": "1"}


HI = said(("human", "hi"), ("gpt", "a cat"))


@pytest.mark.parametrize(
    ("raw", "images", "problem"),
    [
        (said(("human", "<image> hi"), ("gpt", "a")), [], "turns have 1 <image> token, but the sample has 0 images"),
        (said(("human", "<image> <image>"), ("gpt", "a")), ["A"], "2 <image> tokens, but the sample has 1 image"),
        (
            said(("human", "<image> hi"), ("gpt", "a")),
            ["A", "B"],
            "turns have 1 <image> token, but the sample has 2 images",
        ),
        (said(("human", "<audio> hi"), ("gpt", "a")), [], "turns have 1 <audio> token, but the sample has 0 audios"),
        (said(("gpt", "hi")), ["A"], "no user turn"),
        (said(("human", " \n"), ("gpt", "a")), [], "turn 0 is empty"),
        ([{"role": "user", "content": []}], [], "turn 0 is empty"),
        ([{"role": "user"}], [], "turn 0 is empty"),
        (said(("narrator", "hi")), [], "turn 0 has the unknown role 'narrator'"),
        ([{"content": "hi"}], [], "turn 0 has neither `role` nor `from`"),
        (["hi"], [], "turn 0 is text"),
        ([], [], "it has no turns"),
        ({"messages": []}, [], "it has no turns"),
        ({"messages": {"role": "user"}}, [], "messages: expected a list, found an object"),
        ({"messages": HI, "conversations": HI}, [], "it has messages and conversations"),
        ({"caption": "x"}, [], "or a question and its answer; found caption"),
        ({"question": "who?", "answers": ["a", "b"]}, [], "2 different answers"),
        (7, [], "expected a list of turns, found 7"),
        (b"{", [], "it is not JSON"),
        ({"system": 3, "messages": HI}, [], "system: expected text, found 3"),
        ({"system": "a", "messages": said(("system", "b"), ("human", "hi"))}, [], "both have a system prompt"),
        ([{"role": "user", "content": [{"type": "smell"}]}], [], "an item of the unknown type 'smell'"),
        ([{"role": "user", "content": [3]}], [], "an item that is 3"),
        ([{"role": "user", "content": [{"type": "text"}]}], [], "a text item whose `text` is nothing"),
        ([{"role": "user", "content": 3}], [], "turn 0 has 3 as its content"),
        (said(("function_call", "weather")), [], "a function_call without the name of a function"),
        ({"messages": HI, "tools": "{"}, [], "tools: not JSON"),
    ],
)
def test_what_is_no_conversation_is_an_error_that_says_what_is_wrong(raw: Any, images: list[str], problem: str) -> None:
    with pytest.raises(DatasetError) as caught:
        normalize_conversation(raw, images=images)

    assert caught.value.code == "WDS161"
    assert problem in caught.value.message
    assert caught.value.hint


def test_who_begins_is_told_without_the_system_prompt() -> None:
    assert begins_with_assistant(normalize_conversation(said(("system", "x"), ("gpt", "hi"))))
    assert not begins_with_assistant(normalize_conversation(HI))


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (HI, True),
        ([{"role": "user", "content": "x"}], True),
        ([], False),
        (["x"], False),
        ([{"role": 3}], False),
        ({}, False),
    ],
)
def test_turns_are_recognised_by_their_roles_and_content(value: Any, is_one: bool) -> None:
    assert is_conversation(value) == is_one


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["human", "user", "gpt", "<image>", "hi", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["from", "value", "role", "content", "messages", "type", "text"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON, st.lists(st.integers(), max_size=2))
def test_any_value_is_a_conversation_whose_media_are_all_placed_once_or_an_error(raw: Any, images: list[int]) -> None:
    try:
        messages = normalize_conversation(raw, images=images).messages
    except DatasetError:
        return
    items = [item for message in messages for item in message["content"]]
    assert [item["image"] for item in items if item["type"] == "image"] == images
