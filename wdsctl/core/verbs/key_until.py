"""The rule by which keys end (`wdsctl.core.naming`), as a dataset keeps it, and doubts whether its keys are right."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from wdsctl.core.catalog.fact_names import KEY_UNTIL
from wdsctl.core.catalog.quick_facts import facts
from wdsctl.core.command_line import command, command_at
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import load, read, update_key_until
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.evidence import percent
from wdsctl.core.files import write_text
from wdsctl.core.findings import Finding
from wdsctl.core.key_rules import ENOUGH, KeyRule, Layout, choose_rule
from wdsctl.core.naming import FIRST_DOT, KNOWN_EXTENSION, KeyUntil, as_rule
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place


def kept_rule(place: Place) -> KeyUntil | None:
    """The rule of the dataset; None where nothing was ever decided. Raises DatasetError WDS246 where dataset.yaml was
    edited since the samples were made, CatalogError.
    """
    return agreed_rule(place, facts(place.catalog).get(KEY_UNTIL, "") if os.path.exists(place.catalog) else "")


def agreed_rule(place: Place, of_catalog: str) -> KeyUntil | None:
    """The same, where it is known what the catalog says."""
    told = as_rule(load(place.dataset_yaml).key_until) if os.path.exists(place.dataset_yaml) else None
    made = as_rule(of_catalog)
    if told and made and told != made:
        raise DatasetError(
            f"dataset.yaml says `key_until: {told}`, and the samples were made by {made}: another rule would rename "
            "every sample",
            where=place.dataset_yaml,
            hint=f"write `key_until: {made}` again; to have other keys, prepare the files into a new folder with "
            f"`--key-until {told}`",
            code="WDS246",
        )
    return told or made


def check_unchanged(place: Place, asked: KeyUntil | None, kept: KeyUntil | None, source: str | None) -> None:
    """Raises UsageError WDS246 where another rule is asked for than the one that the dataset keeps."""
    if asked is None or kept is None or asked == kept:
        return
    again = command("prepare", source, "NEW_DEST", "--key-until", asked) if source else _repacked(place, asked)
    raise UsageError(
        f"the keys of this dataset end by the rule {kept}: {asked} would rename every sample, and splits, views and "
        "saved states would be of none",
        where=place.shown,
        hint=f"leave --key-until out; or make another dataset: {again}",
        code="WDS246",
    )


def check_of_tars(place: Place, asked: KeyUntil | None, kept: KeyUntil | None) -> None:
    """Raises UsageError where tars that are there are to be read by another rule than every reader of WebDataset has.

    WDS246 for one that differs from the rule kept, WDS248 for any other but the first dot.
    """
    check_unchanged(place, asked, kept, None)
    if asked is None or asked == (kept or FIRST_DOT):
        return
    raise UsageError(
        f"tars are read up to the first dot, here as by every other reader of WebDataset, and not by {asked}",
        where=place.shown,
        hint=f"{_repacked(place, asked)} writes the samples into new shards, with keys that all readers split alike",
        code="WDS248",
    )


def note_rule(place: Place, rule: KeyUntil | None) -> bool:
    """Have dataset.yaml say the rule, unless it does; whether it is another file now."""
    if rule is None or not os.path.exists(place.dataset_yaml):
        return False
    text = read(place.dataset_yaml)
    updated = update_key_until(text, rule, place.dataset_yaml)
    if updated != text:
        write_text(place.dataset_yaml, updated)
    return updated != text


def layouts_of(offsets: Offsets) -> list[Layout]:
    """What the samples of a dataset consist of. Cost: where parts have dots, a pass over the column of layouts."""
    if not any("." in name for name in offsets.extensions):
        return []
    if offsets.layout is None:
        return [Layout(offsets.layouts[0], offsets.samples, offsets.key(0))] if offsets.samples else []
    numbers, first, counts = np.unique(offsets.layout, return_index=True, return_counts=True)
    return [
        Layout(offsets.layouts[number], count, offsets.key(row) if any("." in part for part in parts) else "")
        for number, row, count in zip(numbers.tolist(), first.tolist(), counts.tolist(), strict=True)
        for parts in (offsets.layouts[number],)
    ]


def check_keys(place: Place, offsets: Offsets) -> None:
    """Raises DatasetError WDS245 where the names of tars' members look as if several samples had become one."""
    doubt = _doubt(offsets)
    if doubt is not None and doubt.odd_share >= ENOUGH:
        raise DatasetError(
            f"the keys look wrong: {doubt.reason}. Read up to the first dot, {counted(offsets.samples, 'sample')} "
            f"come out; {_others(doubt)}",
            where=place.shown,
            hint=f"{_repacked(place, doubt.rule)} makes the others of it; if the samples are meant as they are: "
            f"{command_at(place, 'prepare', '--key-until', FIRST_DOT)}",
            code="WDS245",
        )


def key_findings(place: Place, offsets: Offsets) -> Iterator[Finding]:
    """The same for `validate`: an error, or a warning where it is of a few files only."""
    doubt = _doubt(offsets)
    if doubt is not None:
        yield Finding(
            code="WDS245",
            severity="error" if doubt.odd_share >= ENOUGH else "warning",
            message=f"{doubt.reason}, as {percent(doubt.odd_share)} of files may be; {_others(doubt)}; "
            f"{_repacked(place, doubt.rule)} makes them, `--key-until {FIRST_DOT}` says that all is as it is meant",
        )


def _doubt(offsets: Offsets) -> KeyRule | None:
    found = choose_rule(layouts_of(offsets))
    return found if found.odd_share > 0 else None


def _others(doubt: KeyRule) -> str:
    made = {each.rule: each.reason for each in doubt.rejected} | {doubt.rule: doubt.made}
    return f"by {KNOWN_EXTENSION}, {made[KNOWN_EXTENSION]}"


def _repacked(place: Place, rule: KeyUntil) -> str:
    wanted = KNOWN_EXTENSION if rule == FIRST_DOT else rule
    return command("convert", place.shown, "DEST", "--from", "packed", "-O", f"key-until={wanted}")
