"""Records the terminal for README: `python docs/recording.py` runs the commands and writes docs/images/terminal.svg.

`--check` runs them again, and fails if they print anything else, apart from numbers.
"""  # noqa: INP001 - a script

from __future__ import annotations

import html
import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

REPOSITORY = Path(__file__).resolve().parent.parent
RECORDING = REPOSITORY / "docs" / "images" / "terminal.svg"
COMMANDS = (
    "wdsctl prepare raw shards --split 8,1,1 --shard-samples 50",
    "wdsctl get shards animal/0002 txt",
    "wdsctl validate shards",
)
COLUMNS = 80

#: Rich's own format without its web fonts: nothing is fetched to show the picture.
SVG_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> int:
    if "--check" not in sys.argv[1:]:
        RECORDING.parent.mkdir(exist_ok=True)
        RECORDING.write_text(draw(list(run_commands())))
        return 0
    recorded, printed = shown_lines(RECORDING.read_text()), shown_lines(draw(list(run_commands())))
    for before, now in zip(recorded, printed, strict=False):
        if before != now:
            print(f"recorded: {before}\nprinted:  {now}")  # noqa: T201
    return int(recorded != printed)


def run_commands() -> Iterator[Text]:
    """The lines of a terminal in which the commands are typed, in a folder that has raw files."""
    with tempfile.TemporaryDirectory() as folder:
        raw = [sys.executable, str(REPOSITORY / "examples" / "make_raw_folder.py"), "raw"]
        subprocess.run(raw, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - this repository's script
        for command in COMMANDS:
            yield Text.assemble(("$ ", "bold green"), (command, "bold"))
            yield from (Text.from_ansi(line) for line in run_at_terminal(command, folder))
            yield Text()


def run_at_terminal(command: str, folder: str) -> list[str]:
    """What the command writes to a terminal of 80 columns, without the progress that it removes again."""
    words = [sys.executable, "-m", *shlex.split(command), "--no-input"]
    here, there = pty.openpty()
    environment = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONPATH": str(REPOSITORY)}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(  # noqa: S603 - the commands above
        words, stdout=there, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder, env=environment
    ) as process:
        os.close(there)
        data = bytearray()
        while chunk := _read(here):
            data += chunk
    os.close(here)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return data.decode().replace("\r", "").rstrip("\n").split("\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says EIO when the command has ended
        return b""


def draw(lines: list[Text]) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines[:-1]:
        console.print(line, soft_wrap=True)
    return console.export_svg(title="wdsctl", code_format=SVG_FORMAT, unique_id="wdsctl")


def shown_lines(svg: str) -> list[str]:
    """The texts of a recording by line, numbers masked: sizes depend on Pillow's version, times on the machine."""
    rows: dict[float, list[str]] = {}
    for y, text in re.findall(r'<text [^>]*?y="([0-9.]+)"[^>]*>(.*?)</text>', svg):
        rows.setdefault(float(y), []).append(html.unescape(text).replace("\xa0", " "))
    return [re.sub(r"[0-9.,]+", "#", re.sub(" +", " ", "".join(rows[y]))).strip() for y in sorted(rows)]


if __name__ == "__main__":
    sys.exit(main())
