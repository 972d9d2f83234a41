"""Read, check and store the key rule of a dataset (`wdsctl.core.samples.naming`), and detect keys that look wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from wdsctl.core.dataset.config import read_config_text, update_key_until_line
from wdsctl.core.dataset.location import DatasetLocation, shell_command, shell_command_at
from wdsctl.core.errors import DatasetError, Finding, OptionConflict, UsageError
from wdsctl.core.files import write_text
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.evidence import percent
from wdsctl.core.samples.key_rules import MIN_DISSENTING_SHARE, KeyRuleChoice, SampleLayout, choose_key_rule
from wdsctl.core.samples.naming import FIRST_DOT, KNOWN_EXTENSION, KeyRuleName, parse_key_rule
from wdsctl.core.text import pluralize


def stored_rule(dataset: OpenDataset) -> KeyRuleName | None:
    """The key rule of the dataset, from dataset.yaml and the catalog; None if neither has one.

    Raises DatasetError WDS246 if the two differ, which means that dataset.yaml was edited since indexing; CatalogError.
    """
    return agreed_rule(dataset, dataset.catalog.key_until if dataset.has_catalog() else "")


def agreed_rule(dataset: OpenDataset, catalog_rule: str) -> KeyRuleName | None:
    """As `stored_rule`, for a caller that has read the rule of the catalog."""
    configured, recorded = parse_key_rule(dataset.config.key_until), parse_key_rule(catalog_rule)
    if configured and recorded and configured != recorded:
        raise DatasetError(
            f"dataset.yaml has `key_until: {configured}`, but the shards were written with {recorded}: a change "
            "would rename every sample",
            where=dataset.location.config_path,
            hint=f"restore `key_until: {recorded}`; for other keys, prepare the files into a new folder with "
            f"`--key-until {configured}`",
            code="WDS246",
        )
    return configured or recorded


def check_rule_unchanged(
    location: DatasetLocation, requested: KeyRuleName | None, stored: KeyRuleName | None, source: str | None
) -> None:
    """Raise UsageError WDS246 if the requested key rule differs from the stored one."""
    if requested is None or stored is None or requested == stored:
        return
    command = (
        shell_command("prepare", source, "NEW_DEST", "--key-until", requested)
        if source
        else _repack_command(location, requested)
    )
    raise UsageError(
        f"the keys of this dataset follow the rule {stored}: {requested} would rename every sample "
        "and invalidate splits, views and saved states",
        where=location.display_path,
        hint=f"omit --key-until; or create another dataset: {command}",
        code="WDS246",
    )


def check_tar_rule(location: DatasetLocation, requested: KeyRuleName | None, stored: KeyRuleName | None) -> None:
    """Raise UsageError if existing tars cannot be read with the requested key rule.

    WDS246: the dataset has another rule. WDS248: the dataset has no rule, and the requested one is not the first dot,
    by which all WebDataset readers end keys.
    """
    check_rule_unchanged(location, requested, stored, None)
    if requested is None or requested == (stored or FIRST_DOT):
        return
    raise OptionConflict(
        f"{requested} does not apply to tars: for all WebDataset readers, keys in tars end at the first dot",
        options=("--key-until",),
        where=location.display_path,
        hint=f"run {_repack_command(location, requested)} to write new shards, whose keys all readers split in the "
        "same way",
        code="WDS248",
    )


def write_rule(location: DatasetLocation, rule: KeyRuleName | None) -> bool:
    """Write the key rule to dataset.yaml, if the file exists. Returns whether the file changed."""
    if rule is None or not os.path.exists(location.config_path):
        return False
    text = read_config_text(location.config_path)
    updated = update_key_until_line(text, rule, location.config_path)
    if updated != text:
        write_text(location.config_path, updated)
    return updated != text


def layouts_of(offsets: Offsets) -> list[SampleLayout]:
    """The layouts of a dataset with their sample counts; empty if no part has a dot in its name.

    Cost: if parts have dots, a pass over the layout column.
    """
    if not any("." in name for name in offsets.extensions):
        return []
    if offsets.layout is None:
        return [SampleLayout(offsets.layouts[0], offsets.samples, offsets.key(0))] if offsets.samples else []
    numbers, first, counts = np.unique(offsets.layout, return_index=True, return_counts=True)
    return [
        SampleLayout(offsets.layouts[number], count, offsets.key(row) if any("." in part for part in parts) else "")
        for number, row, count in zip(numbers.tolist(), first.tolist(), counts.tolist(), strict=True)
        for parts in (offsets.layouts[number],)
    ]


def check_suspicious_keys(location: DatasetLocation, offsets: Offsets) -> None:
    """Raise DatasetError WDS245 if the names of tar members suggest that the key rule merges several samples."""
    doubt = _suspicious_rule(offsets)
    if doubt is not None and doubt.odd_share >= MIN_DISSENTING_SHARE:
        raise DatasetError(
            f"the keys look wrong: {doubt.reason}. Keys up to the first dot give "
            f"{pluralize(offsets.samples, 'sample')}; {_describe_alternative(doubt)}",
            where=location.display_path,
            hint=f"run {_repack_command(location, doubt.rule)} to write those samples; or, if the present keys are "
            f"right, {shell_command_at(location, 'prepare', '--key-until', FIRST_DOT)}",
            code="WDS245",
        )


def key_findings(location: DatasetLocation, offsets: Offsets) -> Iterator[Finding]:
    """As `check_suspicious_keys`, but yield a finding for `validate`: a warning if few files are concerned."""
    doubt = _suspicious_rule(offsets)
    if doubt is not None:
        yield Finding(
            code="WDS245",
            severity="error" if doubt.odd_share >= MIN_DISSENTING_SHARE else "warning",
            message=f"{doubt.reason} ({percent(doubt.odd_share)} of files may be affected); "
            f"{_describe_alternative(doubt)}: {_repack_command(location, doubt.rule)} writes those samples; if the "
            f"present keys are right, pass `--key-until {FIRST_DOT}`",
        )


def _suspicious_rule(offsets: Offsets) -> KeyRuleChoice | None:
    found = choose_key_rule(layouts_of(offsets))
    return found if found.odd_share > 0 else None


def _describe_alternative(key_rule: KeyRuleChoice) -> str:
    reasons = {each.rule: each.reason for each in key_rule.rejected} | {key_rule.rule: key_rule.outcome}
    return f"by {KNOWN_EXTENSION}, {reasons[KNOWN_EXTENSION]}"


def _repack_command(location: DatasetLocation, rule: KeyRuleName) -> str:
    other_rule = KNOWN_EXTENSION if rule == FIRST_DOT else rule
    return shell_command("convert", location.display_path, "DEST", "--from", "packed", "-O", f"key-until={other_rule}")
