"""What `-O NAME=VALUE` gives an importer or an exporter."""

from __future__ import annotations

from wdsctl.core.convert.source import Options
from wdsctl.core.errors import UsageError
from wdsctl.core.fields import did_you_mean


def checked(form: str, options: Options, known: tuple[str, ...]) -> Options:
    """The options, if the form has all of them. Raises UsageError for one that it has not."""
    for name in options:
        if name not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{form} has no option {name!r}", hint=f"{did_you_mean(name, known)} {has}".strip())
    return options


def names(options: Options, option: str) -> tuple[str, ...]:
    """The value of an option that is a list with commas."""
    return tuple(word.strip() for word in options.get(option, "").split(",") if word.strip())


def one_of(form: str, options: Options, option: str, words: tuple[str, ...]) -> str:
    """The value of an option that is one of a few words, the first where it is not given. Raises UsageError."""
    value = options.get(option, words[0])
    if value not in words:
        raise UsageError(
            f"{form} does not know {option}={value}",
            hint=f"{did_you_mean(value, words)} {option} is one of {', '.join(words)}".strip(),
        )
    return value


def whole_number(form: str, options: Options, option: str, default: int) -> int:
    """The value of an option that is a number from 1 on. Raises UsageError."""
    text = options.get(option, str(default))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{form}: {option}={text} is no whole number above 0", hint=f"such as {option}={default}")
    return int(text)
