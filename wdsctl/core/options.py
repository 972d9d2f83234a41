"""Options of commands, declared once: as fields of frozen requests.

    seed: int = option(0, "Seed of --sample.", metavar="N")

The field has the name, the type and the default; `Option` has what they cannot say. From such a request come the
parameters of the command line (`wdsctl/cli/declared.py`) and the Python function in `wdsctl/api.py`, which
`docs/python_api.py` writes. A field whose type is a request, too, is a group: the options of the group are options of
the request. Fields without an `Option` are set by code alone.

`--help` imports the requests: their modules import only what loads quickly.
"""

from __future__ import annotations

import os
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache, reduce
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from wdsctl.core.errors import UsageError

PathText = str | os.PathLike[str]
R = TypeVar("R")
T = TypeVar("T")

#: In the place of a default that there is not.
UNSET: Any = object()
#: Of options that every command has at the end, in this order.
LAST_NAMES = ("wait", "workers", "catalog", "dry_run", "yes")


@dataclass(frozen=True, slots=True)
class Option:
    """What the field of an option cannot say.

    `help`: for the command line, which adds the default, unless the text tells it. `python_help`: for the Python
    function, if it needs other words. `name`: of the parameter, if the field has another name. `flag`: if it is not
    `--name`; empty for an option that the command line gets otherwise (`yes`). `parse`: turns what users pass into the
    value of the field, and takes such values, too; the type of its parameter is what Python users may pass. It raises
    UsageError with a message that names the flag; with `parses_early` the message does not, since Typer names it.
    `users_default`: what users get if they pass nothing, if that is not the default of the field: `parse` reads it.
    """

    help: str
    _: KW_ONLY
    python_help: str = ""
    name: str = ""
    flag: str | None = None
    short: str = ""
    metavar: str | None = None
    parse: Callable[[Any], Any] | None = None
    parses_early: bool = False
    users_default: Any = UNSET
    is_argument: bool = False
    is_path: bool = False
    is_repeatable: bool = False  # the command line passes a list of texts
    min: float | None = None
    max: float | None = None


def option(default: T, text: str | Option, **facts: Any) -> T:
    """A field of a request that is an option. `default`: UNSET if users must pass it. `facts`: of `Option`."""
    given: dict[str, Any] = {} if default is UNSET else {"default": default}
    if isinstance(default, dict):
        given = {"default_factory": lambda: dict(default)}
    return field(**given, metadata={"option": Option(text, **facts) if isinstance(text, str) else text})  # type: ignore[no-any-return]


def group(request: Callable[[], T], names: str) -> T:
    """A field that is a request, of which only some options are options here: `names`, in this order."""
    return field(default_factory=request, metadata={"names": names.split()})


def option_of(default: T, request: type[R], make: Callable[[R], T]) -> T:
    """A field that `make` makes of several options: those of `request`."""
    return field(default=default, metadata={"request": request, "make": make})


class Declared(NamedTuple):
    """An option of a request. `fields`: the names of the fields that lead to it. `field_default`: the field's default.

    `users_kind`: the type of what users pass. `default`: what they get if they pass nothing; UNSET if there is none.
    """

    name: str
    flag: str
    fields: tuple[str, ...]
    kind: Any
    users_kind: Any
    default: Any
    field_default: Any
    option: Option

    @property
    def is_required(self) -> bool:
        return self.default is UNSET

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of a `Literal`, also of an optional one; empty for other types."""
        is_union = get_origin(self.users_kind) in (Union, types.UnionType)
        kinds = get_args(self.users_kind) if is_union else (self.users_kind,)
        return next((get_args(each) for each in kinds if get_origin(each) is Literal), ())

    @property
    def has_negative(self) -> bool:
        """Whether the command line has `--no-name`, too."""
        return bool in (self.kind, *get_args(self.kind)) and self.default is not False


@cache
def declared_options(request: type) -> tuple[Declared, ...]:
    """The options of a request, in the order of help: that of its fields, with those of `LAST_NAMES` at the end."""
    found: list[Declared] = []
    kinds = get_type_hints(request)
    for each in fields(request):
        kind = each.metadata.get("request", kinds[each.name])
        if is_dataclass(kind):
            inner = {option.name: option for option in declared_options(kind)}  # type: ignore[arg-type]
            names = each.metadata.get("names", inner)
            found += [inner[name]._replace(fields=(each.name, *inner[name].fields)) for name in names]
        elif "option" in each.metadata:
            found.append(_declare(each.name, kind, each.metadata["option"], _default(each)))
    return tuple(sorted(found, key=lambda each: LAST_NAMES.index(each.name) if each.name in LAST_NAMES else -1))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return UNSET if field.default is MISSING else field.default


def _declare(field: str, kind: Any, option: Option, field_default: Any) -> Declared:
    name = option.name or field
    flag = option.metavar or "" if option.is_argument else f"--{name.replace('_', '-')}"
    default = None if option.is_path and field_default is not UNSET else field_default
    default = default if option.users_default is UNSET else option.users_default
    flag = flag if option.flag is None else option.flag
    users_kind = kind if option.parse is None else next(iter(get_type_hints(option.parse).values()))
    return Declared(name, flag, (field,), kind, users_kind, default, field_default, option)


def changed_options(request: Any) -> Iterator[tuple[Declared, Any]]:
    """The options whose fields differ from their defaults, with the values. Not for requests with `option_of`."""
    for each in declared_options(type(request)):  # type: ignore[arg-type]  # as below
        value = reduce(getattr, each.fields, request)
        if value != each.field_default:
            yield each, value


def given_options(request: Any, names: str) -> dict[str, bool]:
    """Whether the request has these options, by flag: whether their fields differ from the defaults.

    `names`: of the options, such as "seed by", in this order. Not for those of `option_of`.
    """
    options = {each.name: each for each in declared_options(type(request))}  # type: ignore[arg-type]  # as below
    chosen = [options[name] for name in names.split()]
    return {each.flag: reduce(getattr, each.fields, request) != each.field_default for each in chosen}


def build_request(request: type[R], values: Mapping[str, Any]) -> R:
    """The request of what a user passes, by name. None and an empty list stand for the default.

    Raises UsageError for an empty path, for a value that is no choice of its option or beyond its limits, and those of
    the parsers.
    """
    read = []
    for each in declared_options(request):  # type: ignore[arg-type]  # mypy does not see that classes have hashes
        value = values.get(each.name)
        if value is None or (value in ([], each.default) and not each.is_required):
            value = each.option.users_default
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
    if isinstance(value, int | float):
        _check_limits(each.name, value, each.option)
    if each.option.parse is None:
        return value
    try:
        return each.option.parse(value)
    except UsageError as error:
        error.message = f"{each.name}: {error.message}" if each.option.parses_early else error.message
        raise


def _check_limits(name: str, value: float, limits: Option) -> None:
    if limits.min is not None and value < limits.min:
        raise UsageError(f"{name} is {value!r}: expected {limits.min:g} or more", hint="pass a larger number")
    if limits.max is not None and value > limits.max:
        raise UsageError(f"{name} is {value!r}: expected {limits.max:g} or less", hint="pass a smaller number")


def _construct(request: type[R], values: Sequence[tuple[tuple[str, ...], Any]]) -> R:
    arguments = {path[0]: value for path, value in values if len(path) == 1}
    kinds = get_type_hints(request)
    for each in fields(request):  # type: ignore[arg-type]
        inner = [(path[1:], value) for path, value in values if path[0] == each.name and len(path) > 1]
        if inner:
            built = _construct(each.metadata.get("request", kinds[each.name]), inner)
            arguments[each.name] = each.metadata["make"](built) if "make" in each.metadata else built
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
    r"`wdsctl [^`]*`|(?<![\w/.-])(--[a-z][a-z-]*|-[A-Z]|[A-Z]{3,})(?!\.?[\w@/-])(?: ([^\s,;`-][^\s,;`]*))?"
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
        is_quoted = found.string[found.start() - 1 : found.start()] == "`"
        is_value = value and (is_quoted or value[0].isdigit() or value[0].isupper() or value in choices)
        renamed = f"{quote}{name}={value}{quote}" if is_value else f"{quote}{name}{quote}"
        return f"{renamed} {value}" if value and not is_value else renamed

    return _FLAG_OR_COMMAND.sub(rename, text)


def as_tuple(values: str | Sequence[str]) -> tuple[str, ...]:
    """The values; a single text is a tuple of itself and not of its letters."""
    return (values,) if isinstance(values, str) else tuple(values)


def as_paths(paths: PathText | Sequence[PathText]) -> tuple[str, ...]:
    """The paths as texts; a single one is a tuple of itself. Raises UsageError for an empty one."""
    texts = tuple(os.fspath(each) for each in ([paths] if isinstance(paths, str | os.PathLike) else paths))
    if "" in texts:
        raise UsageError("one of the paths is empty", hint="pass a path or a URL; for the working directory, '.'")
    return texts
