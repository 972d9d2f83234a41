"""`wdsctl checkpoint`: the facts of saved states, merging them for other numbers of ranks, and comparing them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wdsctl.core.checkpoint.files import FoundState, SkippedFile, find_states
from wdsctl.core.checkpoint.state import LoaderState, check_state, is_part_of, merge_states, missing_ranks
from wdsctl.core.checkpoint.summary import LaneDifference, StateFacts, can_split_lanes, compare_states, summarize_state
from wdsctl.core.checkpoint.torch_file import encode_torch_file, has_tensors
from wdsctl.core.directories import resolve_parent
from wdsctl.core.errors import StateMismatch, UsageError, refuse_without_effect
from wdsctl.core.files import remove_file, write_pieces
from wdsctl.core.lanes import children_per_lane, fits_ranks
from wdsctl.core.text import natural_sort_key
from wdsctl.core.urls import is_url, redact_secrets

TORCH_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin")  # of files that are written as `torch.save` does


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """A state in a file. `facts`: None if the state is invalid; `problem` says why."""

    path: str
    key: str
    facts: StateFacts | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfoReport:
    """Facts of the states in checkpoint files. `problem`: why no job can resume from them; empty if one can.

    `job`: the facts of the merged state, if the states can be merged. `alike`: numbers of ranks that continue with the
    same global batches. `missing`: ranks without a state. `passed_over`: files without a state.
    """

    states: tuple[StateEntry, ...]
    passed_over: tuple[SkippedFile, ...]
    job: StateFacts | None
    missing: tuple[int, ...]
    alike: tuple[int, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedistributeReport:
    """The merged state. `files`: the files that were written, or with `dry_run` would be. `removed`: files of ranks
    that no longer exist. `splits_into`: the number of lanes on `ranks` ranks; equal to `lanes` if the global batches
    stay the same."""

    states: int
    world: int
    ranks: int
    step: int
    lanes: int
    splits_into: int
    files: tuple[str, ...]
    removed: tuple[str, ...] = ()
    size_bytes: int
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDiffReport:
    """Differences of two states, as in `StateDifference`. `tier`: the most severe one: order, recipe, place, or ""."""

    first: str
    second: str
    tier: str
    order: tuple[str, ...]
    recipe: tuple[str, ...]
    place: tuple[str, ...]
    bans: tuple[str, ...]
    steps: int
    lanes: tuple[LaneDifference, ...]
    is_same: bool


def inspect_checkpoint(paths: Sequence[str], *, key: str = "") -> CheckpointInfoReport:
    """The facts of the states in files or folders, and whether a job can resume from them. Raises InputError."""
    found, skipped = find_states(paths, key)
    entries = [_make_entry(each) for each in found]
    valid_states = [each.state for each, entry in zip(found, entries, strict=True) if entry.facts is not None]
    job, problem = None, next((entry.problem for entry in entries if entry.problem), "")
    compatible_worlds: tuple[int, ...] = ()
    if not problem:
        try:
            merged = _merge_found(found)
            job, compatible_worlds = summarize_state(merged), _compatible_worlds(merged)
        except (StateMismatch, UsageError) as error:
            problem = error.message
    # In states of several jobs, missing ranks are unknown.
    missing = missing_ranks(valid_states) if len({state["world"] for state in valid_states}) == 1 else []
    return CheckpointInfoReport(
        states=tuple(entries),
        passed_over=tuple(skipped),
        job=job,
        missing=tuple(missing),
        alike=compatible_worlds,
        problem=problem,
    )


def redistribute_checkpoint(
    paths: Sequence[str],
    output: str = "",
    *,
    ranks: int = 0,
    in_place: bool = False,
    key: str = "",
    force: bool = False,
    dry_run: bool = False,
) -> RedistributeReport:
    """Merge the states of all ranks, and write the result once, or once per rank of `ranks` ranks.

    Every rank of any job can resume from a merged state, so that all files are equal. Without `ranks`, `output` is a
    file, or a folder for `state.json`. With `ranks` it is a folder, whose files are named like the input files, or a
    name with `{rank}`. A file whose name ends in .pt, .pth, .ckpt or .bin is written as `torch.save` would, with the
    state under the key that it had; any other as JSON.

    `in_place`: replace the input files of one folder by exactly `ranks` files, with the same values beside the state.
    Each file is replaced atomically, and files of ranks that no longer exist are removed last. After a kill, the old
    number of ranks can still resume, and the same call completes the work.

    Raises StateMismatch WDS502 if the states cannot be merged; UsageError for existing files unless `force`, and in
    place for files with tensors, or with different values beside the state.
    """
    refuse_without_effect(("{rank} in OUT", "{rank" in output, "--ranks N", ranks))
    found, _ = find_states(paths, key)
    merged = _merge_found(found)
    read_paths = [each.path for each in found]
    surplus: list[str] = []
    if in_place:
        files = _in_place_paths(found, output, ranks)
        surplus = sorted(set(read_paths) - set(files), key=natural_sort_key)
    else:
        files = _output_paths(output, ranks, read_paths)
        _check_absent([] if force else files)
    if in_place:
        contents = dict.fromkeys(files, _encode(found[0].with_state(merged), files[0]))
    else:
        nested = _nest(merged, found[0].keys)
        contents = {name: _encode(nested if _is_torch_name(name) else merged, name) for name in files}
    if not dry_run:
        for name, data in contents.items():
            _write(name, data)
        for name in surplus:
            _remove(name)
    lanes = merged["lanes"]
    is_split = ranks and lanes and can_split_lanes(merged)
    return RedistributeReport(
        states=len(found),
        world=merged["world"],
        ranks=ranks,
        step=merged["batches_drawn"],
        lanes=lanes,
        splits_into=lanes * children_per_lane(lanes, ranks) if is_split else lanes,
        files=tuple(map(redact_secrets, files)),
        removed=tuple(map(redact_secrets, surplus)),
        size_bytes=max(map(len, contents.values())),
        dry_run=dry_run,
    )


def _in_place_paths(found: Sequence[FoundState], output: str, ranks: int) -> list[str]:
    """The files of `ranks` ranks in the folder of the files that were read, with names like theirs."""
    if output or not ranks:
        raise UsageError(
            "redistributing in place needs a number of ranks, and no other destination",
            hint="pass --ranks N --in-place and the checkpoint's folder alone",
        )
    folders = sorted({os.path.dirname(each.path) for each in found})
    if len(folders) > 1:
        raise UsageError(
            f"the states are in {len(folders)} folders", where=folders[1], hint="pass the folder of one checkpoint"
        )
    rest = found[0].with_state(None)
    for each in found:
        if each.is_torch != _is_torch_name(each.path):
            raise UsageError(
                f"the file is {'a torch.save file' if each.is_torch else 'JSON'}, and its name says otherwise",
                where=redact_secrets(each.path),
                hint=f"name files of torch.save *{TORCH_SUFFIXES[0]}, and others *.json",
            )
        if each.with_state(None) != rest or has_tensors(rest):
            raise UsageError(
                "the file has other values than the state of one loader, and not the same as the other files",
                where=redact_secrets(each.path),
                hint="write the merged state to another folder: wdsctl checkpoint redistribute FILES NEW --ranks N",
            )
    pattern = _output_pattern([each.path for each in found])
    return [os.path.join(folders[0], pattern.format(rank=rank)) for rank in range(ranks)]


def _check_absent(files: Sequence[str]) -> None:
    """Raise UsageError if a file exists."""
    existing = [name for name in files if _is_there(name)]
    if existing:
        raise UsageError(
            f"{len(existing)} of {len(files)} output files exist" if len(files) > 1 else "the output file exists",
            where=redact_secrets(existing[0]),
            hint="choose another path, or pass --force to overwrite it",
        )


def _nest(state: LoaderState, keys: Sequence[str]) -> Any:
    """The state under the keys that it had in a file, without positions in lists."""
    value: Any = state
    for key in reversed([key for key in keys if not key.isdecimal()]):
        value = {key: value}
    return value


def _encode(value: Any, path: str) -> bytes:
    """The bytes of a file, in the format that its name says."""
    if _is_torch_name(path):
        return encode_torch_file(value)
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()


def _is_torch_name(path: str) -> bool:
    return path.endswith(TORCH_SUFFIXES)


def _is_there(path: str) -> bool:
    if not is_url(path):
        return os.path.lexists(path)
    from wdsctl.core.storage.objects import ObjectStore

    return ObjectStore(os.path.dirname(path)).stat(path) is not None


def _write(path: str, data: bytes) -> None:
    if not is_url(path):
        write_pieces(resolve_parent(path), [data])
        return
    from wdsctl.core.storage.objects import ObjectStore

    ObjectStore(os.path.dirname(path)).put(path, data)


def _remove(path: str) -> None:
    if not is_url(path):
        remove_file(resolve_parent(path))
        return
    from wdsctl.core.storage.objects import ObjectStore

    ObjectStore(os.path.dirname(path)).delete([path])


def diff_checkpoints(first: str, second: str, *, key: str = "") -> CheckpointDiffReport:
    """The differences of the states in two files or folders. States of several ranks are merged first."""
    difference = compare_states(_load_merged(first, key), _load_merged(second, key))
    is_moved = difference.place or difference.bans
    tier = "order" if difference.order else "recipe" if difference.recipe else "place" if is_moved else ""
    return CheckpointDiffReport(
        first=first,
        second=second,
        tier=tier,
        order=difference.order,
        recipe=difference.recipe,
        place=difference.place,
        bans=difference.bans,
        steps=difference.steps,
        lanes=difference.lanes,
        is_same=difference.is_empty,
    )


def _make_entry(found: FoundState) -> StateEntry:
    try:
        facts = summarize_state(check_state(found.state))
    except StateMismatch as error:
        return StateEntry(path=found.path, key=found.key, facts=None, problem=error.message)
    return StateEntry(path=found.path, key=found.key, facts=facts, problem="")


def _load_merged(path: str, key: str) -> LoaderState:
    found, _ = find_states([path], key)
    return check_state(found[0].state) if len(found) == 1 else _merge_found(found)


def _merge_found(found: Sequence[FoundState]) -> LoaderState:
    """The merged state of all ranks. Raises UsageError for states of several loaders under different keys (training and
    validation, for example) or a merged state among others; StateMismatch if states cannot be merged."""
    # Without positions in lists, which differ between ranks.
    names = sorted({".".join(part for part in each.key.split(".") if not part.isdecimal()) for each in found})
    if len(names) > 1 and len({each.path for each in found}) < len(found):
        shown = " and ".join(repr(name) for name in names)
        raise UsageError(
            f"found states of several loaders, under the keys {shown}", hint="choose one of the loaders with --key"
        )
    merged = [each for each in found if each.state.get("kind") == "world"]
    if not merged:
        return merge_states([each.state for each in found])
    # Redistributed files are equal. A kill in between leaves files of ranks, whose states are in the merged one.
    state = check_state(merged[0].state)
    others = [each.state for each in found if each.state != merged[0].state]
    if any(not is_part_of(check_state(each), state) for each in others):
        raise UsageError(
            "one of the states is a merged state, and others are of another step or job",
            where=merged[0].path,
            hint="pass the merged state alone, or the states of the ranks without it",
        )
    return state


def _compatible_worlds(merged: LoaderState) -> tuple[int, ...]:
    """Numbers of ranks that can divide the lanes without splitting them."""
    lanes = merged["lanes"]
    return tuple(world for world in range(1, lanes + 1) if not can_split_lanes(merged) or fits_ranks(lanes, world))


def _output_paths(output: str, ranks: int, read_paths: Sequence[str]) -> list[str]:
    if not ranks:
        return [os.path.join(output, "state.json") if os.path.isdir(output) or output.endswith(os.sep) else output]
    folder, pattern = os.path.split(output)
    if "{" not in pattern:
        folder, pattern = output, _output_pattern(read_paths)
    try:
        names = [pattern.format(rank=rank) for rank in range(ranks)]
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise UsageError(
            f"{pattern!r} is not a pattern for file names", hint="write {rank}, or {rank:03} for three digits"
        ) from error
    if len(set(names)) < ranks:
        raise UsageError(f"{pattern!r} gives all files the same name", hint="add {rank} to the file name")
    return [os.path.join(folder, name) for name in names]


def _output_pattern(read_paths: Sequence[str]) -> str:
    """The names of the input files with {rank} for the number in which they differ, or for a last number 0 of a single
    file; else `rank{rank:03}`. Files of `torch.save` stay such files, others become JSON."""
    suffixes = {os.path.splitext(path)[1] for path in read_paths}
    suffix = suffixes.pop() if len(suffixes) == 1 and suffixes <= set(TORCH_SUFFIXES) else ".json"
    stems = sorted({os.path.splitext(os.path.basename(path))[0] for path in read_paths}, key=natural_sort_key)
    parts = [re.split(r"(\d+)", stem) for stem in stems]
    if len({len(each) for each in parts}) > 1:
        return f"rank{{rank:03}}{suffix}"
    varying = [i for i, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
    if len(stems) == 1 and len(parts[0]) > 1 and int(parts[0][-2]) == 0:
        varying = [len(parts[0]) - 2]
    if len(varying) != 1 or not parts[0][varying[0]].isdecimal():
        return f"rank{{rank:03}}{suffix}"
    first = parts[0][varying[0]]
    plain = [part.replace("{", "{{").replace("}", "}}") for part in parts[0]]
    plain[varying[0]] = f"{{rank:0{len(first)}}}" if len(first) > 1 else "{rank}"
    return f"{''.join(plain)}{suffix}"
