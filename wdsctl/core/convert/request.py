"""The options of `convert`, and the request that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wdsctl.core.convert.parts import (
    AudioTranscodeOptions,
    ImageTranscodeOptions,
    Labels,
    Orientation,
    Pairs,
    PartRules,
    parse_audio,
    parse_image,
)
from wdsctl.core.errors import OptionConflict, UsageError
from wdsctl.core.invocation import parse_part_names
from wdsctl.core.options import UNSET, PathText, as_paths, option, option_of
from wdsctl.core.samples.drawn_numbers import SampleCounts
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE
from wdsctl.core.samples.types import BoxFormat, DrawnOn
from wdsctl.core.shared_options import (
    DRY_RUN,
    FORMAT_OPTION,
    FROM_FORMAT,
    OVERWRITE,
    SHARD_SAMPLES,
    SHARD_SIZE,
    SPLIT,
    TEMPLATE,
    UNIT_WORKERS,
    WAIT,
)

OnCollision = Literal["error", "prefix", "keep-first"]
OnSampleError = Literal["error", "skip", "keep"]
LayoutName = Literal["", "monolithic", "polylithic", "auto"]
SampleOrder = Literal["none", "key", "shuffle"]
NamingName = Literal["", "hub"]
#: A dataset of a polylithic layout; empty for any other layout.
Stream = Literal["", "primary", "media"]

#: Numbers of samples: their part, their key in it, and whether they are in texts with words.
SeenKey = tuple[str, str, bool]


def parse_layout(layout: Literal["", "monolithic", "polylithic"]) -> LayoutName:
    """The layout as it is: `auto` is for `prepare`."""
    return layout


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """The options that make the order of samples."""

    sort: Literal["none", "key"] = option("none", "Sort the samples by key.", metavar="key")
    shuffle: bool = option(False, "Shuffle all samples of all sources.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """The options that make `ImageTranscodeOptions`."""

    image: str = option("", "Re-encode images as jpeg:90, webp:80 or png.", metavar="FORMAT")
    max_side: int | None = option(None, "Shrink images whose longer side has more than N pixels.", metavar="N", min=1)
    orientation: Orientation = option(
        "apply", "For re-encoded images: rotate by EXIF orientation, or keep pixels and EXIF.", metavar="apply|keep"
    )
    image_parts: tuple[str, ...] = option(
        (), "The parts to re-encode. [default: jpg, png, ...]", metavar="jpg,*.png", parse=parse_part_names
    )
    labels: Labels = option(
        "scale",
        "Boxes, keypoints, masks and the like of images that are turned or shrunk: change or keep them.",
        metavar="scale|keep",
    )
    box_format: BoxFormat | None = option(
        None,
        "Format of boxes of images that are turned or shrunk, if the samples do not state it: xywh, xyxy, cxcywh, "
        "or one of these with normalized_.",
        metavar="FORMAT",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioOptions:
    """The options that make `AudioTranscodeOptions`."""

    audio: str = option("", "Re-encode audio as flac, wav or opus:64k.", metavar="FORMAT")
    rate: int | None = option(None, "Sample rate of re-encoded audio.", metavar="HZ", min=1, max=768_000)
    audio_parts: tuple[str, ...] = option(
        (), "The parts to re-encode. [default: wav, mp3, ...]", metavar="wav", parse=parse_part_names
    )


def make_order(options: OrderOptions) -> SampleOrder:
    """Raises OptionConflict for both options."""
    if options.shuffle and options.sort != "none":
        raise OptionConflict(
            "--sort and --shuffle exclude each other",
            options=("--sort", "--shuffle"),
            are_exclusive=True,
            hint="omit one of the two options",
        )
    return "shuffle" if options.shuffle else options.sort


def make_image(options: ImageOptions) -> ImageTranscodeOptions | None:
    size, parts = options.max_side or 0, options.image_parts
    return parse_image(options.image, size, options.orientation, parts, options.labels, options.box_format)


def make_audio(options: AudioOptions) -> AudioTranscodeOptions | None:
    return parse_audio(options.audio, options.rate or 0, options.audio_parts)


def parse_sources(source: PathText | Sequence[PathText]) -> tuple[str, ...]:
    """One or several sources. Raises UsageError if there is none."""
    sources = as_paths(source)
    if not sources:
        raise UsageError("convert needs a source", hint="pass source and destination: wdsctl.convert(SOURCE, DEST)")
    return sources


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest:
    """What `convert` writes of its sources.

    The names of the fields are in the destination, and their order in the files of array jobs. `from_format`: empty to
    recognise the format. `to_format`: empty for shards. For a polylithic layout, `media` selects the parts of the media
    dataset (empty: all media and files that rows name). The layout `auto` is polylithic if files that several samples
    name cost much space (`wdsctl.core.convert.sharing`). `carries_splits`: give every sample the splits that it has in
    the source. `finish`: detect the sample type, and put all samples in `train`; `prepare` does both itself.
    """

    from_format: str = option("", FROM_FORMAT)
    to_format: str = option("", "Format to write. [default: shards]", flag="--to", metavar="FORMAT")
    format_options: Mapping[str, str] = option(
        {},
        replace(
            FORMAT_OPTION,
            help="Option of the source's format; to.NAME=VALUE is an option of DEST's format (repeatable).",
            python_help="Options of the source's format; with `to.` before their names, of the format of `dest`.",
        ),
    )
    shard_samples: int = option(10_000, SHARD_SAMPLES)
    shard_size: int = option(1 << 30, SHARD_SIZE)
    template: str = option(DEFAULT_TEMPLATE, TEMPLATE)  # exporters replace `.tar` with their suffix
    naming: NamingName = option(
        "", "Name files as the Hugging Face Hub does, one split per file: train-00000-of-00042.tar.", metavar="hub"
    )
    order: SampleOrder = option_of("none", OrderOptions, make_order)
    seed: int = option(0, "Seed of --shuffle.", metavar="N")
    split: str = option("", SPLIT)
    where: str = option("", "Convert only matching samples, such as \"width >= 512 and ext = 'jpg'\".", metavar="SQL")
    on_collision: OnCollision = option(
        "error",
        "If several samples have the same key: stop, prefix it with the source name, or keep the first one.",
        metavar="error|prefix|keep-first",
    )
    apart: str = option("", "Write one dataset per value of split, key-prefix or json:FIELD.", metavar="BY")
    layout: LayoutName = option(
        "",
        "Write one dataset, or separate datasets DEST/primary and DEST/media.",
        metavar="monolithic|polylithic",
        parse=parse_layout,
    )
    media: tuple[str, ...] = option(
        (),
        "For polylithic: the parts to store in DEST/media. [default: media and other files that rows name]",
        metavar="PARTS",
        parse=parse_part_names,
    )
    primary: Literal["tar", "jsonl"] = option("tar", "For polylithic: the format of DEST/primary.", metavar="tar|jsonl")
    parts: PartRules = field(default_factory=PartRules)
    image: ImageTranscodeOptions | None = option_of(None, ImageOptions, make_image)
    audio: AudioTranscodeOptions | None = option_of(None, AudioOptions, make_audio)
    on_error: OnSampleError = option(
        "skip",
        "Samples that cannot be re-encoded: skip them, keep their parts unchanged, or stop.",
        metavar="skip|keep|error",
    )
    compress: Literal["none", "gz"] = option(
        "none", "Compress shards for transfer; the loader cannot train from them.", metavar="none|gz"
    )
    workers: int = option(1, UNIT_WORKERS)
    wait: float = option(0.0, WAIT)
    restart: bool = option(
        False, "Start again although another conversion into DEST is unfinished.", name="yes", flag=""
    )
    dry_run: bool = option(False, DRY_RUN)
    overwrite: bool = option(False, OVERWRITE)
    carries_splits: bool = True
    finish: bool = True

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertCommand:
    """The options of `convert`, as Python users pass them: the last path on the command line is the destination."""

    source: tuple[str, ...] = option(
        UNSET,
        "A dataset (ROOT or ROOT@VIEW), a file of another format, or several of these.",
        is_argument=True,
        metavar="SOURCE",
        parse=parse_sources,
    )
    dest: str = option(UNSET, "The new folder or URL.", is_argument=True, is_path=True, metavar="DEST")
    request: ConvertRequest = field(default_factory=ConvertRequest)


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
    `unchanged_numbers`: for a dry run, the paths of numbers that stay while pictures change, of `samples_read` samples.
    """

    request: ConvertRequest
    sources: tuple[SourceSpec, ...] = ()
    target_options: Pairs = ()
    judged_numbers: tuple[tuple[SeenKey, SampleCounts], ...] = ()
    unchanged_numbers: tuple[tuple[str, ...], ...] = ()
    samples_read: int = 0
