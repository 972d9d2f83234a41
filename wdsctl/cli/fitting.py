"""Which configured options count in a run: those that go with what is typed. A default contradicts nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeVar

Setting = TypeVar("Setting")

#: Options of a command that do not go together: of these one that is typed takes the place of one that is configured.
RIVALS: Mapping[str, tuple[frozenset[str], ...]] = {
    "convert": (frozenset({"sort", "shuffle"}),),
    "inspect": (frozenset({"samples", "random", "key"}), frozenset({"stats", "samples"}), frozenset({"stats", "key"})),
    "ls": (frozenset({"shards", "samples", "parts"}),),
    "split": (frozenset({"by", "group-by"}), frozenset({"by", "stratify"})),
    "sql": (frozenset({"table", "csv", "tsv", "json"}),),
    "validate": (frozenset({"format", "json"}), frozenset({"quarantine", "release"})),
}
#: What stands for a second argument among the options: the RATIOS of `split`.
SECOND = "second argument"
_SHARES = frozenset({SECOND, "folds"})
#: Options that say more of another one, and nothing without it.
NEEDS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "convert": {"seed": frozenset({"shuffle"})},
    "inspect": {
        "seed": frozenset({"random", "stats"}),
        "shard": frozenset({"key"}),
        "split": frozenset({"samples", "random", "stats"}),
    },
    "split": {
        **dict.fromkeys(("by", "seed", "group-by", "stratify"), _SHARES),
        "rest": frozenset({"pattern", "keys", "from", "group-by"}),
    },
}


def fitting(
    command: str, settings: Mapping[str, Setting], words: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Setting]:
    """The settings that go with a command line. `options`: those of the command, by their long names."""
    typed = set(_typed(command, words, options))
    rivals, needs = RIVALS.get(command, ()), NEEDS.get(command, {})
    made = {
        option: setting
        for option, setting in settings.items()
        if not any(option in group and typed & (group - {option}) for group in rivals)
    }
    idle = {option for option in made if option in needs and not needs[option] & (typed | made.keys())}
    # What needs one that is idle itself is idle, too: `rest` is of `group-by`, which is of shares.
    idle |= {option for option in made if option in needs and not needs[option] & (typed | (made.keys() - idle))}
    return {option: setting for option, setting in made.items() if option not in idle}


def _typed(command: str, words: Sequence[str], options: Mapping[str, Any]) -> Iterator[str]:
    """The long names of options that are typed, and SECOND where there is a second argument."""
    valued = {name for each in options.values() if not each.is_flag for name in each.opts} | {"--catalog"}
    arguments, is_value = 0, False
    for word in takewhile(lambda each: each != "--", words[len(command.split()) :]):
        if is_value:
            is_value = False
        elif word.startswith("-") and len(word) > 1:
            is_value = word in valued
            yield word.partition("=")[0].lstrip("-")
        else:
            arguments += 1
            if arguments == 2:
                yield SECOND
