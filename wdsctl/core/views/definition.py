"""The definition of a view, stored in the ledger so that the view can be made again."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, dataclass
from fractions import Fraction

from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import read_json

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")
_EMPTY_HINT = "pass --where, --sql, --keys, --split or --sample; the view has the samples that match all of them"

STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewDefinition:
    """The conditions that samples must all meet. An empty condition is met by all samples. `sample` is drawn last."""

    where: str = ""
    sql: str = ""
    keys: str = ""  # absolute path of a file, or `-`
    split: str = ""
    sample: str = ""  # 1% or 1000
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError if there is no condition, or `sample` is no share."""
        if not (self.where or self.sql or self.keys or self.split or self.sample):
            raise UsageError("no option selects the samples of the view", hint=_EMPTY_HINT)
        if self.sample:
            parse_sample(self.sample)

    def as_text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value}, ensure_ascii=False)

    def as_options(self) -> str:
        """The definition as options of the command: `--where 'width >= 512' --sample 1%`."""
        return " ".join(f"--{name} {_shell_quoted(str(value))}" for name, value in asdict(self).items() if value)


def _shell_quoted(text: str) -> str:
    """Quote a text for a shell; in double quotes if it contains single quotes, as most expressions do."""
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def parse_definition(text: str) -> ViewDefinition:
    """Parse the result of `as_text`. Raises ValueError or TypeError."""
    definition = ViewDefinition(**read_json(text))
    if {type(value) for name, value in asdict(definition).items() if name != "seed"} != {str}:
        raise TypeError
    return definition


def parse_sample(text: str) -> Fraction | int:
    """`1%` or `0.5 %` as a share, `1000` as a number of samples."""
    match = _PERCENT.fullmatch(text.strip())
    if match is not None and 0 < (share := Fraction(match[1]) / 100) <= 1:
        return share
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(
        f"--sample {text}: expected a percentage or a count",
        hint="write a percentage such as 0.5%, or a number of samples such as 1000",
    )
