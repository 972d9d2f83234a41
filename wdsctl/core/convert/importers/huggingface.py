"""Hugging Face datasets on disk, as `save_to_disk` writes them: Arrow files and two JSON files that tell of them.

Source: https://huggingface.co/docs/datasets/package_reference/main_classes (save_to_disk), and what it writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wdsctl.core.convert.rows import arrow
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.media_fields import media_fields
from wdsctl.core.convert.rows.references import inside
from wdsctl.core.convert.rows.samples import OPTIONS, Row, Shape
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


class HuggingFace:
    """A dataset, or several splits in one folder: keys of these begin with the split. `-O split=NAME` takes one.

    Samples are in the split whose folder they are in.
    """

    name = "huggingface"
    about = "a Hugging Face dataset on disk, as save_to_disk writes it (needs pyarrow)"

    def recognise(self, path: str) -> Recognised | None:
        for name in (_SPLITS, _STATE):
            if os.path.isfile(os.path.join(path, name)):
                return Recognised(0.95, f"has {name}")
        if os.path.isfile(os.path.join(path, _INFO)) and any(name.endswith(".arrow") for name in os.listdir(path)):
            return Recognised(0.95, f"has {_INFO} and Arrow files")
        return None

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, (*OPTIONS, "split"))
        folders = _folders(path, options)
        files = [file for folder in folders for file in _files(folder)]
        if not files:
            raise InputError("there is no Arrow file", hint="check the path", where=named(path), code="WDS003")
        schema = arrow.arrow_schema(files[0].path)
        arrow.check_names(schema, files[0].path)
        bytes_in = arrow.media_columns(schema)
        refs = media_fields(self.name, options, [dict.fromkeys(schema.names)])
        rows = _ArrowRows(files, _labels(files[0].folder.path))
        shape = Shape.of(options, media=dict.fromkeys((*bytes_in, *refs)), key=":row")
        return row_source(rows, shape, [folder.split for folder in folders if folder.split])


IMPORTER = HuggingFace()


class _Folder(NamedTuple):
    path: str
    prefix: str = ""  # before its rows' keys
    split: str = ""


class _File(NamedTuple):
    path: str
    folder: _Folder


class _ArrowRows:
    """Rows of Arrow files, which are mapped. `labels`: column -> the names that its numbers stand for."""

    def __init__(self, files: Sequence[_File], labels: Mapping[str, Sequence[str]]) -> None:
        self._files = files
        self._labels = labels

    def rows(self, start: int) -> Iterator[Row]:
        number = 0
        for path, (folder, prefix, split) in self._files:
            for batch in arrow.arrow_batches(path):
                if number + batch.num_rows > start:
                    past = max(0, start - number)
                    for i, values in enumerate(arrow.dicts(batch, past), number + past):
                        yield Row(i, f"{named(path)}, row {i:,}", self._named(values), None, folder, prefix, split)
                number += batch.num_rows

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """The row, each label's name behind its number."""
        for column, words in self._labels.items():
            number = values.get(column)
            if isinstance(number, int) and 0 <= number < len(words):
                values.setdefault(f"{column}_name", words[number])
        return values

    def files(self) -> list[str]:
        return [file.path for file in self._files]

    def close(self) -> None:
        """Files are mapped only while rows are read."""


def _folders(path: str, options: Options) -> list[_Folder]:
    wanted = options.get("split", "")
    splits = os.path.join(path, _SPLITS)
    if not os.path.isfile(splits):
        if wanted:
            raise UsageError("this dataset has no splits", hint="leave out `-O split=...`")
        return [_Folder(path)]
    names = _json(splits).get("splits")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged(f"{_SPLITS} lists no splits", splits)
    if wanted and wanted not in names:
        raise UsageError(
            f"there is no split {wanted!r}",
            hint=f"{did_you_mean(wanted, names)} the splits are {', '.join(names)}".strip(),
        )
    chosen = [name for name in names if wanted in ("", name)]
    return [_Folder(inside(path, name, splits), "" if wanted else f"{name}/", name) for name in chosen]


def _files(of: _Folder) -> list[_File]:
    """The Arrow files of one dataset in the order of its rows."""
    folder = of.path
    state = os.path.join(folder, _STATE)
    if not os.path.isfile(state):
        with translated(folder, "list"):
            found = sorted(name for name in os.listdir(folder) if name.endswith(".arrow"))
        return [_File(os.path.join(folder, name), of) for name in found]
    said = _json(state)
    if said.get("_indices_data_files") or said.get("_indices_files"):
        raise DatasetError(
            "the rows are chosen and ordered by a file of indices",
            hint="write it plainly: `ds.flatten_indices().save_to_disk(NEW)`",
            where=named(state),
            code="WDS233",
        )
    files = [each.get("filename") if isinstance(each, dict) else None for each in said.get("_data_files") or []]
    if not all(isinstance(name, str) for name in files):
        raise _damaged(f"{_STATE} names no files", state)
    return [_File(inside(folder, str(name), state), of) for name in files]


def _labels(folder: str) -> dict[str, list[str]]:
    """The names of labels, by column, as dataset_info.json has them."""
    info = os.path.join(folder, _INFO)
    features = _json(info).get("features") if os.path.isfile(info) else None
    if not isinstance(features, dict):
        return {}
    return {
        column: [str(name) for name in feature["names"]]
        for column, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list)
    }


def _json(path: str) -> dict[str, Any]:
    with translated(path, "read"), open(path, "rb", opener=regular) as file:
        data = file.read()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"this is no JSON: {error}", path) from error
    if not isinstance(value, dict):
        raise _damaged("this is no JSON object", path)
    return value


def _damaged(what: str, path: str) -> DatasetError:
    return DatasetError(what, hint="copy the dataset again from its origin", where=named(path), code="WDS233")
