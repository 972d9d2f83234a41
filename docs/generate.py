"""Writes the pages that are made from the code: catalog.md, codes.md, cli.md. With `--check`, says what is stale,
and which formats and sample types no page names."""  # noqa: INP001 - a script

from __future__ import annotations

import argparse
import ast
import difflib
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Column, Table, create_engine, inspect, text
from sqlalchemy.dialects import sqlite

from wdsctl.cli.app import build_full_app
from wdsctl.cli.main import main
from wdsctl.core import errors
from wdsctl.core.catalog import schema
from wdsctl.core.catalog.database_file import KEY_INDEX
from wdsctl.core.catalog.open_catalog import CATALOG_SCHEMA_VERSION, VIEWS
from wdsctl.core.codes import load_codes
from wdsctl.core.convert.exporters import EXPORT_FORMATS
from wdsctl.core.errors import WdsctlError
from wdsctl.core.importers import IMPORT_FORMATS
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.samples.types import SAMPLE_TYPES
from wdsctl.core.views.sql_views import EXTRA_VIEW_COLUMNS

HERE = Path(__file__).resolve().parent

EDIT_ELSEWHERE = "<!-- Written by docs/generate.py from {source}. Edit that, then run `make docs`. -->"

#: The codes by their hundreds, as the docstring of `codes.py` has them.
SECTIONS = {
    "0": "Requests",
    "1": "What a scan finds in shards",
    "2": "Raw folders, splits and dataset.yaml",
    "3": "The catalog",
    "4": "Reading and writing",
    "5": "The loader",
    "6": "Blend files",
}


class Example(NamedTuple):
    """A query that answers a question. A test runs it on a small dataset, where it must give rows."""

    question: str
    query: str


EXAMPLES = {
    "v_shard": Example(
        "Which shards have the most samples?", "SELECT path, samples, size FROM v_shard ORDER BY samples DESC LIMIT 5"
    ),
    "v_sample": Example(
        "Where is a sample? `position` is the number of the sample in the shard, from 0. `offset` is the first byte of "
        "the sample in the shard.",
        "SELECT key, shard, position, offset, size FROM v_sample ORDER BY id LIMIT 3",
    ),
    "v_part": Example(
        "Which JPEG parts are the largest?",
        "SELECT key, shard, size FROM v_part WHERE part = 'jpg' ORDER BY size DESC LIMIT 3",
    ),
    "v_split": Example("How large are the splits?", "SELECT name, share, shards, samples FROM v_split"),
    "v_media": Example(
        "Which images are at least 32 pixels wide? The view has rows only if you ran `wdsctl index --media` ([media "
        "facts](media.md#facts-in-the-catalog)). Sizes are in pixels and times in seconds. A fact that a medium does "
        "not have is null.",
        "SELECT key, part, display_width, display_height FROM v_media "
        "WHERE kind = 'image' AND width >= 32 ORDER BY width DESC LIMIT 3",
    ),
    "v_file": Example(
        "How many files of a [media folder](media.md#facts-in-the-catalog) are unreadable? In a dataset of shards, the "
        "view is empty.",
        "SELECT count(*), sum(size) FROM v_file WHERE kind = 'unreadable'",
    ),
}

CATALOG = """\
# The catalog

The catalog lists the shards, samples, parts and splits of a dataset. Query the catalog with SQL: this page describes
all views and tables, with an example for each view.

`wdsctl index` writes the catalog to `.wdsctl/catalog.sqlite`, an SQLite database with schema version {version}
(`PRAGMA user_version`). `wdsctl index --rebuild` writes it again from the shards and `dataset.yaml`.

A published catalog never changes. A command that changes the dataset writes a new catalog beside the old one and then
replaces the old one by a rename. You can therefore open a catalog as immutable, on network file systems too:

<!-- not run: a test runs the queries below through Python's sqlite3, with the same URI -->
```sh
sqlite3 "file:shards/.wdsctl/catalog.sqlite?mode=ro&immutable=1"
```

The catalog of a dataset at a URL is [in the store](remote.md#where-the-catalog-is), with a copy in
`~/.local/share/wdsctl`.

The catalog of a [JSONL file](jsonl.md) has no rows for samples unless you ran `wdsctl index --sample-rows`. Without
these rows, `v_sample` and `v_part` are empty in `sqlite3`. [`wdsctl sql`](views.md#asking-the-catalog) computes the
rows when it opens the catalog.

Use the **views** in your queries: their columns stay the same. The **tables** may change with the schema version.

The id of a sample is `shard_id << {bits} | position`, where the position in the shard counts from 0. Sorting by id
therefore gives the order in the shards.
"""

MORE = """\
[`wdsctl sql`](views.md#asking-the-catalog) can also read these views. `v_sample_split` and `v_excluded` come from
the catalog. The others come from the ledger, and are empty if the dataset has no ledger.

| View | One row for each | Columns |
|---|---|---|
"""
MORE_MEANINGS = {
    "v_sample_split": "sample in a split; a sample in several split sets has a row for each",
    "v_excluded": "shard from which a rule or the quarantine excludes samples",
    "v_run": "command that wrote or checked something. `argv` (the arguments of the command) and `details` are JSON",
    "v_finding": "finding of a run: `validate` has one per damaged sample; `run_id` is the `id` of the run in `v_run`",
    "v_view": "[view](views.md); `definition` is JSON and contains the options that created the view",
    "v_quarantine": "quarantined sample, or quarantined shard: `position` is then null",
}

CODES_PAGE = """\
# Codes

Every error and every finding has a code that never changes its meaning. `wdsctl explain WDS102` prints what stands
here; `--json` carries the code too. {count} codes.

## Exit codes

| Exit code | Means |
|---|---|
| 0 | done |
| 1 | a check found something, the loader failed, or a bug, which leaves a traceback |
| 2 | usage |
| 3 | the input is missing or unreadable |
| 4 | permission |
| 5 | partly done: the answer has findings of severity `error` |
| 6 | the catalog is locked, damaged, missing or incompatible |
| 130 | interrupted; run the same command again to continue |

## Errors in Python

All derive from `WdsctlError` and have `message`, `hint`, `where` and `code`. Each class has a default code; an error
whose cause is known has a more specific one.

| Class | Also a | Exit code | Code |
|---|---|---|---|
"""

CLI = """\
# The command line

What `--help` says of each command. [features.md](features.md) lists the features by command; [codes.md](codes.md)
explains every code.

Results go to stdout, everything else to stderr. With `--json` stdout is one JSON document that has `schema` (now 1)
and `command`, or `error`, of a [schema](schemas/README.md). [scripts.md](scripts.md) says what `--quiet` prints, and
what coding agents get. Options may be [configured](configuration.md). Progress is drawn on a terminal, and is a plain
line now and then elsewhere.

| Variable | Means |
|---|---|
| `WDSCTL_CATALOG` | a folder for the catalogs of all datasets, a subfolder each; `--catalog` wins over it |
| `WDSCTL_COMMAND_OPTION`, `WDSCTL_OPTION` | an option of one command, or of all: [configuration](configuration.md) |
| `WDSCTL_CONFIG` | a configuration file in the place of your own, or `none` |
| `WDSCTL_AGENT` | `0`: answer a coding agent as people; `1`: answer as a [coding agent](scripts.md#coding-agents) |
| `NO_COLOR`, `WDSCTL_NO_COLOR` | no colours |
| `WDSCTL_DEBUG` | `1`: show the traceback of an error, as `--debug` |
"""


def pages() -> dict[str, str]:
    """File name -> text of every generated page."""
    return {
        "catalog.md": _page("wdsctl/core/catalog/schema.py", _catalog()),
        "codes.md": _page("wdsctl/core/codes.md and errors.py", _codes()),
        "cli.md": _page("`wdsctl --help`", _cli()),
        "architecture.md": _architecture(),
    }


def stale(folder: Path) -> str:
    """How the pages in `folder` differ from what they should be, as a diff; empty where they do not."""
    return "".join(
        "".join(
            difflib.unified_diff(
                _lines(folder / name), page.splitlines(keepends=True), f"docs/{name}", f"docs/{name} (generated)"
            )
        )
        for name, page in pages().items()
    )


def unnamed(folder: Path) -> list[str]:
    """What the code has and its page does not name: formats and sample types."""
    has_name = {
        "formats.md": (*IMPORT_FORMATS, *EXPORT_FORMATS),
        "loader/samples.md": tuple(SAMPLE_TYPES),
    }
    texts = {page: (folder / page).read_text(encoding="utf-8") for page in has_name}
    return [
        f"docs/{page} does not name `{name}`"
        for page, names in has_name.items()
        for name in names
        if not re.search(rf"`{name}`|--(from|to) {name}\b", texts[page])
    ]


def write(folder: Path) -> None:
    for name, page in pages().items():
        (folder / name).write_text(page, encoding="utf-8")


def run(argv: list[str] | None = None, folder: Path = HERE) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 and a diff if a page is stale")
    if not parser.parse_args(argv).check:
        write(folder)
        return 0
    diff, absent = stale(folder), unnamed(HERE)
    sys.stdout.writelines(f"{each}\n" for each in absent)
    if diff:
        sys.stdout.write(f"{diff}\nthe documents are stale: run `make docs`\n")
    return 1 if diff or absent else 0


def _page(source: str, body: str) -> str:
    title, _, rest = body.partition("\n")
    return f"{title}\n\n{EDIT_ELSEWHERE.format(source=source)}\n{rest.rstrip()}\n"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []


def _architecture() -> str:
    """The page as it is, with the tables of rooms made from the first sentences of the rooms' docstrings."""
    text = (HERE / "architecture.md").read_text(encoding="utf-8")
    begin, end = (text.index(f"<!-- rooms: {word}") for word in ("written", "end"))
    begin = text.index("\n", begin) + 1
    return text[:begin] + "".join(map(_rooms, ("core", "loader"))) + text[end:]


def _rooms(container: str) -> str:
    """A table of rooms, top layer first: the order that import-linter enforces."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    contracts = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [each["layers"] for each in contracts["contracts"] if each.get("containers") == [f"wdsctl.{container}"]]
    names = [name for layer in layers for name in layer.replace(":", "|").split(" | ")]
    folders = [HERE.parent / "wdsctl" / container / name for name in names]
    rooms = [folder for folder in folders if folder.is_dir()] + [folders[0].parent]
    rows = [f"| `{room.relative_to(HERE.parent / 'wdsctl')}` | {_first_sentence(room)} |\n" for room in rooms]
    return f"\n| Room | What it does |\n|---|---|\n{''.join(rows)}\n"


def _first_sentence(room: Path) -> str:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]


def _catalog() -> str:
    parts = [CATALOG.format(version=CATALOG_SCHEMA_VERSION, bits=INDEX_BITS), "\n## Views\n"]
    for name, columns in _views():
        question, query = EXAMPLES[name]
        parts.append(f"\n### {name}\n\nColumns: {', '.join(f'`{column}`' for column in columns)}.\n")
        parts.append(f"\n{question}\n\n```sql\n{_wrapped(query)};\n```\n")
    parts.append(f"\n## More views in `wdsctl sql`\n\n{MORE}")
    for name, meaning in MORE_MEANINGS.items():
        parts.append(f"| `{name}` | {meaning} | {', '.join(f'`{column}`' for column in EXTRA_VIEW_COLUMNS[name])} |\n")
    parts.append("\n## Tables\n")
    parts += [_table(table) for table in schema.catalog_metadata.tables.values()]
    parts.append(f"\nBesides the primary keys, the catalog has one index: `{KEY_INDEX}`.\n")
    return "".join(parts)


def _views() -> list[tuple[str, list[str]]]:
    """The views with their columns, as SQLite has them."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        schema.catalog_metadata.create_all(connection)
        for name, query in VIEWS.items():
            connection.execute(text(f"CREATE VIEW {name} AS {query}"))
        look = inspect(connection)
        columns = [(name, [str(column["name"]) for column in look.get_columns(name)]) for name in VIEWS]
    engine.dispose()
    return columns


def _table(table: Table) -> str:
    comment = table.comment or ""
    heading = f"\n### {table.name}\n\n{comment[:1].upper()}{comment[1:]}.\n\n"
    columns = "| Column | Type | Constraint | Meaning |\n|---|---|---|---|\n"
    return heading + columns + "".join(_column(column) for column in table.columns)


def _column(column: Column[object]) -> str:
    kind = column.type.compile(dialect=sqlite.dialect())
    marks = [
        "primary key" if column.primary_key else "",
        "unique" if column.unique else "",
        "may be null" if column.nullable else "",
    ]
    comment = (column.comment or "").replace("|", "\\|")
    return f"| `{column.name}` | {kind} | {', '.join(filter(None, marks))} | {comment} |\n"


def _wrapped(query: str) -> str:
    """The query with its clauses on lines of their own."""
    for clause in ("FROM", "WHERE", "ORDER BY", "LIMIT"):
        query = query.replace(f" {clause} ", f"\n{clause} ")
    return query


def _codes() -> str:
    parts = [CODES_PAGE.format(count=len(load_codes())), *map(_error, _errors(WdsctlError))]
    for hundred, group in groupby(load_codes().items(), key=lambda item: item[0][3]):
        parts.append(f"\n## {SECTIONS[hundred]}\n")
        parts += [f"\n### {code}: {c.title}\n\n{c.meaning}\n\n**What to do.** {c.remedy}\n" for code, c in group]
    return "".join(parts)


def _errors(kind: type[WdsctlError]) -> Iterator[type[WdsctlError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from _errors(below)


def _error(kind: type[WdsctlError]) -> str:
    bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base is not WdsctlError)
    return f"| `{kind.__name__}` | {bases} | {kind.exit_code} | {kind.code} |\n"


def _cli() -> str:
    names = [[str(command.name)] for command in build_full_app().registered_commands]
    for group in build_full_app().registered_groups:
        inside = group.typer_instance.registered_commands if group.typer_instance is not None else []
        names += [[str(group.name)], *([str(group.name), str(command.name)] for command in inside)]
    parts = [CLI, f"\n## wdsctl\n\n```text\n{_help()}```\n"]
    parts += [f"\n## wdsctl {' '.join(name)}\n\n```text\n{_help(*name)}```\n" for name in names]
    return "".join(parts)


def _help(*command: str) -> str:
    """What `wdsctl COMMAND --help` prints, 80 columns wide and without colours."""
    before = dict(os.environ)
    os.environ.update(COLUMNS="80", TERM="dumb", NO_COLOR="1")
    try:
        with redirect_stdout(io.StringIO()) as out:
            main([*command, "--help"])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


if __name__ == "__main__":
    sys.exit(run())
