"""Arguments and options that several commands share, and those that all have."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from wdsctl.cli.completion import offer
from wdsctl.cli.empty_paths import refuse_empty
from wdsctl.cli.output import Output
from wdsctl.core.config_file import passed_over

Root = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        help="The dataset: a folder with shards in it, at any depth, one .tar or .jsonl file, or a URL of any.",
    ),
]
#: Of commands that make the catalog, and so decide which shards it has.
Shards = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        help="The dataset: a folder with shards in it, at any depth, one .tar or .jsonl file, or a URL of any. "
        "Or some shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).",
    ),
]
Catalog = Annotated[
    str | None,
    typer.Option("--catalog", metavar="DIR", help="Keep the catalog in DIR instead of ROOT/.wdsctl."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Processes. [default: the usable CPUs, at most 16]"),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", metavar="PATTERN", help="Pass over shards whose path matches, such as 'val/*' (repeatable)."
    ),
]
By = Annotated[
    Literal["auto", "shard", "sample", "key"],
    typer.Option(
        "--by", metavar="auto|shard|sample|key", help="Split whole shards, single samples, or samples by their key."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Another seed, another split.")]
Missing = Annotated[
    Literal["error", "keep", "drop"],
    typer.Option(
        "--missing",
        metavar="error|keep|drop",
        help="What to do about shards, and raw samples, that vanished.",
    ),
]
Media = Annotated[
    str | None,
    typer.Option(
        "--media",
        metavar="[SELECTION]",
        help="Read what images, sounds and videos are, by header: jpg,mp4 or '*.seg.png' or content. [bare: all]",
    ),
]
MediaIndex = Annotated[
    bool,
    typer.Option("--media-index", help="Index videos for seeking, too: reads all of them, and decodes nothing."),
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="FIELD", help="Of JSONL: take keys from this field. [default: the lines' numbers]"),
]
KeyUntil = Annotated[
    Literal["first-dot", "last-dot", "known-extension"] | None,
    typer.Option(
        "--key-until",
        metavar="first-dot|last-dot|known-extension",
        help="Where keys end in names with several dots; kept. [default: as the names call for; of tars the first dot]",
        show_default=False,
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="[SECONDS]",
        min=0,
        help="Wait for another wdsctl that writes to the dataset. [bare: a week; default: do not wait]",
        show_default=False,
    ),
]
BreakLock = Annotated[
    bool,
    typer.Option("--break-lock", help="Take the lock from a holder that is gone; with --yes from one that runs here."),
]
SampleRows = Annotated[
    bool | None,
    typer.Option(
        "--sample-rows/--no-sample-rows",
        help="A row a sample in the catalog, or counts alone, for huge sets. "
        "[default: rows, of lines none; then as it is]",
        show_default=False,
    ),
]
Hash = Annotated[
    bool | None,
    typer.Option(
        "--hash/--no-hash",
        help="Read shards as a whole, for their SHA-256. [default: no; then as it is]",
        show_default=False,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would be done, and write nothing.")]

COMMON: dict[str, Any] = {
    "json": Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="No progress, notes or hints on stderr.")],
    "no_color": Annotated[bool, typer.Option("--no-color", help="No colours (as NO_COLOR).")],
    "no_input": Annotated[bool, typer.Option("--no-input", help="Never ask; fail where an answer is needed.")],
    "yes": Annotated[bool, typer.Option("--yes", "-y", help="Say yes to what would be asked to confirm.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (as WDSCTL_DEBUG=1).")],
    "config": Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Take options from FILE, not from your own file.")
    ],
    "allow_path": Annotated[
        list[str] | None,
        typer.Option(
            "--allow-path",
            metavar="DIR",
            help="Let links and paths in the data lead into DIR, too (repeatable; as WDSCTL_ALLOW_PATH).",
        ),
    ],
}
CONFIG, ALLOW_PATH = "--config", "--allow-path"
#: Those of them that have a value.
VALUED = frozenset({CONFIG, ALLOW_PATH})
#: Those of them that may also stand before the command.
SPELLINGS = frozenset({"--json", "--quiet", "-q", "--no-color", "--no-input", "--yes", "-y", "--debug", *VALUED})
#: What a configuration says that a dataset may have brought along is not followed.
PASSED_OVER = "wdsctl.toml here is not used: give `--config wdsctl.toml` if it is yours"
#: Commands that have commands.
GROUPS = frozenset({"catalog", "checkpoint", "config", "view"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options that every command has."""

    json: bool = False
    quiet: bool = False
    no_color: bool = False
    no_input: bool = False
    yes: bool = False
    debug: bool = False
    config: str | None = None
    allow_path: Sequence[str] | None = None

    @property
    def output(self) -> Output:
        return Output(json=self.json, quiet=self.quiet, no_color=self.no_color)


def with_common(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of COMMON; it gets them as its argument `common`.

    Typer reads a command's options from its signature, so the signature is what changes.
    """

    @functools.wraps(function)
    def command(**values: Any) -> int:
        common = Common(**{name: values.pop(name) for name in COMMON})
        if common.allow_path:  # before anything is opened, and for the processes that are started
            from wdsctl.core.beneath import allow_path

            allow_path(*common.allow_path)
        refuse_empty(own, values)
        is_breaking = values.pop("break_lock", False)
        if not common.json and passed_over(os.environ, common.config):
            common.output.say(PASSED_OVER)
        try:
            with _breaking(common) if is_breaking else nullcontext():
                return function(**values, common=common)
        except BrokenPipeError as error:
            # Output tells a closed stdout by PipeClosed. Any other broken pipe is between our own processes, and
            # Typer would take it for the first.
            raise RuntimeError("a pipe between processes of wdsctl broke") from error

    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "common"]
    offer(own)
    # What may wait for the holder of a lock may also go on without them.
    at = next((number for number, each in enumerate(own, start=1) if each.name == "wait"), 0)
    taken = [inspect.Parameter("break_lock", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=BreakLock)]
    asked = [*own[:at], *taken, *own[at:]] if at else own
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(Common(), name), annotation=annotation)
        for name, annotation in COMMON.items()
    ]
    command.__signature__ = inspect.Signature([*asked, *common], return_annotation=int)  # type: ignore[attr-defined]
    return command


def _breaking(common: Common) -> AbstractContextManager[None]:
    from wdsctl.core.lock import breaking

    return breaking(common.output.say, living=common.yes)


def common_first(words: list[str]) -> list[str]:
    """`--json inspect X` as `inspect --json X`: these options mean the same on both sides of the command."""
    before, command, after = _parted(words)
    if command in GROUPS:
        between, inner, rest = _parted(after)
        return [command, *([inner] if inner else []), *before, *between, *rest]
    return [command, *before, *after] if command else words


def command_of(words: list[str]) -> tuple[str, list[str]]:
    """The command that a line begins with, of one word or, in a group, of two, and the rest of the line."""
    size = 2 if words[:1] and words[0] in GROUPS else 1
    return " ".join(words[:size]), words[size:]


def _parted(words: list[str]) -> tuple[list[str], str, list[str]]:
    """Common options, the command after them (or nothing), and the rest."""
    leading = 0
    while leading < len(words) and words[leading].partition("=")[0] in SPELLINGS:
        leading += 2 if words[leading] in VALUED else 1
    if leading >= len(words) or words[leading].startswith("-"):
        return words[:leading], "", words[leading:]
    return words[:leading], words[leading], words[leading + 1 :]


def worker_count(asked: int | None) -> int:
    """As many processes as this process may use CPUs, 16 at most: more of them wait for the disk."""
    if asked is not None:
        return asked
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, 16))
