"""Lines that say what `prepare` recognised: the fields of a source, and the sample type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import escape_line, format_field_map, format_share
from wdsctl.core.samples.field_path import parse_field_path

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.importers.protocol import FieldUse
    from wdsctl.core.samples.detect import Detection

#: Fields of a source shown.
FIELDS_SHOWN = 30


def detected_type_text(detection: Detection) -> str:
    """The sample type that was recognised, with its fields and its confidence."""
    fields = f": {format_field_map(detection.field_map)}" if detection.field_map else ""
    sure = f" (confidence {format_share(detection.confidence)})" if detection.confidence else ""
    return f"{detection.sample_type}{fields}{sure}"


def detection_rows(detection: Detection, *, explain: bool = False) -> list[tuple[str, RenderableType]]:
    """The sample type that was recognised, why, and why not the next best one; with `explain`, why no other."""
    rows: list[tuple[str, RenderableType]] = [("type", detected_type_text(detection))]
    rows += [("", reason) for reason in detection.reasons]
    shown = detection.rejected[: None if explain else 1]
    rows += [("", f"not {rejected.sample_type}: {rejected.reason}") for rejected in shown]
    if len(shown) < len(detection.rejected):
        more = len(detection.rejected) - len(shown)
        what = "1 more type does" if more == 1 else f"{more} more types do"
        rows.append(("", f"{what} not fit (--explain gives the reasons)"))
    return rows


def preview_rows(accepted: Detection, detection: Detection) -> list[tuple[str, RenderableType]]:
    """A line with what the whole dataset has more than the samples whose type the user accepted; none if the same."""
    if (accepted.sample_type, accepted.field_map) == (detection.sample_type, detection.field_map):
        return []
    fields = f": {format_field_map(accepted.field_map)}" if accepted.field_map else ""
    return [("", f"the preview of some samples was {accepted.sample_type}{fields}; the whole dataset decides")]


def unused_rows(detection: Detection, fields: Sequence[FieldUse]) -> list[tuple[str, RenderableType]]:
    """A line with the fields of a source that are stored, and that no field of the sample type reads."""
    if not detection.field_map or _takes_whole_json(detection.field_map.values()):
        return []
    used = format_field_map(detection.field_map)
    names = [
        escape_line(field.name) for field in fields if field.becomes.startswith("json[") and field.becomes not in used
    ]
    more = f" and {len(names) - FIELDS_SHOWN} more" if len(names) > FIELDS_SHOWN else ""
    return (
        [("", f"stored, not read by {detection.sample_type}: {', '.join(names[:FIELDS_SHOWN])}{more}")] if names else []
    )


def _takes_whole_json(paths: Iterable[str]) -> bool:
    """Whether a field takes the whole part `json`, such as the object of a conversation."""
    accesses = (access for path in paths for access in parse_field_path(path).alternatives)
    return any(access.part == "json" and not access.steps for access in accesses)


def field_lines(fields: Sequence[FieldUse]) -> list[str]:
    """What becomes of each field of a source."""
    lines = []
    for field in fields:
        note = f" ({escape_line(field.note)})" if field.note else ""
        lines.append(f"{escape_line(field.name)} -> {escape_line(field.becomes) or 'left out'}{note}")
    if len(lines) > FIELDS_SHOWN:
        return [*lines[:FIELDS_SHOWN], f"... and {len(lines) - FIELDS_SHOWN} more fields (--json has all)"]
    return lines
