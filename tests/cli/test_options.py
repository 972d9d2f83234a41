from __future__ import annotations

import inspect
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.cli import options
from wdsctl.core.invocation import worker_count


@pytest.mark.parametrize(
    ("words", "ordered"),
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
def test_common_options_may_stand_before_the_command(words: list[str], ordered: list[str]) -> None:
    assert options.move_common_options(words) == ordered


@given(st.lists(st.sampled_from(["--json", "-q", "inspect", "X", "--help", "-x", "--config", "--config=x"])))
def test_no_word_is_lost_or_invented(words: list[str]) -> None:
    assert sorted(options.move_common_options(words)) == sorted(words)


def test_every_spelling_of_a_common_option_is_known() -> None:
    spelled = {option for annotation in options.COMMON_OPTIONS.values() for option in _spellings(annotation)}
    assert spelled == options.COMMON_FLAGS


def test_a_command_gets_the_common_options_as_one_value() -> None:
    seen = []

    def function(root: options.RootArgument, *, common: options.CommonOptions) -> int:
        seen.append((root, common))
        return 3

    command = options.with_common(function)

    assert list(inspect.signature(command).parameters) == ["root", *options.COMMON_OPTIONS]
    chosen = dict.fromkeys(options.COMMON_OPTIONS, False) | {"json": True, "config": None, "allow_path": None}
    assert command(root="X", **chosen) == 3
    assert seen == [("X", options.CommonOptions(json=True))]


def test_a_broken_pipe_inside_is_not_taken_for_a_closed_stdout() -> None:
    def function(*, common: options.CommonOptions) -> int:
        raise BrokenPipeError

    with pytest.raises(RuntimeError, match="pipe between processes"):
        options.with_common(function)(**dict.fromkeys(options.COMMON_OPTIONS, False))


def test_the_default_is_the_cpus_that_may_be_used_and_no_more_than_16() -> None:
    assert 1 <= worker_count(None) <= min(16, os.cpu_count() or 1)
    assert worker_count(40) == 40


def _spellings(annotation: object) -> tuple[str, ...]:
    [option] = annotation.__metadata__  # type: ignore[attr-defined]
    return (option.default, *option.param_decls)
