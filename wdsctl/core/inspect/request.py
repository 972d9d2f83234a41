"""The request of `inspect`, and the report that answers it: of a blend, samples, statistics, a view or a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wdsctl.core.errors import OptionConflict, UsageError, refuse_without_effect
from wdsctl.core.options import UNSET, option
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.shared_options import CATALOG, SHARD, SPLIT

if TYPE_CHECKING:
    from wdsctl.core.inspect.samples import SampleQuery, Thumbnails

InspectedKind = Literal["blend", "stats", "samples", "view", "media folder", "dataset"]

#: First samples that the summary of a dataset shows.
SAMPLES_SHOWN = 3


def parse_count(count: str | int) -> int:
    """Parse `5000`, `5_000` or `1e6`. Raises UsageError."""
    try:
        number = int(float(count)) if isinstance(count, str) and "e" in count.lower() else int(count)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"expected a whole number, found {count!r}", hint="write 5000, 5_000 or 1e6") from error
    if number < 0:
        raise UsageError("the minimum is 0", hint="write 5000, 5_000 or 1e6")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """The options of `inspect`; None for those that the user did not pass."""

    root: str = option(
        UNSET,
        "A folder of shards, a .jsonl file, or a URL of either. Or a blend file.",
        is_argument=True,
        is_path=True,
        metavar="ROOT",
    )
    stats: bool = option(False, "Sizes, media, texts and JSON keys, with histograms.")
    samples: int | None = option(
        None,
        "Show the first N samples. For a blend file: show the epochs of a run of N samples.",
        metavar="N",
        parse=parse_count,
        parses_early=True,
    )
    random: int | None = option(
        None, "Show N samples drawn by --seed.", metavar="N", parse=parse_count, parses_early=True
    )
    seed: int | None = option(None, "Seed that draws the samples. [default: 0]", metavar="S")
    key: str | None = option(None, "Show the sample with this key.", metavar="KEY")
    shard: str | None = option(None, SHARD)
    split: str | None = option(None, SPLIT)
    catalog: str | None = option(None, CATALOG)

    def check(self, *, is_blend: bool) -> None:
        """Raise UsageError if options contradict each other, or have no effect."""
        values = (("--key", self.key), ("--random", self.random), ("--samples", self.samples))
        choices = [name for name, value in values if value is not None]
        if len(choices) > 1:
            raise OptionConflict(
                f"{choices[0]} and {choices[1]} exclude each other",
                options=choices,
                are_exclusive=True,
                hint="pass only one of them",
            )
        if self.stats and (self.key is not None or self.samples is not None):
            raise OptionConflict(
                f"--stats and {choices[0]} exclude each other",
                options=("--stats", choices[0]),
                are_exclusive=True,
                hint="pass --stats --random N to read the parts of N samples",
            )
        refuse_without_effect(
            ("--seed", self.seed is not None, "--random N or --stats", self.random is not None or self.stats),
            ("--shard", self.shard is not None, "--key KEY", self.key is not None),
        )
        if self.split is not None and (self.key is not None or not (choices or self.stats or is_blend)):
            raise OptionConflict(
                "--split needs --samples, --random or --stats",
                options=("--split",),
                hint="add --samples N, --random N or --stats",
            )
        if is_blend and (self.stats or self.key is not None or self.random is not None):
            raise OptionConflict(
                "the path is a blend file, which has no samples",
                options=("--stats", "--key", "--random"),
                hint="pass one of the datasets of the blend",
            )

    @property
    def sample_selection(self) -> SampleQuery:
        from wdsctl.core.inspect.samples import SampleQuery

        if self.random is None:
            return SampleQuery(count=self.samples or 0, key=self.key, shard=self.shard, split=self.split)
        return SampleQuery(count=self.random, seed=self.seed or 0, split=self.split)


def run_inspect(request: InspectRequest, *, progress: Progress = SILENT_PROGRESS) -> Any:
    """Show what a dataset or a blend file contains: `wdsctl inspect`.

    Without options, returns an `InspectReport` from the catalog: counts, parts, splits, shards, and the first three
    samples (`samples=0`: none). It reads one catalog row per shard. `samples`, `random` and `key` return a
    `SamplesReport`; `stats` reads 1,000 samples (or `random`), and returns a `StatsReport`.

    Returns a `BlendReport` for a blend file, a `ViewShowReport` for `ROOT@VIEW` without options, and a
    `MediaFolderInspectReport` for a folder of media.
    """
    return inspect_requested(request, progress=progress)[1]


def inspect_requested(
    request: InspectRequest, *, thumbnail_size: tuple[int, int] | None = None, progress: Progress = SILENT_PROGRESS
) -> tuple[InspectedKind, Any, Thumbnails]:
    """Return the kind of the report that answers the request, the report, and thumbnails of samples.

    Imports only what makes this report. Raises UsageError if the options do not fit each other or `root`.
    """
    from wdsctl.core.dataset.polylithic import follow_to_primary
    from wdsctl.core.dataset.view_root import is_blend_file
    from wdsctl.core.index.first_use import open_indexed

    catalog = request.catalog
    root = follow_to_primary(request.root, catalog)
    is_blend = is_blend_file(root)
    request.check(is_blend=is_blend)
    if is_blend:
        from wdsctl.core.inspect.blend import inspect_blend

        return "blend", inspect_blend(root, split=request.split, samples=request.samples, catalog=catalog), {}
    if request.stats:
        from wdsctl.core.inspect.stats import SAMPLES_READ, inspect_stats

        stats = inspect_stats(
            root,
            count=SAMPLES_READ if request.random is None else request.random,
            seed=request.seed or 0,
            split=request.split,
            catalog=catalog,
            progress=progress,
        )
        return "stats", stats, {}
    if request.key is not None or request.random is not None or request.samples:
        from wdsctl.core.inspect.samples import inspect_samples

        selection = request.sample_selection
        return "samples", *inspect_samples(root, selection, catalog=catalog, thumbnail_size=thumbnail_size)
    first = SAMPLES_SHOWN if request.samples is None else request.samples
    with open_indexed(root, catalog, takes_view=True) as dataset:
        if dataset.view:
            from wdsctl.core.views.show import describe_view

            return "view", describe_view(dataset, dataset.view), {}
        if dataset.catalog.is_media_folder:
            from wdsctl.core.inspect.media_folder import inspect_media_folder

            return "media folder", inspect_media_folder(dataset, samples=first), {}
        from wdsctl.core.inspect.inspect import inspect_dataset

        return "dataset", inspect_dataset(dataset, samples=first), {}
