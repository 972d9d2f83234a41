"""What we set out to reach: the bounds of the design, each against a figure of one row."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.results import Row

_LOADERS = ("energon", "webdataset", "mosaic", "litdata")
_HIGHER_IS_BETTER = ("samples_per_second",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    subject: str
    row: str
    ours: str
    figure: str
    bound: float
    #: The rivals; the best of them counts. Empty: the bound is for our own figure, and is the most it may be.
    rivals: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The target as a reader is told it."""
        if not self.rivals:
            return f"≤ {_quantity(self.figure, self.bound)}"
        if self.bound < 1:
            return f"≤ {1 / self.bound:g} times as long as {self.rivals[0]}"
        return f"≥ {self.bound:g} times {self.rivals[0] if len(self.rivals) == 1 else 'the best peer'}"


@dataclass(frozen=True, slots=True)
class Verdict:
    #: The measured ratio or figure, as text.
    measured: str
    is_met: bool


def judge(target: Target, row: Row) -> Verdict | None:
    """None if one of the two sides was not measured."""
    mine = _figure(row, target.ours, target.figure)
    if mine is None:
        return None
    if not target.rivals:
        return Verdict(_quantity(target.figure, mine), mine <= target.bound)
    theirs = [figure for name in target.rivals if (figure := _figure(row, name, target.figure)) is not None]
    if not theirs:
        return None
    is_rate = target.figure in _HIGHER_IS_BETTER
    ratio = mine / max(theirs) if is_rate else min(theirs) / mine
    words = f"{ratio:.2f} times" if target.bound >= 1 else f"{1 / ratio:.2f} times as long"
    return Verdict(words, ratio >= target.bound)


def _figure(row: Row, name: str, figure: str) -> float | None:
    entry = row.entry(name)
    return entry.median.get(figure) if entry else None


def _quantity(figure: str, value: float) -> str:
    if figure.endswith("peak_bytes"):
        return f"{value / 1e6:,.0f} MB"
    if figure.endswith("bytes_a_sample"):
        return f"{value:.1f} bytes a sample"
    if figure.endswith("bytes"):
        return f"{value:,.0f} bytes"
    if value < 0.01:
        return f"{value * 1000:.2g} ms"
    return f"{value:.2f} s"


def _prepare(row: str, ours: str, figure: str, bound: float, *rivals: str) -> Target:
    return Target(subject="prepare", row=row, ours=ours, figure=figure, bound=bound, rivals=rivals)


def _loader(row: str, figure: str, bound: float, *rivals: str, ours: str = "wdsctl") -> Target:
    return Target(subject="loader", row=row, ours=ours, figure=figure, bound=bound, rivals=rivals)


def _start(row: str, ours: str, figure: str, bound: float, *rivals: str) -> Target:
    return Target(subject="start", row=row, ours=ours, figure=figure, bound=bound, rivals=rivals)


_RESUMED = ("first batch of a million samples, begun and resumed", "resumed after 60,000 batches")


TARGETS = (
    _prepare("prepare tiny, 2 workers", "wdsctl index", "wall_seconds", 10, "energon prepare"),
    _prepare("prepare tiny, 2 workers", "wdsctl prepare", "wall_seconds", 10, "energon prepare"),
    _prepare("prepare tiny, 2 workers", "wdsctl prepare", "catalog_bytes_a_sample", 100),
    _prepare("prepare tiny, 2 workers", "wdsctl prepare", "tree_peak_bytes", 300e6),
    _prepare("prepare tiny, 1 worker", "wdsctl index", "wall_seconds", 10, "energon prepare"),
    _prepare("prepare tiny-webdataset, 2 workers", "wdsctl index", "wall_seconds", 10, "energon prepare"),
    Target(
        subject="folder",
        row="folder to shards",
        ours="wdsctl prepare, 2 workers",
        figure="wall_seconds",
        bound=2,
        rivals=("webdataset ShardWriter",),
    ),
    _loader("raw, 0 workers", "samples_per_second", 1, "litdata"),
    _loader("raw, 0 workers", "samples_per_second", 50, "energon"),
    _loader("raw, 0 workers", "samples_per_second", 3, "litdata", ours="wdsctl_views"),
    _loader("raw, 2 workers", "samples_per_second", 6, *_LOADERS),
    _loader("decoded, 0 workers", "samples_per_second", 5, "energon"),
    _loader("decoded, 0 workers", "samples_per_second", 2.4, "litdata"),
    _loader("decoded, 2 workers", "samples_per_second", 2, *_LOADERS),
    _loader("first batch of a million samples, 0 workers", "first_batch_seconds", 0.2),
    _start("help", "wdsctl --help", "wall_seconds", 1 / 2, "import typer, rich"),
    _start(*_RESUMED, "first_batch_seconds", 1 / 1.5, "begun"),
    _start(*_RESUMED, "state_bytes", 1024 + 8 * 256 + 16),
    _start(*_RESUMED, "state_seconds", 0.001),
)
