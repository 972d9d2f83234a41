"""What we set out to reach: the bounds of the design, each against a figure of one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.results import Row

#: Format -> ours, the native reader of the same files.
IN_PLACE_RIVALS = {"MDS": ("wdsctl_mds", "mosaic"), "LitData": ("wdsctl_litdata", "litdata")}

_LOADERS = ("energon", "webdataset", "mosaic", "litdata")
_HIGHER_IS_BETTER = ("samples_per_second", "gigabytes_per_second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    subject: str
    row: str
    entry: str
    figure: str
    bound: float
    #: The rivals; the best of them counts. Empty: the bound is for our own figure, and is the most it may be, or of a
    #: rate the least.
    rivals: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The target as the page shows it."""
        if not self.rivals:
            return f"{'≥' if self.figure in _HIGHER_IS_BETTER else '≤'} {_quantity(self.figure, self.bound)}"
        if self.bound < 1 and self.figure not in _HIGHER_IS_BETTER:
            measure = "as much as" if self.figure.endswith("bytes") else "as long as"
            return f"≤ {1 / self.bound:g} times {measure} {self.rivals[0]}"
        return f"≥ {self.bound:g} times {self.rivals[0] if len(self.rivals) == 1 else 'the best other loader'}"


@dataclass(frozen=True, slots=True)
class Verdict:
    #: The measured ratio or figure, as text.
    measured: str
    is_met: bool


def judge(target: Target, row: Row) -> Verdict | None:
    """None if one of the two sides was not measured."""
    value = _figure(row, target.entry, target.figure)
    if value is None:
        return None
    is_rate = target.figure in _HIGHER_IS_BETTER
    if not target.rivals:
        return Verdict(_quantity(target.figure, value), value >= target.bound if is_rate else value <= target.bound)
    rival_values = [figure for name in target.rivals if (figure := _figure(row, name, target.figure)) is not None]
    if not rival_values:
        return None
    ratio = value / max(rival_values) if is_rate else min(rival_values) / value
    if target.bound >= 1 or is_rate:
        words = f"{ratio:.2f} times"
    else:
        words = f"{1 / ratio:.2f} times as {'much' if target.figure.endswith('bytes') else 'long'}"
    return Verdict(words, ratio >= target.bound)


def _figure(row: Row, name: str, figure: str) -> float | None:
    entry = row.entry(name)
    return entry.median.get(figure) if entry else None


#: The ending of a figure's name, and the format of its values.
_QUANTITIES: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("gigabytes_per_second", lambda value: f"{value:.2f} GB/s"),
    ("peak_bytes", lambda value: f"{value / 1e6:,.0f} MB"),
    ("bytes_a_sample", lambda value: f"{value:.1f} bytes per sample"),
    ("bytes", lambda value: f"{value:,.0f} bytes"),
    ("share", lambda value: f"{value:.2f} of the limit"),
    ("trips", lambda value: f"{value:.0f} round trips"),
    ("percent", lambda value: f"{value:.3f} %"),
    ("", lambda value: f"{value * 1000:.2g} ms" if value < 0.01 else f"{value:.2f} s"),
)


def _quantity(figure: str, value: float) -> str:
    return next(as_text(value) for ending, as_text in _QUANTITIES if figure.endswith(ending))


def _prepare(row: str, entry: str, figure: str, bound: float, *rivals: str) -> Target:
    return Target(subject="prepare", row=row, entry=entry, figure=figure, bound=bound, rivals=rivals)


def _loader(row: str, figure: str, bound: float, *rivals: str, entry: str = "wdsctl") -> Target:
    return Target(subject="loader", row=row, entry=entry, figure=figure, bound=bound, rivals=rivals)


def _start(row: str, entry: str, figure: str, bound: float, *rivals: str) -> Target:
    return Target(subject="start", row=row, entry=entry, figure=figure, bound=bound, rivals=rivals)


def _sources(mode: str, figure: str) -> Target:
    row, few = f"{mode}, by the number of sources", ("1 source",)
    return Target(subject="sources", row=row, entry="1,000 sources", figure=figure, bound=0.9, rivals=few)


def _plans(row: str, figure: str, bound: float) -> Target:
    """A thousand million samples may take `bound` times what a million take."""
    small = ("1,000,000 samples",)
    return Target(subject="plans", row=row, entry="1,000,000,000 samples", figure=figure, bound=1 / bound, rivals=small)


def _verbs(row: str, entry: str, figure: str, bound: float, *rivals: str) -> Target:
    return Target(subject="verbs", row=row, entry=entry, figure=figure, bound=bound, rivals=rivals)


def _stores(row: str, figure: str, bound: float, *rivals: str, entry: str = "wdsctl") -> Target:
    return Target(subject="stores", row=row, entry=entry, figure=figure, bound=bound, rivals=rivals)


_MEMORY = "memory of index, 2 workers"
_STATES = "states of 8 lanes, and resuming from them"
_RESUMED = ("first batch of a million samples, begun and resumed", "resumed after 60,000 batches")


TARGETS = (
    *(
        Target(
            subject="in_place",
            row=f"{title}, raw, {workers} worker{'' if workers == 1 else 's'}",
            entry=entry,
            figure="samples_per_second",
            bound=1,
            rivals=(native,),
        )
        for title, (entry, native) in IN_PLACE_RIVALS.items()
        for workers in (0, 2)
    ),
    _prepare("prepare tiny, 2 workers", "wdsctl index", "wall_seconds", 10, "energon prepare"),
    _prepare("prepare tiny, 2 workers", "wdsctl prepare", "wall_seconds", 10, "energon prepare"),
    _prepare("prepare tiny, 2 workers", "wdsctl prepare", "catalog_bytes_a_sample", 100),
    _prepare("prepare tiny, 2 workers", "wdsctl prepare", "tree_peak_bytes", 300e6),
    _prepare("prepare tiny, 1 worker", "wdsctl index", "wall_seconds", 10, "energon prepare"),
    _prepare("prepare tiny-webdataset, 2 workers", "wdsctl index", "wall_seconds", 10, "energon prepare"),
    _prepare("Energon's metadata of tiny", "wdsctl export", "cpu_seconds", 15, "energon prepare"),
    Target(
        subject="folder",
        row="folder to shards",
        entry="wdsctl prepare, 2 workers",
        figure="wall_seconds",
        bound=2,
        rivals=("webdataset ShardWriter",),
    ),
    *(
        Target(
            subject="media",
            row=row,
            entry="wdsctl index --media",
            figure="wall_seconds",
            bound=2,
            rivals=("energon prepare-media",),
        )
        for row in ("facts of 20,000 images, 2 workers", "facts of 1,000 videos, 2 workers")
    ),
    *(
        Target(
            subject="media", row=row, entry="wdsctl AVDecoder", figure="extract_seconds", bound=bound, rivals=(rival,)
        )
        for row, bound, rival in (
            ("5 clips of 2 s of 100 short videos", 2, "energon AVDecoder"),
            ("5 clips of 2 s of a video of ten minutes", 2, "energon AVDecoder"),
            ("5 clips of 2 s of a video of ten minutes", 5, "pyav, all of it"),
        )
    ),
    _loader("raw, 0 workers", "samples_per_second", 1, "litdata"),
    _loader("raw, 0 workers", "samples_per_second", 50, "energon"),
    _loader("raw, 0 workers", "samples_per_second", 3, "litdata", entry="wdsctl_views"),
    _loader("raw, 2 workers", "samples_per_second", 6, *_LOADERS),
    _loader("decoded, 0 workers", "samples_per_second", 5, "energon"),
    _loader("decoded, 0 workers", "samples_per_second", 2.4, "litdata"),
    _loader("decoded, 2 workers", "samples_per_second", 2, *_LOADERS),
    _loader("decoded, 2 workers", "samples_per_second", 0.85, "bare"),
    _loader("first batch of a million samples, 0 workers", "first_batch_seconds", 0.2),
    _start("help", "wdsctl --help", "wall_seconds", 1 / 2, "import typer, rich"),
    _start(*_RESUMED, "first_batch_seconds", 1 / 1.5, "begun"),
    _start(*_RESUMED, "state_bytes", 1024 + 8 * 256 + 16),
    _start(*_RESUMED, "state_seconds", 0.001),
    *(_sources(title, "samples_per_second") for title in ("raw", "hook", "decoded")),
    *(
        _plans(title, figure, bound)
        for title in ("plans of one dataset", "plans of a blend of 100")
        for figure, bound in (("start_seconds", 1.5), ("window_far_seconds", 1.5), ("tree_peak_bytes", 1.1))
    ),
    *(
        Target(subject="states", row=_STATES, entry=shape, figure=figure, bound=bound)
        for shape in ("plain", "blend of 100", "blend of 1,000", "blend of 100, packed and grouped")
        for figure, bound in (
            ("budget_share", 1.0),
            ("state_seconds", 0.001),
            ("resume_share", 1.0 if "packed" in shape else 1.5),
        )
    ),
    *(
        _stores(f"decoded photographs from a store, {workers} workers", "samples_per_second", bound, rival, entry=value)
        for workers in (2, 0)
        for value, bound, rival in (("wdsctl", 0.8, "wdsctl, a disk"), ("wdsctl, 1 % late", 0.95, "wdsctl"))
    ),
    _stores("first batch from a store, 0 workers", "first_batch_trips", 3),
    Target(
        subject="validate",
        row="structure of 20,000 photographs",
        entry="wdsctl validate",
        figure="gigabytes_per_second",
        bound=0.8,
        rivals=("reading all of it",),
    ),
    *(
        Target(
            subject="view",
            row="opening ten million samples",
            entry=f"a view of {share} of it",
            figure="view_seconds",
            bound=0.1,
        )
        for share in ("half", "1 %")
    ),
    _verbs("get by key, of a million samples", "wdsctl get", "wall_seconds", 0.2),
    *(
        _verbs(f"a million lines of {size}, {files}", "wdsctl index", "gigabytes_per_second", 0.5)
        for size in ("400 bytes", "2 KB")
        for files in ("one file", "8 files and 2 workers")
    ),
    *(_verbs(_MEMORY, f"{samples} samples", "tree_peak_bytes", 300e6) for samples in ("1,000,000", "5,000,000")),
    _verbs(_MEMORY, "5,000,000 samples", "tree_peak_bytes", 1 / 1.1, "1,000,000 samples"),
    *(
        Target(subject="packing", row="packing a million lengths", entry=f"wdsctl {method}", figure=figure, bound=bound)
        for method in ("best_fit", "knapsack", "first_fit_decreasing")
        for figure, bound in (("empty_percent", 0.2), ("plan_seconds", 2.0))
    ),
)
