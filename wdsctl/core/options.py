"""Options of commands, declared once: as fields of frozen requests.

    seed: Annotated[int, Option(metavar="N", help="Seed of --sample.")] = 0

The field has the name, the type and the default; `Option` has what they cannot say. From such a request come the
parameters of the command line (`wdsctl/cli/declared.py`) and the Python function in `wdsctl/api.py`, which
`docs/python_api.py` writes. A field whose type is a request, too, is a group: the options of the group are options of
the request. Fields without an `Option` are set by code alone.

`--help` imports the requests: their modules import only what loads quickly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from wdsctl.core.errors import UsageError

R = TypeVar("R")

#: In the place of a default that there is not.
UNSET: Any = object()
#: Of options that every command has at the end, in this order.
LAST_NAMES = ("wait", "workers", "catalog", "dry_run", "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What the field of an option cannot say.

    `help`: for the command line; `python_help`: for the Python function, if it needs other words. `name`: of the
    parameter, if the field has another name. `flag`: if it is not `--name`; empty for an option that the command line
    gets otherwise (`yes`). `parse`: turns what users pass into the value of the field, and takes such values, too; the
    type of its parameter is what Python users may pass. It raises UsageError with a message that names the flag; with
    `parses_early` the message does not, since Typer names it. `default`: of users, if it is not that of the field.
    """

    help: str
    python_help: str = ""
    name: str = ""
    flag: str | None = None
    short: str = ""
    metavar: str | None = None
    parse: Callable[[Any], Any] | None = None
    parses_early: bool = False
    default: Any = UNSET
    shows_default: bool = True
    is_argument: bool = False
    is_path: bool = False
    is_repeatable: bool = False  # the command line passes a list of texts
    min: float | None = None
    max: float | None = None


class Group(tuple[str, ...]):
    """The options of a group that a request has, in their order: `Annotated[IndexRequest, Group(["key", "media"])]`."""

    __slots__ = ()


class Declared(NamedTuple):
    """An option of a request. `fields`: the names of the fields that lead to it. `default`: of users; UNSET if none."""

    name: str
    flag: str
    fields: tuple[str, ...]
    kind: Any
    default: Any
    option: Option

    @property
    def is_required(self) -> bool:
        return self.default is UNSET

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of a `Literal`, also of an optional one; empty for other types."""
        literals = [each for each in (self.kind, *get_args(self.kind)) if get_origin(each) is Literal]
        return get_args(literals[0]) if literals else ()

    @property
    def has_negative(self) -> bool:
        """Whether the command line has `--no-name`, too."""
        return bool in (self.kind, *get_args(self.kind)) and self.default is not False


@cache
def declared_options(request: type) -> tuple[Declared, ...]:
    """The options of a request, in the order of help: that of its fields, with those of `LAST_NAMES` at the end."""
    found: list[Declared] = []
    defaults = {each.name: each for each in fields(request)}
    for name, hint in get_type_hints(request, include_extras=True).items():
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if is_dataclass(kind):
            inner = {each.name: each for each in declared_options(kind)}  # type: ignore[arg-type]
            shown = marks[0] if marks else inner
            found += [inner[each]._replace(fields=(name, *inner[each].fields)) for each in shown]
        elif marks:
            found.append(_declare(name, kind, marks[0], defaults[name].default))
    return tuple(sorted(found, key=lambda each: LAST_NAMES.index(each.name) if each.name in LAST_NAMES else -1))


def _declare(field: str, kind: Any, option: Option, default: Any) -> Declared:
    name = option.name or field
    flag = option.metavar or "" if option.is_argument else f"--{name.replace('_', '-')}"
    if option.default is not UNSET:
        default = option.default
    elif default is MISSING:
        default = UNSET
    elif option.is_path:
        default = None
    return Declared(name, flag if option.flag is None else option.flag, (field,), kind, default, option)


def build_request(request: type[R], values: Mapping[str, Any]) -> R:
    """The request of what a user passes, by name. None and an empty list stand for the default.

    Raises UsageError for an empty path, for a value that is no choice of its option, and those of the parsers.
    """
    read = []
    for each in declared_options(request):  # type: ignore[arg-type]  # mypy does not see that classes have hashes
        value = values.get(each.name)
        if value is None or (isinstance(value, list) and not value):
            value = each.option.default
        if value is not UNSET:
            read.append((each.fields, _read(each, value)))
    return _construct(request, read)


def _read(each: Declared, value: Any) -> Any:
    if each.option.is_path:
        value = os.fspath(value)
        if not value:
            raise UsageError(f"{each.name} is {value!r}", hint="pass a path or a URL; for the working directory, '.'")
    if each.choices and value not in each.choices:
        raise UsageError(f"{each.name} is {value!r}", hint=f"pass {' or '.join(map(repr, each.choices))}")
    return each.option.parse(value) if each.option.parse else value


def _construct(request: type[R], values: Sequence[tuple[tuple[str, ...], Any]]) -> R:
    arguments = {path[0]: value for path, value in values if len(path) == 1}
    kinds = get_type_hints(request)
    for name in dict.fromkeys(path[0] for path, _ in values if len(path) > 1):
        inner = [(path[1:], value) for path, value in values if path[0] == name]
        arguments[name] = _construct(kinds[name], inner)
    return request(**arguments)


@contextmanager
def naming_parameters(request: type) -> Iterator[None]:
    """Within the block, usage errors name the parameters of a Python function instead of the flags."""
    try:
        yield
    except UsageError as error:
        error.message, error.hint = (name_parameters(text, request) for text in (error.message, error.hint))
        raise


#: A command line, which stays; or a flag or an argument, perhaps with a value.
_FLAG_OR_COMMAND = re.compile(
    r"`wdsctl [^`]*`|(?<![\w-])(--[a-z][a-z-]*|[A-Z]{3,})(?![\w@-])(?: ([^\s,;`-][^\s,;`]*))?"
)


def name_parameters(text: str, request: type, quote: str = "") -> str:
    """A text with `seed=7` for `--seed 7`, and `root` for `ROOT`. Flags that no option has stay.

    `quote`: what stands around each.
    """
    names: dict[str, tuple[str, tuple[Any, ...]]] = {"--yes": ("yes", ())}
    for each in declared_options(request):
        names[each.flag.strip("[]")] = each.name, each.choices
        if each.has_negative:
            names[f"--no-{each.flag.removeprefix('--')}"] = f"{each.name}=False", ()

    def rename(found: re.Match[str]) -> str:
        flag, value = found[1], found[2]
        if flag not in names:
            return found[0]
        name, choices = names[flag]
        is_value = value and (value[0].isdigit() or value[0].isupper() or value in choices)
        renamed = f"{quote}{name}={value}{quote}" if is_value else f"{quote}{name}{quote}"
        return f"{renamed} {value}" if value and not is_value else renamed

    return _FLAG_OR_COMMAND.sub(rename, text)


def as_tuple(values: str | Iterable[str]) -> tuple[str, ...]:
    """The values; a single text is a tuple of itself and not of its letters."""
    return (values,) if isinstance(values, str) else tuple(values)
