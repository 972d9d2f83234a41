"""The text that says how the numbers of a column are made: `MODULE:FUNCTION`, or one of four that need no code.

size:PART             bytes of a part; nothing is read                              0 where a sample lacks the part
chars:PART            characters of a part that is UTF-8                            0 where a sample lacks the part
json:PART:FIELD.PATH  a number in a JSON part, or the length of a string or list    an error where it is not there
media:PART:NUMBER     a fact of a medium: width, duration_ms   0 where a sample lacks the part, or it has no such fact
MODULE:FUNCTION       what a function of Python says; FUNCTION may be dotted
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.json_text import read_json

Kind = Literal["size", "chars", "json", "media", "python"]
Sample = dict[str, Any]  # `__key__` -> str, part name -> bytes

HINT = "write size:PART, chars:PART, json:PART:FIELD.PATH, media:PART:NUMBER or MODULE:FUNCTION"

#: What `media:PART:NUMBER` may name: the expression on the columns of `v_media` that gives it, a whole number.
MEDIA_NUMBERS = {
    "width": "display_width",
    "height": "display_height",
    "pixels": "CAST(width * height AS INTEGER)",
    "aspect_milli": "CAST(display_width * 1000 / display_height AS INTEGER)",
    "duration_ms": "CAST(round(seconds * 1000) AS INTEGER)",
    "frames": "frames",
    "channels": "audio_channels",
    "rate": "audio_rate",
    "samples": "audio_samples",
}

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class Spec:
    """`first` is the part, or the module; `rest` the path within."""

    text: str
    kind: Kind
    first: str
    rest: tuple[str, ...] = ()

    @property
    def is_built_in(self) -> bool:
        return self.kind != "python"

    @property
    def reads(self) -> bool:
        """Whether the shards must be read."""
        return self.kind not in ("size", "media")


def parse_spec(text: str) -> Spec:
    """Raises UsageError WDS312."""
    word, _, rest = text.partition(":")
    if word in ("size", "chars") and rest:
        return Spec(text, "size" if word == "size" else "chars", rest)
    if word == "json" and rest:
        part, _, path = rest.partition(":")
        if part and path and all(path.split(".")):
            return Spec(text, "json", part, tuple(path.split(".")))
    elif word == "media" and ":" in rest:
        part, _, number = rest.rpartition(":")
        if part and number in MEDIA_NUMBERS:
            return Spec(text, "media", part, (number,))
        raise UsageError(
            f"{text!r} names no fact of media",
            hint=f"write media:PART:NUMBER, where NUMBER is one of {', '.join(MEDIA_NUMBERS)}",
            code="WDS312",
        )
    elif _DOTTED.fullmatch(word) and _DOTTED.fullmatch(rest):
        return Spec(text, "python", word, tuple(rest.split(".")))
    raise UsageError(f"{text!r} does not say how a column is made", hint=HINT, code="WDS312")


def check_part(spec: Spec, parts: Iterable[str]) -> None:
    """Raises UsageError WDS312 where a function that needs no code is to look at a part that no sample has."""
    known = list(parts)
    if spec.is_built_in and spec.first not in known:
        raise UsageError(
            f"no sample has a part {spec.first!r}",
            where=spec.text,
            hint=did_you_mean(spec.first, known) or f"the parts are {', '.join(known) or 'none'}",
            code="WDS312",
        )


@dataclass(frozen=True, slots=True)
class Chars:
    part: str

    def __call__(self, sample: Sample) -> int:
        return len(str(sample.get(self.part, b""), "utf-8"))


@dataclass(frozen=True, slots=True)
class InJson:
    part: str
    path: tuple[str, ...]

    def __call__(self, sample: Sample) -> int:
        """Raises ValueError, with the reason, where there is no such number, string or list."""
        if self.part not in sample:
            raise ValueError(f"the sample has no part {self.part!r}")
        value = read_json(sample[self.part])
        for i, step in enumerate(self.path):
            value = _stepped(value, step, ".".join(self.path[: i + 1]))
        if isinstance(value, str | list):
            return len(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f"{'.'.join(self.path)!r} is {_named(value)}, not a whole number, a string or a list")


def _stepped(value: Any, step: str, path: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    raise ValueError(f"there is no {path!r} in it")


def _named(value: Any) -> str:
    return "an object" if isinstance(value, dict) else json.dumps(value)
