"""The request and the report of `convert`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wdsctl.core.convert.parts import (
    AudioTranscodeOptions,
    ImageTranscodeOptions,
    Labels,
    Pairs,
    PartRules,
    parse_audio,
    parse_image,
    parse_renames,
)
from wdsctl.core.errors import Finding, OptionConflict
from wdsctl.core.importers.protocol import FieldUse
from wdsctl.core.invocation import parse_part_names
from wdsctl.core.samples.boxes import BoxFormat
from wdsctl.core.samples.drawn_numbers import SampleCounts
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE
from wdsctl.core.samples.types import DrawnOn

OnCollision = Literal["error", "prefix", "keep-first"]
OnSampleError = Literal["error", "skip", "keep"]
LayoutName = Literal["", "monolithic", "polylithic", "auto"]
SampleOrder = Literal["none", "key", "shuffle"]
NamingName = Literal["", "hub"]
#: A dataset of a polylithic layout; empty for any other layout.
Stream = Literal["", "primary", "media"]

#: Numbers of samples: their part, their key in it, and whether they are in texts with words.
SeenKey = tuple[str, str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest:
    """The options of `convert`.

    `from_format`: empty to recognise the format. `to_format`: empty for shards. `format_options`: options of the
    importer and, with the prefix `to.`, of the exporter. For a polylithic layout, `media` selects the parts of the
    media dataset (empty: all media and files that rows name), and `primary` is the format of the primary. The layout
    `auto` is polylithic if files that several samples name cost much space (`wdsctl.core.convert.sharing`).
    """

    from_format: str = ""
    to_format: str = ""
    format_options: Mapping[str, str] = field(default_factory=dict)
    shard_samples: int = 10_000
    shard_size: int = 1 << 30  # bytes
    template: str = DEFAULT_TEMPLATE  # exporters replace `.tar` with their suffix
    naming: NamingName = ""  # "hub": SPLIT-00000-of-00042.tar, one split a shard
    order: SampleOrder = "none"
    seed: int = 0
    split: str = ""
    where: str = ""
    on_collision: OnCollision = "error"
    apart: str = ""
    layout: LayoutName = ""
    media: tuple[str, ...] = ()
    primary: Literal["tar", "jsonl"] = "tar"
    parts: PartRules = field(default_factory=PartRules)
    image: ImageTranscodeOptions | None = None
    audio: AudioTranscodeOptions | None = None
    on_error: OnSampleError = "skip"
    compress: Literal["none", "gz"] = "none"
    workers: int = 1
    wait: float = 0.0  # seconds to wait for the lock of the destination
    restart: bool = False  # remove the output of an unfinished conversion with other options
    dry_run: bool = False
    overwrite: bool = False  # replace what another conversion wrote to the destination
    carries_splits: bool = True  # give every sample the splits that it has in the source
    finish: bool = True  # detect the sample type, and put all samples in `train`; `prepare` does both itself

    @property
    def target(self) -> str:
        """The name of the exporter."""
        return self.to_format or "shards"

    @property
    def makes_datasets(self) -> bool:
        """Whether the destination gets catalogs, which only uncompressed shards have."""
        return self.target == "shards" and self.compress == "none"

    @property
    def keeps_parts(self) -> bool:
        """Whether all parts keep their bytes and names."""
        return self.parts == PartRules() and self.image is None and self.audio is None


def parse_convert_request(
    plain: ConvertRequest,
    *,
    sort: Literal["none", "key"],
    shuffle: bool,
    media: str | Sequence[str],
    parts: str | Sequence[str],
    drop_parts: str | Sequence[str],
    rename_part: Iterable[str],
    image: str,
    max_side: int,
    orientation: Literal["apply", "keep"],
    image_parts: str | Sequence[str],
    labels: Labels,
    box_format: BoxFormat | None,
    audio: str,
    rate: int,
    audio_parts: str | Sequence[str],
) -> ConvertRequest:
    """Add the options that users write as text to a request with all others. Raises UsageError if they are invalid.

    Names of parts: `jpg,txt`, or a sequence. `rename_part`: texts `OLD=NEW`.
    """
    if shuffle and sort != "none":
        raise OptionConflict(
            "--sort and --shuffle exclude each other",
            options=("--sort", "--shuffle"),
            are_exclusive=True,
            hint="omit one of the two options",
        )
    return replace(
        plain,
        order="shuffle" if shuffle else sort,
        media=parse_part_names(media),
        parts=PartRules(parse_part_names(parts), parse_part_names(drop_parts), parse_renames(rename_part)),
        image=parse_image(image, max_side, orientation, parse_part_names(image_parts), labels, box_format),
        audio=parse_audio(audio, rate, parse_part_names(audio_parts)),
    )


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """How a worker opens a source. `--on-collision prefix` prepends `name` to its keys.

    `field_map`, `drawn_on`: those of its dataset.yaml, by which labels follow pictures.
    """

    importer: str
    path: str
    options: Pairs = ()
    name: str = ""
    field_map: Pairs = ()
    drawn_on: DrawnOn | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request with resolved sources and exporter options: all that workers need besides the plan.

    `judged_numbers`: in how many of some samples numbers look like labels on pictures, though together they are none.
    """

    request: ConvertRequest
    sources: tuple[SourceSpec, ...] = ()
    target_options: Pairs = ()
    judged_numbers: tuple[tuple[SeenKey, SampleCounts], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFormat:
    form: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSource:
    """A source, its format, and the reason for this format.

    `rejected`: other formats that the source looks like. `fields`: what becomes of each field; empty for formats that
    carry every part over unchanged.
    """

    path: str
    form: str
    reason: str
    rejected: tuple[RejectedFormat, ...] = ()
    fields: tuple[FieldUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDataset:
    """One dataset of the destination. `splits`: name -> samples. `sample_type`: empty without a catalog.

    `columns`: the columns copied from the sources. `media`: the number of media with facts in its catalog.
    """

    path: str
    files: int
    samples: int
    size_bytes: int
    sample_type: str = ""
    splits: Mapping[str, int] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    media: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertReport:
    """What `convert` wrote or, in a dry run, would write.

    Selected samples: `samples` counts all; `failed` those that are not in the destination, because they or their group
    could not be read or transcoded; `kept` those that are unchanged since a part could not be transcoded. Samples that
    the plan leaves out: `repeated` had a key that occurred before; `bare` had no part to write; `apart` belong to no
    output dataset. `kept_files`: files of an earlier run. `layout`: for a polylithic layout of samples that share
    files, what sharing saves; text for the user. `left_out_list`: the path of a table of all samples that failed, and
    of all files of the sources that no sample has; empty if there are none, and in a dry run.
    """

    sources: tuple[ConvertSource, ...]
    dest: str
    form: str
    samples: int
    files: int
    size_bytes: int  # of all files; in a dry run, estimated from the sizes in the sources
    written_files: int
    kept_files: int
    failed: int
    kept: int
    repeated: int
    bare: int
    apart: int
    datasets: tuple[ConvertedDataset, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float
    layout: str = ""
    left_out_list: str = ""
