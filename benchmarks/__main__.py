"""`make bench`: environments, corpora, contests, results, report.

python -m benchmarks [--only prepare,folder,loader,start] [--contenders energon,wdsctl] [--rounds N]
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import partial

from benchmarks import folder_bench, loader_bench, prepare_bench, start_bench
from benchmarks.machine import machine, versions
from benchmarks.peers import ensure_peers
from benchmarks.places import PEERS_PYTHON, REPORT, REPOSITORY, RESULTS
from benchmarks.report import write_report
from benchmarks.results import Row, Subject, save_subject

_CORPORA = {
    "prepare": prepare_bench.CORPORA,
    "folder": folder_bench.CORPORA,
    "loader": loader_bench.CORPORA,
    "start": start_bench.CORPORA,
}
_ROUNDS = {"prepare": 3, "folder": 5, "loader": 5, "start": 5}


def main() -> None:
    given = _arguments()
    ensure_peers()
    for name in given.only:
        _corpora(_CORPORA[name])
        rounds = given.rounds or _ROUNDS[name]
        _measured(name, _rows(name, partial(_is_wanted, given.contenders), rounds, given.loader_workers))
    write_report()
    print(REPORT.relative_to(REPOSITORY))


def _rows(name: str, wanted: Callable[[str], bool], rounds: int, loader_workers: Sequence[int]) -> Iterable[Row]:
    if name == "prepare":
        return prepare_bench.prepare_rows(wanted, rounds)
    if name == "folder":
        return folder_bench.folder_rows(wanted, rounds)
    if name == "start":
        return start_bench.start_rows(wanted, rounds)
    return loader_bench.loader_rows(wanted, rounds, loader_workers)


def _measured(name: str, rows: Iterable[Row]) -> None:
    """Saves after every row, so that a run cut short keeps what it has."""
    today = datetime.now(timezone.utc).date().isoformat()
    hardware, packages = machine(), versions()
    done: list[Row] = []
    for row in rows:
        done.append(row)
        save_subject(RESULTS, Subject(name=name, date=today, machine=hardware, versions=packages, rows=done))


def _corpora(names: Sequence[str]) -> None:
    subprocess.run([str(PEERS_PYTHON), "-m", "benchmarks.corpora", *names], check=True, cwd=REPOSITORY)


def _is_wanted(chosen: Sequence[str], contender: str) -> bool:
    """Whether a contender takes part: its name begins with a chosen word. With none chosen, everybody does."""
    return not chosen or any(contender.startswith(word) for word in chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    words = partial(str.split, sep=",")
    parser.add_argument(
        "--only", type=words, default=list(_CORPORA), metavar="SUBJECTS", help="prepare,folder,loader,start"
    )
    parser.add_argument("--contenders", type=words, default=[], metavar="NAMES", help="such as energon,wdsctl")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="timed rounds; 3 for prepare, else 5")
    parser.add_argument("--loader-workers", type=_counts, default=(0,), metavar="COUNTS", help="such as 0,2")
    given = parser.parse_args()
    if unknown := [name for name in given.only if name not in _CORPORA]:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(_CORPORA)}")
    return given


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    main()
