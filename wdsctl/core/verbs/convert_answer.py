"""What a conversion answers: what was done, what would be, and what was done before."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from wdsctl.core.convert.plan_file import Done, PlanFile, PlannedUnit
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, UsageError, several
from wdsctl.core.files import write_text
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.json_text import read_json
from wdsctl.core.printable import one_line
from wdsctl.core.urls import shown
from wdsctl.core.verbs.convert_begin import FINISHED
from wdsctl.core.verbs.convert_carry import Lost, carrying_of, lost_findings, lost_of
from wdsctl.core.verbs.convert_report import ConvertedDataset, ConvertOptions, ConvertReport
from wdsctl.core.verbs.convert_sources import Opened

LEFT_OUT = ": the sample is left out"

_KEPT = ("form", "samples", "files", "size_bytes", "failed", "kept", "repeated", "bare", "apart")


def foreseen(
    plan: str, opened: Opened, recipe: Recipe, dest: str, options: ConvertOptions, started: float
) -> ConvertReport:
    lost: list[Lost] = []
    with PlanFile(plan) as planned:
        units = planned.units()
        carrying = carrying_of(opened, recipe, [unit.stream for unit in units] if options.is_prepared else ())
        done = {unit.id: Done(unit.id, unit.samples, unit.size_bytes, "{}", (), (), "[]") for unit in units}
        datasets = []
        for below, grouped in groupby(units, key=lambda unit: unit.dataset):
            some, path = list(grouped), os.path.join(dest, below).rstrip("/")
            datasets.append(
                ConvertedDataset(
                    path=shown(path),
                    files=len(some),
                    samples=sum(unit.samples for unit in some),
                    size_bytes=sum(unit.size_bytes for unit in some),
                    columns=carrying.names(some[0].stream),
                )
            )
            lost += lost_of(shown(path), carrying, some[0].stream)
        report = reported(planned, units, done, opened, dest, options, tuple(datasets), started)
    return replace(report, dry_run=True, findings=(*problems(opened), *lost_findings(lost)))


def problems(opened: Opened) -> tuple[Finding, ...]:
    listed = [found for source in opened.sources for found in getattr(source, "problems", ())]
    return (*opened.findings, *listed)


def reported(
    plan: PlanFile,
    units: Sequence[PlannedUnit],
    done: Mapping[int, Done],
    opened: Opened,
    dest: str,
    options: ConvertOptions,
    datasets: tuple[ConvertedDataset, ...],
    started: float,
) -> ConvertReport:
    facts = plan.facts()
    failed = {pos for each in done.values() for pos in each.left_out}
    return ConvertReport(
        sources=tuple(replace(told, path=shown(told.path)) for told in opened.told),
        dest=shown(dest),
        form=options.to_form or "shards",
        samples=int(facts["samples"]),
        files=len(units),
        size_bytes=sum(done[unit.id].size_bytes for unit in units),
        written_files=0,
        kept_files=0,
        failed=len(failed),
        kept=len({pos for each in done.values() for pos in each.as_is}),
        repeated=int(facts["repeated"]),
        bare=int(facts["bare"]),
        apart=int(facts["apart"]),
        datasets=datasets,
        findings=tuple(_failures(plan.units(), done)),
        notes=(*_of_parts(facts), *_of_splits(plan, opened, options)),
        up_to_date=False,
        dry_run=False,
        seconds=time.monotonic() - started,
    )


def _of_parts(facts: Mapping[str, str]) -> Iterator[str]:
    """What was asked for parts that no sample has. Plans of older versions do not know."""
    unmet: list[str] = read_json(facts.get("unmet", "[]"))
    if unmet:
        yield f"no sample has such a part: {', '.join(unmet)}"


def _of_splits(plan: PlanFile, opened: Opened, options: ConvertOptions) -> Iterator[str]:
    """What becomes of splits that do not go along, and of samples that are in none where others are."""
    names: list[str] = read_json(plan.facts()["splits"])
    counts = plan.split_counts()
    total = sum(counts.values())
    known = len({name for mine in opened.split_names for name in mine})
    if known > len(names):
        yield f"only {len(names)} of {known} splits go along"
    held = {name: sum(n for bits, n in counts.items() if bits >> b & 1) for b, name in enumerate(names)}
    told = ", ".join(f"{name} {n:,}" for name, n in held.items() if n)
    if not told or options.apart == "split" or counts.get(0, 0) == total:
        return
    if not options.is_prepared:
        if set(held.values()) - {0} != {total}:
            yield f"splits do not go along ({told}): `--apart split` makes a folder of each"
    elif counts.get(0):
        as_before = ", as in their source" if known <= len(names) else ""
        yield f"{counts[0]:,} of {counted(total, 'sample')} are in no split{as_before}; the others: {told}"


def _failures(units: Sequence[PlannedUnit], done: Mapping[int, Done]) -> Iterator[Finding]:
    """What failed: one finding a code, of the first, with how often it was in all."""
    first: dict[tuple[str, bool], Finding] = {}
    for unit in units:
        for key, code, message, is_kept, _, count in read_json(done[unit.id].told):
            said = f"{message}{': it is as it was' if is_kept else LEFT_OUT}"
            severity: Severity = "warning" if is_kept else "error"
            before = first.get((code, is_kept))
            first[code, is_kept] = (
                Finding(code=code, severity=severity, message=said, shard=unit.name, key=key, count=count)
                if before is None
                else replace(before, count=before.count + count)
            )
    yield from first.values()


def nothing_made(units: Sequence[PlannedUnit], done: Mapping[int, Done]) -> DatasetError:
    """What to raise where every sample failed: an empty dataset would look like an answer."""
    found = list(_failures(units, done))
    first = found[0]
    why = first.message.removesuffix(LEFT_OUT)
    count = len({pos for each in done.values() for pos in each.left_out})
    hints = {hint for each in done.values() for _, code, *_, hint, _ in read_json(each.told) if code == first.code}
    hint = f"mend the source and run the same command again; `wdsctl explain {first.code}` tells more"
    return DatasetError(
        several(f"no sample could be read, or written anew: {counted(count, 'sample')} failed", why),
        hint=hints.pop() if len(hints) == 1 and any(hints) else hint,
        where=f"sample {one_line(first.key)}",
        code=first.code,
    )


def finished_before(work: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(work, FINISHED), encoding="utf-8") as file:
            said = read_json(file.read())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def keep(work: str, fingerprint: str, made: Mapping[str, Any], report: ConvertReport, files: Mapping[str, int]) -> None:
    """What a later run of the same command answers, if these files are there. With it, the conversion is done.

    `made`: what it was made from, which tells whether another source is a copy.
    """
    kept = {name: getattr(report, name) for name in _KEPT} | {"datasets": [asdict(each) for each in report.datasets]}
    kept |= {"findings": [asdict(found) for found in report.findings], "notes": report.notes}
    write_finished(work, {"fingerprint": fingerprint, "files": files, "report": kept, "made_from": made})


def write_finished(work: str, said: Mapping[str, Any]) -> None:
    write_text(os.path.join(work, FINISHED), json.dumps(said, indent=1))


def reported_again(
    finished: Mapping[str, Any], opened: Opened, dest: str, options: ConvertOptions, started: float
) -> ConvertReport:
    said = dict(finished["report"])
    kept = said.pop("datasets")
    datasets = tuple(ConvertedDataset(**each | {"columns": tuple(each.get("columns", ()))}) for each in kept)
    files: dict[str, int] = finished.get("files") or {}
    gone = [each.path for each in datasets if not os.path.isdir(each.path)]
    gone += [path for name, size in files.items() if not _is_of_size(path := os.path.join(dest, name), size)]
    if gone:
        raise UsageError(
            "the destination was made, and a part of it is gone, or has changed",
            where=gone[0],
            hint="remove the destination, with its .wdsctl folder, and convert again",
        )
    findings = tuple(Finding(**found) for found in said.pop("findings"))
    return ConvertReport(
        **said | {"notes": tuple(said["notes"])},
        sources=tuple(replace(told, path=shown(told.path)) for told in opened.told),
        dest=shown(dest),
        written_files=0,
        kept_files=said["files"],
        datasets=datasets,
        findings=findings,
        up_to_date=True,
        dry_run=options.dry_run,
        seconds=time.monotonic() - started,
    )


def _is_of_size(path: str, size: int) -> bool:
    try:
        return os.path.getsize(path) == size
    except OSError:
        return False
