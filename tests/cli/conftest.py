"""Fixtures that run the command line: arguments in, exit code and two streams out."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests import children
from tests.cli.json_schema import check
from tests.kept import keep_parameters
from wdsctl.cli.main import main
from wdsctl.cli.output import render_text

if TYPE_CHECKING:
    from rich.console import RenderableType

keep_parameters()

Show = Callable[["Iterable[RenderableType]"], list[str]]


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """stdout as one JSON document, checked against its schema in docs/schemas."""
        document = json.loads(self.stdout)
        check(document)
        return document


class Stream(io.StringIO):
    """A stream that may pretend to be a terminal."""

    def __init__(self, text: str = "", *, is_terminal: bool = False) -> None:
        super().__init__(text)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


class Wdsctl(Protocol):
    def __call__(self, *argv: object, stdout: Stream | None = None, stderr: Stream | None = None) -> Result: ...


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "WDSCTL_NO_COLOR", "WDSCTL_DEBUG", "WDSCTL_CATALOG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands without `--workers` run their units in the process of the test. Workers take 0.3 s to start."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)


@pytest.fixture
def wdsctl(monkeypatch: pytest.MonkeyPatch) -> Wdsctl:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)  # as `one_processor`

    def call(*argv: object, stdout: Stream | None = None, stderr: Stream | None = None) -> Result:
        out, err = stdout or Stream(), stderr or Stream()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(word) for word in argv])
        return Result(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def run_in_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m wdsctl ARGV` in a separate interpreter."""

    def call(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return children.run(
            [sys.executable, "-m", "wdsctl", *argv], capture_output=True, text=True, timeout=60, check=False, **options
        )

    return call


def leaf_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The commands of a Typer group and its subgroups, as pairs of name (such as `view list`) and command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaf_commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def a_tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Ten shards of three samples, a txt and a json each."""
    for shard in range(10):
        a_tar(
            tmp_path / "shards" / f"train-{shard:06}.tar",
            {
                f"{shard}/{i:04}.{part}": data
                for i in range(3)
                for part, data in (("txt", b"a cat"), ("json", b'{"caption": "a cat"}'))
            },
        )
    return tmp_path / "shards"


@pytest.fixture
def truncated(shards: Path) -> Path:
    """The shards, one of them cut in the middle of a member."""
    path = shards / "train-000004.tar"
    path.write_bytes(path.read_bytes()[: 512 * 9 + 3])
    return shards


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A raw folder of twelve samples, in two folders."""
    for i in range(12):
        folder = tmp_path / "photos" / ("a" if i % 2 else "b")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:04}.txt").write_bytes(b"a cat")
        (folder / f"{i:04}.json").write_bytes(b'{"caption": "a cat"}')
    return tmp_path / "photos"


@pytest.fixture
def render_piped() -> Show:
    """The lines that are written to a file."""
    return lambda pieces: render_text(pieces, Stream(), is_colored=False).splitlines()


@pytest.fixture
def render_on_terminal() -> Show:
    """The lines that are written to a terminal of 80 columns."""
    return lambda pieces: render_text(pieces, Stream(is_terminal=True), is_colored=False).splitlines()
