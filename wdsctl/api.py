"""The commands as functions: `wdsctl.prepare(...)` does what `wdsctl prepare` does, and returns its report.

Arguments have the names of the options, with `_` for `-`. The functions never print or prompt: `yes=True` confirms,
like `--yes`. All raise `WdsctlError` with a code, a location and a hint. Each imports what it needs when it is called.

In all functions, `wait` is the seconds to wait while another wdsctl process writes to the dataset, and `workers` the
number of processes (None: the usable CPUs, at most 16). `catalog` is the folder of the catalog (None: ROOT/.wdsctl).
`dry_run` shows the effect without writing anything. `progress` receives the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

if TYPE_CHECKING:
    from wdsctl.core.convert.conversion_report import ConvertReport
    from wdsctl.core.export.request import ExportReport
    from wdsctl.core.index.report import IndexReport
    from wdsctl.core.inspect.inspect import InspectReport
    from wdsctl.core.inspect.samples import SamplesReport
    from wdsctl.core.inspect.stats import StatsReport
    from wdsctl.core.options import PathText
    from wdsctl.core.prepare.prepare import PrepareReport
    from wdsctl.core.progress import Progress
    from wdsctl.core.split.split import SplitReport
    from wdsctl.core.validate.request import ReleaseReport, ValidateReport

__all__ = ["convert", "export", "index", "inspect", "prepare", "split", "validate"]

_Report = TypeVar("_Report")


def _call(run: Callable[..., _Report], request: type, arguments: Mapping[str, Any]) -> _Report:
    """Return the report of `run` for the request of these arguments. Errors name the arguments."""
    from wdsctl.core.options import build_request, naming_parameters
    from wdsctl.core.progress import SILENT_PROGRESS

    with naming_parameters(request):
        return run(build_request(request, arguments), progress=arguments["progress"] or SILENT_PROGRESS)


# Below: written by docs/python_api.py from the requests of the commands. Edit those, then run `make docs`.


def convert(
    source: PathText | Sequence[PathText],
    dest: PathText,
    *,
    from_format: str = "",
    to_format: str = "",
    option: Mapping[str, str] | Sequence[str] = (),
    shard_samples: int = 10000,
    shard_size: str | float = 1073741824,
    template: str = "shard-{index:06d}.tar",
    naming: Literal["", "hub"] = "",
    sort: Literal["none", "key"] = "none",
    shuffle: bool = False,
    seed: int = 0,
    split: str = "",
    where: str = "",
    on_collision: Literal["error", "prefix", "keep-first"] = "error",
    apart: str = "",
    layout: Literal["", "monolithic", "polylithic"] = "",
    media: str | Sequence[str] = (),
    primary: Literal["tar", "jsonl"] = "tar",
    parts: str | Sequence[str] = (),
    drop_parts: str | Sequence[str] = (),
    rename_part: Mapping[str, str] | Sequence[str] = (),
    image: str = "",
    max_side: int | None = None,
    orientation: Literal["apply", "keep"] = "apply",
    image_parts: str | Sequence[str] = (),
    labels: Literal["scale", "keep"] = "scale",
    box_format: Literal["xywh", "xyxy", "cxcywh", "normalized_xywh", "normalized_xyxy", "normalized_cxcywh"]
    | None = None,
    audio: str = "",
    rate: int | None = None,
    audio_parts: str | Sequence[str] = (),
    on_error: Literal["error", "skip", "keep"] = "skip",
    compress: Literal["none", "gz"] = "none",
    overwrite: bool = False,
    wait: float = 0.0,
    workers: int | None = None,
    dry_run: bool = False,
    yes: bool = False,
    progress: Progress | None = None,
) -> ConvertReport:
    """Write a new dataset from one or several datasets: `wdsctl convert`. A second run continues a killed one.

    `source`: A dataset (ROOT or ROOT@VIEW), a file of another format, or several of these.
    `dest`: The new folder or URL.
    `from_format`: Format of the source. [default: detected]
    `to_format`: Format to write. [default: shards]
    `option`: Options of the source's format; with `to.` before their names, of the format of `dest`.
    `shard_samples`: Maximum number of samples per shard.
    `shard_size`: Maximum bytes of source data per shard. [default: 1GiB]
    `template`: Template of the shard names. Other formats replace .tar by their extension.
    `naming`: Name files as the Hugging Face Hub does, one split per file: train-00000-of-00042.tar.
    `sort`: Sort the samples by key.
    `shuffle`: Shuffle all samples of all sources.
    `seed`: Seed of `shuffle`.
    `split`: Only samples of this split.
    `where`: Convert only matching samples, such as "width >= 512 and ext = 'jpg'".
    `on_collision`: If several samples have the same key: stop, prefix it with the source name, or keep the first one.
    `apart`: Write one dataset per value of split, key-prefix or json:FIELD.
    `layout`: Write one dataset, or separate datasets DEST/primary and DEST/media.
    `media`: For polylithic: the parts to store in DEST/media. [default: media and other files that rows name]
    `primary`: For polylithic: the format of DEST/primary.
    `parts`: Keep only these parts; patterns such as '*.png' are allowed.
    `drop_parts`: Drop these parts.
    `rename_part`: Old name -> new name of parts.
    `image`: Re-encode images as jpeg:90, webp:80 or png.
    `max_side`: Shrink images whose longer side has more than N pixels.
    `orientation`: For re-encoded images: rotate by EXIF orientation, or keep pixels and EXIF.
    `image_parts`: The parts to re-encode. [default: jpg, png, ...]
    `labels`: Boxes, keypoints, masks and the like of images that are turned or shrunk: change or keep them.
    `box_format`: Format of boxes of images that are turned or shrunk, if the samples do not state it: xywh, xyxy,
    cxcywh, or one of these with normalized_.
    `audio`: Re-encode audio as flac, wav or opus:64k.
    `rate`: Sample rate of re-encoded audio.
    `audio_parts`: The parts to re-encode. [default: wav, mp3, ...]
    `on_error`: Samples that cannot be re-encoded: skip them, keep their parts unchanged, or stop.
    `compress`: Compress shards for transfer; the loader cannot train from them.
    `overwrite`: Replace what another conversion wrote to `dest`, once the new dataset is complete.
    `yes`: Start again although another conversion into `dest` is unfinished.
    """
    from wdsctl.core.convert.convert import run_convert
    from wdsctl.core.convert.request import ConvertCommand

    return _call(run_convert, ConvertCommand, locals())


def prepare(
    source: PathText,
    dest: PathText | None = None,
    *,
    from_format: str = "",
    option: Mapping[str, str] | Sequence[str] = (),
    shard_samples: int = 10000,
    shard_size: str | float = 1073741824,
    template: str = "shard-{index:06d}.tar",
    layout: Literal["", "monolithic", "polylithic"] = "",
    parts: str | Sequence[str] = (),
    on_missing: Literal["error", "skip", "keep"] = "error",
    source_moved: bool = False,
    split: str | Mapping[str, float] | None = None,
    by: Literal["auto", "shard", "sample", "key"] = "auto",
    seed: int = 0,
    allow_split_changes: bool = False,
    sample_type: str = "",
    field_map: str | Mapping[str, str] = "",
    redetect: bool = False,
    accept_type: bool = False,
    drawn_on: Literal["", "shown", "stored"] = "",
    overwrite: bool = False,
    key: str | None = None,
    key_until: Literal["first-dot", "last-dot", "known-extension"] | None = None,
    media: str | bool | None = None,
    media_index: bool = False,
    exclude: str | Sequence[str] | None = None,
    missing: Literal["error", "keep", "drop"] = "error",
    sample_rows: bool | None = None,
    hashed: bool | None = None,
    wait: float = 0.0,
    workers: int | None = None,
    catalog: PathText | None = None,
    dry_run: bool = False,
    yes: bool = False,
    progress: Progress | None = None,
) -> PrepareReport | Any:
    """Build a training dataset from raw files, tables, tars or JSONL: `wdsctl prepare`. A second run continues.

    `source`: A folder or file in any format that wdsctl reads: raw files, class folders, tables (CSV, JSON, Parquet)
    whose rows name files, COCO, LLaVA, ...; tars or JSONL; any of these also at a URL; or some shards:
    DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).
    `dest`: The folder for the shards, or a URL such as s3://bucket/shards. Omit it for tars, which stay in place.
    `from_format`: Format of the source. [default: detected]
    `option`: Options of the source's format, such as {'key': 'id'}.
    `shard_samples`: Maximum number of samples per shard.
    `shard_size`: Maximum bytes of source data per shard. [default: 1GiB]
    `template`: Template of the shard names. Other formats replace .tar by their extension.
    `layout`: Write one dataset, or DEST/primary and DEST/media with each file once. [default: polylithic if repeated
    files cost 64 MiB and 10 % of the data]
    `parts`: The parts of a complete sample; 'jpg|png' for either. [default: those that at least half of the samples
    have]
    `on_missing`: Incomplete samples, files without a key, and unreadable files: stop, skip these samples, or keep the
    parts that exist.
    `source_moved`: Raw files: `source` is the folder that `dest` was written from, moved and changed since.
    `split`: 8,1,1 or train=8,val=1,test=1. [default: as in the source or dataset.yaml; else all samples in train]
    `by`: Assign whole shards, single samples, or samples by a hash of their key. auto: single samples if prepare writes
    the shards to `dest`; in place, whole shards if they fit the ratios, else single samples.
    `seed`: Seed of the split.
    `allow_split_changes`: Let samples leave their split for another one.
    `sample_type`: Sample type, such as CaptioningSample. [default: detected]
    `field_map`: Fields and their parts: image=jpg,caption=txt or a JSON object. [default: detected]
    `redetect`: Detect the sample type again and rewrite dataset.yaml.
    `accept_type`: Accept the detected sample type even if it is uncertain.
    `drawn_on`: What boxes and masks are drawn on: images as viewers show them, turned by EXIF, or as files store them.
    [default: by the format, and by sizes]
    `overwrite`: Replace what another conversion wrote to `dest`, once the new dataset is complete.
    `key`: JSONL: the field with the key. [default: the line number]
    `key_until`: Where the key ends in a file name with several dots. [default: detected; first-dot for tars]
    `media`: Read facts of images, audio and video from their headers: of parts such as 'jpg,*.seg.png'; 'content'
    recognises media by content instead of names; True: all media.
    `media_index`: Also record the keyframes of videos, for fast seeking. Reads whole files without decoding them.
    `exclude`: Skip shards whose path matches one of these patterns. None: those of the last run.
    `missing`: If shards or raw files no longer exist: stop, keep their samples, or drop them.
    `sample_rows`: Store a catalog row for every sample, or only counts (for huge datasets). [default: as in the last
    run; in the first run rows for tars, counts for JSONL]
    `hashed`: Compute the SHA-256 of every shard, by reading all of it. [default: as in the last run; in the first run
    no]
    `yes`: All consents: accept_type, allow_split_changes, source_moved. Also start again although another conversion
    into `dest` is unfinished.

    Recognises the format of `source` and writes the samples as shards below `dest`. Uses tars and JSONL of texts in
    place, without `dest`. Then indexes the shards, detects the sample type, and assigns the samples to splits.

    Returns a `PrepareReport`; for a folder of media with `media` and without `dest`, a `MediaFolderReport`.
    """
    from wdsctl.core.prepare.prepare import run_prepare
    from wdsctl.core.prepare.request import PrepareCommand

    return _call(run_prepare, PrepareCommand, locals())


def split(
    root: PathText,
    ratios: str | Mapping[str, float] | None = None,
    *,
    by: Literal["auto", "shard", "sample", "key"] = "auto",
    seed: int = 0,
    group_by: str = "",
    stratify: str = "",
    pattern: Mapping[str, str | Sequence[str]] | Sequence[str] = (),
    keys: Mapping[str, PathText] | Sequence[str] = (),
    by_value: str = "",
    rest: str = "",
    from_file: PathText | None = None,
    folds: int | None = None,
    split_set: str = "",
    exclude_shard: str | Sequence[str] = (),
    exclude_key: str | Sequence[str] = (),
    exclude_keys: PathText | Sequence[PathText] = (),
    exclude_code: str | Sequence[str] = (),
    no_excludes: bool = False,
    allow_split_changes: bool = False,
    allow_empty: bool = False,
    drop: bool = False,
    again: bool = False,
    wait: float = 0.0,
    workers: int | None = None,
    catalog: PathText | None = None,
    dry_run: bool = False,
    yes: bool = False,
    progress: Progress | None = None,
) -> SplitReport:
    """Assign samples to splits such as train, val and test: `wdsctl split`. Does not modify shards.

    `root`: The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these.
    `ratios`: 8,1,1 or train=8,val=1,test=1.
    `by`: Assign whole shards, single samples, or samples by a hash of their key. auto: whole shards, or samples if the
    shards do not fit the ratios.
    `seed`: Seed of the split.
    `group_by`: Keep samples with the same value in one split: json:FIELD, part:NAME, key:REGEX or column:NAME.
    `stratify`: Apply the ratios to each value separately.
    `pattern`: Split -> patterns of its shards: brace range, glob: or re:.
    `keys`: Split -> file with its keys, one per line.
    `by_value`: Assign samples to the split that their value names.
    `rest`: Split for all other samples; 'none' leaves them without a split.
    `from_file`: Use a split.yaml of Energon.
    `folds`: Create K split sets, each with another fold as val.
    `split_set`: Create this split set next to the others.
    `exclude_shard`: Exclude shards from all splits.
    `exclude_key`: Exclude samples from all splits.
    `exclude_keys`: Exclude the keys in a file.
    `exclude_code`: Exclude samples with this finding of validate.
    `no_excludes`: Remove all excludes except those given here.
    `allow_split_changes`: Let samples leave their split for another one.
    `allow_empty`: Allow empty splits, and patterns and keys without matches.
    `drop`: Delete the split set of `split_set`, or its folds; without `split_set`, the default set, with `yes`.
    `again`: Create all split sets again by the rules in dataset.yaml.
    `yes`: As `allow_split_changes`, and let `drop` delete the default set.

    Pass one of `ratios`, `pattern`, `keys`, `by_value`, `from_file`, `folds`, `drop` and `again`, or only excludes.
    `wdsctl.inspect(root).splits` shows the splits.
    """
    from wdsctl.core.split.request import SplitCommand
    from wdsctl.core.split.split import run_split

    return _call(run_split, SplitCommand, locals())


def index(
    root: PathText,
    *,
    rebuild: bool = False,
    missing: Literal["error", "keep", "drop"] = "error",
    exclude: str | Sequence[str] | None = None,
    key: str | None = None,
    key_until: Literal["first-dot", "last-dot", "known-extension"] | None = None,
    column: Mapping[str, str] | Sequence[str] = (),
    drop_column: str | Sequence[str] = (),
    on_error: Literal["error", "zero"] = "error",
    trust_code: bool = False,
    media: str | bool | None = None,
    media_index: bool = False,
    drop_media: bool = False,
    sample_rows: bool | None = None,
    hashed: bool | None = None,
    wait: float = 0.0,
    workers: int | None = None,
    catalog: PathText | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> IndexReport | Any:
    """Update the catalog: `wdsctl index`. Reads only new and changed shards, at about 2 µs of one core per tar member.

    `root`: The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these. Or some
    shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).
    `rebuild`: Rebuild the catalog from all shards.
    `missing`: If shards or raw files no longer exist: stop, keep their samples, or drop them.
    `exclude`: Skip shards whose path matches one of these patterns. None: those of the last run.
    `key`: JSONL: the field with the key. [default: the line number]
    `key_until`: Where the key ends in a file name with several dots. [default: detected; first-dot for tars]
    `column`: Name -> function that computes a number for every sample (docs/columns.md).
    `drop_column`: Delete a column.
    `on_error`: If FUNCTION fails for a sample: do not write the column, or store 0.
    `trust_code`: Allow importing a column's FUNCTION from the folder of the dataset.
    `media`: Read facts of images, audio and video from their headers: of parts such as 'jpg,*.seg.png'; 'content'
    recognises media by content instead of names; True: all media.
    `media_index`: Also record the keyframes of videos, for fast seeking. Reads whole files without decoding them.
    `drop_media`: Delete the media facts.
    `sample_rows`: Store a catalog row for every sample, or only counts (for huge datasets). [default: as in the last
    run; in the first run rows for tars, counts for JSONL]
    `hashed`: Compute the SHA-256 of every shard, by reading all of it. [default: as in the last run; in the first run
    no]

    Returns an `IndexReport`; for a folder of media, a `MediaFolderReport`.
    """
    from wdsctl.core.index.index import run_index
    from wdsctl.core.index.request import IndexCommand

    return _call(run_index, IndexCommand, locals())


@overload
def inspect(
    root: PathText,
    *,
    stats: Literal[True],
    random: str | int | None = None,
    seed: int | None = None,
    split: str | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> StatsReport: ...
@overload
def inspect(
    root: PathText,
    *,
    key: str,
    shard: str | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> SamplesReport: ...
@overload
def inspect(
    root: PathText,
    *,
    random: int,
    seed: int | None = None,
    split: str | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> SamplesReport: ...
@overload
def inspect(
    root: PathText,
    *,
    samples: int,
    split: str | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> SamplesReport | Any: ...
@overload
def inspect(
    root: PathText, *, split: str | None = None, catalog: PathText | None = None, progress: Progress | None = None
) -> InspectReport | Any: ...
def inspect(
    root: PathText,
    *,
    stats: bool = False,
    samples: str | int | None = None,
    random: str | int | None = None,
    seed: int | None = None,
    key: str | None = None,
    shard: str | None = None,
    split: str | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> Any:
    """Show what a dataset or a blend file contains: `wdsctl inspect`.

    `root`: A folder of shards, a .jsonl file, or a URL of either. Or a blend file.
    `stats`: Sizes, media, texts and JSON keys, with histograms.
    `samples`: Show the first N samples. For a blend file: show the epochs of a run of N samples.
    `random`: Show N samples drawn by `seed`.
    `seed`: Seed that draws the samples. [default: 0]
    `key`: Show the sample with this key.
    `shard`: Only the sample in shard PATH, if a key is repeated.
    `split`: Only samples of this split.

    Without options, returns an `InspectReport` from the catalog: counts, parts, splits, shards, and the first three
    samples (`samples=0`: none). It reads one catalog row per shard. `samples`, `random` and `key` return a
    `SamplesReport`; `stats` reads 1,000 samples (or `random`), and returns a `StatsReport`.

    Returns a `BlendReport` for a blend file, a `ViewShowReport` for `ROOT@VIEW` without options, and a
    `MediaFolderInspectReport` for a folder of media.
    """
    from wdsctl.core.inspect.request import InspectRequest, run_inspect

    return _call(run_inspect, InspectRequest, locals())


def export(
    root: PathText,
    out: PathText | None = None,
    *,
    to: Literal["energon", "wids", "hub", "croissant"],
    split_set: str = "",
    sample_tables: bool = True,
    hashed: bool = False,
    license_id: str = "",
    overwrite: bool = False,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """Write another tool's metadata beside the shards, from the catalog alone: `wdsctl export`.

    `root`: The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these.
    `out`: The folder to write to. [default: the folder of the shards]
    `to`: The tool whose metadata to write.
    `split_set`: Export the splits of this split set.
    `sample_tables`: energon: write index.sqlite, which joins, lookups by key and `energon mount` need.
    `hashed`: wids: read all shards, and list their MD5 hashes.
    `license_id`: hub, croissant: the license, such as cc-by-4.0.
    `overwrite`: Replace existing metadata. Files of other names stay.

    Raises CatalogError WDS305 if shards have changed since they were indexed, or the catalog meanwhile, UsageError for
    a polylithic dataset, and if metadata exists and `overwrite` is not set, PermissionDenied for a folder that this
    user cannot write, and what the target raises.
    """
    from wdsctl.core.export.export import export as run_export
    from wdsctl.core.export.request import ExportRequest

    return _call(run_export, ExportRequest, locals())


@overload
def validate(
    root: PathText,
    *,
    shards: str | Sequence[str] = (),
    release: Literal[True],
    wait: float = 0.0,
    workers: int | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> ReleaseReport: ...
@overload
def validate(
    root: PathText,
    *,
    level: str | Sequence[str] = (),
    sample: str | float = 1.0,
    seed: int = 0,
    shards: str | Sequence[str] = (),
    refs: Mapping[str, str] | Sequence[str] = (),
    target: Literal["", "hub"] = "",
    again: bool = False,
    quarantine: bool = False,
    wait: float = 0.0,
    workers: int | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> ValidateReport: ...
def validate(
    root: PathText,
    *,
    level: str | Sequence[str] = (),
    sample: str | float = 1.0,
    seed: int = 0,
    shards: str | Sequence[str] = (),
    refs: Mapping[str, str] | Sequence[str] = (),
    target: Literal["", "hub"] = "",
    again: bool = False,
    quarantine: bool = False,
    release: bool = False,
    wait: float = 0.0,
    workers: int | None = None,
    catalog: PathText | None = None,
    progress: Progress | None = None,
) -> ValidateReport | ReleaseReport:
    """Check a dataset, or all datasets of a blend file, for errors: `wdsctl validate`. Findings are in the report.

    `root`: Dataset or ROOT@VIEW: a folder of shards, a .jsonl file, or a URL of either. Or a blend file.
    `level`: structure (always), headers, content, load, schema, refs, hashes, or all; as "schema,content" or a list.
    With `refs`, refs by default.
    `sample`: The share of the samples to check, "1%" or 0.01, drawn by `seed`.
    `seed`: Seed of `sample`.
    `shards`: Only these shards: a glob, brace range or re:REGEX.
    `refs`: JSON field -> the store that has the files it names; saved in dataset.yaml.
    `target`: Also report what the viewer of the Hugging Face Hub would refuse.
    `again`: Check unchanged shards again. The level `hashes` always does so.
    `quarantine`: Exclude samples with errors from all splits. Does not modify shards.
    `release`: Release samples from quarantine, and check nothing.

    With `release`, which excludes the options that check, ends the quarantine and returns a `ReleaseReport`. Raises the
    errors of `validate` and `release`.
    """
    from wdsctl.core.validate.request import ValidateCommand
    from wdsctl.core.validate.validate import run_validate

    return _call(run_validate, ValidateCommand, locals())
