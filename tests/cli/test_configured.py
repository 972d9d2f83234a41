from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.cli.conftest import Wdsctl
from tests.cli.test_startup import modules_after
from wdsctl.cli.config import _variable_names, all_options, read_variables

Process = Callable[..., object]
OWN = "home/wdsctl/wdsctl.toml"  # the user's file in these tests


@pytest.fixture
def runs(wdsctl: Wdsctl, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset with three runs; its parent is the working directory."""
    for _ in range(3):
        wdsctl("index", shards)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "wdsctl").mkdir(parents=True)
    return shards


def count_runs(wdsctl: Wdsctl, *words: object) -> int:
    result = wdsctl("log", *words, "--json")
    assert result.code == 0, result.stdout
    return len(result.document["runs"])


def test_flag_overrides_variable_overrides_file_overrides_default(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_runs(wdsctl, runs) == 3
    (tmp_path / OWN).write_text("[log]\nlimit = 2\n")
    assert count_runs(wdsctl, runs) == 2
    monkeypatch.setenv("WDSCTL_LOG_LIMIT", "1")
    assert count_runs(wdsctl, runs) == 1
    assert count_runs(wdsctl, runs, "-n", 3) == 3


@pytest.mark.parametrize("folder", ["inside", "", "shards"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wdsctl.toml", "[log]\nlimit = 1\n"),
        ("pyproject.toml", "[tool.wdsctl.log]\nlimit = 1\n"),
        ("wdsctl.toml", "[log\n"),
    ],
)
def test_config_files_in_working_directory_are_ignored(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str, text: str
) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / folder / name).write_text(text)
    monkeypatch.chdir(tmp_path / "inside")
    assert count_runs(wdsctl, runs) == 3
    monkeypatch.chdir(runs)
    assert count_runs(wdsctl, ".") == 3


def test_config_file_in_dataset_is_ignored_by_validate(
    wdsctl: Wdsctl, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "broken.tar").write_bytes(b"no tar")
    (runs / "wdsctl.toml").write_text('[validate]\nfail-on = "never"\n[repair]\nno-backup = true\n')
    monkeypatch.chdir(runs)
    assert wdsctl("validate", ".").code == 1
    assert wdsctl("--config", "wdsctl.toml", "validate", ".").code == 0


def test_unused_config_file_is_reported_with_hint(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wdsctl.toml").write_text("[log]\nlimit = 1\n")
    assert wdsctl("log", runs).stderr.splitlines() == [
        "wdsctl.toml in this folder has no effect; if you trust it, pass `--config wdsctl.toml`"
    ]
    for words in (("--json",), ("--quiet",), ("--config", "wdsctl.toml"), ("--config=none",)):
        assert wdsctl("log", runs, *words).stderr == ""
    monkeypatch.setenv("WDSCTL_CONFIG", "none")
    assert wdsctl("log", runs).stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--config", "mine.toml", "log", "ROOT"),
        ("--json", "--config=mine.toml", "log", "ROOT"),
        ("log", "ROOT", "--config", "mine.toml"),
        ("log", "--config", "absent.toml", "ROOT", "--config", "mine.toml"),
    ],
)
def test_config_option_is_accepted_before_and_after_command(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (tmp_path / "mine.toml").write_text("[log]\nlimit = 1\n")
    monkeypatch.setenv("WDSCTL_CONFIG", "absent.toml")
    arguments = [str(runs) if word == "ROOT" else word for word in words]
    assert len(wdsctl(*arguments, *([] if "--json" in arguments else ["--json"])).document["runs"]) == 1


def test_config_option_as_value_of_other_option_is_ignored(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.toml").write_text("[ls]\nlong = true\n")
    for words in (("--split", "--config=evil.toml"), ("--split", "--config"), ("--", "--config=evil.toml")):
        assert "evil" not in wdsctl("ls", runs, *words).stdout


def test_empty_or_missing_config_path_is_reported(wdsctl: Wdsctl, runs: Path) -> None:
    assert "--config is empty" in wdsctl("log", runs, "--config", "").stderr
    assert wdsctl("log", runs, "--config", "absent.toml").code == 2
    assert wdsctl("log", runs, "--config").code == 2


def test_configured_flags_and_lists_reach_command(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / OWN).write_text('[index]\nhash = true\nexclude = ["*3.tar", "*4.tar"]\nmedia = false\n')
    document = wdsctl("index", runs, "--json").document
    assert (document["shards"], document["hashed"]) == (8, 8)


def test_variable_true_means_bare_option(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WDSCTL_INDEX_MEDIA", "true")
    assert wdsctl("index", runs, "--json").document["media"]["selection"] == "auto"
    (tmp_path / OWN).write_text('[index]\nmedia = "jpg"\n')
    monkeypatch.setenv("WDSCTL_INDEX_MEDIA", "false")
    assert wdsctl("index", runs, "--json").document["media"]["selection"] == "auto"  # as in the last run


def test_subcommands_are_configurable(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / OWN).write_text('[view.create]\nwhere = "position = 0"\n')
    assert wdsctl("view", "create", runs, "first", "--json").document["samples"] == 10


def test_invalid_configured_value_is_reported_with_config_file(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / OWN).write_text("[log]\nlimit = 'many'\n")
    result = wdsctl("log", runs)
    assert (result.code, result.stderr.splitlines()[:2]) == (
        2,
        ["error[WDS010]: invalid value for '--limit' / '-n': expected a whole number", f"  --> {OWN}"],
    )
    assert wdsctl("log", runs, "--limit", "many").stderr.startswith("error[WDS001]")
    assert count_runs(wdsctl, runs, "--limit", 1) == 1


def test_invalid_config_stops_commands_except_help_version_and_explain(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / OWN).write_text("[indx]\n")
    result = wdsctl("log", runs)
    assert (result.code, result.stderr.splitlines()) == (
        2,
        [
            "error[WDS010]: no command 'indx'",
            f"  --> {OWN}",
            "  help: did you mean index?",
        ],
    )
    assert wdsctl("log", runs, "--json").document["error"]["code"] == "WDS010"
    for words in (("log", "--help"), ("--help",), ("--version",), ("explain", "WDS010"), ("explain", "WDS001")):
        assert wdsctl(*words).code == 0


def test_variable_names_of_options_are_unique() -> None:
    commands = all_options()
    own = [_variable_names(command, option)[0] for command, options in commands.items() for option in options]
    shared = {name for options in commands.values() for option in options for name in _variable_names("", option)}
    assert len(own) == len(set(own))
    assert shared.isdisjoint(own)


def test_help_and_version_do_not_read_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers = {"tomllib", "tomli"}  # Python 3.10 has no tomllib
    monkeypatch.delenv("WDSCTL_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert parsers.isdisjoint(modules_after("config", "show"))  # there is no file yet
    a_folder(tmp_path, {OWN: b"[log]\nlimit = 1\n"})
    for words in (("--help",), ("log", "--help"), ("--version",)):
        assert parsers.isdisjoint(modules_after(*words))
    assert not parsers.isdisjoint(modules_after("config", "show"))


def test_variables_set_flags_and_lists(wdsctl: Wdsctl, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDSCTL_INDEX_HASH", "1")
    monkeypatch.setenv("WDSCTL_EXCLUDE", "*3.tar *4.tar")
    document = wdsctl("index", runs, "--json").document
    assert (document["shards"], document["hashed"]) == (8, 8)
    monkeypatch.setenv("WDSCTL_INDEX_HASH", "perhaps")
    result = wdsctl("index", runs)
    assert (result.code, "  --> WDSCTL_INDEX_HASH" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", ["YES", "CATALOG_VACUUM_YES", "INDEX_CATALOG", "INDEX_TRUST_CODE", "GET_OUTPUT"])
def test_variables_cannot_set_command_line_only_options(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"WDSCTL_{name}", "1")
    assert name not in {each for options in all_options().values() for each in options}
    assert read_variables() == ([], [f"WDSCTL_{name}"])
    assert wdsctl("get", runs, "0/0000", "--part", "txt").stdout == "a cat"
    assert not (tmp_path / "1").exists()


def test_command_line_flag_overrides_config_file(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / OWN).write_text("[index]\nhash = true\n")
    assert wdsctl("index", runs, "--no-hash", "--json").document["hashed"] == 0


def test_configured_option_that_needs_another_option_has_no_effect_alone(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / OWN).write_text("[inspect]\nseed = 4\n")
    assert wdsctl("inspect", runs).code == 0
    assert wdsctl("inspect", runs, "--random", 1, "--json").document["seed"] == 4
    assert (wdsctl("inspect", runs, "--seed", 4).code, wdsctl("inspect", runs, "--config", "none").code) == (2, 0)


def test_configured_options_that_exclude_each_other_name_config_file(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / OWN).write_text("[sql]\ncsv = true\ntsv = true\n")
    result = wdsctl("sql", runs, "SELECT 1 AS one")
    assert (result.code, "--csv and --tsv exclude each other" in result.stderr) == (2, True)
    assert result.stderr.rstrip().endswith(f"{OWN} sets --tsv; pass --config none to ignore files")
    assert wdsctl("sql", runs, "SELECT 1 AS one", "--json").document["rows"] == [{"one": 1}]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('[validate]\nlevel = ["content"]\nsample = "50%"\n', ("validate", "ROOT", "--release")),
        ("[validate]\nquarantine = true\n", ("validate", "ROOT", "--release")),
        ('[validate]\nformat = "sarif"\n', ("validate", "ROOT", "--json")),
        ("[ls]\nsamples = true\n", ("ls", "ROOT", "--parts")),
        ('[split]\nby = "key"\nseed = 7\n', ("split", "ROOT", "--pattern", "train=*.tar")),
        ('[split]\nstratify = "key:(.)"\n', ("split", "ROOT", "8,2", "--by", "key")),
        ('[convert]\nlayout = "polylithic"\n', ("convert", "ROOT", "DEST", "--to", "jsonl")),
        ("[convert]\nshuffle = true\nseed = 3\n", ("convert", "ROOT", "DEST", "--sort", "key")),
        ('[prepare]\nseed = 7\nby = "sample"\nparts = "jpg,txt"\n', ("prepare", "ROOT", "--yes")),
        ("[inspect]\nsamples = 3\n", ("inspect", "ROOT", "--stats")),
        ('[repair]\nexecutor = "ray"\n', ("repair", "ROOT", "--in-place", "--yes")),
        ("[repair]\nno-backup = true\n", ("repair", "ROOT", "DEST")),
    ],
)
def test_typed_options_beat_configured_options_that_do_not_fit(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, config: str, words: tuple[str, ...]
) -> None:
    (tmp_path / OWN).write_text(config)
    paths = {"ROOT": str(runs), "DEST": str(tmp_path / "dest")}
    result = wdsctl(*(paths.get(word, word) for word in words))
    assert result.code == 0, result.stderr
    assert wdsctl("config", "show", "--json").document["settings"]


def test_configured_option_without_effect_does_not_consume_list_on_stdin(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / OWN).write_text("[prepare]\nseed = 7\n")
    shards = "\n".join(str(path) for path in sorted(runs.glob("*.tar")))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(shards.encode())))
    result = wdsctl("prepare", "-", "--yes", "--no-input")
    assert result.code == 0, result.stderr
