"""The tables of catalogs and ledgers, from which `docs/schema_text.py` writes `catalog.sql` and `ledger.sql`.

`docs/generate.py` writes the page about the catalog from them. A sample's id is `shard << 28 | its index in the shard`:
id order is tar order, and a new shard only appends rows. A row of `shard` names the generations that added and removed
it; shard ids are never reused. A change of a table raises the schema version.
"""

from __future__ import annotations

from typing import get_args

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

from wdsctl.core.split_rules.rule import SplitRuleKind

_SPLIT_KINDS = ", ".join(kind for kind in get_args(SplitRuleKind) if kind != "stratum")

catalog_metadata = MetaData()

meta = Table(
    "meta",
    catalog_metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    comment="facts about the catalog itself: uuid, generation, the version of wdsctl that wrote it, and totals",
)

shard = Table(
    "shard",
    catalog_metadata,
    Column("id", Integer, primary_key=True, comment="never used again for another shard"),
    Column("path", Text, nullable=False, comment="relative to the root of the dataset, with /"),
    Column("size", BigInteger, nullable=False, comment="bytes"),
    Column("mtime_ns", BigInteger, nullable=False, comment="nanoseconds since 1970; at a URL, derived from the etag"),
    Column("samples", Integer, nullable=False),
    Column("parts", Integer, nullable=False),
    Column(
        "status",
        Text,
        nullable=False,
        comment="ok, partial (truncated), bad, unreadable, or missing (kept in the catalog although the file is gone)",
    ),
    Column("code", Text, comment="code of the problem, such as WDS102; null if there is none"),
    Column(
        "layout_hash",
        Text,
        nullable=False,
        comment="hash of the keys, names, positions and sizes of all parts in the shard",
    ),
    Column("added", Integer, nullable=False, comment="first generation that has the shard"),
    Column("removed", Integer, comment="first generation that no longer has the shard; null for a current shard"),
    Column("sha256", Text, comment="hash of the whole file in hex; null without `wdsctl index --hash`"),
    comment="one row per shard, and another row whenever the content of a shard changes",
)

ext = Table(
    "ext",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True, comment="the file name after its first dot: jpg, seg.png"),
    comment="the names of parts",
)

sample = Table(
    "sample",
    catalog_metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        comment="shard << 28 | position in the shard",
    ),
    Column("key", Text, nullable=False),
    Column(
        "offset", BigInteger, nullable=False, comment="position of the sample's first tar header in the shard, in bytes"
    ),
    Column("size", BigInteger, nullable=False, comment="bytes from that header to the end of the last part"),
    Column("parts", Text, nullable=False, comment="JSON [[ext, offset in the sample, bytes], ...] in tar order"),
    comment="one row per sample, in tar order",
)

shard_part = Table(
    "shard_part",
    catalog_metadata,
    Column("shard", Integer, primary_key=True),
    Column("ext", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("empty", Integer, nullable=False, comment="number of parts with 0 bytes"),
    sqlite_with_rowid=False,
    comment="counts per shard and part name, which `wdsctl inspect` sums",
)

split = Table(
    "split",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column(
        "share", Text, nullable=False, comment="the number in the ratio, such as 8.0; 0.0 if the split has no ratio"
    ),
    Column("by", Text, nullable=False, comment=f"kind of the rule: {_SPLIT_KINDS}; sample for strata"),
    Column("seed", Integer, nullable=False),
    comment="the splits in the order of the rule; a split of a named split set is called SET/NAME",
)

split_shard = Table(
    "split_shard",
    catalog_metadata,
    Column("split", Integer, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="one bit per sample, lowest bit first; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="the samples of each shard that are in a split",
)

excluded_shard = Table(
    "excluded_shard",
    catalog_metadata,
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="as in split_shard; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="the samples of each shard that a rule or the quarantine excludes from all splits",
)

former_split = Table(
    "former_split",
    catalog_metadata,
    Column("split", Integer, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="as in split_shard; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="the former split of excluded samples and of removed shards, for the case that they come back",
)

media_form = Table(
    "media_form",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False, comment="image, audio, video or unreadable"),
    Column(
        "format", Text, comment="Pillow's name of an image format, or the container of audio and video: JPEG, mp4, wav"
    ),
    Column("mode", Text, comment="images: Pillow's mode, such as RGB, L, I;16"),
    Column("codec", Text, comment="FFmpeg's name of the codec of a video or an audio file"),
    Column("orientation", Integer, comment="images: EXIF orientation, 1 to 8"),
    Column("rotation", Integer, comment="videos: clockwise rotation for display, in degrees; null if unknown"),
    Column(
        "frames_are",
        Text,
        comment="videos: origin of `frames`: `stated` by the file, `estimated` from duration and rate, or `unknown`; "
        "images: `several` if only the first of several frames or pages is read",
    ),
    Column("has_audio", Integer, comment="videos: 0 or 1"),
    Column(
        "audio_codec", Text, comment="codec of the audio in a video; null without audio, or without a decoder for it"
    ),
    Column("audio_channels", Integer),
    Column("audio_rate", Integer, comment="samples per second and channel"),
    Column("audio_samples_are", Text, comment="origin of `audio_samples`, as in frames_are"),
    Column("reason", Text, comment="why the medium is unreadable"),
    comment="the facts that many media share; each combination has one row",
)

media = Table(
    "media",
    catalog_metadata,
    Column("sample", BigInteger, primary_key=True, comment="id of the sample; in a media folder, id of the file"),
    Column("ext", Integer, primary_key=True),
    Column("form", Integer, nullable=False),
    Column("width", Integer, comment="pixels, as stored"),
    Column("height", Integer, comment="pixels, as stored"),
    Column("seconds", Float, comment="duration of a video or an audio file"),
    Column("frames", Integer),
    Column("fps_num", Integer, comment="numerator of the exact number of frames per second"),
    Column("fps_den", Integer, comment="denominator of the number of frames per second"),
    Column("audio_seconds", Float, comment="duration of the audio in a video"),
    Column("audio_samples", BigInteger, comment="samples per channel"),
    sqlite_with_rowid=False,
    comment="the facts from the header of each medium, one row per medium that `--media` selected",
)

media_shard = Table(
    "media_shard",
    catalog_metadata,
    Column("shard", Integer, primary_key=True),
    Column(
        "mark",
        LargeBinary,
        nullable=False,
        comment="hash of the content of the shard and of the selection by `--media`",
    ),
    comment="the shards whose media facts are in the catalog",
)

media_count = Table(
    "media_count",
    catalog_metadata,
    Column("shard", Integer, primary_key=True, comment="0 for all files of a media folder"),
    Column("ext", Integer, primary_key=True),
    Column("form", Integer, primary_key=True),
    Column("media", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("width_min", Integer),
    Column("width_max", Integer),
    Column("height_min", Integer),
    Column("height_max", Integer),
    Column("seconds", Float, comment="total duration"),
    Column("seconds_min", Float),
    Column("seconds_max", Float),
    sqlite_with_rowid=False,
    comment="counts and ranges per shard, part name and row of media_form, which `wdsctl inspect` sums",
)

keyframes = Table(
    "keyframes",
    catalog_metadata,
    Column("sample", BigInteger, primary_key=True),
    Column("ext", Integer, primary_key=True),
    Column(
        "data",
        LargeBinary,
        nullable=False,
        comment="the format of KeyframeIndex.to_bytes() in wdsctl/core/media/keyframes.py",
    ),
    comment="the keyframe positions of videos that were indexed with `--media-index`",
)

file = Table(
    "file",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("path", Text, nullable=False, unique=True, comment="relative to the media folder, with /"),
    Column("size", BigInteger, nullable=False, comment="bytes"),
    Column("mtime_ns", BigInteger, nullable=False, comment="nanoseconds since 1970; at a URL, derived from the etag"),
    comment="the files of a media folder; empty in a dataset of shards",
)


ledger_metadata = MetaData()

#: One row per run of a command. `status` is null while the command runs, and stays null if it was killed.
run_table = Table(
    "run",
    ledger_metadata,
    Column("id", Integer, primary_key=True),
    Column("uuid", Text, nullable=False, unique=True),
    Column("command", Text, nullable=False),
    Column("argv", Text, nullable=False),  # JSON list
    Column("version", Text, nullable=False),
    Column("started_at", Text, nullable=False),  # UTC, ISO 8601
    Column("finished_at", Text),
    Column("status", Text),
    Column("details", Text),  # JSON object
)

finding_table = Table(
    "finding",
    ledger_metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer, ForeignKey("run.id"), nullable=False, index=True),
    Column("code", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("shard", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("byte_offset", Integer, key="offset"),
    Column("count", Integer, nullable=False),
    Column("message", Text, nullable=False),
)

planned_shard_table = Table(
    "planned_shard",
    ledger_metadata,
    Column("name", Text, primary_key=True),
    Column("ordinal", Integer, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("keys", LargeBinary, nullable=False),
    Column("marks", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
)

#: At most one row: the raw folder of the plan.
plan_source_table = Table(
    "plan_source",
    ledger_metadata,
    Column("path", LargeBinary, primary_key=True),  # resolved; bytes, since a path need not be UTF-8
)

#: One row per view. `hash` identifies its samples independently of the catalog.
view_table = Table(
    "view",
    ledger_metadata,
    Column("name", Text, primary_key=True),
    Column("expression", Text, nullable=False),
    Column("created_at", Text, nullable=False),  # UTC, ISO 8601
    Column("generation", Integer, nullable=False),  # of the catalog that it was made from
    Column("samples", Integer, nullable=False),
    Column("hash", Text, nullable=False),
)

#: Which samples of which shard a view has. By path and layout, not by id: a rebuilt catalog has other ids.
view_shard_table = Table(
    "view_shard",
    ledger_metadata,
    Column("view", Text, primary_key=True),
    Column("shard", Text, primary_key=True),  # its path
    Column("layout_hash", Text, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary),  # one bit per sample, lowest first; null means the whole shard
    sqlite_with_rowid=False,
)

#: What `validate` has checked, and its findings: see `ledger_checks.py`.
check_table = Table(
    "known",
    ledger_metadata,
    Column("shard", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("reach", Text, primary_key=True),  # which of its samples were checked: all or none
    Column("layout_hash", Text, nullable=False),  # of the shard when it was checked
    Column("mark", LargeBinary, nullable=False),
    Column("findings", Text, nullable=False),  # JSON list
    sqlite_with_rowid=False,
)

#: The quarantine of `validate --quarantine`. A row excludes a whole shard if `key` is empty and `place` is null.
quarantine_table = Table(
    "quarantine",
    ledger_metadata,
    Column("id", Integer, primary_key=True),
    Column("shard", Text, nullable=False),
    Column("layout_hash", Text, nullable=False),
    Column("place", Integer),  # of the sample in the shard, from 0
    Column("key", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("run_id", Integer, nullable=False),
)

#: At most one row: the last renaming that was applied to the ledger. A run that was killed before it published its
#: catalog is repeated, but must not apply its renaming twice, as shards may have swapped names.
rename_table = Table("renamed", ledger_metadata, Column("mark", LargeBinary, nullable=False))
