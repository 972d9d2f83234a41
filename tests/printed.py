"""Follow the commands that an error prints, and account for what they do with the data."""

from __future__ import annotations

import re
import shlex
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

#: Runs a command line without `wdsctl`, and returns its exit code and everything that it prints.
Run = Callable[[Sequence[str]], tuple[int, str]]

_WORD = re.compile(r"[\w.-]{4,}")
#: A word in capitals, for the user to fill in.
PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z_]{3,}(?![A-Za-z])|^\.\.\.$")
_MAX_STEPS = 6


class End(NamedTuple):
    """Where a chain of printed commands ends. `commands`: those that were run, the first one included."""

    commands: tuple[str, ...]
    code: int
    output: str


def printed_commands(output: str, words: Sequence[str]) -> list[list[str]]:
    """The command lines that the help of an error prints: whole ones, and options with a value to add to `words`.

    Words in capitals, such as FOLDER, are for the user to fill in, and no command.
    """
    _, found, hint = output.rpartition("help: ")
    lines = []
    for text in re.findall("`([^`]+)`", hint) if found else ():
        each = shlex.split(text)
        if any(PLACEHOLDER.search(word) and word != "DEST" for word in each) or "--help" in each:
            continue
        if each[0] == "wdsctl":
            lines.append(each[1:])
        elif each[0].startswith("-") and len(each) > 1:
            lines.append([*words, *each] if "-O" in each or each[0] not in words else _replace(words, *each))
    return lines


def _replace(words: Sequence[str], flag: str, value: str) -> list[str]:
    at = list(words).index(flag)
    return [*words[:at], flag, value, *words[at + 2 :]]


def follow(run: Run, words: Sequence[str], dest: Path, before: tuple[str, ...] = ()) -> Iterator[End]:
    """Run a command line, and each command that its error prints, until commands end without an error.

    Each of several commands begins with `dest` as the error has left it. Raises AssertionError if the chain does not
    end, or returns to a command of it.
    """
    code, output = run(words)
    commands = (*before, shlex.join(words))
    nexts = printed_commands(output, words) if code in {2, 3, 6} else []
    if not nexts:
        yield End(commands, code, output)
        return
    assert len(commands) < _MAX_STEPS, commands
    kept = dest.with_name(f"{dest.name}-{len(commands)}")
    if dest.exists():
        dest.rename(kept)
    for each in nexts:
        line = [str(dest) if word == "DEST" else word for word in each]
        assert shlex.join(line) not in commands, f"the command leads back to itself: {commands}"
        shutil.rmtree(dest, ignore_errors=True)
        if kept.exists():
            shutil.copytree(kept, dest, symlinks=True)
        yield from follow(run, line, dest, commands)
    shutil.rmtree(kept, ignore_errors=True)


def _is_catalog(path: Path) -> bool:
    return any(name.startswith(".wdsctl") for name in path.parts)


def unaccounted(source: Path, dest: Path, output: str) -> dict[str, list[str]]:
    """The file -> what is neither in the shards nor named: the words of a text, or `bytes` of another file.

    A file is named if its own name is in the output or in the list of what was left out, or its sample's key in that
    list, or if the output has the number and one name of the missing files of its folder with its ending. Nothing of
    samples that are not written is missing: they stay in the source.
    """
    if not dest.exists():
        return {}
    parts: list[bytes] = []
    for shard in sorted(dest.rglob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                file = tar.extractfile(member)
                parts += [member.name.encode(), file.read() if file is not None else b""]
    parts += [path.read_bytes() for path in sorted(dest.rglob("*.jsonl"))]
    lists = [path.read_text("utf-8") for path in dest.rglob("left-out.tsv")]
    keys = {line.split("\t")[1] for text in lists for line in text.splitlines() if "\t" in line}
    named = "\n".join([output, *lists])
    content, whole = b"\n".join(parts).decode("utf-8", "surrogateescape"), set(parts)
    lost: dict[Path, list[str]] = {}
    for path in sorted(each for each in source.rglob("*") if each.is_file() and not _is_catalog(each)):
        data = path.read_bytes()
        if data in whole or str(path.relative_to(source)).partition(".")[0] in keys:
            continue
        try:
            words = dict.fromkeys(_WORD.findall(data.decode()))
        except UnicodeDecodeError:
            lost[path] = ["bytes"]
            continue
        if missing := [word for word in words if word not in content and word not in named]:
            lost[path] = missing
    alike = Counter((path.parent, path.suffix) for path in lost)
    named_groups = {
        (path.parent, path.suffix)
        for path in lost
        if path.name in named and re.search(rf"\b{alike[path.parent, path.suffix]}\b", output)
    }
    return {
        str(path.relative_to(source)): each
        for path, each in lost.items()
        if path.name not in named and (path.parent, path.suffix) not in named_groups
    }
