from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from tests.cli.conftest import Wdsctl
from tests.cli.test_startup import modules_after
from wdsctl.cli.app import SUMMARIES
from wdsctl.cli.options import COMMAND_GROUPS


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_says_what_a_commands_own_help_begins_with(name: str) -> None:
    module = import_module(f"wdsctl.cli.commands.{name}")
    said = module.HELP if name in COMMAND_GROUPS else str(inspect.getdoc(module.command))
    assert SUMMARIES[name] == said.partition("\n\n")[0]


def test_every_group_is_a_command() -> None:
    assert set(SUMMARIES) >= COMMAND_GROUPS


def test_only_the_command_that_runs_is_imported() -> None:
    assert not [name for name in modules_after("--help") if name.startswith("wdsctl.cli.commands.")]
    loaded = [name for name in modules_after("log", "--help") if name.startswith("wdsctl.cli.commands.")]
    assert loaded == ["wdsctl.cli.commands.log"]


def test_a_word_that_is_no_command_is_compared_with_those_that_are(wdsctl: Wdsctl) -> None:
    result = wdsctl("validat", "x")
    assert (result.code, result.stderr.splitlines()[0]) == (
        2,
        "error[WDS001]: no such command 'validat'. Did you mean 'validate'?",
    )
