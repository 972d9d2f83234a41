"""`make bench`: environments, corpora, contests, results, report and chart.

python -m benchmarks [--only SUBJECTS] [--loader-workers COUNTS] [--contenders energon,wdsctl] [--rounds N]
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import NamedTuple

from benchmarks import (
    folder_bench,
    in_place_bench,
    install_bench,
    loader_bench,
    media_bench,
    packing_bench,
    plans_bench,
    prepare_bench,
    publish_bench,
    shards_bench,
    sources_bench,
    start_bench,
    states_bench,
    stores_bench,
    transport_bench,
    uploads_bench,
    validate_bench,
    verbs_bench,
    view_bench,
)
from benchmarks.chart import write_charts
from benchmarks.machine import machine, versions
from benchmarks.peers import ensure_peers
from benchmarks.places import PEERS_PYTHON, REPORT, REPOSITORY, RESULTS
from benchmarks.report import write_report
from benchmarks.results import Row, Subject, save_subject

ContenderFilter = Callable[[str], bool]


class Bench(NamedTuple):
    """The rows of one subject: the corpora they need, what makes them, and the rounds where nobody says how many."""

    corpora: Sequence[str]
    rows: Callable[[ContenderFilter, int], Iterable[Row]]
    rounds: int = 5
    has_peers: bool = True


BENCHES = {
    "prepare": Bench(prepare_bench.CORPORA, prepare_bench.prepare_rows, rounds=3),
    "folder": Bench(folder_bench.CORPORA, folder_bench.folder_rows),
    "loader": Bench(loader_bench.CORPORA, loader_bench.loader_rows),
    "in_place": Bench(in_place_bench.CORPORA, in_place_bench.in_place_rows),
    "stores": Bench(stores_bench.CORPORA, stores_bench.stores_rows, rounds=3),
    "transport": Bench(transport_bench.CORPORA, transport_bench.transport_rows),
    "sources": Bench(sources_bench.CORPORA, sources_bench.sources_rows),
    "plans": Bench(plans_bench.CORPORA, plans_bench.plans_rows),
    "start": Bench(start_bench.CORPORA, start_bench.start_rows),
    "install": Bench(install_bench.CORPORA, install_bench.install_rows, rounds=3, has_peers=False),
    "states": Bench(states_bench.CORPORA, states_bench.states_rows),
    "media": Bench(media_bench.CORPORA, media_bench.media_rows, rounds=3),
    "packing": Bench(packing_bench.CORPORA, packing_bench.packing_rows),
    "validate": Bench(validate_bench.CORPORA, validate_bench.validate_rows),
    "view": Bench(view_bench.CORPORA, view_bench.view_rows),
    "verbs": Bench(verbs_bench.CORPORA, verbs_bench.verbs_rows, rounds=3),
    "publish": Bench(publish_bench.CORPORA, publish_bench.publish_rows, rounds=3),
    "uploads": Bench(uploads_bench.CORPORA, uploads_bench.uploads_rows, rounds=3, has_peers=False),
    "shards": Bench(shards_bench.CORPORA, shards_bench.shards_rows, rounds=1, has_peers=False),
}


def main() -> None:
    given = _arguments()
    if any(BENCHES[name].has_peers for name in given.only):
        ensure_peers()
    for name in given.only:
        bench = BENCHES[name]
        _corpora(bench.corpora)
        rows = bench.rows
        if name == "loader":
            rows = partial(loader_bench.loader_rows, worker_counts=given.loader_workers)
        _measured(name, rows(partial(_is_selected, given.contenders), given.rounds or bench.rounds))
    write_report()
    write_charts()
    print(REPORT.relative_to(REPOSITORY))


def _measured(name: str, rows: Iterable[Row]) -> None:
    """Saves after every row, so that a run cut short keeps what it has."""
    today = datetime.now(timezone.utc).date().isoformat()
    hardware, packages = machine(), versions()
    done: list[Row] = []
    for row in rows:
        done.append(row)
        save_subject(RESULTS, Subject(name=name, date=today, machine=hardware, versions=packages, rows=done))


def _corpora(names: Sequence[str]) -> None:
    if not names:
        return
    subprocess.run([str(PEERS_PYTHON), "-m", "benchmarks.corpora", *names], check=True, cwd=REPOSITORY)


def _is_selected(chosen: Sequence[str], contender: str) -> bool:
    """Whether a contender takes part: its name begins with a chosen word. With none chosen, everybody does."""
    return not chosen or any(contender.startswith(word) for word in chosen)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    words = partial(str.split, sep=",")
    parser.add_argument("--only", type=words, default=list(BENCHES), metavar="SUBJECTS", help=",".join(BENCHES))
    parser.add_argument("--contenders", type=words, default=[], metavar="NAMES", help="such as energon,wdsctl")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="timed rounds; 3 or 5 by the subject")
    parser.add_argument("--loader-workers", type=_counts, default=loader_bench.WORKERS, metavar="COUNTS")
    given = parser.parse_args()
    if unknown := [name for name in given.only if name not in BENCHES]:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    return given


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    main()
