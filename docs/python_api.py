"""Writes the functions in wdsctl/api.py from the requests of the commands. With `--check`, says what is stale."""  # noqa: INP001 - a script

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from wdsctl.core.options import LAST_NAMES, Declared, declared_options, name_parameters

API = Path(__file__).resolve().parent.parent / "wdsctl" / "api.py"
MARK = "# Below: written by docs/python_api.py from the requests of the commands. Edit those, then run `make docs`.\n"


#: What `validate` checks, and how; without effect on a release.
CHECK_NAMES = ("level", "sample", "seed", "refs", "target", "again", "quarantine")


class Overload(NamedTuple):
    """What a function returns for some of its parameters. `required`: those without a default, and their types."""

    returns: str
    without: tuple[str, ...] = ()
    required: dict[str, str] = {}  # noqa: RUF012 - never changed


class Function(NamedTuple):
    """A function of the API. `run`: what it calls, whose docstring it has; `request`: the class with its options.

    Both as module:name below wdsctl.core. `returns`: if it is not what `run` returns.
    """

    name: str
    run: str
    request: str
    returns: str = ""
    overloads: tuple[Overload, ...] = ()


FUNCTIONS = (
    Function("convert", "convert.convert:run_convert", "convert.request:ConvertCommand"),
    Function("prepare", "prepare.prepare:run_prepare", "prepare.request:PrepareCommand", returns="PrepareReport | Any"),
    Function("split", "split.split:run_split", "split.request:SplitCommand"),
    Function("index", "index.index:run_index", "index.request:IndexCommand", returns="IndexReport | Any"),
    Function(
        "inspect",
        "inspect.request:run_inspect",
        "inspect.request:InspectRequest",
        overloads=(
            Overload("StatsReport", ("samples", "key", "shard"), {"stats": "Literal[True]"}),
            Overload("SamplesReport", ("stats", "samples", "random", "seed", "split"), {"key": "str"}),
            Overload("SamplesReport", ("stats", "samples", "key", "shard"), {"random": "int"}),
            Overload("SamplesReport | Any", ("stats", "random", "seed", "key", "shard"), {"samples": "int"}),
            Overload("InspectReport | Any", ("stats", "samples", "random", "seed", "key", "shard")),
        ),
    ),
    Function("export", "export.export:export", "export.request:ExportRequest"),
    Function(
        "validate",
        "validate.validate:run_validate",
        "validate.request:ValidateCommand",
        overloads=(
            Overload("ReleaseReport", CHECK_NAMES, {"release": "Literal[True]"}),
            Overload("ValidateReport", ("release",)),
        ),
    ),
)


def source(path: Path) -> str:
    """The text of wdsctl/api.py: what is written by hand, and the functions."""
    by_hand, mark, _ = path.read_text(encoding="utf-8").partition(MARK)
    text = f"{by_hand}{mark}\n\n" + "\n\n".join(map(_function, FUNCTIONS))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(API), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603


def _function(function: Function) -> str:
    run, request = load(function.run), load(function.request)
    returns = function.returns or run.__annotations__["return"]
    options = {each.name: each for each in declared_options(request)}
    parts = [_overload(function.name, options, each) for each in function.overloads]
    name = run.__name__ if run.__name__ != function.name else f"run_{function.name}"
    renamed = "" if name == run.__name__ else f" as {name}"
    imports: dict[str, list[str]] = {}
    for module, imported in (request.__module__, request.__name__), (run.__module__, f"{run.__name__}{renamed}"):
        imports.setdefault(module, []).append(imported)
    lines = "".join(f"    from {each} import {', '.join(imports[each])}\n" for each in sorted(imports))
    parts.append(
        f"{_head(function.name, list(map(_parameter, options.values())), returns, options)}\n"
        f"{_docstring(run, options.values(), request)}"
        f"{lines}\n"
        f"    return _call({name}, {request.__name__}, locals())\n"
    )
    return "".join(parts)


def load(name: str) -> Any:
    """What `module:name` below wdsctl.core means."""
    module, _, inner = name.partition(":")
    return getattr(import_module(f"wdsctl.core.{module}"), inner)


def _head(name: str, parameters: list[str], returns: str, options: dict[str, Declared]) -> str:
    positional = sum(options[each.partition(":")[0]].option.is_argument for each in parameters)
    lines = [*parameters[:positional], "*", *parameters[positional:], "progress: Progress | None = None"]
    return f"def {name}({', '.join(lines)}) -> {returns}:"


def _overload(name: str, options: dict[str, Declared], overload: Overload) -> str:
    parameters = [
        f"{each}: {overload.required[each]}" if each in overload.required else _parameter(options[each])
        for each in options
        if each not in overload.without
    ]
    return f"@overload\n{_head(name, parameters, overload.returns, options)} ...\n"


def _parameter(each: Declared) -> str:
    return f"{each.name}: {_annotation(each)}{'' if each.is_required else f' = {each.default!r}'}"


def _annotation(each: Declared) -> str:
    """The type of a parameter: that of the parser's parameter, as it is written there; else that of the field."""
    if each.option.parse is not None:
        kind = next(iter(each.option.parse.__annotations__.values()))
    else:
        kind = "PathText" if each.option.is_path else _type_text(each.kind)
    return f"{kind} | None" if each.default is None and "None" not in kind else kind


def _type_text(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " | ".join(map(_type_text, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    return "None" if kind is types.NoneType else str(kind.__name__)


def _docstring(run: Callable[..., object], options: Any, request: type) -> str:
    """That of `run`, with a line for each parameter after the first paragraph."""
    head, _, rest = textwrap.dedent(f"    {run.__doc__}").strip().partition("\n\n")
    lines = [head, ""]
    for each in options:
        if each.name in LAST_NAMES and each.option.flag is None:
            continue  # the docstring of the module explains them
        text = each.option.python_help or each.option.help.replace(" (repeatable)", "")
        lines += textwrap.wrap(f"`{each.name}`: {name_parameters(text, request, '`')}", 116, break_on_hyphens=False)
    text = "\n".join([*lines, *(["", rest] if rest else [])])
    return textwrap.indent(f'"""{text}\n"""\n', "    ")


def run(argv: Sequence[str] | None = None, path: Path = API) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 and a diff if it is stale")
    is_check = parser.parse_args(argv).check
    new = source(path)
    if not is_check:
        path.write_text(new, encoding="utf-8")
        return 0
    old = path.read_text(encoding="utf-8")
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    sys.stdout.writelines(difflib.unified_diff(before, after, "wdsctl/api.py", "wdsctl/api.py (generated)"))
    if old != new:
        sys.stdout.write("wdsctl/api.py is stale: run `make docs`\n")
    return int(old != new)


if __name__ == "__main__":
    sys.exit(run())
