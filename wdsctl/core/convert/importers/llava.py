"""LLaVA-style JSON: one list of objects such as `{"id", "image", "conversations"}`, the image beside it.

Source: https://github.com/haotian-liu/LLaVA (docs/Finetune_Custom_Data.md, the form).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.checkpoints import Checkpoints, Spot
from wdsctl.core.convert.rows.json_file import JsonFile
from wdsctl.core.convert.rows.looking import head_of
from wdsctl.core.convert.rows.media_fields import LOOKED_AT, media_fields, references
from wdsctl.core.convert.rows.references import base_of
from wdsctl.core.convert.rows.samples import OPTIONS, Row, Shape
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.rows.text_rows import check_text
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.json_text import read_json
from wdsctl.core.printable import named


class Llava:
    """Any list of objects will do: fields that name files become parts, the others one part `json`."""

    name = "llava"
    about = "one JSON list of objects with an image and conversations, as LLaVA has it"

    def recognise(self, path: str) -> Recognised | None:
        if not path.lower().endswith(".json") or not os.path.isfile(path):
            return None
        head = head_of(path)
        if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
            return None
        if b'"conversations"' in head:
            return Recognised(0.9, "a JSON list of objects with conversations")
        return Recognised(0.4, "a JSON list")

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, OPTIONS)
        check_text(path)
        rows = _ListRows(path)
        first = [row.values for row in islice(rows.rows(0), LOOKED_AT) if row.fault is None]
        media = media_fields(self.name, options, first) if first else ()
        base = base_of(os.path.dirname(path), references(first, media))
        key = "id" if first and all("id" in row for row in first) else ":stem" if media else ":row"
        return row_source(rows, Shape.of(options, base=base, media=media, key=key), names_files=bool(media))


IMPORTER = Llava()


class _ListRows:
    def __init__(self, path: str) -> None:
        self._path = path
        self._file = JsonFile(path)
        self._checkpoints = Checkpoints()
        begin = self._file.start()
        if self._file.kind(begin) != b"[":
            self._file.close()
            raise DatasetError(
                "this is no JSON list", hint="a list of objects is needed", where=named(path), code="WDS233"
            )

    def rows(self, start: int) -> Iterator[Row]:
        spot = self._checkpoints.before(start)
        at = spot.offset or self._file.start() + 1
        for number, (begin, end) in enumerate(self._file.elements_from(at), spot.row):
            self._checkpoints.note(Spot(number, 0, begin, 0))
            if number >= start:
                yield self._row(number, self._file.piece(begin, end))

    def _row(self, number: int, data: bytes) -> Row:
        where = f"{named(self._path)}, item {number:,}"
        fault: WdsctlError | None = None
        try:
            value = read_json(data)
        except UnicodeDecodeError:
            value, fault = {}, _fault("the item is not UTF-8", where, "WDS124")
        except ValueError as error:
            value, fault = {}, _fault(f"the item cannot be read: {error}", where, "WDS121")
        if not isinstance(value, dict):
            value, fault = {}, _fault("the item is no JSON object", where, "WDS121")
        return Row(number, where, value, fault, os.path.dirname(self._path))

    def files(self) -> Sequence[str]:
        return (self._path,)

    def close(self) -> None:
        self._file.close()


def _fault(message: str, where: str, code: str) -> WdsctlError:
    return DatasetError(message, hint="mend the item, or remove it", where=where, code=code)
