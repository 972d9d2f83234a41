"""The splits that `prepare` makes if the user names none, and what they leave out."""

from __future__ import annotations

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.raw_folder import RawListing
from wdsctl.core.dataset.split_rules import SplitBy
from wdsctl.core.errors import Finding
from wdsctl.core.importers.folders.split_folders import split_folder_findings
from wdsctl.core.importers.records.shard_splits import split_findings_in_place
from wdsctl.core.importers.records.split_fields import split_field_findings
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.split.split import SplitReport


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
    is_all_train = request.split is None and [each.name for each in split.splits] == ["train"]
    if listing is None:
        has_new_rule = is_divided and split.by == "pattern"
        findings += split_findings_in_place(location, has_new_rule=has_new_rule, is_all_train=is_all_train)
    elif is_all_train:
        findings += split_folder_findings((sample.key for sample in listing.samples), dest)
    if is_all_train and request.uses_split_field:
        findings += split_field_findings(location)
    return findings
