"""Prints what common journeys cost inside the package, next to the figures of 2026-11-29. `make house`.

Each journey runs twice, on new data, and the second run is measured: the first one has imported the modules. Processes
that a journey starts are not measured; datasets of a few samples need none. The journeys of the loader need torch, and
are left out without it. With `--sites`, also prints where each connection is made, each schema is checked and each
dataset.yaml is parsed. With `--check`, ends with 1 if a command costs more than it may (`MOST`).
"""  # noqa: INP001 - a script

from __future__ import annotations

import inspect
import io
import sys
import tarfile
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from PIL import Image

import wdsctl

PACKAGE = str(Path(wdsctl.__file__).parent) + "/"


class Cost(NamedTuple):
    """What one journey did, in all threads of this process."""

    files: int  # of the package, in which code ran
    functions: int  # of the package, that ran
    calls: int  # from a file of the package into another one, with only foreign code between them
    opens: int  # of files, by Python; SQLite opens its files itself
    connections: int  # of SQLite
    schema_checks: int  # of catalogs and ledgers
    configs: int  # parsed dataset.yaml


COLUMNS = ("files", "functions", "calls between files", "opens", "SQLite connections", "schema checks", "dataset.yaml")

#: What `--sites` lists, besides connections: file of the package and function.
_COUNTED = {
    ("core/catalog/database_file.py", "check_database"): "schema check",
    ("core/dataset/config.py", "parse_config"): "dataset.yaml",
}

#: Files that open databases for others, which `--sites` skips.
_OPENERS = (
    "core/sqlite_file.py",
    *(f"core/catalog/{name}.py" for name in ("database_file", "open_catalog", "read", "ledger_file", "ledger")),
)

#: By this script, before the third rearrangement of the package.
BEFORE_DAY = "2026-11-29"
BEFORE = {
    "index one tar": Cost(59, 488, 634, 182, 7, 5, 0),
    "index again": Cost(44, 300, 372, 114, 9, 9, 0),
    "prepare raw with split": Cost(143, 1190, 2925, 375, 18, 15, 9),
    "inspect": Cost(51, 299, 298, 19, 5, 5, 1),
    "validate": Cost(64, 438, 460, 78, 6, 7, 1),
    "split another set": Cost(54, 451, 834, 161, 13, 13, 4),
    "split into 2 folds": Cost(59, 508, 1264, 369, 16, 16, 3),
    "prepare again": Cost(118, 758, 2619, 461, 17, 17, 8),
    "index media": Cost(49, 369, 399, 163, 4, 3, 0),
    "index media again": Cost(31, 176, 280, 155, 7, 7, 0),
    "inspect media": Cost(28, 111, 93, 28, 2, 2, 0),
    "open a loader, first batch": Cost(106, 713, 545, 11, 1, 1, 1),
    "one more batch": Cost(43, 199, 126, 0, 0, 0, 0),
    "save": Cost(18, 68, 44, 0, 0, 0, 0),
    "resume, first batch": Cost(110, 754, 561, 10, 1, 1, 1),
}

#: What `--check` allows the commands: (calls between files, opens, connections, schema checks, parsed dataset.yaml).
#: Lower a figure when a journey costs less; a commit that raises one says why. Calls and opens have a margin, for other
#: Python versions and deeper temporary folders.
MOST = {
    "index one tar": (695, 60, 2, 1, 0),
    "index again": (386, 25, 2, 2, 0),
    "prepare raw with split": (2_910, 112, 2, 1, 2),
    "inspect": (330, 25, 2, 2, 1),
    "validate": (550, 25, 2, 2, 1),
    "split another set": (665, 45, 3, 3, 2),
    "split into 2 folds": (970, 45, 3, 3, 2),
    "prepare again": (1_890, 70, 4, 4, 2),
    "index media": (443, 55, 3, 2, 0),
    "index media again": (245, 35, 3, 3, 0),
    "inspect media": (86, 15, 1, 1, 0),
}

Journeys = dict[str, Callable[[], object]]


class Recorder:
    """Counts calls and opened files while `active`. Python cannot remove an audit hook: one stays in the process."""

    def __init__(self) -> None:
        self.active = False
        self._functions: set[tuple[str, str]] = set()
        self._calls = 0
        self._events: Counter[str] = Counter()
        self.sites: list[str] = []
        sys.addaudithook(self._count_event)

    @contextmanager
    def recording(self) -> Iterator[None]:
        self._functions, self._calls, self._events, self.sites = set(), 0, Counter(), []
        self.active = True
        threading.setprofile(self._count_call)
        sys.setprofile(self._count_call)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.active = False

    def cost(self) -> Cost:
        """What the last recording counted."""
        files = {file for file, _ in self._functions}
        opens, connections = self._events["open"], self._events["sqlite3.connect"]
        checks, configs = (self._events[label] for label in _COUNTED.values())
        return Cost(len(files), len(self._functions), self._calls, opens, connections, checks, configs)

    def _count_event(self, event: str, values: tuple[object, ...]) -> None:
        if self.active:
            self._events[event] += 1
            if event == "sqlite3.connect":
                name = str(values[0]).partition("?")[0].rpartition("/")[2]
                self.sites.append(f"{name}: {_callers(inspect.currentframe())}")

    def _count_call(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
            return
        name = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has no qualname
        self._functions.add((code.co_filename, name))
        label = _COUNTED.get((code.co_filename.removeprefix(PACKAGE), name))
        if label is not None:
            self._events[label] += 1
            self.sites.append(f"{label}: {_callers(frame.f_back)}")
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        self._calls += caller is not None and caller.f_code.co_filename != code.co_filename


def _callers(frame: FrameType | None) -> str:
    """The two innermost functions of the package above `frame`, without those that open databases for others."""
    found: list[str] = []
    while frame is not None and len(found) < 2:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE) and not path.endswith(_OPENERS):
            found.append(f"{path.removeprefix(PACKAGE)}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(found)


def measure(journeys: Journeys, recorder: Recorder, sites: dict[str, list[str]] | None = None) -> dict[str, Cost]:
    """Run the journeys in their order, of which each may use what the previous ones made. Fills `sites`."""
    costs = {}
    for name, run in journeys.items():
        with recorder.recording():
            run()
        costs[name] = recorder.cost()
        if sites is not None:
            sites[name] = recorder.sites
    return costs


def command_journeys(folder: Path) -> Journeys:
    """Commands over data that this function writes into `folder`. They leave `dataset` there."""
    write_data(folder)
    tars, raw, dataset, media = (str(folder / name) for name in ("tars", "raw", "dataset", "media"))
    return {
        "index one tar": lambda: wdsctl.index(tars),
        "index again": lambda: wdsctl.index(tars),
        "prepare raw with split": lambda: wdsctl.prepare(raw, dataset, split="6,1,1"),
        "inspect": lambda: wdsctl.inspect(dataset),
        "validate": lambda: wdsctl.validate(dataset),
        "split another set": lambda: wdsctl.split(dataset, "5,2,1", split_set="b"),
        "split into 2 folds": lambda: wdsctl.split(dataset, folds=2, split_set="f", allow_empty=True),
        "prepare again": lambda: wdsctl.prepare(raw, dataset, split="6,1,1"),
        "index media": lambda: wdsctl.index(media, media=True),
        "index media again": lambda: wdsctl.index(media, media=True),
        "inspect media": lambda: wdsctl.inspect(media),
    }


def loader_journeys(dataset: str) -> Journeys:
    """A training in this process, without workers, over a dataset that `prepare` has made."""
    from wdsctl.loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset
    from wdsctl.loader.loader import Loader

    def open_loader() -> Loader:
        encoder, config = DefaultTaskEncoder(), WorkerConfig(0, 1, 0)
        return get_savable_loader(get_train_dataset(dataset, batch_size=2, task_encoder=encoder, worker_config=config))

    def save() -> None:
        states.append(loader.state_dict())

    def resume() -> object:
        again = open_loader()
        again.load_state_dict(states[-1])
        return next(iter(again))

    loader = open_loader()
    states = [loader.state_dict()]
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    return {
        "open a loader, first batch": lambda: next(iter(open_loader())),
        "one more batch": lambda: next(batches),
        "save": save,
        "resume, first batch": resume,
    }


def write_data(folder: Path) -> None:
    """Write `raw`, 8 pictures with captions, `tars`, one shard of 4 samples, and `media`, one picture."""
    raw, tars, media = folder / "raw", folder / "tars", folder / "media"
    for each in (raw, tars, media):
        each.mkdir()
    picture = io.BytesIO()
    Image.new("RGB", (32, 32)).save(picture, "JPEG")
    for i in range(8):
        (raw / f"{i:03}.jpg").write_bytes(picture.getvalue())
        (raw / f"{i:03}.txt").write_text(f"picture number {i}", encoding="utf-8")
    (media / "picture.jpg").write_bytes(picture.getvalue())
    with tarfile.open(tars / "a.tar", "w") as tar:
        for path in sorted(raw.iterdir())[:8]:
            tar.add(path, path.name)


def costs_in(folder: Path, recorder: Recorder, sites: dict[str, list[str]]) -> dict[str, Cost]:
    """What every journey costs in an empty folder, by its name."""
    costs = measure(command_journeys(folder), recorder, sites)
    if find_spec("torch") is not None:
        costs |= measure(loader_journeys(str(folder / "dataset")), recorder, sites)
    return costs


def excess(costs: dict[str, Cost]) -> list[str]:
    """What a journey of `MOST` costs more than it may, in a line each."""
    return [
        f"{name}: {column} {now}, at most {most}"
        for name, limits in MOST.items()
        for column, now, most in zip(COLUMNS[2:], costs[name][2:], limits, strict=True)
        if now > most
    ]


def main() -> int:
    warnings.simplefilter("ignore")
    recorder = Recorder()
    if "--check" in sys.argv:
        for _ in range(2):
            with tempfile.TemporaryDirectory(prefix="wdsctl-house-") as folder:
                found = excess(measure(command_journeys(Path(folder)), recorder))
        sys.stdout.writelines(f"{each}\n" for each in found)
        return 1 if found else 0
    costs: dict[str, Cost] = {}
    sites: dict[str, list[str]] = {}
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="wdsctl-house-") as folder:
            costs = costs_in(Path(folder), recorder, sites)
    sys.stdout.write(f"{'':38}{''.join(f'{column:>{len(column) + 2}}' for column in COLUMNS)}\n")
    for name, now in costs.items():
        for label, cost in ((f"{name:28}{BEFORE_DAY}", BEFORE[name]), (f"{'':28}now", now)):
            numbers = (f"{number:{len(column) + 2},}" for number, column in zip(cost, COLUMNS, strict=True))
            sys.stdout.write(f"{label:38}{''.join(numbers)}\n")
        if "--sites" in sys.argv:
            sys.stdout.writelines(f"    {site}\n" for site in sites[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
