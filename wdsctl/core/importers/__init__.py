"""Recognises and reads the formats of datasets. Each format has a module, which is imported on first use.

`protocol` defines the interfaces of an importer and of an open source. `find_importers` asks each importer whether a
path has its format; the answer is a score and a reason. `folders` has the layouts of folders, `annotations` the formats
of media with annotation files, `lerobot` LeRobot's datasets. `common` has the code that several formats use, `splits`
finds the splits that a source tells. `prepare`, `convert`, `validate` and `init` import this room.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import InputError, StorageDown, UsageError, WdsctlError, join_indented, translate_os_errors
from wdsctl.core.importers.protocol import FormatMatch, Importer, Options, Source
from wdsctl.core.safe_open import name_source
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and
from wdsctl.core.text import path_for_message as shown
from wdsctl.core.urls import is_chained, is_signed, is_url

#: Name of a format -> its module in this package, which has a value `IMPORTER`.
MODULES = MappingProxyType(
    {
        "shards": "shards",
        "packed": "compressed_tars",
        "polylithic": "polylithic",
        "lerobot": "lerobot.importer",
        "folder": "folders.folder",
        "imagefolder": "folders.imagefolder",
        "scenes": "folders.scenes",
        "partfolders": "folders.partfolders",
        "partnames": "folders.partnames",
        "csv": "csv",
        "jsonl": "jsonl",
        "json": "json",
        "coco": "annotations.coco",
        "yolo": "annotations.yolo",
        "voc": "annotations.voc",
        "labelme": "annotations.labelme",
        "sa1b": "annotations.sa1b",
        "kitti": "annotations.kitti",
        "cvat": "annotations.cvat",
        "labelstudio": "annotations.label_studio",
        "vqa": "annotations.vqa",
        "kaldi": "annotations.kaldi",
        "speech": "annotations.speech",
        "parquet": "parquet",
        "huggingface": "huggingface",
        "mds": "mds",
        "litdata": "litdata",
        "wids": "wids",
    }
)

IMPORT_FORMATS = tuple(MODULES)
#: The reason of a format that the user names, in the place of what an importer says.
CHOSEN_BY_USER = "chosen by the user"

_WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")


def get_importer(name: str) -> Importer:
    """The importer of a format. Raises UsageError if no format has this name."""
    if name not in MODULES:
        raise UsageError(
            f"cannot read the format {name!r}",
            hint=f"{did_you_mean(name, MODULES)} formats: {', '.join(MODULES)}".strip(),
        )
    importer: Importer = importlib.import_module(f"{__name__}.{MODULES[name]}").IMPORTER
    return importer


def open_source(importer: str, path: str, options: Options) -> Source:
    """Open a source that the user named. Raises what `Importer.open` raises, UsageError if no format has this name."""
    name_source(path)
    return get_importer(importer).open(path, options)


def find_importers(path: str) -> list[tuple[Importer, FormatMatch]]:
    """The formats that `path` looks like, with scores and reasons, best first; empty if there is none.

    Raises an importer's error (an unreadable file, for example) only if no other importer recognises the path; but
    StorageDown at once, as each importer would wait for the store again. Raises the error of a JSON file that hides the
    rows of a folder, see `check_lone_json`, and the one of `check_known_datasets`.
    """
    from wdsctl.core.importers.common.folder_files import keep_listings
    from wdsctl.core.importers.known import check_known_datasets

    name_source(path)
    found: list[tuple[Importer, FormatMatch]] = []
    complaint: WdsctlError | None = None  # only the first: the traceback of an error can hold 64 MiB of an answer
    # Through a cache, and with the signature of one file, wdsctl reads shards alone.
    is_limited = is_chained(path) or is_signed(path)
    if not is_limited:
        with suppress(WdsctlError):  # the importers report the error
            source_files.is_folder(path)  # a store may allow to list this folder, and not the one above it
    with keep_listings():
        if not is_limited:
            check_known_datasets(path)
        for importer in map(get_importer, ("shards",) if is_limited else IMPORT_FORMATS):
            try:
                recognised = importer.recognise(path)
            except StorageDown:
                raise
            except WdsctlError as error:
                complaint = complaint or error
                continue
            if recognised is not None:
                found.append((importer, recognised))
    if complaint and not found:
        raise complaint
    ranked = _rank(found)
    if ranked and ranked[0][0].name == "folder":
        from wdsctl.core.importers.json import check_lone_json

        check_lone_json(path)
    return ranked


def _rank(found: list[tuple[Importer, FormatMatch]]) -> list[tuple[Importer, FormatMatch]]:
    """Sort matches by score. Folders of parts fit as well as a table that names the files of some of them only.

    Either leaves something out: the other parts, or the columns of the table.
    """

    def by_score(each: tuple[Importer, FormatMatch]) -> tuple[float, str]:
        return -each[1].score, each[0].name

    ranked = sorted(found, key=by_score)
    if not ranked or not ranked[0][1].tables:
        return ranked
    best = ranked[0][1]

    def is_named(folder: str) -> bool:
        return any(f"{each}/".startswith(f"{folder}/") for each in best.media_folders)

    for i, (importer, match) in enumerate(ranked[1:], 1):
        named = set(map(is_named, match.media_folders))
        if not match.tables and named == {True, False}:
            ranked[i] = importer, replace(match, score=best.score)
    return sorted(ranked, key=by_score)


def best_importer(path: str) -> tuple[Importer, FormatMatch]:
    """The importer with the highest score for `path`.

    Raises InputError if the path does not exist; InputError WDS235 if no format matches, or two match equally well.
    """
    found = find_importers(path)
    if not found and is_url(path):
        source_files.check_source_url(path)
    if not found and not source_files.exists(path):
        raise InputError("the path does not exist", hint="check it", where=shown(path))
    if not found:
        check_readable(path)
        if path.lower().endswith(".zip") and not is_url(path):
            raise InputError(
                "the source is a zip, which only `prepare` unpacks",
                where=shown(path),
                hint=shell_command("prepare", path, "DEST"),
                code="WDS235",
            )
        if path.lower().endswith(_WORKBOOKS):
            raise InputError(
                "the source is a workbook, which wdsctl does not read",
                where=shown(path),
                hint="export the sheet as CSV (UTF-8) into the same folder, and pass the CSV file",
                code="WDS235",
            )
        raise InputError(
            "cannot recognise the format of the source",
            where=shown(path),
            hint=f"check the path, or name the format with --from: {', '.join(MODULES)}",
            code="WDS235",
        )
    if len(found) > 1 and found[0][1].score == found[1][1].score:
        first = [(importer, it) for importer, it in found if it.score == found[0][1].score]
        if all(it.tables for _, it in first):
            from wdsctl.core.importers.common.tables import several_tables_error

            raise several_tables_error(path, [table for _, it in first for table in it.tables])
        raise InputError(
            join_indented("several formats are possible", *(f"{form.name}: {it.reason}" for form, it in first)),
            where=shown(path),
            hint=f"choose the right format, for example --from {first[0][0].name}"
            f"{keep_both_advice(path, [it for _, it in first])}",
            code="WDS235",
        )
    return found[0]


def keep_both_advice(path: str, matches: Sequence[FormatMatch]) -> str:
    """What to do if a table and folders of parts fit equally well, as the end of a hint; empty for other matches."""
    tables = [table for match in matches for table in match.tables]
    folders = [folder for match in matches if not match.tables for folder in match.media_folders]
    if not tables or not folders:
        return ""
    where, table = join_with_and([shown(folder) for folder in folders]), shown(os.path.relpath(tables[0], path))
    return (
        f"; to keep the columns and all files, write the paths of the files in {where} into columns of {table}, "
        f"relative to {shown(path)}, and run the same command again"
    )


def check_readable(path: str) -> None:
    """Raises InputError if `path` is neither a file nor a folder: reading a pipe would block.

    Also raises the errors of reading the path, such as PermissionDenied. Does nothing for URLs.
    """
    if is_url(path):
        return
    name_source(path)
    if source_files.is_folder(path):
        with translate_os_errors(path, "list"), source_files.scan(path):
            pass
    elif source_files.is_file(path):
        with translate_os_errors(path, "read"), source_files.open_file(path):
            pass
    elif source_files.exists(path):
        raise InputError(
            "the source is neither a file nor a folder, and wdsctl must read its bytes twice",
            hint="write the contents of the source to a file, and convert that file",
            where=shown(path),
        )
