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


def make_turns(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": speaker, "value": words} for speaker, words in turns]


ANSWER_TURN = {"role": "assistant", "content": [text("a cat")]}


@pytest.mark.parametrize(
    ("raw", "media", "messages"),
    [
        (
            make_turns(("human", "<image>\nWhat is it?"), ("gpt", "a cat")),
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("What is it?")]}, ANSWER_TURN],
        ),
        (
            make_turns(("human", "Compare <image> with <image>."), ("gpt", "a cat")),
            {"images": ["A", "B"]},
            [
                {"role": "user", "content": [text("Compare "), image("A"), text(" with "), image("B"), text(".")]},
                ANSWER_TURN,
            ],
        ),
        (
            make_turns(("human", "<image>\n<image>\nWhat is it?"), ("gpt", "a cat")),
            {"images": ["A", "B"]},
            [{"role": "user", "content": [image("A"), image("B"), text("What is it?")]}, ANSWER_TURN],
        ),
        (
            make_turns(("system", "Be brief."), ("human", "What is it?"), ("gpt", "a cat")),
            {"images": ["A"]},
            [
                {"role": "system", "content": [text("Be brief.")]},
                {"role": "user", "content": [image("A"), text("What is it?")]},
                ANSWER_TURN,
            ],
        ),
        (
            {"instruction": "What is it?", "input": "", "output": "a cat"},
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("What is it?")]}, ANSWER_TURN],
        ),
        (
            {"instruction": "Name it.", "input": "It purrs.", "output": "a cat", "history": [["hi", "a cat"]]},
            {},
            [
                {"role": "user", "content": [text("hi")]},
                ANSWER_TURN,
                {"role": "user", "content": [text("Name it.\nIt purrs.")]},
                ANSWER_TURN,
            ],
        ),
        (
            {"system": "Be brief.", "conversations": make_turns(("human", "hi"), ("gpt", "a cat"))},
            {},
            [
                {"role": "system", "content": [text("Be brief.")]},
                {"role": "user", "content": [text("hi")]},
                ANSWER_TURN,
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
            [{"role": "user", "content": [text("What is it?"), image("A")]}, ANSWER_TURN],
        ),
        (
            [
                {"role": "user", "content": [{"image": "a.jpg"}, {"text": "hi"}]},
                {"role": "assistant", "content": "a cat"},
            ],
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("hi")]}, ANSWER_TURN],
        ),
        (
            {"question": "What is it?", "answer": "a cat"},
            {"images": ["A"]},
            [{"role": "user", "content": [image("A"), text("What is it?")]}, ANSWER_TURN],
        ),
        (
            {"question": "What is it?", "answers": ["a cat", "a cat"]},
            {},
            [{"role": "user", "content": [text("What is it?")]}, ANSWER_TURN],
        ),
        (
            [{"question": "What is it?", "answer": "a cat"}],
            {},
            [{"role": "user", "content": [text("What is it?")]}, ANSWER_TURN],
        ),
        (
            make_turns(("human", "<video>\n<audio>\nhi"), ("gpt", "a cat")),
            {"videos": ["V"], "audios": ["S"]},
            [
                {
                    "role": "user",
                    "content": [{"type": "video", "video": "V"}, {"type": "audio", "audio": "S"}, text("hi")],
                },
                ANSWER_TURN,
            ],
        ),
        (
            make_turns(("human", "<image>\nhi"), ("gpt", "a cat")),
            {"videos": ["V"]},
            [{"role": "user", "content": [{"type": "video", "video": "V"}, text("hi")]}, ANSWER_TURN],
        ),
        (
            make_turns(("gpt", "a cat"), ("human", "hi")),
            {},
            [ANSWER_TURN, {"role": "user", "content": [text("hi")]}],
        ),
        (
            {"texts": [{"user": "hi", "assistant": "a cat", "source": "ai2d"}, {"user": "hi", "assistant": "a cat"}]},
            {"images": ["I"]},
            [
                {"role": "user", "content": [{"type": "image", "image": "I"}, text("hi")], "source": "ai2d"},
                {**ANSWER_TURN, "source": "ai2d"},
                {"role": "user", "content": [text("hi")]},
                ANSWER_TURN,
            ],
        ),
        (
            {"messages": make_turns(("human", "hi"), ("gpt", "a cat")), "texts": ["other texts"]},
            {},
            [{"role": "user", "content": [text("hi")]}, ANSWER_TURN],
        ),
        (
            json.dumps(make_turns(("human", "hi"), ("gpt", "a cat"))).encode(),
            {},
            [{"role": "user", "content": [text("hi")]}, ANSWER_TURN],
        ),
    ],
)
def test_normalize_conversation_converts_all_forms_to_messages(
    raw: Any, media: dict[str, list[str]], messages: list[Any]
) -> None:
    before = json.dumps(raw) if not isinstance(raw, bytes) else ""

    assert normalize_conversation(raw, **media).messages == messages
    assert not before or json.dumps(raw) == before


def test_function_calls_and_observations_become_tool_messages() -> None:
    raw = {
        "conversations": make_turns(
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


def test_tool_calls_and_other_keys_of_turns_are_kept() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    raw = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    ]

    messages = normalize_conversation(raw, tools=[{"name": "weather"}]).messages

    assert messages[1] == {"role": "assistant", "content": [], "tool_calls": calls}
    assert messages[2] == {"role": "tool", "content": [text("sunny")], "tool_call_id": "1"}


HI = make_turns(("human", "hi"), ("gpt", "a cat"))


@pytest.mark.parametrize(
    ("raw", "images", "problem"),
    [
        (
            make_turns(("human", "<image> hi"), ("gpt", "a")),
            [],
            "turns have 1 <image> token, but the sample has 0 images",
        ),
        (make_turns(("human", "<image> <image>"), ("gpt", "a")), ["A"], "2 <image> tokens, but the sample has 1 image"),
        (
            make_turns(("human", "<image> hi"), ("gpt", "a")),
            ["A", "B"],
            "turns have 1 <image> token, but the sample has 2 images",
        ),
        (
            make_turns(("human", "<audio> hi"), ("gpt", "a")),
            [],
            "turns have 1 <audio> token, but the sample has 0 audios",
        ),
        (make_turns(("gpt", "hi")), ["A"], "no user turn"),
        (make_turns(("human", " \n"), ("gpt", "a")), [], "turn 0 is empty"),
        ([{"role": "user", "content": []}], [], "turn 0 is empty"),
        ([{"role": "user"}], [], "turn 0 is empty"),
        (make_turns(("narrator", "hi")), [], "turn 0 has the unknown role 'narrator'"),
        ([{"content": "hi"}], [], "turn 0 has neither `role` nor `from`"),
        (["hi"], [], "turn 0 is text"),
        ([], [], "it has no turns"),
        ({"messages": []}, [], "it has no turns"),
        ({"texts": [{"user": "hi", "assistant": ""}]}, [], "turn 0, assistant is empty"),
        ({"texts": ["hi"]}, [], "or a question and its answer; found texts"),
        ({"messages": {"role": "user"}}, [], "messages: expected a list, found an object"),
        ({"messages": HI, "conversations": HI}, [], "it has messages and conversations"),
        ({"caption": "x"}, [], "or a question and its answer; found caption"),
        ({"question": "who?", "answers": ["a", "b"]}, [], "2 different answers"),
        (7, [], "expected a list of turns, found 7"),
        (b"{", [], "it is not JSON"),
        ({"system": 3, "messages": HI}, [], "system: expected text, found 3"),
        ({"system": "a", "messages": make_turns(("system", "b"), ("human", "hi"))}, [], "both have a system prompt"),
        ([{"role": "user", "content": [{"type": "smell"}]}], [], "an item of the unknown type 'smell'"),
        ([{"role": "user", "content": [3]}], [], "an item that is 3"),
        ([{"role": "user", "content": [{"type": "text"}]}], [], "a text item whose `text` is nothing"),
        ([{"role": "user", "content": 3}], [], "turn 0 has 3 as its content"),
        (make_turns(("function_call", "weather")), [], "a function_call without the name of a function"),
        ({"messages": HI, "tools": "{"}, [], "tools: not JSON"),
    ],
)
def test_invalid_conversation_error_names_the_problem(raw: Any, images: list[str], problem: str) -> None:
    with pytest.raises(DatasetError) as caught:
        normalize_conversation(raw, images=images)

    assert caught.value.code == "WDS161"
    assert problem in caught.value.message
    assert caught.value.hint


def test_begins_with_assistant_ignores_system_prompt() -> None:
    assert begins_with_assistant(normalize_conversation(make_turns(("system", "x"), ("gpt", "hi"))))
    assert not begins_with_assistant(normalize_conversation(HI))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (HI, True),
        ([{"role": "user", "content": "x"}], True),
        ([], False),
        (["x"], False),
        ([{"role": 3}], False),
        ([{"user": "x", "assistant": "y", "source": "z"}], True),
        ([{"user": "x"}], False),
        ({}, False),
    ],
)
def test_is_conversation_recognises_turns_by_roles(value: Any, expected: bool) -> None:
    assert is_conversation(value) == expected


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
def test_any_json_value_is_refused_or_uses_all_media_once(raw: Any, images: list[int]) -> None:
    try:
        messages = normalize_conversation(raw, images=images).messages
    except DatasetError:
        return
    items = [item for message in messages for item in message["content"]]
    assert [item["image"] for item in items if item["type"] == "image"] == images
