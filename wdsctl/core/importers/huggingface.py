"""Hugging Face datasets on disk, as `save_to_disk` writes them: Arrow files and two JSON files that describe them.

Source: https://huggingface.co/docs/datasets/package_reference/main_classes (save_to_disk), and files that it produces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from wdsctl.core.errors import DatasetError, InputError, UsageError, translate_os_errors
from wdsctl.core.importers.common import arrow
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.documents import may_be_structured, structured_references
from wdsctl.core.importers.common.files import PROBED_ROWS, find_media_fields, resolve_reference
from wdsctl.core.importers.common.samples import ROW_OPTIONS, RowMapping, SourceRow
from wdsctl.core.importers.common.tables import recognise_structure
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.protocol import FormatMatch, Options, Source, damaged_file_error, read_json_object
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

_STATE, _INFO, _SPLITS = _METADATA = "state.json", "dataset_info.json", "dataset_dict.json"
_DESCRIBED_ROWS = 4  # rows that are read to describe the source
_CACHED_NUMBER = re.compile(r"(-\d+-of-\d+)?\.arrow$")


class HuggingFaceImporter:
    """Reads one dataset, a folder with one dataset per split, or a folder of the cache that `load_dataset` fills.

    Option: `-O split=NAME` selects a split.

    Each sample is in the split of its folder. With several splits, keys begin with the name of the split.
    """

    name = "huggingface"
    about = "a Hugging Face dataset that save_to_disk wrote (needs pyarrow)"

    def recognise(self, path: str) -> FormatMatch | None:
        for name in (_SPLITS, _STATE):
            if source_files.is_file(os.path.join(path, name)):
                return FormatMatch(0.95, f"has {name}")
        if source_files.is_file(os.path.join(path, _INFO)) and any(
            name.endswith(".arrow") for name in _list_names(path)
        ):
            return FormatMatch(0.95, f"has {_INFO} and Arrow files")
        return None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, (*ROW_OPTIONS, "split"))
        folders = _folders(path, options)
        files = [file for folder in folders for file in _arrow_files(folder)]
        if not files:
            raise InputError("no Arrow file found", hint="check the path", where=path_for_message(path), code="WDS003")
        # The splits of one dataset may have different columns, such as a test split without labels.
        first_files = {file.folder: file.path for file in reversed(files)}
        names, bytes_in = dict[str, None](), dict[str, None]()
        for folder in folders:
            if folder in first_files:
                schema = arrow.arrow_schema(first_files[folder])
                arrow.check_column_names(schema, first_files[folder])
                names |= dict.fromkeys(schema.names)
                bytes_in |= dict.fromkeys(arrow.media_columns(schema))
        labels = {folder.path: _label_names(folder.path) for folder in folders}
        label_names = {f"{column}_name" for found in labels.values() for column in found}
        rows = _ArrowRows(files, labels)
        # In a table with bytes, a text that looks like a file name is the name of these bytes.
        looked_at = () if bytes_in else islice(rows.rows(0), PROBED_ROWS)
        refs = find_media_fields(self.name, options, [names, *(row.values for row in looked_at)])
        mapping = RowMapping.from_options(options, media=dict.fromkeys((*bytes_in, *refs)), key=":row")
        if may_be_structured(names):
            first = [row.values for row in islice(rows.rows(0), _DESCRIBED_ROWS)]
            mapping = recognise_structure(mapping, first, options)
            refs += tuple(structured_references(first, options) or ())
        described = dict.fromkeys((path, *(folder.path for folder in folders)))
        return make_table_source(
            rows,
            mapping,
            lambda: [row.values for row in islice(rows.rows(0), _DESCRIBED_ROWS)],
            fields=[*names, *sorted(label_names - names.keys())],
            splits=[folder.split for folder in folders if folder.split],
            root="" if "split" in options else path,
            own_files=[os.path.join(folder, name) for folder in described for name in _METADATA],
            has_file_references=bool(refs) and not bytes_in,
        )


IMPORTER = HuggingFaceImporter()


class _DatasetFolder(NamedTuple):
    path: str
    prefix: str = ""  # the beginning of its keys
    split: str = ""


class _ArrowFile(NamedTuple):
    path: str
    folder: _DatasetFolder


class _ArrowRows:
    """The rows of Arrow files. `labels`: folder -> column -> names of its integer labels."""

    def __init__(self, files: Sequence[_ArrowFile], labels: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        self._files = files
        self._labels = labels

    def rows(self, start: int) -> Iterator[SourceRow]:
        number = 0
        for path, (folder, prefix, split) in self._files:
            for count, batch in arrow.arrow_batches(path, start - number):
                if number + count > start:
                    past = max(0, start - number)
                    for i, values in enumerate(arrow.iter_rows(batch, past), number + past):
                        arrow.add_label_names(values, self._labels.get(folder, {}))
                        yield SourceRow(i, f"{path_for_message(path)}, row {i:,}", values, None, folder, prefix, split)
                number += count

    def files(self) -> list[str]:
        return [file.path for file in self._files]

    def close(self) -> None:
        """Do nothing: files are open only while rows are read."""


def _folders(path: str, options: Options) -> list[_DatasetFolder]:
    split_name = options.get("split", "")
    splits = os.path.join(path, _SPLITS)
    if not source_files.is_file(splits):
        cached = _cached_splits(path)
        if split_name and split_name not in cached:
            shown = f"the splits are {', '.join(cached)}" if cached else "omit `-O split=...`"
            raise UsageError(
                f"the dataset has no split {split_name!r}" if cached else "this dataset has no splits",
                hint=f"{did_you_mean(split_name, cached)} {shown}".strip(),
            )
        if split_name:
            return [_DatasetFolder(path, "", split_name)]
        return [_DatasetFolder(path, f"{name}/", name) for name in cached] or [_DatasetFolder(path)]
    names = read_json_object(splits).get("splits")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise damaged_file_error(f"{_SPLITS} lists no splits", splits)
    if split_name and split_name not in names:
        raise UsageError(
            f"the dataset has no split {split_name!r}",
            hint=f"{did_you_mean(split_name, names)} the splits are {', '.join(names)}".strip(),
        )
    chosen = [name for name in names if split_name in ("", name)]
    return [
        _DatasetFolder(resolve_reference(path, name, splits), "" if split_name else f"{name}/", name) for name in chosen
    ]


def _arrow_files(dataset_folder: _DatasetFolder) -> list[_ArrowFile]:
    """The Arrow files of one dataset, in the order of its rows.

    Raises DatasetError WDS233 if a file of indices selects and orders the rows, as after `shuffle` or `filter`.
    """
    folder = dataset_folder.path
    state = os.path.join(folder, _STATE)
    if not source_files.is_file(state):
        found = _cached_files(folder, dataset_folder.split)
        return [_ArrowFile(os.path.join(folder, name), dataset_folder) for name in found]
    state_values = read_json_object(state)
    if state_values.get("_indices_data_files") or state_values.get("_indices_files"):
        raise DatasetError(
            "the dataset has an indices file that selects and orders its rows, which wdsctl does not read",
            hint="write the dataset without indices: `ds.flatten_indices().save_to_disk(NEW)`",
            where=path_for_message(state),
            code="WDS233",
        )
    files = [each.get("filename") if isinstance(each, dict) else None for each in state_values.get("_data_files") or []]
    if not all(isinstance(name, str) for name in files):
        raise damaged_file_error(f"{_STATE} names no files", state)
    return [_ArrowFile(resolve_reference(folder, str(name), state), dataset_folder) for name in files]


def _cached_splits(folder: str) -> list[str]:
    """The splits of a folder in the cache of `datasets`, if files of several are there; empty otherwise."""
    if source_files.is_file(os.path.join(folder, _STATE)):
        return []
    found = [split for split in _described_splits(folder) if _cached_files(folder, split)]
    return found if len(found) > 1 else []


def _described_splits(folder: str) -> list[str]:
    """The splits that dataset_info.json lists, which may have files or not."""
    info = os.path.join(folder, _INFO)
    splits = read_json_object(info).get("splits") if source_files.is_file(info) else None
    return list(splits) if isinstance(splits, dict) else []


def _cached_files(folder: str, split: str) -> list[str]:
    """The Arrow files of a folder in the cache of `datasets`: `NAME-SPLIT.arrow`, `NAME-SPLIT-00000-of-00002.arrow`.

    `split`: empty for all. Leaves out the results of `map` and `filter`, `cache-FINGERPRINT.arrow`.
    """
    with translate_os_errors(folder, "list"):
        names = sorted(name for name in _list_names(folder) if name.endswith(".arrow"))
    splits = {split} if split else set(_described_splits(folder))
    found = [name for name in names if _CACHED_NUMBER.sub("", name).rpartition("-")[2] in splits]
    return found if found or split else [name for name in names if not name.startswith("cache-")]


def _label_names(folder: str) -> dict[str, list[str]]:
    """Column -> names of its labels, from dataset_info.json."""
    info = os.path.join(folder, _INFO)
    features = read_json_object(info).get("features") if source_files.is_file(info) else None
    return arrow.labels_of_features(features)


def _list_names(folder: str) -> list[str]:
    with source_files.scan(folder) as entries:
        return [entry.name for entry in entries]
