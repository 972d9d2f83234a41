"""The request of `inspect`, and the report that answers it: of a blend, samples, statistics, a view or a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.view_root import is_blend_file, parse_root
from wdsctl.core.errors import OptionConflict, refuse_without_effect
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.progress import SILENT_PROGRESS, Progress

if TYPE_CHECKING:
    from wdsctl.core.inspect.samples import SampleQuery, Thumbnails

InspectedKind = Literal["blend", "stats", "samples", "view", "media folder", "dataset"]

#: First samples that the summary of a dataset shows.
SAMPLES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """The options of `inspect` that choose what to show; None for options that the user did not pass."""

    stats: bool = False
    samples: int | None = None
    random: int | None = None
    key: str | None = None
    shard: str | None = None
    seed: int | None = None
    split: str | None = None

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


def inspect_requested(
    root: str,
    request: InspectRequest,
    *,
    catalog: str | None = None,
    thumbnail_size: tuple[int, int] | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> tuple[InspectedKind, Any, Thumbnails]:
    """Return the kind of the report that answers the request, the report, and thumbnails of samples.

    Imports only what makes this report. Raises UsageError if the options do not fit each other or `root`.
    """
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
    dataset_path, view = parse_root(root, catalog)
    if view:
        from wdsctl.core.views.show import show_view

        return "view", show_view(dataset_path, view, catalog=catalog), {}
    first = SAMPLES_SHOWN if request.samples is None else request.samples
    with open_indexed(locate(root, catalog)) as dataset:
        if dataset.catalog.is_media_folder:
            from wdsctl.core.inspect.media_folder import inspect_media_folder

            return "media folder", inspect_media_folder(dataset, samples=first), {}
        from wdsctl.core.inspect.inspect import inspect_dataset

        return "dataset", inspect_dataset(dataset, samples=first), {}
