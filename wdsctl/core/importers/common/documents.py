"""Rows that are interleaved documents: which rows are, where their images are named, and what becomes of their fields.

The images of a row are numbered in the order of their places (`0.jpg`, `1.png`; a single one is `jpg`), and the JSON
keeps the document with the names of these parts in the places, so that nulls and places survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers.common.conversations import (
    conversation_media_fields,
    has_conversations,
    list_conversation_references,
)
from wdsctl.core.importers.common.encoded_media import is_encoded_medium
from wdsctl.core.importers.common.files import find_media_fields
from wdsctl.core.importers.protocol import FieldUse, Options, SourceDescription
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.samples.documents import (
    IMAGES_KEYS,
    ImagePlace,
    document_error,
    document_keys,
    is_document,
    name_images,
    normalize_document,
    read_document,
    separate_images,
)
from wdsctl.core.text import pluralize

#: `convert` leaves out `images` if no sample has any.
DOCUMENT_CONFIG = DatasetConfig("InterleavedSample", {"sequence": "json", "images": "*"}, optional=("images",))

_TEXT_KEYS = frozenset(("texts", "text_list"))

#: The keys that may hold documents and are no plain texts, to decide whether a table is worth a look at its bytes.
_NAMES = ("texts", "text_list", "conversations", "messages", "conversation", "sequence", "interleaved", "content")


def has_documents(rows: Iterable[Mapping[str, Any]], options: Options) -> bool:
    """Whether rows are documents: one for certain, and no fewer than half of those that have the keys of one.

    Never if the user names the fields of files: then the lists of each row stay as they are.
    """
    if "files" in options:
        return False
    found = [is_document(row) for row in rows if document_keys(row)]
    return any(found) and 2 * sum(found) >= len(found)


def document_media_fields(format_name: str, options: Options, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The fields that hold the images of documents, or their names. Raises UsageError as `find_media_fields`."""
    find_media_fields(format_name, options, rows)
    keys = {key for row in rows for key in (*document_keys(row), *(IMAGES_KEYS if separate_images(row) else ()))}
    return tuple(name for name in dict.fromkeys(name for row in rows for name in row) if name in keys - _TEXT_KEYS)


def structured_references(rows: Sequence[Mapping[str, Any]], options: Options) -> list[str] | None:
    """The files that conversations or documents name; None if the rows are neither."""
    if has_conversations(rows):
        return list_conversation_references(rows, conversation_media_fields("", {}, rows))
    if not has_documents(rows, options):
        return None
    names = []
    for row in rows:
        try:
            names += [value for _, value in list_document_images(row) if isinstance(value, str)]
        except WdsctlError:
            continue  # reported when the row is read
    return [name for name in names if not is_encoded_medium(name)]


def may_be_structured(columns: Iterable[str]) -> bool:
    """Whether columns may be those of conversations or documents, by their names."""
    return not set(_NAMES).isdisjoint(columns)


def list_document_images(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """(where, value) of each image in the order of the places: a reference, bytes, or both in a dict.

    Raises DatasetError WDS174 if the row is no document, or has other images beside its items than places for them.
    """
    places = [item for item in read_document(row) if isinstance(item, ImagePlace)]
    separate = separate_images(row)
    if not separate:
        found = [(str(place), place.value) for place in places if place.value is not None]
        keys = document_keys(row)
        more = next((key for key in IMAGES_KEYS if key not in keys and len(keys) == 1 and row.get(key)), "")
        if found and more:
            raise document_error(
                f"{found[0][0]} and `{more}` both have images, so that their order is unclear",
                "list all images in one of the two places",
            )
        if len(found) < len(places):
            raise document_error("it has a place without an image", "name the image there, or write null")
        return found
    if len(separate) != len(places):
        raise document_error(
            f"it has {pluralize(len(places), 'place')} for images, but {pluralize(len(separate), 'image')} beside them",
            "add the missing places or images",
        )
    return [(str(place), value) for place, value in zip(places, separate, strict=True)]


def name_document_images(row: Mapping[str, Any], part_names: Sequence[str]) -> dict[str, Any]:
    """The row with the names of its parts in its places. Raises DatasetError WDS174 if a part is no image."""
    named = name_images(row, part_names)
    normalize_document(named, [name for name in part_names if _is_image(name)])
    return named


def _is_image(part_name: str) -> bool:
    media_format = FORMAT_BY_EXTENSION.get(part_name.rpartition(".")[2])
    return media_format is not None and media_format.media_type == "image"


def describe_documents(rows: Sequence[Mapping[str, Any]], text: str = "") -> SourceDescription:
    """What becomes of the fields of these rows, in the order of their first appearance."""
    keys = {key for row in rows for key in document_keys(row)}
    uses = []
    for name in dict.fromkeys(name for row in rows for name in row):
        is_separate = name in IMAGES_KEYS and name not in keys
        if name == text:
            uses.append(FieldUse(name, "txt"))
        elif is_separate and any(separate_images(row) for row in rows):
            uses.append(FieldUse(name, "*"))
        else:
            note = "its images become parts, whose names are in their places" if name in keys - _TEXT_KEYS else ""
            uses.append(FieldUse(name, f"json[{name}]", note))
    return SourceDescription(tuple(uses), config=DOCUMENT_CONFIG)
