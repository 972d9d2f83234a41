"""Lines that say what `prepare` recognised: the fields of a source, and the sample type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import escape_line, format_field_map, format_share
from wdsctl.core.samples.field_path import parse_field_path
from wdsctl.core.samples.types import CRUDE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.importers.protocol import FieldUse
    from wdsctl.core.prepare.examples import ExampleSample
    from wdsctl.core.samples.detect import Detection

#: Fields of a source shown, and names of those that are not in the batch.
FIELDS_SHOWN, NAMES_SHOWN = 30, 8
_MEDIA = ("image", "video", "audio")


def detected_type_text(detection: Detection, *, with_fields: bool = True) -> str:
    """The sample type that was recognised, with its fields and its confidence."""
    fields = f": {format_field_map(detection.field_map)}" if detection.field_map and with_fields else ""
    sure = f" (confidence {format_share(detection.confidence)})" if detection.confidence else ""
    return f"{detection.sample_type}{fields}{sure}"


def detection_rows(
    detection: Detection, *, label: str = "type", explain: bool = False
) -> list[tuple[str, RenderableType]]:
    """The sample type that was recognised, why, and why not the next best one; with `explain`, why no other."""
    rows: list[tuple[str, RenderableType]] = [(label, detected_type_text(detection, with_fields=label == "type"))]
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


def batch_rows(
    sample_type: str,
    field_map: Mapping[str, str],
    detection: Detection | None,
    fields: Sequence[FieldUse],
    *,
    is_decided: bool = True,
) -> list[tuple[str, RenderableType]]:
    """What goes into the batch, what does not, and how to change it. `fields`: of the source. `is_decided`: `prepare`
    needs no confirmation of the type.
    """
    from rich.text import Text  # commands that fail at once print without it

    mapped = [format_field_map(dict(field_map))] if field_map else []
    mapped += ["all other parts" if field_map else "all parts"] if sample_type == CRUDE else []
    line = escape_line(f"{sample_type}: {', '.join(mapped)}")
    shown = (
        Text(line, "bold green") if is_decided else Text(f"{line} (uncertain: prepare asks, or stops)", "bold yellow")
    )
    rows: list[tuple[str, RenderableType]] = [("type", shown)]
    names = _unread_names(sample_type, field_map, detection, fields)
    if names:
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        listed = ", ".join(map(escape_line, names[:NAMES_SHOWN]))
        rows.append(("", Text(f"not in the batch: {listed}{more} (stored; --field-map adds fields)", "yellow")))
    return rows


def _unread_names(
    sample_type: str, field_map: Mapping[str, str], detection: Detection | None, fields: Sequence[FieldUse]
) -> list[str]:
    """The parts, and keys of JSON parts, that samples have and no field reads. Crude samples give all of them."""
    if sample_type == CRUDE or not field_map:
        return []
    accesses = [access for path in field_map.values() for access in parse_field_path(path).alternatives]
    whole = {access.part for access in accesses if not access.steps}
    keys = {(access.part, str(access.steps[0])) for access in accesses if access.steps}
    takes_media = any(access.is_pattern for access in accesses)
    kinds, json_keys = ({}, {}) if detection is None else (detection.kinds, detection.json_keys)
    names = {(part, ""): part for part, kind in kinds.items() if not (takes_media and kind.startswith(_MEDIA))}
    for part, inner in json_keys.items():
        names.pop((part, ""), None)
        names.update({(part, key): f"{part}[{key}]" for key in inner})
    # A caption from the first of several texts is one caption; a text from the first of several objects loses the rest.
    partly = {
        (access.part, str(access.steps[0])): f"{access.part}[{access.steps[0]}] but its first {access.steps[-1]}"
        for access in accesses
        if len(access.steps) > 2 and access.steps[1] == 0
    }
    read_whole = {(access.part, str(access.steps[0])) for access in accesses if len(access.steps) == 1}
    partly = {key: name for key, name in partly.items() if key not in read_whole}
    keys -= partly.keys()
    names |= partly
    for field in fields:
        for holder in field.becomes.split(", "):
            part, _, key = holder.partition("[")
            if part and key and (part, "") not in names and (part, key.removesuffix("]")) not in partly:
                names[part, key.removesuffix("]")] = holder
    return [
        name for (part, key), name in names.items() if part not in whole and (part, key) not in keys and key != "..."
    ]


def example_rows(examples: Iterable[ExampleSample]) -> list[tuple[str, RenderableType]]:
    """The first samples as the loader would give them, a line each."""
    return [
        (escape_line(example.key), "; ".join(f"{name}: {value}" for name, value in example.fields))
        for example in examples
    ]


def field_lines(fields: Sequence[FieldUse]) -> list[str]:
    """What becomes of each field of a source."""
    lines = []
    for field in fields:
        note = f" ({escape_line(field.note)})" if field.note else ""
        lines.append(f"{escape_line(field.name)} -> {escape_line(field.becomes) or 'left out'}{note}")
    if len(lines) > FIELDS_SHOWN:
        return [*lines[:FIELDS_SHOWN], f"... and {len(lines) - FIELDS_SHOWN} more fields (--json has all)"]
    return lines
