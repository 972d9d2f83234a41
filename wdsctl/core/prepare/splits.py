"""The splits that `prepare` makes if the user names none, and what they leave out."""

from __future__ import annotations

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.raw_folder import RawListing
from wdsctl.core.dataset.split_rules import SplitBy, SplitRule
from wdsctl.core.errors import Finding
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import joined_configuration_findings, split_rule_from_names
from wdsctl.core.prepare.split_fields import split_field_findings, split_rule_from_values
from wdsctl.core.prepare.split_folders import split_folder_findings
from wdsctl.core.split.split import SplitReport


def default_split_rule(location: DatasetLocation, request: PrepareRequest) -> SplitRule | None:
    """The splits that names, or else a field of the samples, tell; None if they tell none."""
    by_names = split_rule_from_names(location)
    if not request.uses_split_field or (by_names is not None and len(by_names.names) > 1):
        return by_names
    return split_rule_from_values(location) or by_names


def split_by_of_written(request: PrepareRequest) -> SplitBy:
    """What to assign in shards that `prepare` writes: samples rather than whole shards, unless the user says otherwise.

    Its shards are in the order of the source, in which neighbours are alike: whole shards would put whole classes,
    sources or dates into one split.
    """
    return "sample" if request.split_by == "auto" and request.split is not None else request.split_by


def split_findings(
    location: DatasetLocation,
    split: SplitReport,
    listing: RawListing | None,
    dest: str,
    request: PrepareRequest,
    *,
    is_divided: bool,
) -> list[Finding]:
    """What the splits leave out, or join, though names or fields say otherwise."""
    findings = [*split.findings]
    if is_divided and split.by == "pattern":
        findings += joined_configuration_findings(location)
    if request.split is None and [each.name for each in split.splits] == ["train"]:
        if listing is not None:
            findings += split_folder_findings((sample.key for sample in listing.samples), dest)
        if request.uses_split_field:
            findings += split_field_findings(location)
    return findings
