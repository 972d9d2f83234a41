"""Checks whether a folder has a catalog and samples, and whether datasets are nested.

A dataset inside a dataset is refused: `index` of the outer one would include the shards of the inner one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.open_catalog import missing_catalog_error
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import (
    CONVERSION_FOLDER,
    FINISHED_FILE,
    META_FOLDER,
    PLAN_FILE,
    UNFINISHED_FILE,
    WRITER_FOLDER,
    DatasetLocation,
    quote_shell_word,
    shell_command,
    shell_command_at,
)
from wdsctl.core.dataset.lock import describe_lock_holder, hold_lock
from wdsctl.core.dataset.shard_names import compressed_format, unpack_command
from wdsctl.core.errors import (
    CatalogError,
    Finding,
    InputError,
    OptionConflict,
    WdsctlError,
    translate_os_errors,
)
from wdsctl.core.safe_open import check_beneath
from wdsctl.core.shards.list import list_shards
from wdsctl.core.shards.survey import find_outside_shard, has_in_place_shards, has_shards
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url

MAX_NAMED_DATASETS = 3  # in an error
_WRITERS = ("prepare", "convert")  # commands that write shards from a source

#: Codes of members that are no part of a sample, and of shards without samples for another reason.
_REASON_CODES = ("WDS112", "WDS111", "WDS118")


def check_catalog_exists(location: DatasetLocation) -> None:
    """Raise the most helpful error if there is no catalog: that another process is creating it, that there are no
    shards, or how to create one. Raises CatalogError WDS301 or WDS304, InputError WDS003.
    """
    if os.path.exists(location.catalog_path):
        return
    held = describe_lock_holder(location.lock)
    if held:
        raise CatalogError(
            f"another process is preparing the dataset, which has no catalog yet: {held}",
            where=location.lock,
            hint="wait until the process has finished (some commands have `--wait`); if it no longer runs: "
            + shell_command_at(location, "index", "--break-lock"),
            code="WDS304",
        )
    check_not_incomplete(location)
    raise _no_catalog_error(location)


def check_not_incomplete(location: DatasetLocation) -> None:
    """Raise CatalogError WDS301 if a command or a writer has written only some shards: the others would be missing."""
    if os.path.exists(os.path.join(location.meta, WRITER_FOLDER, UNFINISHED_FILE)):
        raise CatalogError(
            "the dataset is incomplete: a wdsctl.Writer did not finish, and has written only some of the shards",
            where=location.display_path,
            hint="run the Python program that writes this dataset again: it continues where it stopped",
            code="WDS301",
        )
    with (
        suppress(CatalogError),
        Ledger.open_for_reading(location.ledger_path) as ledger,
    ):  # a damaged ledger has no plan
        is_incomplete = has_unfinished_conversion(location) or any(
            shard.state != "done" for shard in ledger.planned_shards()
        )
        writers = [run for run in ledger.runs() if run["command"] in _WRITERS] if is_incomplete else []
    if is_incomplete and writers:
        command = shell_command(writers[-1]["command"], *map(str, writers[-1]["argv"]))
        raise CatalogError(
            f"the dataset is incomplete: {command} did not finish, and has written only some of the shards",
            where=location.display_path,
            hint="run that command again: it continues where it stopped",
            code="WDS301",
        )


def has_unfinished_conversion(location: DatasetLocation) -> bool:
    """Whether `convert`, or a `prepare` that converts, was killed before it had written all files."""
    folder = os.path.join(location.meta, CONVERSION_FOLDER)
    return os.path.exists(os.path.join(folder, PLAN_FILE)) and not os.path.exists(os.path.join(folder, FINISHED_FILE))


def _no_catalog_error(location: DatasetLocation) -> WdsctlError:
    """The reason for a missing catalog: the folder has only datasets, only compressed files, no shards, or no index."""
    inside = _datasets_in(location)
    if inside:
        more = f" and {len(inside) - MAX_NAMED_DATASETS:,} more" if len(inside) > MAX_NAMED_DATASETS else ""
        return CatalogError(
            f"the folder has no catalog, but contains {pluralize(len(inside), 'prepared dataset')}: "
            f"{', '.join(map(path_for_message, inside[:MAX_NAMED_DATASETS]))}{more}",
            where=location.display_path,
            hint="pass one of these datasets, for example "
            f"{shell_command('inspect', os.path.join(location.display_path, inside[0]))}",
            code="WDS301",
        )
    if not has_shards(location.root, location.single_file) and not has_in_place_shards(location.root):
        return no_shards_error(location)
    listing = list_shards(location.root, only=location.single_file)
    packed = [finding.shard for finding in listing.findings if finding.code == "WDS113"]
    return (
        missing_catalog_error(location.catalog_path, shell_command_at(location, "prepare"))
        if listing.shards or not packed
        else only_compressed_error(location, packed)
    )


def _datasets_in(location: DatasetLocation) -> list[str]:
    """The subfolders that have catalogs, such as the primary and the media of a polylithic dataset."""
    if is_url(location.root) or location.single_file:
        return []
    with translate_os_errors(location.root, "read"), os.scandir(location.root) as entries:
        names = sorted(entry.name for entry in entries)
    return [name for name in names if os.path.exists(os.path.join(location.root, name, META_FOLDER, "catalog.sqlite"))]


def media_folder_option_error(flag: str, path: str) -> OptionConflict:
    """The error of an option about samples, for a folder of media at `path`."""
    return OptionConflict(
        f"{flag} needs samples, which a media folder does not have",
        options=(flag,),
        where=path,
        hint=f"omit {flag}; or write the files into shards: {shell_command('prepare', path, 'DEST')}",
        code="WDS322",
    )


def wait_for_catalog(location: DatasetLocation, wait: float, note: Callable[[str], None]) -> None:
    """Wait at most `wait` seconds for another process that creates the first catalog, if there is such a process.

    Raises CatalogError WDS304 after `wait` seconds.
    """
    if wait and not os.path.exists(location.catalog_path) and describe_lock_holder(location.lock):
        with hold_lock(location.lock, wait=wait, note=note):
            pass


def only_compressed_error(location: DatasetLocation, packed: Sequence[str]) -> InputError:
    """`packed`: the paths of the files, which are compressed tars or JSONL."""
    tools = sorted({tool for path in packed if (tool := unpack_command(path))})
    form = compressed_format(packed[0])
    noun = f"compressed {'shard' if form else 'tar'}"
    options = ("--from", form) if form else ()
    tars = f"run {shell_command('convert', *options, location.display_path, 'DEST')} to unpack them into shards"
    return InputError(
        f"found no tar files and no JSONL files, only {pluralize(len(packed), noun)}",
        where=location.display_path,
        hint=f"unpack them, for example with `{tools[0]} {quote_shell_word(packed[0])}`" if tools else tars,
        code="WDS113",
    )


def no_shards_error(location: DatasetLocation) -> InputError:
    """The error of a folder without shards. Raises what `check_no_outside_shards` raises."""
    check_no_outside_shards(location.root)
    return InputError(
        "found no shards: no tar or JSONL files, and none of a format that is read in place",
        where=location.display_path,
        hint=f"to write raw files into shards, run {shell_command('prepare', location.display_path, 'DEST')}",
        code="WDS003",
    )


def check_no_outside_shards(root: str) -> None:
    """Raise PermissionDenied WDS409 if the folder's only shards are links that lead out of it."""
    path = "" if is_url(root) or not os.path.isdir(root) else find_outside_shard(root)
    if path:
        check_beneath(os.path.join(root, path), root)


def no_samples_findings(
    location: DatasetLocation, rows: Sequence[ShardRow], findings: Iterable[Finding] = ()
) -> list[Finding]:
    """One finding if the dataset has no samples, with what its shards hold instead, by their `findings`."""
    if any(row.samples for row in rows):
        return []
    counts: Counter[str] = Counter()
    messages: dict[str, str] = {}
    for finding in findings:
        counts[finding.code] += finding.count
        messages.setdefault(finding.code, finding.message)
    instead = [f"{counts[code]:,} {messages[code]}" for code in _REASON_CODES if code in counts]
    broken = sum(row.code is not None for row in rows)
    if broken:
        instead.append(f"{pluralize(broken, 'shard')} that wdsctl cannot use")
    elif not instead and "WDS115" in counts:
        instead.append("no members at all")
    there = f": {'; '.join(instead)}" if instead else ""
    message = (
        f"no samples in {pluralize(len(rows), 'shard')}{there} ({shell_command_at(location, 'validate')} shows details)"
    )
    return [Finding(code="WDS119", severity="error", message=message)]
