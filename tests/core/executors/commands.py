"""Commands whose work is divided into units, with their inputs, and the files that they write."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.build import a_dataset, a_folder, a_shard, an_image
from wdsctl.cli.main import main, run_inner
from wdsctl.core.executors.array_job import JobReport, merge_job, plan_job
from wdsctl.core.executors.array_task import run_task

SHARDS = 9
SAMPLES = 4

_VOLATILE_NAMES = ("ledger.sqlite", "ledger.sqlite-journal", "lock")


class Command(NamedTuple):
    """`prepare` writes the input into a folder; `arguments` are the command lines to run there, in order."""

    prepare: Callable[[Path], object]
    arguments: Sequence[Sequence[str]]


def _shards(root: Path) -> None:
    images = [an_image("PNG", size=(4 + i, 3)) for i in range(SAMPLES)]
    shards = {}
    for number in range(SHARDS):
        files = {}
        for i in range(SAMPLES):
            key = f"{number:02d}-{i}"
            files[f"{key}.png"] = images[i]
            files[f"{key}.json"] = json.dumps({"group": f"g{(number + i) % 5}", "n": i}).encode()
        shards[f"s-{number:02d}.tar"] = files
    a_dataset(root / "data", shards)


def _broken_shards(root: Path) -> None:
    _shards(root)
    complete = a_shard({f"x{i}.txt": b"text" * 200 for i in range(6)})
    for number in range(4):
        (root / "data" / f"broken-{number}.tar").write_bytes(complete[: len(complete) - 2600 - 700 * number])


def _raw_files(root: Path) -> None:
    files = {}
    for i in range(40):
        files[f"{i:03d}.txt"] = b"text %d" % i
        files[f"{i:03d}.cls"] = b"%d" % (i % 3)
    a_folder(root / "raw", files)


_PREPARE = ("prepare", "raw", "out", "--shard-samples", "4", "--split", "8,1,1", "--yes")

COMMANDS: Mapping[str, Command] = {
    "index": Command(_shards, [("index", "data")]),
    "media": Command(_shards, [("index", "data", "--media", "--column", "n=json:json:n")]),
    "columns": Command(_shards, [("index", "data", "--column", "n=json:json:n", "--column", "c=chars:json")]),
    "split": Command(
        _shards, [("index", "data"), ("split", "data", "6,3,1", "--group-by", "json:group", "--allow-empty")]
    ),
    "split by value": Command(_shards, [("index", "data"), ("split", "data", "--by-value", "json:group")]),
    "validate": Command(
        _broken_shards, [("index", "data"), ("validate", "data", "--level", "headers", "--level", "content", "--json")]
    ),
    "repair": Command(_broken_shards, [("repair", "data", "out")]),
    "convert": Command(_shards, [("convert", "data", "out", "--to", "mds", "--shard-samples", "5")]),
    "convert shards": Command(_shards, [("convert", "data", "out", "--shard-samples", "5", "--image", "jpg")]),
    "prepare": Command(_raw_files, [_PREPARE]),
}


def fresh_input(command: Command, root: Path) -> None:
    """Writes the input of a command below `root`, with the same modification times in every call."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    command.prepare(root)
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def run_locally(command: Command) -> int:
    """Runs a command in the current folder; returns the exit code of its last command line."""
    return [main([*arguments, "--workers", "1"]) for arguments in command.arguments][-1]


def run_as_job(command: Command, folder: Path, tasks: int, run_tasks: Callable[[Path, int, int], Any]) -> int:
    """Runs the last command line as a job, in as many rounds of tasks as it needs."""
    for arguments in command.arguments[:-1]:
        main([*arguments, "--workers", "1"])
    outcome = plan_job(str(folder), [*command.arguments[-1], "--workers", "1"], run_inner, tasks=tasks)
    rounds = 0
    while isinstance(outcome, JobReport):
        rounds += 1
        assert rounds < 6
        run_tasks(folder, tasks, rounds)
        outcome = merge_job(str(folder), run_inner)
    return outcome


def run_each_task(folder: Path, tasks: int, _round: int) -> None:
    for task in range(tasks):
        run_task(str(folder), task)


def everything(root: Path) -> dict[str, Any]:
    """All files below a folder, by name: their bytes.

    Catalogs are compared byte for byte, but for two values of fixed length: the random uuid, by which a user tells a
    copy from a catalog that was made again, and the times of shards, which are those of the run that wrote them. Other
    databases are compared by rows.
    """
    contents: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not path.is_file() or path.name in _VOLATILE_NAMES:
            continue
        if path.suffix == ".result":  # contains a modification time
            contents[name] = path.stat().st_size
        else:
            contents[name] = catalog_bytes(path) if path.name == "catalog.sqlite" else path.read_bytes()
            if path.suffix == ".sqlite" and path.name != "catalog.sqlite":
                contents[name] = _rows(path)
    return contents


def catalog_bytes(path: str | Path) -> bytes:
    """The bytes of a catalog with zeros for its uuid and the times of its shards."""
    data = Path(path).read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        [(uuid,)] = connection.execute("SELECT value FROM meta WHERE key = 'uuid'")
        times = [time for (time,) in connection.execute("SELECT DISTINCT mtime_ns FROM shard")]
    data = data.replace(uuid.encode(), bytes(len(uuid)))
    for time in times:
        data = data.replace(time.to_bytes(8, "big"), bytes(8))
    return data


def _rows(path: Path) -> list[tuple[str, tuple[Any, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        tables = [name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows: list[tuple[str, tuple[Any, ...]]] = []
        for table in tables:
            contents = connection.execute(f"SELECT * FROM {table}")
            rows += [(table, _without_times(table, row)) for row in contents if row[:1] != (b"uuid",)]
    return rows


def _without_times(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shards that a command writes have the time of the run, so times are replaced by 0."""
    return tuple(0 if table == "shard" and isinstance(each, int) and each > 10**17 else each for each in row)
