"""The pages of the documentation, and the code blocks in them.

A block may be preceded by a comment: `<!-- not run: REASON -->`, or `<!-- file: NAME -->` for one that is saved as a
file and run by a command further down.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]

PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    if path.is_file()
)

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|file): (?P<note>.+?) -->\n)?^```(?P<language>\S*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """`line`: of its fence, from 1. `mark`: `not run`, `file` or nothing; `note`: the reason, or the file's name."""

    page: Path
    line: int
    language: str
    text: str
    mark: str
    note: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start("text")),
            language=match["language"],
            text=match["text"],
            mark=match["mark"] or "",
            note=match["note"] or "",
        )
        for match in _BLOCK.finditer(text)
    ]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a shell block."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def load_script(name: str) -> ModuleType:
    """The module `docs/NAME.py`, which is a script."""
    spec = spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
