"""Writes man/wdsctl.1 from cli.md, the text of every `--help`. With `--check`, says whether it is stale."""  # noqa: INP001 - a script

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from wdsctl.core.version import VERSION

HERE = Path(__file__).resolve().parent
PAGE = HERE / "man" / "wdsctl.1"

_COMMAND = re.compile(r"^## (wdsctl[^\n]*)\n\n```text\n(.*?)```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def page() -> str:
    """The page in the macros of man(7): the commands in the order of cli.md, environment and exit codes."""
    cli = (HERE / "cli.md").read_text(encoding="utf-8")
    codes = (HERE / "codes.md").read_text(encoding="utf-8").split("\n## ")[1]
    (_, whole), *commands = _COMMAND.findall(cli)
    about = _joined(whole.split("\n\n")[1])
    lines = [
        '.\\" Written by docs/man_page.py from docs/cli.md. Run `make docs`.',
        f'.TH WDSCTL 1 "" "wdsctl {VERSION}" ""',
        ".SH NAME",
        f"wdsctl \\- {_text(about[:1].lower() + about[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        *_help(whole),
        ".SH COMMANDS",
    ]
    for name, help_text in commands:
        lines += [f".SS {_text(name)}", *_help(help_text)]
    lines += [".SH ENVIRONMENT", *_rows(cli), ".SH EXIT STATUS", *_rows(codes)]
    return "\n".join(lines) + "\n"


def _help(text: str) -> Iterator[str]:
    """The text of `--help`, with its lists of arguments, options and commands rewrapped and its examples unchanged."""
    is_after = False
    for block in text.rstrip().split("\n\n"):
        head, _, rest = block.partition("\n")
        if head.startswith("Usage: "):
            yield f".B {_text(_joined(block).removeprefix('Usage: '))}"
        elif not head.startswith(" "):
            is_after = True
            yield from (".PP", f".I {_text(head)}", *_entries(rest))
        elif is_after:
            yield from (".PP", ".nf", *map(_text, block.splitlines()), ".fi")
        else:
            yield from (".PP", _text(_joined(block)))


def _entries(text: str) -> Iterator[str]:
    """`  --name VALUE  What it is,` and indented lines that go on."""
    for entry in re.split(r"\n(?=  \S)", text):
        name, *words = re.split(r"\s{2,}", entry.strip(), maxsplit=1)
        yield from (".TP", f".B {_text(name)}", _text(_joined(" ".join(words))))


def _rows(markdown: str) -> Iterator[str]:
    """The rows of its first table of two columns."""
    for name, meaning in _ROW.findall(markdown)[1:]:
        if not name.startswith("---"):
            yield from (".TP", f".B {_text(_plain(name))}", _text(_plain(meaning)))


def _plain(markdown: str) -> str:
    return _LINK.sub(r"\1", markdown).replace("`", "")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _text(line: str) -> str:
    """Letters that mean something to roff, and those that are no ASCII, by their escapes (groff_char(7))."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    escaped = escaped.replace("^", "\\(ha").replace("~", "\\(ti").replace('"', "\\(dq")
    escaped = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def run(argv: list[str]) -> int:
    text = page()
    if argv != ["--check"]:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="ascii")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="ascii") == text:
        return 0
    sys.stdout.write("docs/man/wdsctl.1 is stale: run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
