from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from wdsctl.cli.app import NotPlainValue, build_full_app, coerce_plain, use_plain_coercion
from wdsctl.cli.options import parse_size_option

RECEIVED: list[dict[str, Any]] = []


def show(  # noqa: PLR0917 - as many kinds of options as there are
    root: str,
    more: Annotated[list[str] | None, typer.Argument()] = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    wait: Annotated[float, typer.Option(min=0)] = 0.0,
    missing: Annotated[Literal["error", "keep"], typer.Option()] = "error",
    exclude: Annotated[list[str] | None, typer.Option()] = None,
    size: Annotated[int, typer.Option(parser=parse_size_option)] = 1,
    seed: int = 0,
    rows: Annotated[bool | None, typer.Option("--rows/--no-rows")] = None,
) -> None:
    RECEIVED.append(dict(locals()))


def run_command(words: list[str], *, is_light: bool) -> dict[str, Any] | str:
    """The values that the command receives, or Typer's error message."""
    app = typer.Typer(rich_markup_mode=None)
    app.command()(show)
    command = use_plain_coercion(get_command(app)) if is_light else get_command(app)
    try:
        command(args=words, standalone_mode=False)
    except typer.TyperException as error:
        return error.format_message()
    return RECEIVED.pop()


@pytest.mark.parametrize(
    "line",
    [
        "shards",
        "shards more still-more",
        "12",
        "shards --workers 4 --wait 1.5 --missing keep --rows",
        "shards --exclude a --exclude 'b c' --no-rows --size 64k --seed 7",
        "shards --workers 0",
        "shards --workers 1_000",
        "shards --workers 2.0",
        "shards --workers x",
        "shards --workers 99999999999999999999",
        "shards --workers ٣",
        "shards --seed -3",
        "shards --wait 1e3",
        "shards --wait nan",
        "shards --wait -1",
        "shards --wait .5",
        "shards --missing Keep",
        "shards --missing nothing",
        "shards --size 0",
        "shards --size many",
        "",
    ],
)
def test_plain_coercion_has_values_and_errors_of_typer(line: str) -> None:
    words = shlex.split(line)
    assert run_command(words, is_light=True) == run_command(words, is_light=False)


@pytest.mark.parametrize(
    ("value", "annotation", "info"),
    [
        ("5", int, {"max": 4}),
        ("5", int, {"clamp": True}),
        (True, int, {}),
        ("KEEP", Literal["keep"], {"case_sensitive": False}),
        ("a", bytes, {}),
        (float("nan"), float, {"min": 0}),
        ("x", str, {"parser": int}),
    ],
)
def test_coerce_plain_rejects_what_is_left_to_typer(value: Any, annotation: Any, info: dict[str, Any]) -> None:
    spec = SimpleNamespace(parser=None, min=None, max=None, clamp=False, case_sensitive=True)
    vars(spec).update(info)
    with pytest.raises(NotPlainValue):
        coerce_plain(value, annotation, spec)


def test_coerce_plain_keeps_defaults_of_all_commands() -> None:
    def options(command: Any) -> list[Any]:
        inner = [each for one in getattr(command, "commands", {}).values() for each in options(one)]
        return [*command.params, *inner]

    for option in options(get_command(build_full_app())):
        spec = option.type_descriptor
        if option.default is not None and spec.annotation is not bool and not callable(option.default):
            assert coerce_plain(option.default, spec.annotation, spec.parameter_info) == option.default


def test_use_plain_coercion_ignores_unknown_parameters() -> None:
    app = typer.Typer()
    app.command()(show)
    command = get_command(app)
    bare = SimpleNamespace(opts=["--x"])
    command.params.append(bare)  # type: ignore[arg-type]
    command.get_params = lambda _: command.params  # type: ignore[method-assign, assignment]
    use_plain_coercion(command)
    assert vars(bare) == {"opts": ["--x"]}
