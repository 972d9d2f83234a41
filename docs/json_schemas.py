"""Writes docs/schemas/: what `--json` answers with, as JSON Schema. With `--check`, says what is stale."""  # noqa: INP001 - a script

from __future__ import annotations

import argparse
import importlib
import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from wdsctl.cli.output import JSON_SCHEMA_VERSION
from wdsctl.core.compare.checksum import ChecksumVerdict, HashAlgorithm, ShardChecksum
from wdsctl.core.inspect.get import GetReport
from wdsctl.core.inspect.get_many import RetrievedSample
from wdsctl.core.inspect.ls import ListingEntry, ListingKind

HERE = Path(__file__).resolve().parent / "schemas"

#: Command -> the reports that it may answer with, as module:class below wdsctl; or the fields of its document.
ANSWERS: dict[str, tuple[str, ...]] = {
    "catalog check": ("core.index.catalog_check:CatalogCheckReport",),
    "catalog info": ("core.index.catalog_check:CatalogInfoReport",),
    "catalog vacuum": ("core.index.vacuum:CatalogVacuumReport",),
    "checkpoint diff": ("core.checkpoint.checkpoint:CheckpointDiffReport",),
    "checkpoint info": ("core.checkpoint.checkpoint:CheckpointInfoReport",),
    "checkpoint redistribute": ("core.checkpoint.checkpoint:RedistributeReport",),
    "convert": ("core.convert.conversion_report:ConvertReport",),
    "diff": ("core.compare.diff:DatasetDiffReport",),
    "export": ("core.export.request:ExportReport",),
    "doctor": ("core.inspect.doctor:DoctorReport",),
    "explain": ("cli.commands.explain:ExplainReport",),
    "index": ("core.index.index:IndexReport", "core.index.media_folder:MediaFolderReport"),
    "init": ("core.init.init:InitReport",),
    "inspect": (
        "core.inspect.inspect:InspectReport",
        "core.inspect.media_folder:MediaFolderInspectReport",
        "core.inspect.samples:SamplesReport",
        "core.inspect.stats:StatsReport",
        "core.inspect.blend:BlendReport",
        "core.views.show:ViewShowReport",
    ),
    "job merge": ("core.executors.array_job:JobReport",),
    "job plan": ("core.executors.array_job:JobReport",),
    "job run": ("core.executors.array_task:TaskReport",),
    "job status": ("core.executors.array_job:JobReport",),
    "job template": ("core.executors.templates:JobTemplate",),
    "log": ("core.opened.history:LogReport", "core.opened.history:RunReport"),
    "migrate": ("core.energon.migrate:MigrationReport",),
    "prepare": ("core.prepare.prepare:PrepareReport", "core.index.media_folder:MediaFolderReport"),
    "repair": ("core.repair.repair:RepairReport",),
    "skill": ("cli.commands.skill:SkillReport",),
    "split": (
        "core.split.report:SplitReport",
        "core.split.report:SplitSetsReport",
        "core.split.report:SplitExportReport",
        "core.split.leaks:LeaksReport",
    ),
    "trace": ("core.trace.trace:TraceReport",),
    "validate": ("core.validate.request:ValidateReport", "core.validate.request:ReleaseReport"),
    "view create": ("core.views.views:ViewReport",),
    "view delete": ("core.views.views:ViewDeleteReport",),
    "view diff": ("core.views.show:ViewDiffReport",),
    "view export": ("core.views.show:ViewExportReport",),
    "view list": ("core.views.show:ViewListReport",),
    "view refresh": ("core.views.views:ViewRefreshReport",),
    "view show": ("core.views.show:ViewShowReport",),
}


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    where: str
    hint: str


@dataclass(frozen=True, slots=True)
class Ls:
    root: str
    what: ListingKind
    entries: tuple[ListingEntry, ...]


@dataclass(frozen=True, slots=True)
class LsCut(Ls):
    error: Failure


@dataclass(frozen=True, slots=True)
class Retrieved:
    root: str
    dry_run: bool
    samples: tuple[RetrievedSample, ...]


@dataclass(frozen=True, slots=True)
class RetrievedCut(Retrieved):
    error: Failure


@dataclass(frozen=True, slots=True)
class Sums:
    root: str
    algorithm: HashAlgorithm
    sums: tuple[ShardChecksum, ...]


@dataclass(frozen=True, slots=True)
class CheckedSums:
    root: str
    odd_lines: int
    checked: tuple[ChecksumVerdict, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    command: str
    option: str
    value: str | bool | tuple[str, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class Configuration:
    file: str
    user_file: str
    settings: tuple[Setting, ...]
    unknown_variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class TableCut(Table):
    error: Failure


PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

#: Those that are no dataclass of the program, which writes them piece by piece.
OWN: dict[str, tuple[type, ...]] = {
    "checksum": (Sums, CheckedSums),
    "config show": (Configuration,),
    "get": (GetReport, Retrieved, RetrievedCut),
    "ls": (Ls, LsCut),
    "sql": (Table, TableCut),
}

README = """\
# What `--json` answers with

{edit}

With `--json` stdout is one JSON document: `schema`, the version of what is described here, `command`, and the fields of
the command's answer. There is a [JSON Schema](https://json-schema.org/draft/2020-12) for each command. Fields may be
added without a new version; one that goes, or means something else, makes a new one. Whatever fails answers with
[error](error.json) in the place of the command's answer. `ls`, `sql` and `get --keys` write as they read: what fails
behind the first entry or row ends their document, whose last field is then `error`.

{rows}"""
EDIT = "<!-- Written by docs/json_schemas.py from the reports of the verbs. Edit those, then run `make docs`. -->"


def pages() -> dict[str, str]:
    """File name -> text of every schema, and of the page that lists them."""
    documents = {f"{command.replace(' ', '-')}.json": _text(schema) for command, schema in schemas().items()}
    rows = "".join(f"- [{name.removesuffix('.json')}]({name})\n" for name in sorted(documents))
    return {"README.md": README.format(edit=EDIT, rows=rows), **documents}


def schemas() -> dict[str, dict[str, Any]]:
    """Command (or `error`) -> the schema of its document."""
    kinds = {command: tuple(map(_named, names)) for command, names in ANSWERS.items()} | OWN
    documents = {command: _document(command, kinds[command]) for command in sorted(kinds)}
    fields_of_error = {"schema": {"const": JSON_SCHEMA_VERSION}, "error": _of(Failure, {})}
    documents["error"] = _whole("error", [_object(fields_of_error, is_open=False)], _definitions(Failure))
    return documents


def _named(name: str) -> type:
    module, _, kind = name.partition(":")
    return getattr(importlib.import_module(f"wdsctl.{module}"), kind)  # type: ignore[no-any-return]


def _document(command: str, kinds: tuple[type, ...]) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    head = {"schema": {"const": JSON_SCHEMA_VERSION}, "command": {"const": command}}
    bodies = [_object({**head, **_properties(kind, definitions)}, is_open=False) for kind in kinds]
    return _whole(command, bodies, definitions)


def _whole(name: str, bodies: list[dict[str, Any]], definitions: dict[str, Any]) -> dict[str, Any]:
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"wdsctl {name}"}
    body = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
    return {**title, **body, **({"$defs": dict(sorted(definitions.items()))} if definitions else {})}


def _definitions(kind: type) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    _of(kind, definitions)
    return definitions


def _object(properties: dict[str, Any], *, is_open: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": is_open,
    }


def _properties(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: _of(hints[field.name], definitions) for field in fields(kind)}


def _of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; dataclasses go to the definitions, by their names."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        documents: dict[str, Any] = {"type": PLAIN[kind]}
    elif origin is Literal:
        documents = {"enum": list(arguments)}
    elif origin in (Union, types.UnionType):
        documents = {"anyOf": [_of(each, definitions) for each in arguments]}
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        documents = {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        several = [_of(each, definitions) for each in dict.fromkeys(arguments) if each is not ...]
        documents = {"type": "array", "items": several[0] if len(several) == 1 else {"anyOf": several}}
    elif isinstance(kind, type) and is_dataclass(kind):
        documents = _defined(kind, definitions)
    elif isinstance(kind, type) and issubclass(kind, tuple):  # a named tuple is a list in JSON
        documents = {"type": "array"}
    else:
        documents = {}
    return documents


def _defined(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if definitions.get(name, {}).get("properties", {}).keys() - get_type_hints(kind).keys():
        name = f"{kind.__module__.rpartition('.')[2]}.{name}"  # another of the same name
    if name not in definitions:
        definitions[name] = {}  # it may hold itself
        definitions[name] = _object(_properties(kind, definitions), is_open=False)
    return {"$ref": f"#/$defs/{name}"}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def stale(folder: Path) -> list[str]:
    """The files that are not what they should be, or should not be there."""
    expected = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} if folder.exists() else {}
    return sorted(name for name in expected.keys() | there.keys() if expected.get(name) != there.get(name))


def run(argv: list[str] | None = None, folder: Path = HERE) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    if parser.parse_args(argv).check:
        names = stale(folder)
        if names:
            sys.stdout.write(f"stale in docs/schemas: {', '.join(names)}: run `make docs`\n")
        return 1 if names else 0
    documents = pages()
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in documents:
            path.unlink()
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run())
