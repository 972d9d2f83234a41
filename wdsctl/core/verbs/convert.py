"""`convert`: from any form of a dataset to another, in another order, other shards, other media; one or several."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any

from wdsctl.core.called import said
from wdsctl.core.convert import exporters
from wdsctl.core.convert.exporters.shards import EXPORTER as SHARDS
from wdsctl.core.convert.groups import Group
from wdsctl.core.convert.importers.shards import MOST_SPLITS
from wdsctl.core.convert.part_rules import check_rules
from wdsctl.core.convert.paths import check_destination, remove
from wdsctl.core.convert.plan import PlanRequest, make_plan
from wdsctl.core.convert.plan_file import Done, PlanFile, PlannedUnit
from wdsctl.core.convert.recipe import Recipe, Stream
from wdsctl.core.convert.unit import unit_path
from wdsctl.core.errors import DatasetError, UsageError, WdsctlError
from wdsctl.core.files import make_folder, remove_empty
from wdsctl.core.lock import locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.root_name import parse_root
from wdsctl.core.shard_names import check_template
from wdsctl.core.urls import plain, shown
from wdsctl.core.verbs.convert_answer import (
    finished_before,
    foreseen,
    keep,
    nothing_made,
    problems,
    reported,
    reported_again,
    write_finished,
)
from wdsctl.core.verbs.convert_begin import (
    FINISHED,
    PLAN,
    begin_anew_if_other,
    check_alike,
    check_copied,
    check_is_room,
    forgotten_if_refused,
)
from wdsctl.core.verbs.convert_finish import Written, finish
from wdsctl.core.verbs.convert_made_from import NOT_OF_BYTES, made_from
from wdsctl.core.verbs.convert_report import ConvertOptions, ConvertReport
from wdsctl.core.verbs.convert_sources import Opened, check_unchanged, digests, open_sources
from wdsctl.core.verbs.convert_write import DONE, finish_target, write_units
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.nested_datasets import check_not_in_dataset
from wdsctl.core.write_plan import check_limits

#: Changes when the same plan would give other bytes.
FORMAT = "wdsctl convert 2"


def convert(
    sources: Sequence[str], dest: str, options: ConvertOptions | None = None, *, progress: Progress = SILENT
) -> ConvertReport:
    """Write the samples of `sources` below `dest`, as `options` say, and prepare what comes of it.

    What goes into which file is decided before a byte is written, and kept with the destination: a run that was killed
    goes on where it stopped, and the bytes are the same for any number of workers. The same command again finds that
    all is done. A sample that cannot be read or changed is left out and told; it stops nothing unless asked to.
    Raises UsageError, InputError, DatasetError, PermissionDenied, StorageError, CatalogError.
    Memory: some tens of MB a worker, and the largest sample.
    """
    options = options or ConvertOptions()
    dest = plain(dest)
    check_options(options, len(sources))
    check_destination([parse_root(plain(source)).root for source in sources], dest)
    check_not_in_dataset(dest)
    if options.dry_run:
        with tempfile.TemporaryDirectory(prefix="wdsctl-") as work:
            return _run(sources, dest, options, os.path.realpath(work), None, progress)
    was_there = os.path.isdir(dest)
    home = os.path.realpath(dest)
    make_folder(home)
    place = locate(dest, writing=True, home=home)
    work = os.path.join(place.meta, "convert")
    check_is_room(place, dest, work)
    had_meta = os.path.isdir(place.meta)
    words = [*map(shown, sources), shown(dest), *said(options)]
    try:
        with ExitStack() as held:
            held.enter_context(locked(place.lock, wait=options.wait, note=progress.note))
            check_is_room(place, dest, work)  # whoever was waited for may have left something
            held.enter_context(forgotten_if_refused(place, work, had_meta=had_meta))
            entry = held.enter_context(journal(place, "convert", words, progress))
            make_folder(work)
            report = _run(sources, dest, options, work, place, progress)
            entry.findings += report.findings
            return report
    except WdsctlError:
        if not was_there:
            with suppress(OSError):  # something is in it that is worth keeping
                remove_empty(home)
        raise


def check_options(options: ConvertOptions, sources: int) -> None:
    """Refuse what contradicts itself, before anything is read. Raises UsageError."""
    check_template(options.template)
    check_limits(options.shard_samples, options.shard_size)
    check_rules(options.parts)
    target = exporters.get(options.to_form or "shards")
    if not sources:
        raise UsageError("nothing to convert", hint="`wdsctl convert SOURCE... DEST`")
    if options.seed and options.order != "shuffle":
        raise UsageError("--seed is of --shuffle", hint="add --shuffle, or leave the seed out")
    if options.layout == "polylithic" and (not options.media or target.name != "shards"):
        raise UsageError(
            "--layout polylithic needs the parts that are kept apart, and writes shards",
            hint="such as `--layout polylithic --media mp4,wav`",
        )
    if options.media and options.layout != "polylithic":
        raise UsageError("--media is of --layout polylithic", hint="add it, or leave the media out")
    if options.primary != "tar" and options.layout != "polylithic":
        raise UsageError("--primary is of --layout polylithic", hint="add it; or `--to jsonl`, without media")
    if options.compress == "gz" and (target.name != "shards" or options.layout == "polylithic"):
        raise UsageError("--compress gz is of shards in one piece", hint="leave one of them out")
    if options.apart == "split" and options.split:
        raise UsageError("--split leaves one split, and --apart split wants several", hint="leave one of them out")


def _run(
    texts: Sequence[str], dest: str, options: ConvertOptions, work: str, place: Place | None, progress: Progress
) -> ConvertReport:
    """With the lock held; without a place, a dry run whose `work` is thrown away."""
    started = time.monotonic()
    with closing(open_sources(texts, options, work, progress, workers=options.workers)) as opened:
        recipe = _recipe(options, opened)
        fingerprint = _fingerprint(options, opened)
        made = made_from(options, opened)
        plan = os.path.join(work, PLAN)
        finished = finished_before(work)
        if finished is not None and place is not None:
            if finished.get("fingerprint") != fingerprint:
                finished = _taken_on(
                    finished,
                    made,
                    opened,
                    recipe,
                    fingerprint,
                    dest,
                    options,
                    work=work,
                    place=place,
                    progress=progress,
                )
            return reported_again(finished, opened, dest, options, started)
        begin_anew_if_other(work, fingerprint, made, dest, options, place)
        if not os.path.exists(plan):
            _plan(plan, opened, options, fingerprint, made, progress)
        if place is None:
            return foreseen(plan, opened, recipe, dest, options, started)
        with PlanFile(plan) as planned:
            done, written = write_units(planned, recipe, work, fingerprint, options, place, progress)
            if written:
                _check_sources(opened, work)
            units = [unit for unit in planned.units() if done[unit.id].samples]
            if not units:
                failed = nothing_made(planned.units(), done)
                for name in (PLAN, DONE):  # what failed is tried again by the next run
                    remove(os.path.join(work, name))
                raise failed
            finish_target(units, done, recipe, place.written, work)
            finished_now = finish(Written(planned, units, done, recipe, dest), opened, options, place, progress)
            report = reported(planned, units, done, opened, dest, options, finished_now.datasets, started)
            made |= {"plan": planned.digest()}
        report = replace(
            report,
            written_files=written,
            kept_files=len(units) - written,
            findings=(*problems(opened), *report.findings, *finished_now.findings),
            notes=(*finished_now.notes, *report.notes),
        )
        keep(work, fingerprint, made, report, _files(units, done, recipe))
        for name in os.listdir(work):
            # The catalog of a source that has none makes the next run of the same command quick.
            if name != FINISHED and not name.startswith("source-"):
                remove(os.path.join(work, name))
    return report


def _taken_on(
    finished: dict[str, Any],
    made: dict[str, Any],
    opened: Opened,
    recipe: Recipe,
    fingerprint: str,
    dest: str,
    options: ConvertOptions,
    *,
    work: str,
    place: Place,
    progress: Progress,
) -> dict[str, Any]:
    """What is kept of a finished conversion, when it is that of these sources from now on: they give the same files.

    Raises UsageError WDS345 where they do not, or where it cannot be told.
    """
    before = finished.get("made_from")
    check_alike(before, made, dest)
    folder = os.path.join(work, "again")
    remove(folder)
    try:
        plan = os.path.join(folder, PLAN)
        _plan(plan, opened, options, fingerprint, made, progress)
        with PlanFile(plan) as planned:
            made = made | {"plan": planned.digest()}
        check_copied(before, made, plan, recipe, dest, place, options.workers, progress)
    finally:
        remove(folder)
    finished = finished | {"fingerprint": fingerprint, "made_from": made}
    write_finished(work, finished)
    return finished


def _plan(
    path: str,
    opened: Opened,
    options: ConvertOptions,
    fingerprint: str,
    made: Mapping[str, Any],
    progress: Progress,
) -> None:
    names = _all_splits(opened)
    numbers = [[names.index(name) if name in names else -1 for name in mine] for mine in opened.split_names]
    suffix = ".tar.gz" if options.compress == "gz" else exporters.get(options.to_form or "shards").suffix
    suffixes: dict[Stream, str] = {
        "": suffix,
        "media": ".tar",
        "primary": ".jsonl" if options.primary == "jsonl" else ".tar",
    }
    request = PlanRequest(
        shard_samples=options.shard_samples,
        shard_size=options.shard_size,
        template=options.template,
        suffixes=suffixes,
        order=options.order,
        seed=options.seed,
        on_collision=options.on_collision,
        media=options.media,
        parts=options.parts,
        image=options.image,
        audio=options.audio,
    )
    if options.apart == "split" and any(len(mine) > MOST_SPLITS for mine in opened.split_names):
        hint = "convert them one by one: `--split NAME`"
        raise UsageError(f"--apart split takes apart {MOST_SPLITS} splits at most", hint=hint)
    group = Group(options.apart, opened.split_names) if options.apart else None
    sources_names = [spec.name for spec in opened.specs]
    facts = {"fingerprint": fingerprint, "splits": json.dumps(names), "made_from": json.dumps(made)}
    make_plan(path, opened.sources, sources_names, request, facts, progress, group=group, splits=numbers)


def _all_splits(opened: Opened) -> list[str]:
    """The splits of all sources, in the order in which they are met; as many as a sample has bits for."""
    return list(dict.fromkeys(name for mine in opened.split_names for name in mine))[:MOST_SPLITS]


def _check_sources(opened: Opened, work: str) -> None:
    """Raises DatasetError where a source has changed. What was written of it is then written again by the next run."""
    try:
        check_unchanged(opened)
    except DatasetError:
        remove(os.path.join(work, DONE))
        raise


def _files(units: Sequence[PlannedUnit], done: Mapping[int, Done], recipe: Recipe) -> dict[str, int]:
    """The files that were written, below DEST, with their sizes; none of a folder of files, which has too many."""
    if not exporters.get(recipe.target).suffix:
        return {}
    return {unit_path("", unit): done[unit.id].size_bytes for unit in units}


def _recipe(options: ConvertOptions, opened: Opened) -> Recipe:
    target = target_options(options, are_shards=all(spec.importer in ("shards", "packed") for spec in opened.specs))
    if options.compress == "gz":
        target["compress"] = "gz"
    if options.to_form in ("", "shards"):
        SHARDS.check(target)
    return Recipe(
        sources=tuple(opened.specs),
        target=options.to_form or "shards",
        target_options=tuple(sorted(target.items())),
        parts=options.parts,
        image=options.image,
        audio=options.audio,
        on_error=options.on_error,
        media=options.media,
        primary=options.primary,
    )


def target_options(options: ConvertOptions, *, are_shards: bool) -> dict[str, str]:
    """`to.NAME` is of the destination's form; other names too, where the sources are shards, which have none."""
    named = {name.removeprefix("to."): value for name, value in options.form_options.items() if name.startswith("to.")}
    others = {name: value for name, value in options.form_options.items() if not name.startswith("to.")}
    return named | (others if are_shards and not options.from_form else {})


def _fingerprint(options: ConvertOptions, opened: Opened) -> str:
    """Names everything that the bytes follow from; not where the sources lie, nor how many workers there are."""
    said = {name: value for name, value in asdict(options).items() if name not in NOT_OF_BYTES}
    marks = [
        [spec.importer, spec.name, [pair for pair in spec.options if pair[0] not in ("catalog", "generation")]]
        for spec in opened.specs
    ]
    text = json.dumps([FORMAT, said, marks, digests(opened), opened.split_names], sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
