"""Names and texts from data and libraries are printed without control characters and forge no lines."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import shlex
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

from tests import sources
from tests.build import a_shard
from tests.cli.conftest import Stream, Wdsctl, wdsctl
from wdsctl.cli.app import build_full_app
from wdsctl.cli.commands.get import PlainTextFilter
from wdsctl.cli.progress import BarProgress, LineProgress, PhaseProgress
from wdsctl.cli.prompts import TerminalPrompter
from wdsctl.core.dataset.lock import LockHolder
from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.core.validate.ref_stores import open_ref_store
from wdsctl.loader.runtime.logs import logger

__all__ = ["wdsctl"]

RAW = "\x1b\x07\x08\x9b\u202e\u2066\u061c\u200b\r"
#: ESC sequences that set a title and clear the screen, BEL, C1, bidi, zero width, CR, backspace, a forged line.
CANARY = "\x1b]0;x\x07\x1b[2J\u202e\u2066\x9b\u061c\u200b\r\b\nFORGED[red]m[link=evil]l"
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_HEX_DUMP = re.compile(r"(?m)^ +[0-9a-f]+0  .*$")  # bytes in hex


def assert_harmless(text: str) -> None:
    text = _COLOR.sub("", text)
    assert not set(text) & set(RAW), ascii(text)
    assert not [line for line in text.splitlines() if line.strip(" ->:").startswith("FORGED")], ascii(text)
    whole = "".join(unquote(_HEX_DUMP.sub("", text)).split())  # a table may wrap it
    assert whole.count("evil") == whole.count("[red]m[link=evil]l"), text


def write_hostile_tar(path: Path, shard: int) -> None:
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
def hostile_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset in which every name is hostile, that of its folder too, with a damaged shard and a ledger."""
    from tests.build import split_by_ratios
    from wdsctl.core.index.index import index

    folder = tmp_path_factory.mktemp("world") / f"d{CANARY}"
    folder.mkdir()
    for shard in range(3):
        write_hostile_tar(folder / f"s{shard}{CANARY}.tar", shard)
    (folder / f"broken{CANARY}.tar").write_bytes(b"no tar" + CANARY.encode() * 100)
    with suppress(WdsctlError):
        index(str(folder))
    with suppress(WdsctlError):
        split_by_ratios(str(folder), (("a", 1.0), ("b", 1.0)))  # type: ignore[arg-type]
    assert (folder / ".wdsctl" / "ledger.sqlite").exists()
    return folder


#: The arguments for every command; ROOT is the dataset, DEST a new folder, KEY a key of the dataset.
COMMANDS: dict[str, list[tuple[str, ...]]] = {
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


def iter_commands(group: object, name: str = "") -> Iterator[str]:
    for each, command in getattr(group, "commands", {}).items():
        inner = list(iter_commands(command, f"{name} {each}".strip()))
        yield from inner or [f"{name} {each}".strip()]


def test_every_command_is_covered() -> None:
    assert set(iter_commands(get_command(build_full_app()))) == set(COMMANDS)


@pytest.fixture
def words(
    hostile_dataset: Path, tmp_path: Path, wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Return a function that replaces the placeholders of COMMANDS."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "9999")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    other, blend = tmp_path / f"o{CANARY}", tmp_path / f"b{CANARY}.yaml"
    other.mkdir()
    write_hostile_tar(other / f"s9{CANARY}.tar", 9)
    wdsctl("index", other, "--quiet")
    wdsctl("view", "create", hostile_dataset, "v1", "--where", "position < 2", "--quiet")
    blend.write_text(json.dumps({"splits": {"train": {"blend": [{"path": CANARY, CANARY: CANARY}]}}, CANARY: CANARY}))
    state = tmp_path / f"state{CANARY}.json"
    state.write_text(json.dumps({"version": CANARY, CANARY: CANARY}))
    config = tmp_path / f"c{CANARY}.toml"
    config.write_text(f"{json.dumps(CANARY)} = 1\n[ls]\n{json.dumps(CANARY)} = 2\n")
    script = tmp_path / f"p{CANARY}.py"
    script.write_text(f"from megatron.energon import BlendDataset, get_loader  # {CANARY}\nBlendDataset({CANARY!r})\n")
    values = {
        "ROOT": hostile_dataset,
        "SCRIPT": script,
        "OTHER": other,
        "BLEND": blend,
        "STATE": state,
        "CONFIG": config,
        "DEST": tmp_path / f"dest{CANARY}",
        "DEST2": tmp_path / f"dest2{CANARY}",
        "KEY": f"0k0{CANARY}",
    }
    return lambda word: str(values.get(word, word))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_no_control_characters_from_data(
    wdsctl: Wdsctl, words: Callable[[str], str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, agent in product(COMMANDS[command], "01"):
        monkeypatch.setenv("WDSCTL_AGENT", agent)
        command_line = [*command.split(), *map(words, arguments)]
        user_runs = (((), True), (("--debug",), False), (("--json",), False), (("--quiet",), False))
        for extra, is_terminal in (((), False), *(() if agent == "1" else user_runs)):
            result = wdsctl(*command_line, *extra, stdout=Stream(is_terminal=is_terminal))
            output = f"{result.stdout}\n{result.stderr}"
            assert "wdsctl has a bug" not in output, output
            if command == "get" and not is_terminal and result.code == 0 and "--json" not in extra:
                output = result.stderr  # stdout has the raw bytes of a part
            if "--csv" in arguments:
                output = output.replace("\nFORGED", "")  # in quotes, as RFC 4180 has it
            if command == "view export" and "jsonl" not in arguments:
                output = output.replace("\nFORGED", "")
            assert_harmless(output)


@pytest.mark.parametrize("words", [("ls", "ROOT", "--samples"), ("inspect", "ROOT"), ("validate", "ROOT")])
def test_coloured_output_has_no_escapes_other_than_colours(
    wdsctl: Wdsctl, words: tuple[str, ...], hostile_dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "9999")
    command_line = [str(hostile_dataset) if word == "ROOT" else word for word in words]
    assert_harmless(wdsctl(*command_line, stdout=Stream(is_terminal=True), stderr=Stream(is_terminal=True)).stdout)


def test_ls_nul_output_is_raw_for_programs_and_escaped_on_terminal(wdsctl: Wdsctl, hostile_dataset: Path) -> None:
    assert f"0k0{CANARY}\0" in wdsctl("ls", hostile_dataset, "--samples", "-0").stdout
    assert_harmless(wdsctl("ls", hostile_dataset, "--samples", "-0", stdout=Stream(is_terminal=True)).stdout)


def test_shell_parses_names_printed_by_ls(wdsctl: Wdsctl, hostile_dataset: Path) -> None:
    names = wdsctl("ls", hostile_dataset, "--samples").stdout.splitlines()
    printed = subprocess.run(
        ["bash", "-c", "printf '%s\\0' " + " ".join(names)], capture_output=True, check=True, timeout=60
    )
    whole = wdsctl("ls", hostile_dataset, "--samples", "-0").stdout
    assert printed.stdout.decode() == whole


#: Values in commands that the user has passed, or that are names of wdsctl.
_TRUSTED_WORDS = {
    ("cli/errors.py", "word"),
    ("cli/errors.py", "meant[0]"),
    ("core/columns/column_file.py", "name"),  # of letters, digits, dots and dashes
    ("core/convert/report.py", "first.code"),
    ("core/importers/wids.py", "finding.code"),
    ("core/importers/common/samples.py", "name"),
    ("core/importers/common/segments.py", "option"),
    ("core/importers/common/segments.py", "options[option]"),
    ("core/importers/common/unnamed_media.py", "name"),
    ("core/importers/common/unnamed_media.py", "value"),
    ("core/importers/compressed_tars.py", "FIRST_DOT"),
    ("core/importers/compressed_tars.py", "KNOWN_EXTENSION"),
}


def test_commands_in_messages_quote_what_data_names() -> None:
    found = {
        (module, ast.unparse(value.value))
        for module in sources.modules_with("`wdsctl", "`-O")
        for text in ast.walk(sources.tree(module))
        if isinstance(text, ast.JoinedStr)
        for value in _words_of_commands(text)
    }
    unquoted = {(module, word) for module, word in found if not word.startswith(("quote_shell_word(", "shlex.quote("))}
    assert unquoted - {("core/dataset/location.py", "quoted")} == _TRUSTED_WORDS


def _words_of_commands(text: ast.JoinedStr) -> Iterator[ast.FormattedValue]:
    """The values in the commands and options of a message, which stand in backticks."""
    before = ""
    for piece in text.values:
        if isinstance(piece, ast.Constant):
            before += str(piece.value)
        elif isinstance(piece, ast.FormattedValue):
            if before.count("`") % 2 and re.match("wdsctl |-O ", before.rpartition("`")[2]):
                yield piece
            before += "VALUE"


@pytest.mark.parametrize("name", ["a b", "$(touch x)", "it's"])
def test_store_without_catalog_is_named_in_a_command_that_a_shell_parses(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "a.tar").write_bytes(a_shard({"a.jpg": b"x"}))
    with pytest.raises(InputError) as error:
        open_ref_store(f"{tmp_path / name}/a.tar")
    assert shlex.split(str(error.value.hint).split("`")[1])[2] == f"{tmp_path / name}/a.tar"


def test_json_output_keeps_names_unchanged(wdsctl: Wdsctl, hostile_dataset: Path) -> None:
    entries = wdsctl("ls", hostile_dataset, "--samples", "--json").document["entries"]
    assert entries[0]["key"] == f"0k0{CANARY}"


def test_error_texts_contain_no_control_characters() -> None:
    error = InputError(f"a {CANARY}", where=f"b{CANARY}", hint=f"c{CANARY}")
    assert_harmless("".join(traceback.format_exception(error)))
    assert_harmless(repr(error))
    assert_harmless(str(error))
    assert len(str(error).splitlines()) == 3


def test_lock_holder_is_reported_without_control_characters(wdsctl: Wdsctl, hostile_dataset: Path) -> None:
    lock = hostile_dataset / ".wdsctl" / "lock"
    lock.write_text(json.dumps(asdict(LockHolder(CANARY, 7, "1", 0.0, "far", CANARY))))
    try:
        result = wdsctl("index", hostile_dataset)
        broken = wdsctl("index", hostile_dataset, "--break-lock")
        assert result.code == 6
        for text in (result.stderr, broken.stderr):
            assert "process 7 on" in text
            assert text.count("FORGED") >= 2, "the host and the command"
            assert_harmless(text)
    finally:
        lock.unlink(missing_ok=True)


def test_warnings_of_libraries_are_printed_without_control_characters(
    wdsctl: Wdsctl, hostile_dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warning(*_: object, **__: object) -> object:
        warnings.simplefilter("always")
        warnings.warn(CANARY, stacklevel=1)
        raise InputError("x", hint="y")

    monkeypatch.setattr("wdsctl.core.inspect.ls.open_listing", warning)
    result = wdsctl("ls", hostile_dataset)
    assert "FORGED" in result.stderr
    assert_harmless(result.stderr)


def test_loader_log_and_tracebacks_contain_no_control_characters() -> None:
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


def test_terminal_prompter_prints_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    TerminalPrompter().text(f"use {CANARY.replace(chr(10), '')}", CANARY)
    assert_harmless(stderr.getvalue())


def test_progress_prints_no_control_characters() -> None:
    printed: list[str] = []
    clock = iter(range(0, 10_000, 100))
    with LineProgress(printed.append, clock=lambda: float(next(clock)), check_every_s=1e9) as lines:
        lines.phase("scan", items=3)
        lines.advance(items=1, doing=CANARY)
        lines.print_if_due()
        lines.note(CANARY)
    assert_harmless("\n".join(printed))
    stream = io.StringIO()
    bars = BarProgress(Console(file=stream, width=9999))
    bars.current = PhaseProgress("scan", 0.0, doing=CANARY)
    bars.note(CANARY)
    bars.console.print(bars.render())
    assert_harmless(stream.getvalue())


@pytest.mark.parametrize("text", ["plain\n", "caf\u00e9 \u65e5\u672c\u3000\u8a9e", "\u200dx", "a\r\nb\r\n"])
def test_plain_text_filter_accepts_harmless_text(text: str) -> None:
    assert PlainTextFilter().accepts(text.encode())


@pytest.mark.parametrize("text", ["safe\rFORGED", "\x1b[2J", "a\u202eb", "a\u2066b", "\u009b2J", "\x08", "\x07"])
def test_plain_text_filter_refuses_control_characters(text: str) -> None:
    assert not PlainTextFilter().accepts(text.encode())


def test_plain_text_filter_refuses_carriage_return_at_end_of_piece() -> None:
    plain = PlainTextFilter()
    assert plain.accepts(b"safe\r")
    assert not plain.accepts(b"FORGED")
