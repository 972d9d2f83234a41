from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.models import ArgumentInfo

from tests.cli.conftest import Wdsctl
from wdsctl.cli.app import build_full_app
from wdsctl.cli.options import PATH_METAVARS

#: Arguments that are not paths.
NON_PATH_METAVARS = {
    "CODE",
    "COMMAND",
    "KEY",
    "NAME",
    "NAME...",
    "QUERY",
    "RATIOS",
    "[B]",
    "[PREFIX]",
    "[RUN]",
    "A",
    "B",
    "[KEY]",
    "PART",
}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["index", ""], "ROOT"),
        (["prepare", ""], "SOURCE"),
        (["prepare", "shards", ""], "DEST"),
        (["inspect", "", "--json"], "ROOT"),
        (["get", "", "0/0000", "-p", "txt"], "ROOT"),
        (["validate", ""], "ROOT"),
        (["diff", "shards", ""], "B"),
        (["convert", "shards", ""], "one of SOURCE... DEST"),
        (["catalog", "info", ""], "ROOT"),
        (["view", "list", ""], "ROOT"),
        (["ls", "shards", "--catalog", ""], "--catalog"),
        (["get", "shards", "0/0000", "-o", ""], "--output"),
    ],
)
def test_empty_path_is_refused_and_nothing_is_written(
    wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str
) -> None:
    monkeypatch.chdir(shards.parent)
    result = wdsctl(*words)
    assert result.code == 2
    assert f"{name} is empty" in result.stdout + result.stderr
    assert [path.name for path in shards.parent.iterdir()] == ["shards"]
    assert not (shards / ".wdsctl").exists()


def test_empty_prefix_is_accepted(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    assert wdsctl("ls", shards, "").code == 0


def test_every_argument_is_classified_as_path_or_not() -> None:
    assert set(_metavars()) <= PATH_METAVARS | NON_PATH_METAVARS


def _metavars() -> Iterator[str]:
    app = build_full_app()
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance is not None]
    for each in (app, *groups):
        for command in each.registered_commands:
            assert command.callback is not None
            for parameter in inspect.signature(command.callback).parameters.values():
                for info in getattr(parameter.annotation, "__metadata__", ()):
                    if isinstance(info, ArgumentInfo):
                        yield str(info.metavar)
