"""Output for programs, for every command: `--quiet` prints names, and a coding agent gets TSV or JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.main import get_command

from tests.cli.conftest import Stream, Wdsctl, a_tar, leaf_commands
from tests.cli.json_schema import check
from tests.core.job_states import job
from wdsctl.cli.agents import AGENT_VARIABLES, has_agent
from wdsctl.cli.app import build_full_app
from wdsctl.cli.errors import PARTIAL
from wdsctl.cli.main import main
from wdsctl.cli.output import tsv_lines
from wdsctl.core.codes import load_codes
from wdsctl.core.trace import SourceFacts, TraceWriter

#: What `--quiet` prints: the same report as without it, or the requested data.
REPORT, DATA = "its report", "its data"


@dataclass(frozen=True, slots=True)
class Case:
    """A command line and its output with `--quiet`; `agent`: the output for an agent. `{out}` is a new path."""

    line: str
    quiet: str | tuple[str, ...]
    agent: str = "json"
    code: int = 0


CODES = tuple(load_codes())

CASES = (
    Case("prepare raw {out} --no-input", ("{out}",)),
    Case("prepare raw {out} --no-input --dry-run", ("{out}",)),
    Case("index shards", ("{here}/shards/.wdsctl/catalog.sqlite",)),
    Case("split shards train=1,val=1 --by shard --yes", ("train", "val")),
    Case("split shards", ("train", "val")),
    Case("split shards --export {out}.yaml", ("{out}.yaml",)),
    Case("split shards --export -", DATA, "text"),
    Case("split shards --leaks", REPORT, code=1),
    Case("convert shards {out}", ("{out}",)),
    Case("export shards --to wids", ("{here}/shards/index.json",)),
    Case("init prepared {out} --text", ("{out}/train.py", "{out}/blend.yaml", "{out}/README.md")),
    Case("inspect shards", REPORT),
    Case("inspect shards --samples 1", REPORT),
    Case("get shards 0/0001 -p txt", DATA, "text"),
    Case("get shards 0/0001 -p txt -o {out}.txt", ("{out}.txt",)),
    Case("ls shards", ("a.tar", "b.tar"), "text"),
    Case("ls shards -l", ("a.tar", "b.tar"), "path\tsize_bytes\tsamples\tstatus"),
    Case("ls shards 1/ --samples -l", ("1/0000", "1/0001"), "key\tshard\tposition\tsize_bytes\tparts"),
    Case("ls shards 1/ --parts -l", ("1/0000.txt", "1/0001.txt"), "name\tkey\tpart\tshard\toffset\tsize_bytes"),
    Case("validate shards", REPORT),
    Case("validate shards --format text", REPORT, "text"),
    Case("validate shards --format sarif", REPORT, "text"),
    Case("repair broken {out}", ("{out}/a.tar",), code=5),
    Case("trace traces --step 1 --allow-path .", REPORT),
    Case("doctor", REPORT),
    Case("explain", CODES, "code\ttitle"),
    Case("explain WDS102", REPORT),
    Case("skill", DATA, "text"),
    Case("skill --install {out}", ("{out}/wdsctl/SKILL.md",)),
    Case("sql shards @query", DATA, "key\tsize"),
    Case("diff shards shards", REPORT),
    Case("log ledger", ("1",), "id\tstarted_at\tseconds\tstatus\tversion\tcommand\targv\tfindings"),
    Case("log ledger 1", REPORT),
    Case("checksum shards", DATA, "text"),
    Case("migrate program", ("program/train.py",), code=1),
    Case("migrate program --diff", DATA, "text", code=1),
    Case("checkpoint info ckpt", REPORT),
    Case("checkpoint redistribute ckpt {out} --ranks 2", ("{out}/loader_rank0.json", "{out}/loader_rank1.json")),
    Case("checkpoint diff ckpt/loader_rank0.json ckpt/loader_rank1.json", REPORT, code=1),
    Case("catalog info shards", REPORT),
    Case("catalog check shards", REPORT),
    Case("catalog vacuum shards --dry-run", REPORT),
    Case("config show --config wdsctl.toml", ("index.workers",)),
    Case("job plan {out} -- index shards --rebuild", ("{out}",)),
    Case("job run job --task 0", ()),
    Case("job status job", REPORT, code=1),
    Case("job merge half", ("{here}/half",)),
    Case("job template job", DATA, "text"),
    Case("view create prepared few --where position=0", ("few",)),
    Case("view list shards", ("first",), "name\tsamples\tshare\tshards\tchanged\tcreated_at\thash\tdefinition"),
    Case("view show shards first", ("first",)),
    Case("view diff shards first first", REPORT),
    Case("view export shards first", DATA, "text"),
    Case("view export shards first -o {out}.txt", ("{out}.txt",)),
    Case("view refresh shards first", ("first",)),
    Case("view delete shards first --dry-run", ("first",)),
)

ONE_TABLE = Case("view list shards", ())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the cases use."""
    folder = tmp_path_factory.mktemp("world")
    for root in ("shards", "ledger"):
        for i, name in enumerate("ab"):
            a_tar(folder / root / f"{name}.tar", {f"{i}/{j:04}.txt": b"a cat" for j in range(2)})
    a_tar(folder / "broken" / "a.tar", {f"{i}.txt": b"a cat" for i in range(3)})
    whole = (folder / "broken" / "a.tar").read_bytes()
    (folder / "broken" / "a.tar").write_bytes(whole[: 512 * 5 + 3])
    (folder / "raw").mkdir()
    for i in range(4):
        (folder / "raw" / f"{i}.txt").write_text(f"text {i}", encoding="utf-8")
    (folder / "program").mkdir()
    (folder / "program" / "train.py").write_text("from megatron.energon import get_loader, Unknown\n", encoding="utf-8")
    (folder / "ckpt").mkdir()
    for rank, state in enumerate(job(2)):
        (folder / "ckpt" / f"loader_rank{rank}.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / "wdsctl.toml").write_text("[index]\nworkers = 1\n", encoding="utf-8")
    shards = str(folder / "shards")
    run = [
        f"index {shards}",
        f"index {folder / 'ledger'}",
        f"split {shards} train=1,val=1 --by shard",
        f"view create {shards} first --where position=0",
        f"job plan {folder / 'job'} -- index {folder / 'raw2'}",
        f"job plan {folder / 'half'} -- index {folder / 'raw2'}",
        f"job run {folder / 'half'} --task 0",
        f"job merge {folder / 'half'}",
        f"prepare {folder / 'raw'} {folder / 'prepared'} --split 1,1 --no-input",
    ]
    a_tar(folder / "raw2" / "a.tar", {"a.txt": b"a cat"})
    for line in run:
        words = line.split()
        assert main([*words[:2], "--quiet", *words[2:]]) == 0
    writer = TraceWriter(str(folder / "traces"), 0, 1, [SourceFacts(0, shards, "", 1, "")], run={})
    for number in range(3):
        writer.add(number, [(0, 0, 1 << 28 | number)])
    writer.close()
    return folder


Run = Callable[..., tuple[int, str, str, str]]


@pytest.fixture
def run(world: Path, tmp_path: Path, wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the line of a case with further options, in `world`. Returns code, stdout, stderr, and `{out}`."""
    monkeypatch.chdir(world)
    runs: list[str] = []

    def call(case: Case, *options: str) -> tuple[int, str, str, str]:
        out = str(tmp_path / f"out{len(runs)}")
        runs.append(out)
        words = [word.replace("{out}", out) for word in case.line.split()]
        words = ["SELECT key, size FROM v_sample" if word == "@query" else word for word in words]
        at = words.index("--") if "--" in words else len(words)
        result = wdsctl(*words[:at], *options, *words[at:])
        return result.code, result.stdout, result.stderr, out

    return call


def test_every_command_has_a_case() -> None:
    lines = [case.line for case in CASES]
    commands = leaf_commands(get_command(build_full_app()))
    assert [name for name, _ in commands if not any(f"{line} ".startswith(f"{name} ") for line in lines)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_quiet_prints_only_names(run: Run, case: Case) -> None:
    code, stdout, stderr, out = run(case, "--quiet")

    assert (code, stderr.count("\n")) == (case.code, int(code == PARTIAL))  # the reason for 5
    if isinstance(case.quiet, tuple):
        assert stdout == "".join(f"{name}\n" for name in case.quiet).replace("{out}", out).replace(
            "{here}", os.getcwd()
        )
    else:
        assert stdout


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("index broken", "1 error (WDS102)"),
        ("prepare broken --no-input --sample-type CrudeSample", "1 error (WDS102)"),
        ("convert rows.csv {out} --from csv -O key=id", "1 sample that could not be read"),
    ],
)
def test_quiet_commands_report_why_they_exit_with_5(run: Run, world: Path, line: str, reason: str) -> None:
    (world / "rows.csv").write_text("id,caption,image\n1,a cat,no.jpg\n2,a dog,0.txt\n", encoding="utf-8")
    (world / "0.txt").write_text("text", encoding="utf-8")
    code, _, stderr, _ = run(Case(line, ()), "--quiet")

    assert (code, stderr.startswith("incomplete: "), reason in stderr) == (PARTIAL, True, True), stderr
    assert run(Case(line, ()), "--quiet", "--json")[2] == ""


def test_ls_ends_long_lines_with_nul_bytes_for_agents(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    people = run(Case("ls shards -l -0", ()))[1]
    monkeypatch.setenv("CLAUDECODE", "1")

    assert run(Case("ls shards -l -0", ()))[1] == people != ""


def test_log_reports_to_agents_that_earlier_runs_exist(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")

    assert run(Case("log shards -n 1", ()))[2].endswith(" earlier (-n 0 lists all)\n")
    assert " earlier " not in run(Case("log shards -n 0", ()))[2]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_agent_output_is_tsv_or_json(run: Run, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    code, stdout, _, _ = run(case)

    assert code == case.code
    if case.agent == "json":
        check(json.loads(stdout))
    elif case.agent != "text":
        header, *rows = stdout.splitlines()
        assert header == case.agent
        assert rows
        assert {row.count("\t") for row in rows} == {header.count("\t")}


@pytest.mark.parametrize(
    "case", [case for case in CASES if (case.quiet, case.agent) == (REPORT, "json")], ids=lambda case: case.line
)
def test_quiet_reports_are_not_json_with_agent(run: Run, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")

    assert not run(case, "--quiet")[1].startswith("{")


@pytest.mark.parametrize(("options", "is_text"), [(("--json",), False), (("--quiet",), True)])
def test_output_options_override_agent_detection(
    run: Run, options: tuple[str, ...], is_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(ONE_TABLE, *options)[1]
    monkeypatch.setenv("CLAUDECODE", "1")

    assert run(ONE_TABLE, *options)[1] == expected
    assert (expected == "first\n") == is_text


@pytest.mark.parametrize(
    ("variables", "is_agent"),
    [
        ({}, False),
        *(({name: min(values) if values else "1"}, True) for name, values in AGENT_VARIABLES.items()),
        ({"CODEX_SANDBOX": "seatbelt"}, True),
        ({"CLAUDECODE": ""}, False),
        ({"CLAUDECODE": "0"}, False),
        ({"AGENT": "build-7"}, False),
        ({"CLAUDECODE": "1", "WDSCTL_AGENT": "0"}, False),
        ({"WDSCTL_AGENT": "1"}, True),
    ],
)
def test_has_agent_detects_agent_variables(variables: dict[str, str], is_agent: bool) -> None:
    assert has_agent(variables) is is_agent


def test_terminal_output_is_human_readable_even_with_agent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    human_output = run(ONE_TABLE)[1]
    monkeypatch.setenv("CLAUDECODE", "1")
    agent_output = run(ONE_TABLE)[1]
    monkeypatch.setattr(Stream, "isatty", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")

    assert run(ONE_TABLE)[1] == human_output != agent_output
    assert agent_output.startswith("name\tsamples\t")


def test_every_agent_variable_is_documented_in_decision_0052() -> None:
    page = (Path(__file__).parents[2] / "docs/decisions/0052-agents-get-tables-and-json.md").read_text(encoding="utf-8")
    assert [name for name in AGENT_VARIABLES if f"| `{name}` |" not in page] == []


def test_tsv_lines_have_one_line_per_row() -> None:
    rows = [("a\tb\nc\\d", None, True, ["x", 1]), ("\x1b[31m", b"\xff", 0.5, {"k": "v"})]
    assert tsv_lines(rows) == 'a\\tb\\nc\\\\d\t\ttrue\t["x", 1]\n\\x1b[31m\tff\t0.5\t{"k": "v"}\n'


@pytest.mark.parametrize(("option", "expected"), [("--quiet", "{root}/.wdsctl/catalog.sqlite\n"), ("--json", "index")])
def test_job_merge_output_follows_quiet_and_json(wdsctl: Wdsctl, tmp_path: Path, option: str, expected: str) -> None:
    root = a_tar(tmp_path / "data" / "a.tar", {"a.txt": b"a cat"}).parent
    wdsctl("job", "plan", tmp_path / "job", "--", "index", root)
    wdsctl("job", "run", tmp_path / "job", "--task", 0)

    merged = wdsctl("job", "merge", tmp_path / "job", option)

    assert merged.code == 0
    assert (merged.stdout if option == "--quiet" else merged.document["command"]) == expected.format(root=root)
