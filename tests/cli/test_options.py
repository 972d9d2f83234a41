from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl import api
from wdsctl.cli import options
from wdsctl.cli.main import main
from wdsctl.core.errors import UsageError
from wdsctl.core.invocation import worker_count


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--json", "inspect", "X"], ["inspect", "--json", "X"]),
        (["-q", "--no-color", "inspect", "X", "--json"], ["inspect", "-q", "--no-color", "X", "--json"]),
        (["inspect", "--json", "X"], ["inspect", "--json", "X"]),
        (["--help"], ["--help"]),
        (["--json", "--help"], ["--json", "--help"]),
        (["--json"], ["--json"]),
        (["--json", "checkpoint", "-q", "info", "X"], ["checkpoint", "info", "--json", "-q", "X"]),
        (["checkpoint", "info", "--json", "X"], ["checkpoint", "info", "--json", "X"]),
        (["checkpoint", "--help"], ["checkpoint", "--help"]),
        (["--json", "checkpoint"], ["checkpoint", "--json"]),
        (["--config", "c.toml", "-q", "ls", "X"], ["ls", "--config", "c.toml", "-q", "X"]),
        (["--config=c.toml", "ls", "X"], ["ls", "--config=c.toml", "X"]),
        (["--config", "config", "config", "show"], ["config", "show", "--config", "config"]),
        (["config", "--config", "c.toml", "show"], ["config", "show", "--config", "c.toml"]),
        (["--config"], ["--config"]),
        ([], []),
    ],
)
def test_move_common_options_moves_them_behind_command(words: list[str], expected: list[str]) -> None:
    assert options.move_common_options(words) == expected


@given(st.lists(st.sampled_from(["--json", "-q", "inspect", "X", "--help", "-x", "--config", "--config=x"])))
def test_move_common_options_keeps_all_words(words: list[str]) -> None:
    assert sorted(options.move_common_options(words)) == sorted(words)


def test_common_flags_have_every_spelling() -> None:
    spellings = {option for annotation in options.COMMON_OPTIONS.values() for option in _list_spellings(annotation)}
    assert spellings == options.COMMON_FLAGS


def test_with_common_passes_common_options_as_one_value() -> None:
    calls = []

    def function(root: options.RootArgument, *, common: options.CommonOptions) -> int:
        calls.append((root, common))
        return 3

    command = options.with_common(function)

    assert list(inspect.signature(command).parameters) == ["root", *options.COMMON_OPTIONS, "context"]
    arguments = dict.fromkeys(options.COMMON_OPTIONS, False) | {"json": True, "config": None, "allow_path": None}
    assert command(root="X", context=None, **arguments) == 3
    assert calls == [("X", options.CommonOptions(json=True))]


def test_with_common_converts_internal_broken_pipe() -> None:
    def function(*, common: options.CommonOptions) -> int:
        raise BrokenPipeError

    with pytest.raises(RuntimeError, match="pipe between processes"):
        options.with_common(function)(context=None, **dict.fromkeys(options.COMMON_OPTIONS, False))


def test_worker_count_defaults_to_available_cpus_up_to_16() -> None:
    assert 1 <= worker_count(None) <= min(16, os.cpu_count() or 1)
    assert worker_count(40) == 40


def test_impossible_worker_counts_are_refused_from_options_variables_and_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="too many"):
        api.validate(str(tmp_path), workers=10**11)
    assert main(["index", str(tmp_path), "--workers", "99999999999"]) == 2
    monkeypatch.setenv("WDSCTL_WORKERS", "99999999999")
    assert main(["index", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("the limit is 10,000") == 2


def _list_spellings(annotation: object) -> tuple[str, ...]:
    [option] = annotation.__metadata__  # type: ignore[attr-defined]
    return (option.default, *option.param_decls)
