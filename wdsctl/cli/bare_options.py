"""Options whose value may be left out. Typer knows no such thing, so the value is put in before it reads the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Option -> its value where it stands bare.
BARE: Mapping[str, str] = {"--leaks": "auto", "--media": "auto", "--wait": "604800"}

#: Commands in which one of them is another option, which has no value of its own.
ELSEWHERE = frozenset({("convert", "--media")})

#: Those whose value is a number: any other word is not it.
NUMBERS = frozenset({"--wait"})


def filled(words: Sequence[str]) -> list[str]:
    """The words, with a value after every option of BARE that has none.

    The next word is its value unless it is an option or can only be a path: `--media shards/` names the dataset.
    """
    made: list[str] = []
    for i, word in enumerate(words):
        made.append(word)
        if word == "--":
            return [*made, *words[i + 1 :]]
        if (
            word in BARE
            and (words[0], word) not in ELSEWHERE
            and (i + 1 == len(words) or _is_no_value(words[i + 1], word))
        ):
            made.append(BARE[word])
    return made


def _is_no_value(word: str, option: str) -> bool:
    if option in NUMBERS and not word.replace(".", "", 1).isdecimal():
        return True
    return word.startswith("-") or "/" in word or word in (".", "..", "")
