"""Recognise the form of a source of `prepare`, and refuse sources and destinations that it cannot use."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from wdsctl.core import importers
from wdsctl.core.catalog.presence import check_no_outside_shards
from wdsctl.core.dataset.location import locate, shell_command
from wdsctl.core.dataset.raw_folder import ALTERNATIVE_SEPARATOR
from wdsctl.core.dataset.shard_names import (
    ANY_TAR_SUFFIXES,
    COMPRESSED_TAR_SUFFIXES,
    UNPACK_COMMANDS,
    are_shards,
    describe_format,
    in_place_format,
    is_jsonl_name,
    shard_format,
    split_file_root,
)
from wdsctl.core.errors import InputError, UsageError, WdsctlError, join_indented
from wdsctl.core.importers.common.tables import iter_files
from wdsctl.core.importers.jsonl import has_only_compressed_lines, is_object_per_line, names_files
from wdsctl.core.safe_open import name_source
from wdsctl.core.shards.list import ForbiddenFolder, is_empty_folder
from wdsctl.core.shards.survey import has_shards, survey_folder
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message as shown
from wdsctl.core.urls import is_chained, is_signed, is_url, redact_secrets, store_url

#: Forms that `prepare` reads itself. Every other form is read by the importer of its format, and written to DEST.
IN_PLACE, RAW_FOLDER = "shards", "folder"
_COMPRESSED_JSON = tuple(f".json{packed}" for packed in UNPACK_COMMANDS)
_PROBED_NAMES = 1000  # of a folder that has compressed files
#: Matches whose scores differ by less fit equally well.
_SCORE_TOLERANCE = 0.001


class RejectedFormat(NamedTuple):
    name: str
    reason: str


class SourceFormat(NamedTuple):
    """What a source is: `shards` (prepared in place), `folder` (raw files), or the format of an importer.

    `reason` is text for the user. `rejected`: forms that fit less well, the best first.
    """

    name: str
    reason: str
    rejected: tuple[RejectedFormat, ...] = ()


class AmbiguousFormatError(InputError):
    """Several forms fit a source equally well. `forms`: these forms. `advice`: the end of the hint."""

    code = "WDS235"

    def __init__(self, forms: Sequence[SourceFormat], source: str, dest: str | None, advice: str = "") -> None:
        self.forms = tuple(forms)
        commands = [shell_command("prepare", source, dest or "DEST", "--from", form.name) for form in forms]
        super().__init__(
            join_indented("several formats fit the source", *(f"{form.name}: {form.reason}" for form in forms)),
            where=shown(source),
            hint=f"run the command that fits: {'; or '.join(commands)}{advice}",
        )


def recognise_format(source: str, dest: str | None = None, from_format: str = "") -> SourceFormat:
    """Recognise what the source is, from names and the heads of files. `from_format`: what the user says that it is.

    An earlier `prepare` of the source makes no difference. JSONL is prepared in place if it names no media files that
    exist, and there is no DEST; so are shards of other formats whose values are ranges of bytes. Raises InputError if
    the source does not exist, is an empty folder, or has no form that is known (WDS235); AmbiguousFormatError;
    PermissionDenied.
    """
    check_source_exists(source)
    name_source(source)
    if from_format:
        return SourceFormat(importers.get_importer(from_format).name, importers.CHOSEN_BY_USER)
    if reason := _why_shards(source):
        return SourceFormat(IN_PLACE, reason)
    in_place = _InPlaceMatch() if dest is not None else _match_in_place(source)
    if in_place.reason:
        return SourceFormat(IN_PLACE, in_place.reason)
    forms = _rank_formats(source)
    if not forms:
        importers.best_importer(source)  # raises, and lists the formats
    if len(forms) > 1 and forms[0].score - forms[1].score < _SCORE_TOLERANCE:
        tied = [each for each in forms if forms[0].score - each.score < _SCORE_TOLERANCE]
        names = {each.name for each in tied}
        matches = [match for importer, match in importers.find_importers(source) if importer.name in names]
        advice = importers.keep_both_advice(source, matches)
        raise AmbiguousFormatError([SourceFormat(each.name, each.reason) for each in tied], source, dest, advice)
    is_in_place = forms[0].name == "jsonl" and dest is None and not has_only_compressed_lines(source)
    if is_in_place and not names_files(source):
        if has_shards(*split_file_root(source)):
            reason = "JSONL that names no media files beside it"
            return SourceFormat(IN_PLACE, reason, tuple(RejectedFormat(each.name, each.reason) for each in forms[1:]))
        forms = [*forms[1:], forms[0]]  # lines among other files
    best, *others = forms
    reason = f"{best.reason}; not in place: {in_place.refusal}" if in_place.refusal else best.reason
    return SourceFormat(best.name, reason, tuple(RejectedFormat(each.name, each.reason) for each in others))


def _why_shards(source: str) -> str:
    """Why the source is shards, whatever else it looks like; empty if it is not. Raises like `recognise_format`."""
    if is_url(source):
        return _why_remote_shards(source)
    _check_lines(source)
    if os.path.isfile(source):
        return ""
    location = locate(source)
    if is_empty_folder(location.root):
        raise InputError("the folder is empty", where=location.display_path, hint="check the path", code="WDS003")
    survey = survey_folder(location.root)
    if survey.has_plain_tars:
        return "it contains tars"
    if survey.outside_shard:
        check_no_outside_shards(source)
    return ""


class _InPlaceMatch(NamedTuple):
    """`reason`: why the source is prepared in place; empty if it is not. `refusal`: what rules that out, if known."""

    reason: str = ""
    refusal: str = ""


def _match_in_place(source: str) -> _InPlaceMatch:
    """Whether a folder has shards of another format than tar and JSONL that can be read where they are."""
    if is_signed(source) or is_chained(source) or not source_files.is_folder(source):
        return _InPlaceMatch()
    names = sorted(_visible(source)) if is_url(source) else sorted(iter_files(source))
    form = in_place_format(names)
    if form is None:
        return _InPlaceMatch()
    shards = [name for name in names if shard_format(name) == form]
    if not shards:
        return _InPlaceMatch("", "the shards are compressed")
    return _InPlaceMatch(f"it contains {describe_format(shards[0])}, which are read in place")


def _why_remote_shards(source: str) -> str:
    """As `_why_shards`, for a URL. Cost: lists the folder and all folders below it."""
    if is_signed(source) or is_chained(source):
        location = locate(source)
        is_table = not location.single_file and source_files.is_file(store_url(source))
        if not is_table and has_shards(location.root, location.single_file):
            return "tars or JSONL at a URL"
        source_files.check_source_url(source)
    _, name = split_file_root(source)
    if name.lower().endswith(".tar"):
        return "a tar at a URL"
    if is_jsonl_name(name) and not _is_listed(source):
        return "JSONL at a URL"
    if not source_files.is_file(source):
        names = list(_visible(source))
        if not names:
            raise InputError(
                "the folder does not exist, or is empty",
                where=redact_secrets(source),
                hint="check the URL",
                code="WDS003",
            )
        if any(path.lower().endswith(".tar") for path in names):
            return "it holds tars"
    _check_lines(source)
    return ""


def _is_listed(url: str) -> bool:
    """Whether the folder of a file can be listed, and has the file: some web servers only send files."""
    try:
        return source_files.is_file(url)
    except WdsctlError:
        return False


def _visible(url: str) -> Iterator[str]:
    """Yield the paths of the objects below a URL that are not hidden."""
    for path, _ in source_files.walk_facts(url):
        if not any(name.startswith(".") for name in path.split("/")):
            yield path


def _check_lines(source: str) -> None:
    """Raise InputError for a folder of JSONL that is called .json (WDS235), and for compressed JSON (WDS113).

    Taken as raw files, each file would be one sample.
    """
    is_folder = source_files.is_folder(source)
    walked = (os.path.join(folder, name) for folder, _, names in source_files.walk(source) for name in sorted(names))
    names = list(islice(walked, _PROBED_NAMES)) if is_folder else [source]
    packed = [name for name in names if name.lower().endswith(_COMPRESSED_JSON)]
    if packed and 2 * len(packed) >= len(names) and not is_object_per_line(packed[0]):
        ending = os.path.splitext(packed[0])[1]
        tool = UNPACK_COMMANDS[ending.lower()]
        # unzstd and unlz4 keep the compressed files, which would be found again.
        rm = " --rm" if ending.lower() in (".zst", ".lz4") else ""
        command = f"find {shlex.quote(source)} -name '*{ending}' -exec {tool}{rm} {{}} +"
        raise InputError(
            "compressed JSON has no random access",
            where=shown(packed[0]),
            hint="decompress the files, and upload them again"
            if is_url(source)
            else f"decompress it: `{command if is_folder else f'{tool} {shlex.quote(source)}'}`",
            code="WDS113",
        )
    called_json = [name for name in names if name.lower().endswith(".json")]
    if is_folder and 2 * len(called_json) > len(names) and is_object_per_line(called_json[0]):
        rename = 'mv "$1" "${1%.*}.jsonl"'
        raise InputError(
            "the .json files are JSONL: each line is an object",
            where=shown(called_json[0]),
            hint="rename the objects: end their names in .jsonl"
            if is_url(source)
            else f"rename the files: `find {shlex.quote(source)} -name '*.json' -exec sh -c '{rename}' - {{}} \\;`",
            code="WDS235",
        )


class _RankedFormat(NamedTuple):
    score: float
    name: str
    reason: str


def _rank_formats(source: str) -> list[_RankedFormat]:
    found = [
        _RankedFormat(match.score, importer.name, match.reason) for importer, match in importers.find_importers(source)
    ]
    # `shards` matches any JSONL; among the importers, `jsonl` speaks for it.
    forms = [form for form in found if form.name != IN_PLACE] or found
    if len(forms) > 1 and forms[0].name == "packed" and _has_mostly_other_files(source):
        return [*(form for form in forms if form.name != "packed"), forms[0]._replace(score=0.0)]
    return forms


def _has_mostly_other_files(source: str) -> bool:
    """Whether most of the first files of a folder are not compressed tars: these are parts of samples, then."""
    names = list(islice((name for _, _, names in source_files.walk(source) for name in names), _PROBED_NAMES))
    return 2 * sum(name.lower().endswith(COMPRESSED_TAR_SUFFIXES) for name in names) < len(names)


def check_is_raw_folder(source: str, *, are_shards: bool) -> None:
    """Raise UsageError if the source is not a folder of raw files: only these need a destination."""
    if are_shards:
        raise UsageError(
            "a selection of shards is prepared in place",
            where=redact_secrets(source),
            hint="remove DEST",
        )
    if split_file_root(source)[1] and not source_files.is_folder(source):
        raise UsageError(
            "tars and JSONL files are prepared in place",
            where=redact_secrets(source),
            hint=shell_command("prepare", redact_secrets(source)),
        )


def check_source_exists(source: str) -> None:
    """Raise InputError if the source does not exist."""
    if not is_url(source) and not os.path.lexists(source):
        raise InputError(
            "the source does not exist",
            where=source,
            hint="check the path: pass a folder, or a file such as a table, a .jsonl file or a .tar",
        )


def check_raw_folder(source: str, dest: str, parts: Sequence[str]) -> None:
    """Raise UsageError for a folder that holds shards or a link to `dest`.

    Shards would become parts of samples, and through the link the next run would find the shards of this one.
    """
    named = [name for part in parts for name in part.split(ALTERNATIVE_SEPARATOR)]
    try:
        is_store = is_url(source)
        if is_store:
            holds = are_shards(_visible(source))
        elif survey_folder(source).may_have_links:
            holds = has_shards(source, forbidden=_ancestor_inodes(dest))
        else:
            holds = survey_folder(source).has_shards
    except ForbiddenFolder as link:
        raise UsageError(
            "the raw folder has a link to the destination",
            where=f"{os.path.join(source, str(link))} and {dest}",
            hint="choose a destination next to the raw folder",
        ) from link
    if not holds or any(f".{part}".lower().endswith(ANY_TAR_SUFFIXES) for part in named):
        return
    archive = next((path for path in iter_files(source) if path.lower().endswith(COMPRESSED_TAR_SUFFIXES)), "")
    way = (
        f"unpack the archives, such as {shown(archive)}, and move them elsewhere"
        if archive
        else f"run {shell_command('prepare', source)}"
    )
    raise UsageError(
        "the source already contains shards, which wdsctl prepares in place",
        where=source,
        hint=f"{way}; if the tars are parts of samples, list the parts: `--parts jpg,tar{'.gz' if archive else ''}`",
    )


def _ancestor_inodes(dest: str) -> frozenset[tuple[int, int]]:
    """(device, inode) of a folder and of the folders above it, if they exist."""
    found = []
    folder = os.path.realpath(dest)
    while True:
        with suppress(OSError):
            status = os.stat(folder)
            found.append((status.st_dev, status.st_ino))
        above = os.path.dirname(folder)
        if above == folder:
            return frozenset(found)
        folder = above
