from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from tests.cli.conftest import Wdsctl
from tests.cli.test_startup import modules_after
from wdsctl.cli.app import SUMMARIES
from wdsctl.cli.options import COMMAND_GROUPS


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_match_first_paragraph_of_command_help(name: str) -> None:
    module = import_module(f"wdsctl.cli.commands.{name}")
    help_text = module.HELP if name in COMMAND_GROUPS else str(inspect.getdoc(module.command))
    assert SUMMARIES[name] == help_text.partition("\n\n")[0]


def test_command_groups_have_summaries() -> None:
    assert set(SUMMARIES) >= COMMAND_GROUPS


def test_only_the_running_command_is_imported() -> None:
    assert not [name for name in modules_after("--help") if name.startswith("wdsctl.cli.commands.")]
    loaded = [name for name in modules_after("log", "--help") if name.startswith("wdsctl.cli.commands.")]
    assert loaded == ["wdsctl.cli.commands.log"]


def test_unknown_command_suggests_similar_one(wdsctl: Wdsctl) -> None:
    result = wdsctl("validat", "x")
    assert (result.code, result.stderr.splitlines()[0]) == (
        2,
        "error[WDS001]: no such command 'validat'. Did you mean 'validate'?",
    )
