"""Conversations: from the forms in which files hold them to the messages that chat templates of Hugging Face take.

`normalize_conversation` reads LLaVA (`conversations` of from and value), ShareGPT (further roles, tools, media lists),
OpenAI messages (role and content, text or a list of items), Alpaca (`instruction`, `input`, `output`, `history`) and
question-answer pairs, also lists of them (`texts` of user and assistant in The Cauldron and FineVision). Media are
opaque: they are put into the places of their tokens (`<image>`) or items, whatever they are. `wdsctl.loader` passes
decoded media, importers and `validate` only count them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.types import ANSWERS_NAMES, QUESTION_NAMES
from wdsctl.core.text import pluralize, short_repr

Modality = Literal["image", "video", "audio"]
MODALITIES: tuple[Modality, ...] = ("image", "video", "audio")

#: The keys of an object under which its turns are, the likeliest first.
TURNS_KEYS = ("messages", "conversations", "conversation", "texts")

#: Keys of an object that is one question, or one instruction, with its answer. An instruction may have an input.
_PAIR_QUESTION_NAMES = ("instruction", *(name for name in QUESTION_NAMES if name != "instruction"))
PAIR_ANSWER_NAMES = (*ANSWERS_NAMES, "output", "completion")
_INPUT_NAMES = ("input", "context")

_ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "function_call"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function"), "tool"),
}
#: The names of both sides of a turn that is a question with its answer.
_PAIRED_TURNS = (("question", "answer"), ("user", "assistant"))
_ROLE_KEYS = ("role", "from")
_CONTENT_KEYS = ("content", "value")

#: Types of content items, by what they hold.
_ITEM_TYPES: dict[str, Literal["text", "image", "video", "audio"]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), "text"),
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
    **dict.fromkeys(("audio", "audio_url", "input_audio"), "audio"),
}

#: A token, with the line breaks that divide it from text.
_TOKEN = re.compile(r"[\r\n]*<(image|video|audio)>[\r\n]*")


class Conversation(NamedTuple):
    """`messages`: dicts with role, content (a list of items) and the other keys of a turn. `tools`: a list, or None."""

    messages: list[dict[str, Any]]
    tools: Any = None


def normalize_conversation(
    raw: Any,
    *,
    images: Sequence[Any] = (),
    videos: Sequence[Any] = (),
    audios: Sequence[Any] = (),
    tools: Any = None,
) -> Conversation:
    """Normalise a conversation: a list of turns; or an object with turns, `system` and `tools`, or with a question or
    an instruction and its answer. JSON text or bytes are parsed first.

    The i-th token or item of an image holds the i-th of `images`, and so on. Media without any token or item come first
    in the first turn of the user. If there are videos and no images, `<image>` means a video, as in LLaVA-Video. Turns
    keep their order, whoever begins. Raises DatasetError WDS161: the numbers of tokens and media differ, a turn without
    content, an unknown role, or another form.
    """
    turns, system, own_tools = find_turns(read_json_text(raw))
    messages = read_turns(turns)
    if system:
        if messages and messages[0]["role"] == "system":
            raise conversation_error("`system` and the first turn both have a system prompt", "remove one of them")
        messages.insert(0, {"role": "system", "content": _split_tokens(system)})
    if not messages:
        raise conversation_error("it has no turns", "complete the conversation, or remove the sample")
    place_media(messages, {"image": images, "video": videos, "audio": audios})
    return Conversation(messages, read_tools(own_tools if tools is None else tools))


def is_conversation(value: Any) -> bool:
    """Whether a value of JSON looks like the turns of a conversation: a list of objects with a role and content."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(turn, dict)
            and (
                (
                    any(isinstance(turn.get(key), str) for key in _ROLE_KEYS)
                    and any(key in turn for key in _CONTENT_KEYS)
                )
                or all(isinstance(turn.get(key), str) for key in ("user", "assistant"))
            )
            for turn in value
        )
    )


def role_of_turn(turn: Mapping[str, Any]) -> str:
    """The role of a turn, such as `assistant` for `gpt`; empty if it is unknown."""
    names = (turn[key] for key in _ROLE_KEYS if isinstance(turn.get(key), str))
    return _ROLES.get(next(names, ""), "")


def has_media_token(text: str) -> bool:
    """Whether a text has a token such as `<image>`."""
    return bool(_TOKEN.search(text))


def has_turns(raw: Mapping[str, Any]) -> bool:
    """Whether an object has something under a key of turns."""
    return bool(_turns_keys(raw))


def contents_of_turn(turn: Mapping[str, Any]) -> list[Any]:
    """What a turn says, before it is checked: one content, or those of both sides."""
    pair = next((pair for pair in _PAIRED_TURNS if _is_paired(turn, pair)), ())
    return [turn[key] for key in pair] or [turn.get("content", turn.get("value"))]


def begins_with_assistant(conversation: Conversation) -> bool:
    """Whether the first turn after system prompts is the assistant's."""
    return next((m["role"] for m in conversation.messages if m["role"] != "system"), "") == "assistant"


def read_json_text(raw: Any) -> Any:
    if not isinstance(raw, str | bytes | bytearray | memoryview):
        return raw
    try:
        return read_json(bytes(raw) if isinstance(raw, memoryview) else raw)
    except ValueError as error:
        raise conversation_error(
            f"it is not JSON: {error}", "map `messages` to a JSON part, or to a key of one"
        ) from error


def find_turns(raw: Any) -> tuple[list[Any], str, Any]:
    """(turns, system prompt, tools)"""
    if isinstance(raw, list):
        return raw, "", None
    if not isinstance(raw, Mapping):
        raise conversation_error(f"expected a list of turns, found {_describe(raw)}", "write a list of objects")
    system, tools = raw.get("system") or "", raw.get("tools")
    if not isinstance(system, str):
        raise conversation_error(f"system: expected text, found {_describe(system)}", "write the prompt as text")
    keys = _turns_keys(raw)
    if len(keys) > 1:
        message = f"it has {' and '.join(keys)}, and only one of them can be the turns"
        raise conversation_error(message, f"map the key of the turns, for example `messages: json[{keys[0]}]`")
    if keys:
        turns = raw[keys[0]]
        if not isinstance(turns, list):
            raise conversation_error(f"{keys[0]}: expected a list, found {_describe(turns)}", "write a list of turns")
        return turns, system, tools
    return [*_read_history(raw), _read_pair(raw)], system, tools


def _turns_keys(raw: Mapping[str, Any]) -> list[str]:
    """The keys of an object under which turns are. `texts` may be other texts."""
    return [key for key in TURNS_KEYS if raw.get(key) is not None and (key != "texts" or is_conversation(raw[key]))]


def _is_paired(turn: Mapping[str, Any], pair: tuple[str, str]) -> bool:
    """Whether a turn is a question with its answer. The turns of The Cauldron have further keys, such as `source`."""
    return set(turn) == set(pair) or (pair == ("user", "assistant") and set(pair) <= set(turn))


def _read_history(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pairs of question and answer that precede an instruction."""
    history = raw.get("history") or []
    pairs = isinstance(history, list) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in history)
    if not pairs:
        message = f"history: expected a list of pairs, found {_describe(history)}"
        raise conversation_error(message, 'write pairs such as [["question", "answer"]]')
    return [{"question": question, "answer": answer} for question, answer in history]


def _read_pair(raw: Mapping[str, Any]) -> dict[str, str]:
    """A question or an instruction with its only answer. The input of an instruction follows in a new line."""
    question = next((raw[key] for key in _PAIR_QUESTION_NAMES if raw.get(key)), None)
    answers = next((raw[key] for key in PAIR_ANSWER_NAMES if raw.get(key)), None)
    if isinstance(answers, list) and answers and all(answer == answers[0] for answer in answers):
        answers = answers[0]
    if isinstance(answers, list):
        message = f"the question has {len(answers)} different answers"
        raise conversation_error(message, "keep one of them, or use VQASample, which returns all of them")
    if not isinstance(question, str) or not isinstance(answers, str):
        found = ", ".join(str(key) for key in list(raw)[:12]) or "nothing"
        message = f"expected {', '.join(TURNS_KEYS)}, or a question and its answer; found {found}"
        raise conversation_error(message, "map `messages` to the key of the turns")
    given = next((raw[key] for key in _INPUT_NAMES if raw.get(key)), None) if raw.get("instruction") else None
    if given is not None and not isinstance(given, str):
        raise conversation_error(f"input: expected text, found {_describe(given)}", "write the input as text")
    return {"question": f"{question}\n{given}" if given else question, "answer": answers}


def read_turns(turns: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages of a list of turns, media without their value. Raises DatasetError WDS161."""
    return [message for i, turn in enumerate(turns) for message in _read_turn(turn, i)]


def _read_turn(turn: Any, number: int) -> Iterator[dict[str, Any]]:
    """The messages of one turn: one, or two of a question with its answer."""
    where = f"turn {number}"
    if not isinstance(turn, Mapping):
        raise conversation_error(f"{where} is {_describe(turn)}", "write an object with a role and content")
    for pair in _PAIRED_TURNS:
        if _is_paired(turn, pair):
            more = {key: value for key, value in turn.items() if key not in pair}
            for role, key in zip(("user", "assistant"), pair, strict=True):
                yield {"role": role, "content": read_content(turn[key], f"{where}, {key}"), **more}
            return
    role_key = next((key for key in _ROLE_KEYS if key in turn), "")
    content_key = next((key for key in _CONTENT_KEYS if key in turn), "")
    name = turn.get(role_key)
    if not isinstance(name, str) or name not in _ROLES:
        problem = f"has the unknown role {short_repr(name)}" if role_key else "has neither `role` nor `from`"
        raise conversation_error(f"{where} {problem}", f"use one of the roles {', '.join(_ROLES)}")
    message: dict[str, Any] = {"role": _ROLES[name]}
    others = {key: value for key, value in turn.items() if key not in (role_key, content_key)}
    if name == "function_call":
        return (yield {**message, "content": [], "tool_calls": _read_calls(turn.get(content_key), where), **others})
    calls = others.get("tool_calls")
    content = turn.get(content_key)
    message["content"] = [] if content in (None, "") and calls else read_content(content, where)
    yield {**message, **others}


def read_content(content: Any, where: str) -> list[dict[str, Any]]:
    """The items of a turn, media without their value. Raises if there is nothing in it."""
    if isinstance(content, str):
        items = _split_tokens(content)
    elif isinstance(content, list):
        items = [item for each in content for item in _read_item(each, where)]
    elif content is None:
        items = []
    else:
        raise conversation_error(f"{where} has {_describe(content)} as its content", "write text, or a list of items")
    if not any(item["type"] != "text" or item["text"].strip() for item in items):
        raise conversation_error(f"{where} is empty", "complete the turn, or remove the sample")
    return items


def _read_item(item: Any, where: str) -> list[dict[str, Any]]:
    if isinstance(item, str):
        return _split_tokens(item)
    if not isinstance(item, Mapping):
        raise conversation_error(f"{where} has an item that is {_describe(item)}", "write an object with a type")
    name = item.get("type") if "type" in item else next((key for key in _ITEM_TYPES if key in item), None)
    kind = _ITEM_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        message = f"{where} has an item of the unknown type {short_repr(name)}"
        raise conversation_error(message, f"use one of the types {', '.join(_ITEM_TYPES)}")
    if kind != "text":
        return [{"type": kind}]
    text = item.get("text")
    if not isinstance(text, str):
        raise conversation_error(f"{where} has a text item whose `text` is {_describe(text)}", "write `text` as text")
    return _split_tokens(text)


def _split_tokens(text: str) -> list[dict[str, Any]]:
    """Text and media items, in order."""
    if "<" not in text:
        return [{"type": "text", "text": text}]
    pieces = _TOKEN.split(text)
    items: list[dict[str, Any]] = []
    for i, piece in enumerate(pieces):
        if i % 2:
            items.append({"type": piece})
        elif piece or len(pieces) == 1:
            items.append({"type": "text", "text": piece})
    return items


def place_media(messages: list[dict[str, Any]], media: Mapping[Modality, Sequence[Any]]) -> None:
    """Put each medium into the item of its token. Changes the messages."""
    places: dict[str, list[dict[str, Any]]] = {name: [] for name in MODALITIES}
    for message in messages:
        for item in message["content"]:
            if item["type"] != "text":
                places[item["type"]].append(item)
    if media["video"] and not media["image"] and not places["video"]:
        for item in places["image"]:
            item["type"] = "video"
        places["video"], places["image"] = places["image"], []
    leading: list[dict[str, Any]] = []
    for name in MODALITIES:
        if places[name] and len(places[name]) != len(media[name]):
            raise conversation_error(
                f"its turns have {pluralize(len(places[name]), f'<{name}> token')}, but the sample has "
                f"{pluralize(len(media[name]), name)}",
                f'add the missing tokens or parts; check the parts in the field map: `{name}s: "*"`',
            )
        for item, medium in zip(places[name], media[name], strict=False):
            item[name] = medium
        if not places[name]:
            leading += [{"type": name, name: medium} for medium in media[name]]
    if leading:
        first = next((message for message in messages if message["role"] == "user"), None)
        if first is None:
            raise conversation_error("it has media, but no user turn for them", "add a user turn")
        first["content"][:0] = leading


def _read_calls(value: Any, where: str) -> list[dict[str, Any]]:
    """ShareGPT's function_call: JSON text of one call or several, as `tool_calls`."""
    try:
        calls = read_json(value) if isinstance(value, str) else value
    except ValueError:
        calls = None
    calls = calls if isinstance(calls, list) else [calls]
    if not calls or not all(isinstance(call, Mapping) and isinstance(call.get("name"), str) for call in calls):
        hint = 'write JSON such as {"name": "search", "arguments": {"query": "cats"}}'
        raise conversation_error(f"{where} has a function_call without the name of a function", hint)
    return [{"type": "function", "function": dict(call)} for call in calls]


def read_tools(tools: Any) -> Any:
    if tools in (None, ""):
        return None
    if not isinstance(tools, str):
        return tools
    try:
        return read_json(tools)
    except ValueError as error:
        raise conversation_error(f"tools: not JSON: {error}", "write the tools as a list, or as JSON text") from error


def _describe(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", type(None): "nothing"}
    return names.get(type(value), short_repr(value))


def conversation_error(problem: str, hint: str) -> WdsctlError:
    return DatasetError(f"the conversation cannot be read: {problem}", hint=hint, code="WDS161")
