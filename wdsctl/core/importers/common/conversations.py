"""Rows that are conversations: which rows are, where their media are named, and what becomes of their fields.

The media of a row are numbered in the order of their places in the conversation (`0.jpg`, `1.png`; a single one is
`jpg`), and the JSON keeps the turns unchanged, so that `normalize_conversation` puts each medium into its place again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.importers.common.encoded_media import is_encoded_medium
from wdsctl.core.importers.common.files import extension_of_name, find_media_fields
from wdsctl.core.importers.protocol import FieldUse, Options, SourceDescription
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.samples.conversations import (
    TURNS_KEYS,
    contents_of_turn,
    has_media_token,
    is_conversation,
    normalize_conversation,
    role_of_turn,
)
from wdsctl.core.samples.preferences import ANSWER_KEYS, is_preference, normalize_preference

#: Fields of conversation rows whose values are media, by any name of a file.
_MEDIA_FIELDS = ("image", "images", "video", "videos", "audio", "audios")

#: Keys of a content item under which its medium is.
_ITEM_KEYS = ("image_url", "video_url", "audio_url", "input_audio", "image", "video", "audio", "url", "path")

#: The pattern takes the parts of each field's media type; `convert` leaves out fields for which no sample has any.
CONVERSATION_CONFIG = DatasetConfig(
    "ConversationSample",
    {"messages": "json", "images": "*", "videos": "*", "audios": "*"},
    optional=("images", "videos", "audios"),
)

#: The same for conversations that end in a chosen and a rejected answer.
PREFERENCE_CONFIG = DatasetConfig(
    "PreferenceSample",
    {
        "prompt": "json",
        **{key: f"json[{key}]" for key in ANSWER_KEYS},
        "images": "*",
        "videos": "*",
        "audios": "*",
    },
    optional=("images", "videos", "audios"),
)


def has_conversations(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the rows has turns under `conversations`, `messages` or `texts`."""
    return any(is_conversation(row.get(key)) for row in rows for key in TURNS_KEYS)


def conversation_media_fields(format_name: str, options: Options, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The fields with media: those that `-O files=` names, or else the usual names and those that look like files."""
    found = find_media_fields(format_name, options, rows)
    return found if options.get("files") else tuple(dict.fromkeys((*_MEDIA_FIELDS, *found)))


def list_conversation_media(row: Mapping[str, Any], fields: Iterable[str]) -> list[tuple[str, Any]]:
    """(where, value) of each medium: those of the fields, or else those of the content items, in their order.

    A value is a reference, bytes, or both in a dict. Raises DatasetError WDS161 if both have media.
    """
    of_fields = [(name, value) for name in fields for value in _flatten(row.get(name))]
    of_items = [(key, value) for key in TURNS_KEYS for value in _iter_item_media(row.get(key))]
    if of_fields and of_items:
        raise DatasetError(
            f"{of_fields[0][0]} and items of {of_items[0][0]} both have media, so the order of the media is unclear",
            hint="list all media in one of the two places",
            code="WDS161",
        )
    return of_fields or of_items


def list_conversation_references(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> list[str]:
    """The files that the rows name."""
    names = []
    for row in rows:
        try:
            names += [value for _, value in list_conversation_media(row, fields) if isinstance(value, str)]
        except WdsctlError:
            continue  # reported when the row is read
    return [name for name in names if not is_encoded_medium(name)]


def check_conversation(row: Mapping[str, Any], part_names: Iterable[str]) -> None:
    """Raise DatasetError WDS161 if the row is no conversation, its media do not fit its tokens, or a chosen or rejected
    answer cannot be read.
    """
    kinds = [
        FORMAT_BY_EXTENSION[extension].media_type
        for name in part_names
        if (extension := name.rpartition(".")[2]) in FORMAT_BY_EXTENSION
    ]
    of_kind = {f"{kind}s": [name for name in kinds if name == kind] for kind in ("image", "video", "audio")}
    media = {"images": of_kind["images"], "videos": of_kind["videos"], "audios": of_kind["audios"]}
    if is_preference(row):
        normalize_preference(row, *(row[key] for key in ANSWER_KEYS), **media)
    else:
        normalize_conversation(row, **media)


def begins_with_answer(row: Mapping[str, Any]) -> bool:
    """Whether the first turn after system prompts is the assistant's."""
    roles = (role_of_turn(turn) for turn in _turns_of(row))
    return next((role for role in roles if role != "system"), "") == "assistant"


def _turns_of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return next((row[key] for key in TURNS_KEYS if is_conversation(row.get(key))), [])


def has_media_places(row: Mapping[str, Any]) -> bool:
    """Whether a turn has a token such as `<image>`, or an item of media."""
    contents = [content for turn in _turns_of(row) for content in contents_of_turn(turn)]
    items = [item for content in contents if isinstance(content, list) for item in content]
    texts = [each for each in (*contents, *items) if isinstance(each, str)]
    texts += [item.get("text") or "" for item in items if isinstance(item, Mapping)]
    has_item = any(isinstance(item, Mapping) and item.get("type", "") != "text" for item in items)
    return has_item or any(has_media_token(text) for text in texts)


def describe_conversations(
    rows: Sequence[Mapping[str, Any]], fields: Sequence[str], text: str = ""
) -> SourceDescription:
    """What becomes of the fields of these rows, in the order of their first appearance."""
    uses = []
    for name in dict.fromkeys(name for row in rows for name in row):
        if name in fields:
            values = [_list_readable(_flatten(row.get(name))) for row in rows]
            parts = sorted(
                {extension_of_name(each) or "bin" for some in values for each in some if isinstance(each, str)}
            )
            is_single = all(len(some) < 2 for some in values)
            uses.append(FieldUse(name, ", ".join(part if is_single else f"*.{part}" for part in parts) or "*"))
        elif name == text:
            uses.append(FieldUse(name, "txt"))
        else:
            has_media = name in TURNS_KEYS and any(_list_readable(_iter_item_media(row.get(name))) for row in rows)
            uses.append(FieldUse(name, f"json[{name}]", "its media also become parts" if has_media else ""))
    is_for_preferences = bool(rows) and all(map(is_preference, rows))
    return SourceDescription(tuple(uses), config=PREFERENCE_CONFIG if is_for_preferences else CONVERSATION_CONFIG)


def _list_readable(media: Iterator[Any]) -> list[Any]:
    """The media; none if they cannot be read, which the row reports."""
    try:
        return list(media)
    except WdsctlError:
        return []


def _flatten(value: Any) -> Iterator[Any]:
    """The media of a field: one, or a list of them. Raises DatasetError WDS232 for a list in a list."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, list | tuple):
            hint = "write one flat list of files; or list the fields with files in `-O files=`"
            raise DatasetError("expected a file or bytes, found a list in a list", hint=hint, code="WDS232")
        if each is not None and each != "":
            yield each


def _iter_item_media(turns: Any) -> Iterator[Any]:
    """The media that content items name or hold. Items without one are places for media of the fields."""
    for turn in turns if isinstance(turns, list) else ():
        content = turn.get("content", turn.get("value")) if isinstance(turn, Mapping) else None
        for item in content if isinstance(content, list) else ():
            if isinstance(item, Mapping) and item.get("type", "") != "text":
                found = next((item[key] for key in _ITEM_KEYS if item.get(key)), None)
                yield from _flatten(_unwrap(found))


def _unwrap(found: Any) -> Any:
    """`{"url": ...}` of OpenAI's image_url, and `{"data": ..., "format": ...}` of its input_audio."""
    if not isinstance(found, Mapping):
        return found
    if isinstance(found.get("url"), str):
        return found["url"]
    if isinstance(found.get("data"), str):
        return f"data:audio/{found.get('format', '')};base64,{found['data']}"
    return found
