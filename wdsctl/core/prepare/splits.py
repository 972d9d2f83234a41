"""The splits that `prepare` makes, what they leave out, and what they should not separate."""

from __future__ import annotations

import os
import re
from itertools import islice

from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.dataset.location import DatasetLocation, shell_command
from wdsctl.core.dataset.polylithic import REFERENCES_PART
from wdsctl.core.dataset.raw_folder import RawListing
from wdsctl.core.dataset.root_spec import ALL_SHARDS
from wdsctl.core.errors import Finding
from wdsctl.core.importers.splits.fields import split_field_findings
from wdsctl.core.importers.splits.folders import split_folder_findings
from wdsctl.core.importers.splits.shards import split_findings_in_place
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.samples.field_path import PartAccess
from wdsctl.core.shards.list import list_shards
from wdsctl.core.split.split import SplitReport
from wdsctl.core.split_rules.rule import SplitBy
from wdsctl.core.split_rules.shares import check_fills_splits


def split_by_of_written(request: PrepareRequest) -> SplitBy:
    """What to assign in shards that `prepare` writes: samples rather than whole shards, unless the user says otherwise.

    Its shards are in the order of the source, in which neighbours are alike: whole shards would put whole classes,
    sources or dates into one split.
    """
    return "sample" if request.split_by == "auto" and request.split is not None else request.split_by


def check_fills_requested_splits(request: PrepareRequest, by: SplitBy, *, shards: int, samples: int) -> None:
    """Raise UsageError WDS210 if a new dataset with so many shards or samples cannot have the requested splits."""
    if request.split is not None and by in ("shard", "sample"):
        check_fills_splits(request.split, by, shards if by == "shard" else samples)


def check_fills_splits_in_place(location: DatasetLocation, listing: RawListing | None, request: PrepareRequest) -> None:
    """Raise UsageError WDS210 if the shards of a dataset without a catalog are too few for whole shards as splits.

    `listing`: of the raw folder, whose shards are not planned yet; None for shards in place.
    """
    is_by_shard = request.split is not None and request.split_by == "shard"
    if listing is not None or not is_by_shard or os.path.exists(location.catalog_path):
        return
    exclude, selection = request.index.exclude or (), request.index.selection or ALL_SHARDS
    shards = list_shards(location.root, exclude, only=location.single_file, selection=selection).shards
    if shards:
        check_fills_requested_splits(request, "shard", shards=len(shards), samples=0)


def split_findings(
    dataset: OpenDataset,
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
        findings += split_findings_in_place(dataset, has_new_rule=has_new_rule, is_all_train=is_all_train)
    elif is_all_train:
        findings += split_folder_findings((sample.key for sample in listing.samples), dest)
    if is_all_train and request.uses_split_field:
        findings += split_field_findings(dataset)
    return findings


_ROW_KEY = re.compile(r".+-[0-9]{9}")  # of rows that name the same file
_ROW_GROUP = "key:^(.*?)(?:-[0-9]{9})?$"  # the file
_UNKNOWN_GROUP = "json:FIELD"
_MAX_LOOKED_AT = 100


def shared_file_findings(
    conversion: ConvertReport, split: SplitReport | None, root: str, request: PrepareRequest
) -> list[Finding]:
    """The warning WDS216 if `--split` puts samples of one file into several splits. Reads some keys of `root`.

    `conversion`: wrote the samples. No warning if the splits keep groups together.
    """
    shared = next((found for found in conversion.findings if found.code == "WDS250"), None)
    if shared is None or request.split is None or split is None:
        return []
    if len(split.splits) < 2 or split.by not in ("shard", "sample", "key"):
        return []
    with open_dataset(root) as dataset:
        group = _group_of_file(dataset.browser)
    ratios = ",".join(f"{name}={share:g}" for name, share in request.split.items())
    field = " with a field that is the same for all samples of a file" if group == _UNKNOWN_GROUP else ""
    command = shell_command("split", root, ratios, "--group-by", group, "--allow-split-changes")
    return [
        Finding(
            code="WDS216",
            severity="warning",
            message=f"{shared.count:,} files are in several samples, and the splits may separate samples of the same "
            f"file, so evaluation may be on files of the training. To keep them together, run {command}{field}",
            count=shared.count,
        )
    ]


def _group_of_file(browser: CatalogBrowser) -> str:
    """The value of `--group-by` that is the same for all samples of a file: by their keys, references or bytes."""
    if any(_ROW_KEY.fullmatch(each.key) for each in islice(browser.samples(), _MAX_LOOKED_AT)):
        return _ROW_GROUP
    parts = browser.part_names()
    if REFERENCES_PART in parts:
        return f"part:{REFERENCES_PART}"
    media = [str(PartAccess(part)) for part in parts if part.rpartition(".")[2].lower() in MEDIA_EXTENSIONS]
    return f"part:{','.join(media)}" if media else _UNKNOWN_GROUP
