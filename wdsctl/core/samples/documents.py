"""Interleaved documents: from the forms in which files hold them to one list of texts and images, in their order.

`normalize_document` reads parallel lists (`images` and `texts`, as in OBELICS), texts with images that name the text
after them (`text_list` and `image_info`, as in MMC4), and one list of items (`sequence`, `interleaved`, `content` or
`document`). Images are opaque: they are put into their places, whatever they are.

Sources: https://huggingface.co/datasets/HuggingFaceM4/OBELICS, https://github.com/allenai/mmc4 (the forms).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.json_text import read_json
from wdsctl.core.text import natural_sort_key, pluralize, short_repr

#: Keys of an object under which a list of items is, the likeliest first.
ITEMS_KEYS = ("sequence", "interleaved", "content", "document")
#: Keys of images beside a list of items that has only their places.
IMAGES_KEYS = ("images", "image")

_TEXT_TYPES = ("text", "input_text", "output_text")
_IMAGE_TYPES = ("image", "image_url", "input_image")
_SURE_IMAGE_KEYS = ("image", "image_url", "bytes")  # a text may have a path and a URL, too
_IMAGE_KEYS = (*_SURE_IMAGE_KEYS, "path", "url")

#: The names of parts that importers write into the places.
_NUMBERED = re.compile(r"[0-9]+\.[A-Za-z0-9]+")


class ImagePlace(NamedTuple):
    """The place of an image. `steps`: from the object to the place. `value`: what is there, such as the name of a file;
    None for an item that is only a place.
    """

    steps: tuple[str | int, ...]
    value: Any

    def __str__(self) -> str:
        first, *others = self.steps
        return f"{first}{''.join(f'[{step}]' for step in others)}"


def normalize_document(raw: Any, images: Sequence[Any]) -> list[Any]:
    """The texts and images of a document in their order; the i-th place of an image holds the i-th of `images`.

    JSON text or bytes are parsed first. Nulls and empty texts are left out. Raises DatasetError WDS174: the numbers of
    places and images differ, nothing is left, or another form.
    """
    items = read_document(_read_json_text(raw))
    places = [item for item in items if isinstance(item, ImagePlace)]
    if len(places) != len(images):
        raise document_error(
            f"it has {pluralize(len(places), 'place')} for images, but the sample has "
            f"{pluralize(len(images), 'image')}",
            'add the missing images, or write null into their places; check the parts in the field map: `images: "*"`',
        )
    names = [str(place.value) for place in places]
    if all(map(_NUMBERED.fullmatch, names)) and names != sorted(set(names), key=natural_sort_key):
        raise document_error(
            f"its images ({', '.join(names[:4])}) are in another order than the parts of the sample",
            "number the parts in the order of their places",
        )
    rest = iter(images)
    return [next(rest) if isinstance(item, ImagePlace) else item for item in items]


def document_keys(raw: Any) -> tuple[str, ...]:
    """The keys of an object that hold a document by their names and types, whether it can be read or not."""
    if not isinstance(raw, Mapping):
        return ()
    for pair in (("images", "texts"), ("text_list", "image_info")):
        if all(isinstance(raw.get(key), list) for key in pair):
            return pair
    lists = [key for key in ITEMS_KEYS if isinstance(raw.get(key), list)]
    return tuple([key for key in lists if any(map(_is_image_item, raw[key]))][:1] or lists[:1])


def is_document(raw: Any) -> bool:
    """Whether an object is a document for certain: it has places for images, and can be read.

    Lists of equal length with an image and a text in each place are pairs, and a list of texts alone may be anything.
    """
    keys = document_keys(raw)
    try:
        items = read_document(raw) if keys else []
    except WdsctlError:
        return False
    return bool(items) and (len(keys) > 1 or any(isinstance(item, ImagePlace) for item in items))


def read_document(raw: Any) -> list[str | ImagePlace]:
    """The texts and the places of images, in their order. A bare list is one of items. Raises DatasetError WDS174."""
    keys = document_keys(raw)
    if isinstance(raw, list):
        items = list(_read_items(raw, ()))
    elif keys == ("images", "texts"):
        items = list(_read_parallel(raw["images"], raw["texts"]))
    elif keys == ("text_list", "image_info"):
        items = list(_read_matched(raw["text_list"], raw["image_info"]))
    elif keys:
        items = list(_read_items(raw[keys[0]], (keys[0],)))
    else:
        found = ", ".join(map(str, raw)) if isinstance(raw, Mapping) else short_repr(raw)
        raise document_error(
            f"expected lists under `images` and `texts`, under `text_list` and `image_info`, or under "
            f"{', '.join(ITEMS_KEYS)}; found {found or 'nothing'}",
            "write the texts and images as one of these, or remove the sample",
        )
    separate = separate_images(raw)
    # Columns of tables have nulls where JSON has no key.
    kept = [
        item for item in items if isinstance(item, str) or item.value is not None or separate or _is_open(raw, item)
    ]
    if not kept:
        raise document_error("it has no text and no image", "complete the document, or remove the sample")
    return kept


def separate_images(raw: Any) -> list[Any]:
    """The images beside a list of items, if no item has one of its own."""
    keys = document_keys(raw)
    if len(keys) != 1 or any(_is_image_item(item) and _own_image(item)[1] is not None for item in raw[keys[0]]):
        return []
    found: Any = next((raw[key] for key in IMAGES_KEYS if not _is_absent(raw.get(key))), [])
    return [each for each in (found if isinstance(found, list) else [found]) if not _is_absent(each)]


def name_images(raw: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The object with these names in the places of its images, and without the images beside a list of items."""
    places = [item for item in read_document(raw) if isinstance(item, ImagePlace)]
    dropped = IMAGES_KEYS if separate_images(raw) else ()
    named = {key: value for key, value in raw.items() if key not in dropped}
    for name in document_keys(raw):
        named[name] = [dict(item) if isinstance(item, Mapping) else item for item in raw[name]]
    for place, name in zip(places, names, strict=True):
        key, number, *rest = place.steps
        items: Any = named[str(key)]
        if not rest:
            items[number] = name
            continue
        item, field = items[number], str(rest[0])
        for other in _IMAGE_KEYS if field in _IMAGE_KEYS else ():
            item.pop(other, None)
        item[field] = name
    return named


def _read_parallel(images: list[Any], texts: list[Any]) -> Iterator[str | ImagePlace]:
    if len(images) != len(texts):
        raise document_error(
            f"it has {pluralize(len(images), 'entry')} in `images`, but {len(texts):,} in `texts`",
            "write lists of one length, with null in `texts` for each image, and null in `images` for each text",
        )
    for i, (image, text) in enumerate(zip(images, texts, strict=True)):
        if not _is_absent(image) and not _is_absent(text):
            raise document_error(
                f"place {i} has both an image and a text, so that their order is unclear",
                "write them into two places, with null in the other list",
            )
        if not _is_absent(image):
            yield ImagePlace(("images", i), image)
        elif not _is_absent(text):
            yield _check_text(text, f"texts[{i}]")


def _read_matched(texts: list[Any], images: list[Any]) -> Iterator[str | ImagePlace]:
    """Each image comes before the text that it names."""
    before: dict[int, list[ImagePlace]] = {}
    for i, info in enumerate(images):
        number = info.get("matched_text_index") if isinstance(info, Mapping) else None
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(texts):
            raise document_error(
                f"image_info[{i}] has no `matched_text_index` from 0 to {len(texts) - 1}",
                "write the number of the text that the image comes before",
            )
        if not _is_absent(info.get("image_name")):
            before.setdefault(number, []).append(ImagePlace(("image_info", i, "image_name"), info["image_name"]))
    for i, text in enumerate(texts):
        yield from before.get(i, ())
        if not _is_absent(text):
            yield _check_text(text, f"text_list[{i}]")


def _read_items(items: list[Any], steps: tuple[str | int, ...]) -> Iterator[str | ImagePlace]:
    for i, item in enumerate(items):
        where = f"item {i}"
        if _is_absent(item):
            continue
        if isinstance(item, str):
            yield item
        elif not isinstance(item, Mapping):
            raise document_error(f"{where} is {short_repr(item)}", "write text, or an object with a type")
        elif _has_both(item):
            raise document_error(
                f"{where} has both an image and a text, so that their order is unclear", "write them as two items"
            )
        elif _is_image_item(item):
            key, value = _own_image(item)
            yield ImagePlace((*steps, i, key), value)
        elif item.get("type") in (None, *_TEXT_TYPES) and {"text", *_SURE_IMAGE_KEYS} & set(item):
            if not _is_absent(item.get("text")):
                yield _check_text(item["text"], where)
        else:
            kinds = ", ".join((*_TEXT_TYPES, *_IMAGE_TYPES))
            raise document_error(
                f"{where} of the type {short_repr(item.get('type'))} has no text and no image",
                f"use items of the types {kinds}, with their text or image",
            )


def _has_both(item: Mapping[str, Any]) -> bool:
    has_image = item.get("type") in _IMAGE_TYPES or any(not _is_absent(item.get(key)) for key in _SURE_IMAGE_KEYS)
    return has_image and not _is_absent(item.get("text"))


def _is_image_item(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    if item.get("type") is not None:
        return item["type"] in _IMAGE_TYPES
    return any(not _is_absent(item.get(key)) for key in _SURE_IMAGE_KEYS)


def _own_image(item: Mapping[str, Any]) -> tuple[str, Any]:
    """(the key of the item's image, the image); None for the image if the item is only a place."""
    if not _is_absent(item.get("bytes")):
        return "image", {"bytes": item["bytes"], "path": item.get("path")}
    for key in _IMAGE_KEYS:
        value = item.get(key)
        value = value["url"] if isinstance(value, Mapping) and isinstance(value.get("url"), str) else value
        if not _is_absent(value):
            return key, value
    return "image", None


def _is_open(raw: Any, place: ImagePlace) -> bool:
    """Whether an item without an image says nothing about it: one that says null has lost its image."""
    item = raw
    for step in place.steps[:-1]:
        item = item[step]
    return not any(key in item for key in _IMAGE_KEYS)


def _is_absent(value: Any) -> bool:
    """Whether a value is null: of an image, neither bytes nor a name."""
    if isinstance(value, Mapping) and value and set(value) <= {"bytes", "path"}:
        return all(each in (None, "", b"") for each in value.values())
    return value is None or (isinstance(value, str | bytes) and not value)


def _check_text(text: Any, where: str) -> str:
    if not isinstance(text, str):
        raise document_error(f"{where} is {short_repr(text)}", "write the text as text")
    return text


def _read_json_text(raw: Any) -> Any:
    if not isinstance(raw, str | bytes | bytearray | memoryview):
        return raw
    try:
        return read_json(bytes(raw) if isinstance(raw, memoryview) else raw)
    except ValueError as error:
        raise document_error(f"it is not JSON: {error}", "map `sequence` to a JSON part") from error


def document_error(problem: str, hint: str) -> WdsctlError:
    return DatasetError(f"the document cannot be read: {problem}", hint=hint, code="WDS174")
