"""Names, texts and words of libraries come from data: no terminal obeys them, and no line of theirs stands alone."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import tarfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from rich.console import Console
from typer.main import get_command

from tests.cli.conftest import Stream, Wdsctl, wdsctl
from wdsctl.cli.app import build_full_app
from wdsctl.cli.commands.get import PlainTextFilter
from wdsctl.cli.progress import BarProgress, LineProgress, PhaseProgress
from wdsctl.cli.prompts import TerminalPrompter
from wdsctl.core.dataset.lock import LockHolder
from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.loader.runtime.logs import logger

__all__ = ["wdsctl"]

RAW = "\x1b\x07\x08\x9b\u202e\u2066\u061c\u200b\r"
#: ESC sequences that set a title and clear the screen, BEL, C1, bidi, zero width, CR, backspace, a line of its own.
CANARY = "\x1b]0;x\x07\x1b[2J\u202e\u2066\x9b\u061c\u200b\r\b\nFORGED[red]m[link=evil]l"
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_DUMPED = re.compile(r"(?m)^ +[0-9a-f]+0  .*$")  # bytes in hex


def assert_harmless(text: str) -> None:
    text = _COLOR.sub("", text)
    assert not set(text) & set(RAW), ascii(text)
    assert not [line for line in text.splitlines() if line.strip(" ->:").startswith("FORGED")], ascii(text)
    whole = "".join(unquote(_DUMPED.sub("", text)).split())  # a table may break it
    assert whole.count("evil") == whole.count("[red]m[link=evil]l"), text


def a_hostile_tar(path: Path, shard: int) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for i in range(3):
            for part, data in (
                ("txt", CANARY.encode()),
                ("json", json.dumps({CANARY: CANARY, "caption": CANARY}).encode()),
                (f"p{CANARY}", b"x"),
                ("jpg", b"\xff\xd8 no picture " + CANARY.encode()),
                ("mp4", b"\0\0\0\x18ftyp" + CANARY.encode()),
            ):
                member = tarfile.TarInfo(f"{shard}k{i}{CANARY}.{part}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose every name is hostile, in a folder whose name is, with a damaged shard, a lock and a ledger."""
    from wdsctl.core.index.index import index
    from wdsctl.core.split.split import split_by_ratios

    folder = tmp_path_factory.mktemp("world") / f"d{CANARY}"
    folder.mkdir()
    for shard in range(3):
        a_hostile_tar(folder / f"s{shard}{CANARY}.tar", shard)
    (folder / f"broken{CANARY}.tar").write_bytes(b"no tar" + CANARY.encode() * 100)
    with suppress(WdsctlError):
        index(str(folder))
    with suppress(WdsctlError):
        split_by_ratios(str(folder), (("a", 1.0), ("b", 1.0)))  # type: ignore[arg-type]
    return folder


#: What is asked of every command; ROOT is the dataset, DEST a folder that is not there, KEY and SHARD names in it.
ASKED: dict[str, list[tuple[str, ...]]] = {
    "prepare": [("ROOT", "--no-input"), ("ROOT", "DEST", "--no-input")],
    "index": [("ROOT",), ("ROOT", "--rebuild"), ("ROOT", "--column", f"{CANARY}=x"), ("ROOT", "--media", "all")],
    "split": [("ROOT",), ("ROOT", "1,1"), ("ROOT", f"a{CANARY}=1,b=1"), ("ROOT", "--leaks")],
    "convert": [("ROOT", "DEST", "--no-input"), ("ROOT", "DEST", "--to", "parquet"), ("ROOT", "ROOT")],
    "inspect": [
        ("ROOT",),
        ("ROOT", "--samples", "3"),
        ("ROOT", "--stats"),
        ("ROOT", "--key", "KEY"),
        ("ROOT", "--split", CANARY),
        ("BLEND",),
        ("BLEND", "--samples", "3"),
    ],
    "get": [("ROOT", "KEY"), ("ROOT", "KEY", "-p", "jpg"), ("ROOT", CANARY), ("ROOT", "KEY", "-p", CANARY)],
    "ls": [
        ("ROOT",),
        ("ROOT", "-l"),
        ("ROOT", "--samples"),
        ("ROOT", "--samples", "-l"),
        ("ROOT", "--parts"),
        ("ROOT", "--parts", "-l"),
        ("ROOT", CANARY),
    ],
    "validate": [
        ("ROOT",),
        ("ROOT", "--level", "all"),
        ("ROOT", "--format", "sarif"),
        ("ROOT", "--format", "junit"),
        ("ROOT", "--format", "json"),
        ("BLEND",),
    ],
    "repair": [("ROOT", "DEST", "--dry-run"), ("ROOT", "DEST2")],
    "sql": [
        ("ROOT", "SELECT * FROM shards"),
        ("ROOT", "SELECT * FROM samples", "--csv"),
        ("ROOT", "SELECT * FROM samples", "--tsv"),
        ("ROOT", "SELECT * FROM samples", "--table"),
        ("ROOT", f"SELECT '{CANARY}' AS \"{CANARY}\"", "--csv"),
        ("ROOT", f"SELECT '{CANARY}' AS \"{CANARY}\"", "--table"),
        ("ROOT", f"SELECT nothing{CANARY}"),
    ],
    "diff": [("ROOT", "OTHER"), ("ROOT", "ROOT"), ("ROOT", "OTHER", "--content")],
    "log": [("ROOT",), ("ROOT", "-n", "1")],
    "checksum": [("ROOT",)],
    "trace": [("ROOT",), ("BLEND",)],
    "migrate": [("ROOT",), ("ROOT", "--diff"), ("SCRIPT",), ("SCRIPT", "--diff")],
    "export": [("ROOT", "DEST", "--to", target) for target in ("energon", "wids", "hub", "croissant")],
    "skill": [(), ("--install", "DEST")],
    "explain": [(CANARY,)],
    "doctor": [("ROOT",)],
    "init": [("ROOT", "DEST")],
    "catalog info": [("ROOT",)],
    "catalog check": [("ROOT",)],
    "catalog vacuum": [("ROOT",)],
    "view create": [("ROOT", f"v{CANARY}", "--where", "position = 0"), ("ROOT", "v", "--where", f"key = {CANARY}")],
    "view list": [("ROOT",)],
    "view show": [("ROOT", "v1"), ("ROOT", CANARY)],
    "view diff": [("ROOT", "v1", "v1")],
    "view export": [("ROOT", "v1"), ("ROOT", "v1", "--format", "jsonl")],
    "view refresh": [("ROOT",)],
    "view delete": [("ROOT", CANARY)],
    "job plan": [("job", "--", "index", "ROOT", "--hash")],
    "job run": [("job", "--task", "0")],
    "job status": [("job",)],
    "job merge": [("job",)],
    "job template": [("job",)],
    "config show": [(), ("--config", "CONFIG")],
    "checkpoint info": [("ROOT",), ("STATE",)],
    "checkpoint diff": [("STATE", "STATE")],
    "checkpoint redistribute": [("STATE", "DEST", "--ranks", "2")],
}


def commands(group: object, name: str = "") -> Iterator[str]:
    for each, command in getattr(group, "commands", {}).items():
        inner = list(commands(command, f"{name} {each}".strip()))
        yield from inner or [f"{name} {each}".strip()]


def test_every_command_is_asked() -> None:
    assert set(commands(get_command(build_full_app()))) == set(ASKED)


@pytest.fixture
def words(world: Path, tmp_path: Path, wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """What stands for a word of ASKED."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "9999")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    other, blend = tmp_path / f"o{CANARY}", tmp_path / f"b{CANARY}.yaml"
    other.mkdir()
    a_hostile_tar(other / f"s9{CANARY}.tar", 9)
    wdsctl("index", other, "--quiet")
    wdsctl("view", "create", world, "v1", "--where", "position < 2", "--quiet")
    blend.write_text(json.dumps({"splits": {"train": {"blend": [{"path": CANARY, CANARY: CANARY}]}}, CANARY: CANARY}))
    state = tmp_path / f"state{CANARY}.json"
    state.write_text(json.dumps({"version": CANARY, CANARY: CANARY}))
    config = tmp_path / f"c{CANARY}.toml"
    config.write_text(f"{json.dumps(CANARY)} = 1\n[ls]\n{json.dumps(CANARY)} = 2\n".replace("\\u", "\\u"))
    script = tmp_path / f"p{CANARY}.py"
    script.write_text(f"from megatron.energon import BlendDataset, get_loader  # {CANARY}\nBlendDataset({CANARY!r})\n")
    standing = {
        "ROOT": world,
        "SCRIPT": script,
        "OTHER": other,
        "BLEND": blend,
        "STATE": state,
        "CONFIG": config,
        "DEST": tmp_path / f"dest{CANARY}",
        "DEST2": tmp_path / f"dest2{CANARY}",
        "KEY": f"0k0{CANARY}",
    }
    return lambda word: str(standing.get(word, word))


@pytest.mark.parametrize("command", ASKED)
def test_no_command_writes_what_a_terminal_obeys(
    wdsctl: Wdsctl, words: Callable[[str], str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked, agent in product(ASKED[command], "01"):
        monkeypatch.setenv("WDSCTL_AGENT", agent)
        given = [*command.split(), *map(words, asked)]
        people = (((), True), (("--debug",), False), (("--json",), False), (("--quiet",), False))
        for extra, is_terminal in (((), False), *(() if agent == "1" else people)):
            result = wdsctl(*given, *extra, stdout=Stream(is_terminal=is_terminal))
            told = f"{result.stdout}\n{result.stderr}"
            assert "wdsctl has a bug" not in told, told
            if command == "get" and not is_terminal and result.code == 0 and "--json" not in extra:
                told = result.stderr  # the bytes of a part, for a program
            if "--csv" in asked:
                told = told.replace("\nFORGED", "")  # in quotes, as RFC 4180 has it
            if command == "view export" and "jsonl" not in asked:
                told = told.replace("\nFORGED", "")
            assert_harmless(told)


@pytest.mark.parametrize("words", [("ls", "ROOT", "--samples"), ("inspect", "ROOT"), ("validate", "ROOT")])
def test_in_colour_nothing_but_colours_is_sent(
    wdsctl: Wdsctl, words: tuple[str, ...], world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "9999")
    given = [str(world) if word == "ROOT" else word for word in words]
    assert_harmless(wdsctl(*given, stdout=Stream(is_terminal=True), stderr=Stream(is_terminal=True)).stdout)


def test_names_behind_a_nul_are_as_they_are_for_a_program_and_harmless_on_a_terminal(
    wdsctl: Wdsctl, world: Path
) -> None:
    assert f"0k0{CANARY}\0" in wdsctl("ls", world, "--samples", "-0").stdout
    assert_harmless(wdsctl("ls", world, "--samples", "-0", stdout=Stream(is_terminal=True)).stdout)


def test_a_shell_reads_names_of_ls_back(wdsctl: Wdsctl, world: Path) -> None:
    names = wdsctl("ls", world, "--samples").stdout.splitlines()
    printed = subprocess.run(
        ["bash", "-c", "printf '%s\\0' " + " ".join(names)], capture_output=True, check=True, timeout=60
    )
    whole = wdsctl("ls", world, "--samples", "-0").stdout
    assert printed.stdout.decode() == whole


def test_json_says_what_the_data_says(wdsctl: Wdsctl, world: Path) -> None:
    entries = wdsctl("ls", world, "--samples", "--json").document["entries"]
    assert entries[0]["key"] == f"0k0{CANARY}"


def test_an_error_is_harmless_wherever_it_is_shown() -> None:
    error = InputError(f"a {CANARY}", where=f"b{CANARY}", hint=f"c{CANARY}")
    assert_harmless("".join(traceback.format_exception(error)))
    assert_harmless(repr(error))
    assert_harmless(str(error))
    assert len(str(error).splitlines()) == 3


def test_the_holder_of_a_lock_is_named_harmlessly(wdsctl: Wdsctl, world: Path) -> None:
    lock = world / ".wdsctl" / "lock"
    lock.write_text(json.dumps(asdict(LockHolder(CANARY, 7, "1", 0.0, "far", CANARY))))
    try:
        result = wdsctl("index", world)
        assert result.code == 6
        assert_harmless(result.stderr)
        assert_harmless(wdsctl("index", world, "--break-lock").stderr)
    finally:
        lock.unlink(missing_ok=True)


def test_what_libraries_warn_of_is_harmless(wdsctl: Wdsctl, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warning(*_: object, **__: object) -> object:
        warnings.simplefilter("always")
        warnings.warn(CANARY, stacklevel=1)
        raise InputError("x", hint="y")

    monkeypatch.setattr("wdsctl.core.inspect.ls.open_listing", warning)
    result = wdsctl("ls", world)
    assert "FORGED" in result.stderr
    assert_harmless(result.stderr)


def test_the_loaders_log_is_harmless_with_its_tracebacks() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        try:
            raise ValueError(CANARY.replace("\n", ""))
        except ValueError as error:
            logger.warning("left out %s: %s", CANARY.replace("\n", ""), error, exc_info=True)
    finally:
        logger.removeHandler(handler)
    assert "Traceback" in stream.getvalue()
    assert_harmless(stream.getvalue())


def test_a_question_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", asked)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    TerminalPrompter().text(f"use {CANARY.replace(chr(10), '')}", CANARY)
    assert_harmless(asked.getvalue())


def test_progress_is_harmless() -> None:
    said: list[str] = []
    clock = iter(range(0, 10_000, 100))
    with LineProgress(said.append, clock=lambda: float(next(clock)), check_every_s=1e9) as lines:
        lines.phase("scan", items=3)
        lines.advance(items=1, doing=CANARY)
        lines.print_if_due()
        lines.note(CANARY)
    assert_harmless("\n".join(said))
    stream = io.StringIO()
    bars = BarProgress(Console(file=stream, width=9999))
    bars.current = PhaseProgress("scan", 0.0, doing=CANARY)
    bars.note(CANARY)
    bars.console.print(bars.render())
    assert_harmless(stream.getvalue())


@pytest.mark.parametrize("text", ["plain\n", "caf\u00e9 \u65e5\u672c\u3000\u8a9e", "\u200dx", "a\r\nb\r\n"])
def test_text_that_no_terminal_minds_is_shown(text: str) -> None:
    assert PlainTextFilter().accepts(text.encode())


@pytest.mark.parametrize("text", ["safe\rFORGED", "\x1b[2J", "a\u202eb", "a\u2066b", "\u009b2J", "\x08", "\x07"])
def test_text_that_a_terminal_would_obey_is_not_shown(text: str) -> None:
    assert not PlainTextFilter().accepts(text.encode())


def test_a_return_at_the_end_of_a_piece_is_seen_with_the_next() -> None:
    plain = PlainTextFilter()
    assert plain.accepts(b"safe\r")
    assert not plain.accepts(b"FORGED")
