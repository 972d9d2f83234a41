"""What a command that did not fail ends with: 0, or a code that says how much of it came out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wdsctl.core.findings import at_least

if TYPE_CHECKING:
    from wdsctl.core.verbs.convert_report import ConvertReport
    from wdsctl.core.verbs.index import IndexReport
    from wdsctl.core.verbs.inspect import InspectReport
    from wdsctl.core.verbs.inspect_media_folder import MediaFolderInspectReport
    from wdsctl.core.verbs.media_folder import MediaFolderReport

NO_SAMPLES = 3
PARTLY = 5


def of_index(report: IndexReport) -> int:
    """A dry run that would read shards does not know their samples yet."""
    is_known = not report.dry_run or report.added + report.changed == 0
    if is_known and not report.samples:
        return NO_SAMPLES
    return PARTLY if at_least(report.findings, "error") else 0


def of_media_folder(report: MediaFolderReport | MediaFolderInspectReport) -> int:
    """Media that are unreadable are facts like others; files that could not be read, or are new, are not."""
    findings = report.findings if hasattr(report, "findings") else report.stale
    return PARTLY if at_least(findings, "error") else 0


def of_inspect(report: InspectReport) -> int:
    if not report.samples:
        return NO_SAMPLES
    is_whole = report.statuses.keys() <= {"ok", "missing"}  # kept as missing: as asked for
    return 0 if is_whole and not at_least(report.stale, "error") else PARTLY


def of_convert(report: ConvertReport) -> int:
    """Samples that are not what was asked for, or shards that could not be read."""
    return PARTLY if report.failed or report.kept or at_least(report.findings, "error") else 0
