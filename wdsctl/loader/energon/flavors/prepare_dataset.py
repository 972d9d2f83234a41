"""`prepare_dataset` of factories: the files that Energon's `prepare` writes beside shards or JSONL, for the loader.

Conversion scripts end with it. The loader makes its catalog at first use, from these files and the dataset.yaml that
the script writes after them.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wdsctl.core.dataset.location import ENERGON_INFO_FILES, ENERGON_META_FOLDER, locate, shell_command
from wdsctl.core.dataset.shard_names import COMPRESSED_TAR_SUFFIXES, expand_braces
from wdsctl.core.energon.meta import JSONL_INDEX_SUFFIX
from wdsctl.core.energon.split_yaml import collapse_ranges, format_split_yaml
from wdsctl.core.errors import DatasetError, InputError, UsageError, translate_os_errors
from wdsctl.core.file_limits import iter_lines
from wdsctl.core.files import make_folder, write_pieces, write_text
from wdsctl.core.safe_open import open_named
from wdsctl.core.shards.list import some_shards
from wdsctl.core.shards.scan_unit import scan_file
from wdsctl.core.urls import is_url, redact_secrets
from wdsctl.core.version import VERSION
from wdsctl.loader.energon.epathlib import EPath

_MAX_THREADS = 8


def prepare_dataset(
    parent_path: str | Path | EPath,
    paths: Sequence[str],
    *,
    split_parts_ratio: Sequence[tuple[str, float]] | None = None,
    split_parts_patterns: Sequence[tuple[str, str]] | None = None,
    split_config: str = "split.yaml",
    shuffle_seed: int | None = 42,
    progress_fn: Callable[[Iterator[Any], int], Iterator[Any]] | None = None,
    workers: int = 32,
    tar_index_only: bool = False,
    media_filter: Any = None,
    fix_duplicates: bool = False,
    index_sqlite_tmp_path: Any = None,  # noqa: ARG001 - Energon's
) -> set[str]:
    """Count the samples of shards below a folder, and write `.nv-meta/.info.json` and the split. Returns all parts.

    The same shards get the same splits as in Energon: by ratio, after a shuffle with `shuffle_seed`, or by the regular
    expressions of `split_parts_patterns`. `tar_index_only`: write nothing. Raises InputError for a shard that is
    missing or cannot be read, UsageError for a folder with a catalog, and for what other commands do.
    """
    root = os.fspath(parent_path)
    _check_options(root, media_filter=media_filter, fix_duplicates=fix_duplicates)
    names = [name for path in paths for name in expand_braces(path)]
    counts, parts = _scan(root, names, min(workers, _MAX_THREADS), progress_fn)
    if tar_index_only:
        return parts
    if split_parts_ratio is not None:
        splits = _split_by_ratio(names, split_parts_ratio, shuffle_seed)
    elif split_parts_patterns is not None:
        splits = {name: _matching(names, pattern) for name, pattern in split_parts_patterns}
    else:
        raise UsageError("no split was given", hint='pass split_parts_ratio=[("train", 8), ("val", 1), ("test", 1)]')
    meta = os.path.join(root, ENERGON_META_FOLDER)
    make_folder(meta)
    facts = {"energon_version": f"wdsctl {VERSION}", "shard_counts": counts}
    write_text(os.path.join(meta, split_config), _split_text(splits, split_config))
    write_text(
        os.path.join(meta, ENERGON_INFO_FILES[0]), json.dumps(facts, indent=2)
    )  # the last one: its existence says done
    return parts


def prepare_jsonl(path: str | Path | EPath) -> int:
    """Write the index of a local JSONL file, with which the loader indexes it at first use. Returns its samples.

    Raises DatasetError for a line that is no JSON object, UsageError for a URL and for a file with a catalog.
    """
    root = os.fspath(path)
    _check_root(root)
    starts, position = [], 0
    with translate_os_errors(root, "read"), open_named(root) as file:
        for number, line in enumerate(iter_lines(file, root), 1):
            text = line.strip()
            if text and not (text.startswith(b"{") and text.endswith(b"}")):
                where = f"{root}:{number}"
                raise DatasetError("the line is no JSON object", where=where, hint="write one {...} on each line")
            if text:
                starts.append(position)
            position += len(line)
    if not starts:
        raise DatasetError("the file has no samples", where=root, hint="write one {...} on each line")
    write_pieces(f"{root}{JSONL_INDEX_SUFFIX}", [np.array([*starts, position], "<u8").tobytes()])
    return len(starts)


def _check_root(root: str) -> None:
    if is_url(root):
        hint = "run `wdsctl prepare` on the URL: it writes the catalog into a folder on this machine"
        raise UsageError("prepare_dataset writes into local folders only", where=redact_secrets(root), hint=hint)
    if os.path.exists(locate(root).catalog_path):
        raise UsageError(
            "the dataset has a catalog already, whose samples and splits the loader uses",
            where=root,
            hint="run `wdsctl index` after changes, `wdsctl split` for other splits; or convert into an empty folder",
        )


def _check_options(root: str, *, media_filter: Any, fix_duplicates: bool) -> None:
    _check_root(root)
    if media_filter is not None:
        hint = "omit media_filter, and run `wdsctl index DATASET --media`"
        raise UsageError("prepare_dataset reads no media facts", hint=hint)
    if fix_duplicates:
        hint = "omit fix_duplicates: `wdsctl validate` reports duplicate keys, and `wdsctl convert` writes new ones"
        raise UsageError("prepare_dataset does not change shards", hint=hint)


def _scan(
    root: str, names: Sequence[str], threads: int, progress_fn: Callable[[Iterator[Any], int], Iterator[Any]] | None
) -> tuple[dict[str, int], set[str]]:
    """Samples by shard, and the names of all parts."""
    compressed = next((name for name in names if name.lower().endswith(COMPRESSED_TAR_SUFFIXES)), None)
    if compressed is not None:
        hint = f"copy the shards: {shell_command('convert', root, 'DEST')} writes plain ones, which you can prepare"
        where = os.path.join(root, compressed)
        raise InputError("a compressed shard has no random access", where=where, hint=hint, code="WDS113")
    shards = {shard.path: shard for shard in some_shards(root, names)}
    missing = next((name for name in names if name not in shards), None)
    if missing is not None or not names:
        where = os.path.join(root, missing or "")
        raise InputError("the shard does not exist", where=where, hint="pass paths relative to the folder")
    counts: dict[str, int] = {}
    parts: set[str] = set()
    with ThreadPoolExecutor(max(1, threads)) as pool:
        scans: Iterator[Any] = pool.map(partial(scan_file, root), [shards[name] for name in names])
        for name, scan in zip(names, scans if progress_fn is None else progress_fn(scans, len(names)), strict=True):
            problem = next((finding for finding in scan.findings if finding.severity == "error"), None)
            if problem is not None or not scan.samples:
                message = "the shard has no samples" if problem is None else problem.message
                where = os.path.join(root, name)
                raise DatasetError(message, where=where, hint="run `wdsctl validate` on the folder for all findings")
            counts[name] = scan.samples
            parts.update(scan.extensions)
    return counts, parts


def _split_by_ratio(
    names: Sequence[str], ratios: Sequence[tuple[str, float]], seed: int | None
) -> dict[str, list[str]]:
    """Shards by split, as Energon divides them, whose generator is Python's: its order for a seed never changes.

    The last split ends with the last shard. Energon leaves that out where the shares add up to slightly less than 1, as
    0.7 + 0.2 + 0.1 does.
    """
    shuffled = list(names)
    if seed is not None:
        random.Random(seed).shuffle(shuffled)
    total = sum(ratio for _, ratio in ratios)
    splits: dict[str, list[str]] = {}
    share, start = 0.0, 0
    for number, (name, ratio) in enumerate(ratios, 1):
        share += ratio / total
        stop = len(shuffled) if number == len(ratios) else int(len(shuffled) * share)
        splits[name] = shuffled[start:stop]
        start = stop
    return splits


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    patterns = [re.compile(each) for each in expand_braces(pattern)]
    return [name for name in names if any(each.match(name) for each in patterns)]


def _split_text(splits: dict[str, list[str]], file_name: str) -> str:
    if not file_name.endswith(".json"):
        return format_split_yaml(splits, [], [])
    return json.dumps({"split_parts": {name: collapse_ranges(paths) for name, paths in splits.items()}}, indent=2)
