"""Rows that name a part of an audio or video file, by columns such as `offset` and `duration`, or `start` and `end`.

The names of columns only propose. What decides are the lengths of the files that the first rows name: ranges within
the files are parts of them; ranges outside, as long as the files, are where files that are cut already come from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from wdsctl.core.errors import DatasetError, Finding, UsageError, WdsctlError
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.wav_cut import can_cut, wav_seconds
from wdsctl.core.importers.protocol import FieldUse, FilePart, Options
from wdsctl.core.samples.clips import (
    Clip,
    ClipUnit,
    check_clip,
    check_clip_within,
    clip_error,
    medium_length,
    tolerance,
)
from wdsctl.core.samples.types import CLIP_FIELD
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, short_repr

SegmentMode = Literal["range", "cut", "whole"]

#: Words in the names of columns that say what a number is, beside those that say nothing.
_ROLES = {
    **dict.fromkeys(("start", "begin", "from", "onset"), "start"),
    **dict.fromkeys(("end", "stop", "to"), "end"),
    **dict.fromkeys(("duration", "dur"), "duration"),
    "offset": "offset",
}
_PAIR_NAMES = frozenset({"timestamp", "timestamps", "segment", "span", "interval", "moment", "time_range"})
_FRAME_WORDS = frozenset({"frame", "frames", "fid"})
_MILLISECOND_WORDS = frozenset({"ms", "msec", "millis", "milliseconds"})
_EMPTY_WORDS = frozenset(
    {"time", "timestamp", "t", "s", "sec", "secs", "second", "seconds", "in"}
    | {"video", "audio", "clip", "segment", "speech", "utterance", "utt"}
)
_UNIT_WORDS = _FRAME_WORDS | _MILLISECOND_WORDS | {"sample", "samples", "us", "ns"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CLOCK = re.compile(r"\s*(?:(\d{1,9}):)?(\d{1,2}):(\d{1,2}(?:[.,]\d+)?)\s*")

#: A video that was cut begins and ends at keyframes: by how much its length may differ from the range.
_CUT_SHARE, _CUT_S, _MAX_CUT_SHARE = 0.1, 1.0, 0.25
_MAX_PROBED_FILES = 32  # whose lengths decide

_FRAME_COUNTS = {"0-exclusive": (0, False), "0-inclusive": (0, True), "1-inclusive": (1, True)}


class Segments(NamedTuple):
    """The columns that name parts of the file in the column `media`.

    `start`, `end`, `duration`: columns; empty if there is none. `pair`: a column with lists of two numbers in the place
    of these. `scale`: seconds of a unit. `first_frame`, `includes_end`: how frames are counted. `name`: the key of the
    clip in the part `json`. `cuts`: whether the samples get a file of their own.
    """

    media: str
    start: str = ""
    end: str = ""
    duration: str = ""
    pair: str = ""
    unit: ClipUnit = "seconds"
    scale: float = 1.0
    first_frame: int = 0
    includes_end: bool = False
    name: str = CLIP_FIELD.json_names[0]
    cuts: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.pair, self.start, self.end, self.duration)))

    def field_use(self) -> FieldUse:
        shown = join_with_and([path_for_message(each) for each in self.columns])
        if self.cuts:
            return FieldUse(f"({shown})", "the file", "the samples have only this part of it, cut without loss")
        return FieldUse(f"({shown})", f"json[{self.name}]", "the part of the file that the loader returns")


def row_clip(values: Mapping[str, Any], segments: Segments) -> Clip:
    """The part of its file that a row names. Raises DatasetError WDS175."""
    if segments.pair:
        pair = values.get(segments.pair)
        if pair is None:
            return Clip(0.0)
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise clip_error(f"{segments.pair} is {short_repr(pair)}, not a start and an end")
        start, end = (_number(segments.pair, each) for each in pair)
        length = None
    else:
        start, end, length = (
            _number(name, values.get(name)) if name else None
            for name in (segments.start, segments.end, segments.duration)
        )
    begin = 0.0 if start is None else start
    if segments.unit == "frames":
        begin -= segments.first_frame if start is not None else 0
        last = math.inf if end is None else end - segments.first_frame + segments.includes_end
        last = begin + length if end is None and length is not None else last
        return check_clip(Clip(_whole(begin), _whole(last), "frames"))
    last = end if end is not None else math.inf if length is None else begin + length
    # Sums of decimal numbers, such as 0.1 + 0.2, have no digits beyond nanoseconds.
    return check_clip(Clip(round(begin * segments.scale, 9), round(last * segments.scale, 9)))


def _whole(number: float) -> float:
    return int(number) if not math.isinf(number) and number == math.floor(number) else number


def _number(name: str, value: Any) -> float | None:
    """A number, or a text that spells one or a time such as 00:01:02.5; None for no value."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = _as_number(value)
    if number is None or math.isnan(number) or math.isinf(number):
        raise clip_error(f"{name} is {short_repr(value)}, not a time")
    return number


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value)):
        hours, minutes, seconds = clock.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds.replace(",", "."))
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def clip_in_file(clip: Clip, file: FilePart) -> Clip:
    """The clip, if its file is long enough. Raises DatasetError WDS175. Takes files whose length is unknown for long
    enough: the loader reports damaged ones. Does not look at files in a store, of which each costs a request.
    """
    if source_files.is_remote(file.path):
        return clip
    return check_clip_within(clip, _file_length(file.path, file.size, file.root, clip.unit))


@lru_cache(maxsize=1 << 16)
def _file_length(path: str, size: int, root: str, unit: ClipUnit) -> float | None:
    """The seconds or frames of a file by its header; None if it does not tell."""
    file = FilePart("", path, 0, size, root)
    if unit == "seconds" and (seconds := wav_seconds(file)) is not None:
        return seconds
    storage = file.open_storage()
    try:
        return medium_length(partial(storage.read, path), size, path, unit)
    except WdsctlError:
        return None  # reported when the file is read
    finally:
        storage.close()


# Recognition.


class NamedRow(NamedTuple):
    """A row with the audio and video files that it names. `media`: the column of each file."""

    values: Mapping[str, Any]
    files: Mapping[str, FilePart]


def may_name_parts(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows have columns whose names and values may be parts of files. Reads no file."""
    fields = _fields_of(rows)
    return _find_columns(fields, rows) is not None or bool(_find_lone_columns(fields, rows))


def find_segments(
    format_name: str, options: Options, rows: Sequence[NamedRow], table: str, templates: Sequence[str] = ()
) -> tuple[Segments | None, list[Finding]]:
    """(the columns that name parts of files, if rows do; findings). `rows`: the first ones. `table`: the path that the
    user names. `templates`: columns that the names of files are made of.

    Raises UsageError for an option that has no effect, DatasetError WDS265 if the rows do not tell.
    """
    mode = options.get("segments", "")
    if mode and mode not in get_args(SegmentMode):
        raise UsageError(
            f"{format_name}: invalid option segments={mode}", hint=f"pass one of {', '.join(get_args(SegmentMode))}"
        )
    values = [row.values for row in rows]
    fields = _fields_of(values)
    media = list(dict.fromkeys(name for row in rows for name in row.files))
    found = _find_columns(fields, values) if media else None
    if found is not None and not mode:
        _check_tables_agree(rows, table)
    if found is None or mode == "whole":
        if found is None and mode != "whole" and ("frames" in options or mode):
            option = "segments" if mode else "frames"
            raise UsageError(
                f"{format_name}: the option {option} has no effect: the rows name no part of an audio or video file",
                hint=f"omit `-O {option}={options[option]}`; the columns are {', '.join(fields)}",
            )
        lone = _find_lone_columns(fields, values) if found is None and not mode else ()
        return None, _lone_findings(lone, rows)
    found = found._replace(media=media[0], cuts=mode == "cut", name=_free_name(fields))
    pieces = list(_clips_of(rows, found))
    if not mode:
        what = _judge(pieces, is_named_by=bool(set(templates) & set(found.columns)))
        if what == "none":
            return None, []
        if what == "cut already":
            return None, [_cut_already_finding(found)]
        if what == "unclear" or len(media) > 1:
            raise _unclear_error(table, found, media)
    if found.cuts and not all(can_cut(file) for row in rows if (file := row.files.get(found.media)) is not None):
        raise DatasetError(
            "only WAV files with uncompressed samples can be cut without loss",
            hint="keep the files, of which the loader returns the parts: "
            + repeat_command(table, table, {"segments": "range"}),
            where=path_for_message(table),
            code="WDS265",
        )
    if found.unit == "frames":
        found = _count_frames(found, options, pieces, table)
    return found, [_finding(found)]


def _fields_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _free_name(fields: Sequence[str]) -> str:
    return next((name for name in CLIP_FIELD.json_names if name not in fields), CLIP_FIELD.json_names[-1])


def _find_columns(fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Segments | None:
    """The columns by their names, in which most of the values are times."""
    by_unit: dict[tuple[ClipUnit, float], dict[str, str]] = {}
    for name in fields:
        role, unit, scale = _role_of(name)
        values = [value for row in rows if (value := row.get(name)) not in (None, "")]
        numbers = [number for value in values if (number := _as_number(value)) is not None]
        if role and values and 2 * len(numbers) > len(values):
            by_unit.setdefault((unit, scale), {}).setdefault(role, name)
        if name.lower() in _PAIR_NAMES and values and 2 * sum(map(_is_pair, values)) > len(values):
            return Segments("", pair=name)
    order: list[tuple[ClipUnit, float]] = [("seconds", 1.0), ("seconds", 0.001), ("frames", 1.0)]
    for unit, scale in order:
        roles = by_unit.get((unit, scale), {})
        if "start" in roles and "offset" in roles and "end" not in roles:
            roles = {**roles, "end": roles["offset"]}  # of an event, from its onset to its offset
        start = roles.get("start") or roles.get("offset", "")
        end, duration = roles.get("end", ""), roles.get("duration", "")
        if start and (end or duration):
            return Segments("", start, end, "" if end else duration, unit=unit, scale=scale)
    return None


def _find_lone_columns(fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Columns with starts of parts, without ends or in another unit."""
    found = []
    for name in fields:
        words = [word.lower() for word in _WORD.findall(name)]
        roles = {_ROLES[word] for word in words if word in _ROLES}
        rest = {word for word in words if word not in _ROLES} - _EMPTY_WORDS
        numbers = [number for row in rows if (number := _as_number(row.get(name))) is not None]
        if roles & {"start", "offset"} and rest <= _UNIT_WORDS and 2 * len(numbers) > len(rows) and any(numbers):
            found.append(name)
    return tuple(found)


def _lone_findings(columns: Sequence[str], rows: Sequence[NamedRow]) -> list[Finding]:
    """A warning if rows share files that they may name parts of."""
    paths = [file.path for row in rows for file in row.files.values()]
    if not columns or len(set(paths)) == len(paths):
        return []
    shown = join_with_and([path_for_message(each) for each in columns])
    return [
        Finding(
            code="WDS265",
            severity="warning",
            message=f"several rows name the same file, and {shown} may say which part of it a row has, but each row "
            "has its whole file: parts need a start with an end or a duration, in seconds, ms or frames",
        )
    ]


def _check_tables_agree(rows: Sequence[NamedRow], table: str) -> None:
    """Raise DatasetError WDS265 if tables name parts by different columns."""
    by_fields: dict[frozenset[str], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_fields.setdefault(frozenset(row.values), []).append(row.values)
    found = {_find_columns(list(values[0]), values) for values in by_fields.values()} - {None}
    if len(found) > 1:
        shown = [join_with_and(list(each.columns)) for each in found if each is not None]
        raise DatasetError(
            f"rows name parts of files by different columns: {', or '.join(sorted(shown))}",
            hint="give the columns the same names in all tables, or take whole files: "
            + repeat_command(table, table, {"segments": "whole"}),
            where=path_for_message(table),
            code="WDS265",
        )


def _role_of(name: str) -> tuple[str, ClipUnit, float]:
    words = [word.lower() for word in _WORD.findall(name)]
    words = [part for word in words for part in (_split_joined(word))]
    roles = [_ROLES[word] for word in words if word in _ROLES]
    rest = {word for word in words if word not in _ROLES} - _EMPTY_WORDS
    if len(roles) != 1 or not rest <= _FRAME_WORDS | _MILLISECOND_WORDS:
        return "", "seconds", 1.0
    if rest & _FRAME_WORDS:
        return roles[0], "frames", 1.0
    return roles[0], "seconds", 0.001 if rest else 1.0


def _split_joined(word: str) -> list[str]:
    """`starttime` as two words."""
    for role in _ROLES:
        if word.startswith(role) and word[len(role) :] in _EMPTY_WORDS | _FRAME_WORDS:
            return [role, word[len(role) :]]
    return [word]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and None not in map(_as_number, value)


class _Piece(NamedTuple):
    """A row's clip; None if its numbers are none. `length`: of its file; None if unknown."""

    clip: Clip | None
    path: str
    length: float | None


def _clips_of(rows: Sequence[NamedRow], segments: Segments) -> Iterator[_Piece]:
    probed: set[str] = set()
    for row in rows:
        file = row.files.get(segments.media)
        if file is None:
            continue
        try:
            clip = row_clip(row.values, segments)
        except DatasetError:
            clip = None
        probed.add(file.path)
        is_probed = len(probed) <= _MAX_PROBED_FILES
        length = _file_length(file.path, file.size, file.root, segments.unit) if is_probed else None
        yield _Piece(clip, file.path, length)


def _judge(pieces: Sequence[_Piece], *, is_named_by: bool) -> Literal["parts", "none", "cut already", "unclear"]:
    clips = [each for each in pieces if each.clip is not None]
    if not clips:
        return "none"
    known = [(each.clip, each.length) for each in clips if each.clip is not None and each.length is not None]
    inside = [each for each in known if each[0].start < each[1] and _ends_within(*each)]
    outside = [each for each in known if each not in inside]
    cut = [each for each in outside if _is_as_long(*each)]
    ranges = {(each.path, each.clip) for each in clips}
    is_shared = len(ranges) > len({each.path for each in clips})
    if is_shared and (not known or 2 * len(inside) >= len(known)):
        return "parts"
    if is_shared:
        return "unclear"
    if is_named_by or (cut and len(cut) >= len(outside) - len(cut) and all(_is_as_long(*each) for each in inside)):
        return "cut already"
    if known and 2 * len(inside) >= len(known):
        return "parts"
    is_whole = all(each.clip is not None and each.clip.start == 0 for each in clips)
    return "none" if is_whole else "unclear"


def _ends_within(clip: Clip, length: float) -> bool:
    return math.isinf(clip.end) or clip.end <= length + tolerance(clip)


def _is_as_long(clip: Clip, length: float) -> bool:
    return abs(clip.end - clip.start - length) <= min(max(_CUT_S, _CUT_SHARE * length), _MAX_CUT_SHARE * length)


def _count_frames(segments: Segments, options: Options, pieces: Sequence[_Piece], table: str) -> Segments:
    """The columns, with how they count frames, by the option `frames` or by what the first rows have."""
    stated = options.get("frames", "")
    if stated:
        if stated not in _FRAME_COUNTS:
            raise UsageError(f"invalid option frames={stated}", hint=f"pass one of {', '.join(_FRAME_COUNTS)}")
        first, includes = _FRAME_COUNTS[stated]
        return segments._replace(first_frame=first, includes_end=includes)
    clips = sorted((each.path, each.clip.start, each.clip.end, each.length) for each in pieces if each.clip is not None)
    steps = {after[1] - before[2] for before, after in pairwise(clips) if before[0] == after[0]}
    ends = {end - length for _, _, end, length in clips if length is not None}
    has_zero = any(start == 0 for _, start, _, _ in clips)
    if has_zero and max(ends, default=1) <= 0 and (0 in steps or 0 in ends) and 1 not in steps:
        return segments
    if has_zero and max(ends, default=0) < 0 and (1 in steps or -1 in ends) and 0 not in steps:
        return segments._replace(includes_end=True)
    commands = [repeat_command(table, table, {"frames": each}) for each in _FRAME_COUNTS]
    shown = join_with_and(list(segments.columns))
    raise DatasetError(
        f"the rows do not tell whether {shown} count from 0 or 1, and whether the last frame is in the part",
        hint=f"say how they count: {', or '.join(commands)}",
        where=path_for_message(table),
        code="WDS265",
    )


def _finding(segments: Segments) -> Finding:
    shown = join_with_and([path_for_message(each) for each in segments.columns])
    unit = ""
    if segments.unit == "frames":
        end = "and end_frame is in it" if segments.includes_end else "and the end is not in it"
        unit = f"; frames count from {segments.first_frame}, {end}"
    what = "cut out of it" if segments.cuts else "which the loader returns"
    return Finding(
        code="WDS265",
        severity="note",
        message=f"each row has the part of its file that {shown} name, {what}{unit}; for whole files, pass "
        "`-O segments=whole`",
    )


def _cut_already_finding(segments: Segments) -> Finding:
    shown = join_with_and([path_for_message(each) for each in segments.columns])
    return Finding(
        code="WDS265",
        severity="note",
        message=f"the files are cut already: {shown} say where they come from, and each row has its whole file; if "
        "they name parts of these files, pass `-O segments=range`",
    )


def _unclear_error(table: str, segments: Segments, media: Sequence[str]) -> DatasetError:
    shown = join_with_and([path_for_message(each) for each in segments.columns])
    several = f", and there are several files a row: {join_with_and(list(media))}" if len(media) > 1 else ""
    why = several or ", but most of these ranges are not within the files"
    commands = [repeat_command(table, table, {"segments": "whole"})]
    if not several:
        commands.append(repeat_command(table, table, {"segments": "range"}))
    return DatasetError(
        f"{shown} may name parts of the files{why}",
        hint=f"for whole files: {commands[0]}" + (f"; for the parts that exist: {commands[1]}" if commands[1:] else ""),
        where=path_for_message(table),
        code="WDS265",
    )
