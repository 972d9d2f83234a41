"""How the samples of a dataset are spread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, safe, share, size
from wdsctl.cli.render.histogram import lines
from wdsctl.cli.render.inspect_samples import at_view
from wdsctl.cli.render.pieces import table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.verbs.inspect_stats import KeyLine, KindLine, Measure, StatsReport

#: Keys of JSON, and kinds of content of a part, that are shown; --json has them all.
KEYS_SHOWN, KINDS_SHOWN = 40, 12
_TITLES = {
    "bytes": "bytes",
    "parts": "parts",
    "width": "width, pixels",
    "height": "height, pixels",
    "seconds": "duration",
}


def render(report: StatsReport) -> Iterator[RenderableType]:
    of = f" of the split {safe(report.split)}" if report.split is not None else ""
    yield f"{path(report.root)}{at_view(report.view)}: {count(report.samples, 'sample')}{of}"
    read = f"{count(report.read, 'sample')} that were read ({size(report.read_bytes)})"
    yield f"  contents are of {read}, drawn by seed {report.seed}"
    for measure in report.measures:
        yield ""
        yield from _measure(measure)
    if report.kinds:
        yield ""
        yield _kinds(report.kinds)
    if report.keys:
        yield ""
        yield from _keys(report)
    for reason, number in report.failed.items():
        yield f"{count(number, 'part')} could not be read: {safe(reason)}"


def _measure(measure: Measure) -> Iterator[str]:
    said = _SAID.get(measure.what, _counted)
    name = f"{safe(measure.part)}: " if measure.part else "a sample: "
    of = "all" if measure.of == "catalog" else "of those read"
    yield f"{name}{_TITLES.get(measure.what, measure.what)} ({count(measure.count)}, {of})"
    if measure.min == measure.max:
        yield f"  each {said(measure.min)}"
        return
    mean = f"{measure.mean:,.1f}" if measure.what not in _SAID else said(measure.mean)
    total = f", in all {said(measure.total)}" if measure.what in ("bytes", "seconds") else ""
    about = "" if measure.exact else "~"
    span = f"{said(measure.min)} to {said(measure.max)}, median {about}{said(measure.p50)}"
    yield f"  {span}, mean {mean}, p99 {about}{said(measure.p99)}{total}"
    yield from lines(measure.bins, said, is_whole=measure.what != "seconds")


def _bytes(value: float) -> str:
    return size(round(value))


def _seconds(value: float) -> str:
    return duration(value) if value >= 10 else f"{value:.2g} s"


def _counted(value: float) -> str:
    return count(round(value))


_SAID: dict[str, Callable[[float], str]] = {"bytes": _bytes, "seconds": _seconds}


def _kinds(kinds: Sequence[KindLine]) -> Table:
    rows = []
    for part, group in groupby(kinds, key=lambda line: line.part):
        mine = list(group)
        total = sum(line.count for line in mine)
        rows += [
            (
                line.part,
                line.what,
                count(line.count),
                share(line.count / total),
                "all" if line.of == "catalog" else "read",
            )
            for line in mine[:KINDS_SHOWN]
        ]
        if len(mine) > KINDS_SHOWN:
            rows.append((part, f"... and {count(len(mine) - KINDS_SHOWN)} more", "", "", ""))
    return table(("part", "what", "#count", "#share", "of"), rows)


def _keys(report: StatsReport) -> Iterator[RenderableType]:
    shown = report.keys[:KEYS_SHOWN]
    yield table(
        ("part", "key", "#share", "types", "#length", "#range"),
        [(key.part, key.path, share(key.share), _types(key), _lengths(key), _range(key)) for key in shown],
    )
    if len(shown) < len(report.keys):
        yield f"... and {count(len(report.keys) - len(shown), 'more key')} (--json lists them)"
    if report.keys_left_out:
        yield f"the keys look like data: {count(report.keys_left_out, 'value')} under further ones were not looked at"


def _types(key: KeyLine) -> str:
    return ", ".join(key.types) if len(key.types) == 1 else ", ".join(f"{t} ({count(n)})" for t, n in key.types.items())


def _lengths(key: KeyLine) -> str:
    if key.length_min is None or key.length_max is None or key.length_p50 is None:
        return ""
    if key.length_min == key.length_max:
        return count(round(key.length_min))
    about = "" if key.length_exact else "~"
    return f"{count(round(key.length_min))}-{count(round(key.length_max))} ({about}{count(round(key.length_p50))})"


def _range(key: KeyLine) -> str:
    if key.min is None or key.max is None:
        return ""
    return _figure(key.min) if key.min == key.max else f"{_figure(key.min)} to {_figure(key.max)}"


def _figure(number: float) -> str:
    """JSON has whole numbers that no float holds."""
    return f"{number:.6g}" if abs(number) < 1e300 else f"{'-' if number < 0 else ''}1e300 and more"
