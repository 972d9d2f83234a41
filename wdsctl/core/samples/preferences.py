"""Preferences: a prompt with a chosen and a rejected answer, from the forms in which files for DPO hold them.

`normalize_preference` reads the columns `prompt`, `chosen` and `rejected` of TRL, as text or as turns, with the prompt
in its column or at the beginning of both answers, and the ShareGPT form (`conversations` before `chosen` and
`rejected`).

Source: https://huggingface.co/docs/trl/dataset_formats (the forms).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wdsctl.core.samples.conversations import (
    conversation_error,
    find_turns,
    has_turns,
    place_media,
    read_content,
    read_json_text,
    read_tools,
    read_turns,
)

#: The keys of an object that holds both answers.
ANSWER_KEYS = ("chosen", "rejected")


class Preference(NamedTuple):
    """Messages as in a `Conversation`. `prompt` precedes either answer."""

    prompt: list[dict[str, Any]]
    chosen: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    tools: Any = None


def is_preference(value: Any) -> bool:
    """Whether an object has a chosen and a rejected answer."""
    return isinstance(value, Mapping) and all(value.get(key) for key in ANSWER_KEYS)


def normalize_preference(
    prompt: Any,
    chosen: Any,
    rejected: Any,
    *,
    images: Sequence[Any] = (),
    videos: Sequence[Any] = (),
    audios: Sequence[Any] = (),
    tools: Any = None,
) -> Preference:
    """Normalise a prompt and two answers: text, a turn, or a list of turns each.

    `prompt` may also be the object that has the prompt under `prompt`, as turns, or as an instruction. If it has none,
    the turns that both answers begin with are the prompt. Media are put into the prompt as `normalize_conversation`
    puts them. Raises DatasetError WDS161, as there; also for an answer without a turn of its own.
    """
    messages, system, own_tools = _read_prompt(read_json_text(prompt) if _is_json_text(prompt) else prompt)
    answers = [_read_answer(answer, name) for answer, name in zip((chosen, rejected), ANSWER_KEYS, strict=True)]
    if not messages:
        messages = _common_turns(*answers)
        if not messages:
            raise conversation_error("it has no prompt", "write the prompt under `prompt`")
    if system:
        if messages[0]["role"] == "system":
            raise conversation_error("`system` and the first turn both have a system prompt", "remove one of them")
        messages.insert(0, {"role": "system", "content": read_content(system, "system")})
    # Some files repeat the prompt in both answers.
    turns = [turn for turn in messages if turn["role"] != "system"]
    for before in (messages, turns):
        answers = [answer[len(before) :] if answer[: len(before)] == before else answer for answer in answers]
    for name, answer in zip(ANSWER_KEYS, answers, strict=True):
        if not answer:
            raise conversation_error(f"`{name}` has no turn after the prompt", "write the answer, or remove the sample")
        place_media(answer, {"image": (), "video": (), "audio": ()})
    place_media(messages, {"image": images, "video": videos, "audio": audios})
    own_chosen, own_rejected = answers
    return Preference(messages, own_chosen, own_rejected, read_tools(own_tools if tools is None else tools))


def _is_json_text(prompt: Any) -> bool:
    """Whether the prompt is a whole part of JSON, not parsed yet."""
    return isinstance(prompt, bytes | bytearray | memoryview)


def _read_prompt(raw: Any) -> tuple[list[dict[str, Any]], Any, Any]:
    """(messages, system prompt, tools) of the prompt; no messages if there is no prompt."""
    if not isinstance(raw, Mapping):
        return _read_messages(raw, "user", "prompt"), "", None
    system, tools = raw.get("system") or "", raw.get("tools")
    if raw.get("prompt"):
        messages = _read_messages(raw["prompt"], "user", "prompt")
    elif has_turns(raw):
        turns, system, tools = find_turns(raw)
        messages = read_turns(turns)
    elif question := next((raw[key] for key in ("instruction", "question") if raw.get(key)), None):
        given = raw.get("input")
        messages = _read_messages(f"{question}\n{given}" if given else question, "user", "prompt")
    else:
        messages = []
    return messages, system, tools


def _read_answer(raw: Any, name: str) -> list[dict[str, Any]]:
    return _read_messages(raw, "assistant", name)


def _read_messages(raw: Any, role: str, name: str) -> list[dict[str, Any]]:
    """The messages of text, of a turn, or of a list of turns."""
    if isinstance(raw, str):
        return [{"role": role, "content": read_content(raw, name)}]
    return read_turns([raw] if isinstance(raw, Mapping) else raw if isinstance(raw, list) else [raw])


def _common_turns(chosen: list[dict[str, Any]], rejected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The turns that both begin with, without the last one of either."""
    count = 0
    for one, other in zip(chosen[:-1], rejected[:-1], strict=False):
        if one != other:
            break
        count += 1
    return [dict(turn) for turn in chosen[:count]]
