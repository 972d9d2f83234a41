"""The tables of catalogs and ledgers, from which `docs/schema_text.py` writes `catalog.sql` and `ledger.sql`.

`docs/generate.py` writes the page about the catalog from them. A sample's id is `shard << 28 | its index in the shard`:
id order is tar order, and a new shard only appends rows. A row of `shard` names the generations that added and removed
it; shard ids are never reused. A change of a table raises the schema version.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

from wdsctl.core.samples.naming import INDEX_BITS

MAX_SHARD_SAMPLES = 1 << INDEX_BITS

catalog_metadata = MetaData()

meta = Table(
    "meta",
    catalog_metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    comment="facts about the catalog itself: uuid, generation, the version that wrote it; and its totals",
)

shard = Table(
    "shard",
    catalog_metadata,
    Column("id", Integer, primary_key=True, comment="never used again after the shard is gone"),
    Column("path", Text, nullable=False, comment="relative to the dataset's root, with /"),
    Column("size", BigInteger, nullable=False, comment="bytes"),
    Column("mtime_ns", BigInteger, nullable=False, comment="nanoseconds since 1970; at a URL, made of the etag"),
    Column("samples", Integer, nullable=False),
    Column("parts", Integer, nullable=False),
    Column(
        "status",
        Text,
        nullable=False,
        comment="ok, partial (its end is cut), bad, unreadable, or missing (gone, and kept)",
    ),
    Column("code", Text, comment="the WDSnnn of what is wrong with it, if anything is"),
    Column("layout_hash", Text, nullable=False, comment="names where everything in the shard is"),
    Column("added", Integer, nullable=False, comment="the first generation with this shard"),
    Column("removed", Integer, comment="the first generation without it; null while it is there"),
    Column("sha256", Text, comment="of the whole file, in hex; null where `--hash` has not asked for it"),
    comment="one row a shard file, and one more each time its content changes",
)

ext = Table(
    "ext",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True, comment="what follows the key's first dot: jpg, seg.png"),
    comment="part names, once",
)

sample = Table(
    "sample",
    catalog_metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, comment="shard << 28 | index in it"),
    Column("key", Text, nullable=False),
    Column("offset", BigInteger, nullable=False, comment="of the sample's first tar header, in bytes"),
    Column("size", BigInteger, nullable=False, comment="bytes from there to the end of its last part"),
    Column("parts", Text, nullable=False, comment="JSON [[ext, offset from the sample's, bytes], ...] in tar order"),
    comment="one row a sample, in tar order",
)

shard_part = Table(
    "shard_part",
    catalog_metadata,
    Column("shard", Integer, primary_key=True),
    Column("ext", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("empty", Integer, nullable=False, comment="parts of 0 bytes"),
    sqlite_with_rowid=False,
    comment="counts a shard and part, so that inspect adds up instead of scanning",
)

split = Table(
    "split",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("share", Text, nullable=False, comment="its part of the ratio, as written; 0.0 where there is none"),
    Column("by", Text, nullable=False, comment="shard, sample, key, group, balanced, pattern or keys"),
    Column("seed", Integer, nullable=False),
    comment="the splits, in the order they were named; SET/NAME in a set that has a name",
)

split_shard = Table(
    "split_shard",
    catalog_metadata,
    Column("split", Integer, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="one bit a sample, lowest first; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="which samples of which shard a split has",
)

excluded_shard = Table(
    "excluded_shard",
    catalog_metadata,
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="as in split_shard; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="which samples are in no split, since a rule or a quarantine excludes them",
)

former_split = Table(
    "former_split",
    catalog_metadata,
    Column("split", Integer, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="as in split_shard; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="which samples a split had that are excluded now, or of a shard that is gone: they go back to it",
)

media_form = Table(
    "media_form",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False, comment="image, audio, video or unreadable"),
    Column("format", Text, comment="of an image Pillow's name, of others the container: JPEG, mp4, wav"),
    Column("mode", Text, comment="of an image, Pillow's name: RGB, L, I;16"),
    Column("codec", Text, comment="of a video, or of a sound on its own; FFmpeg's name"),
    Column("orientation", Integer, comment="of an image, EXIF's, 1 to 8"),
    Column("rotation", Integer, comment="of a video, degrees to turn it clockwise; null where not known"),
    Column("frames_are", Text, comment="stated by the file, estimated from duration and rate, or unknown"),
    Column("has_audio", Integer, comment="of a video, 0 or 1"),
    Column("audio_codec", Text, comment="of the sound of a video; null where nothing here decodes it"),
    Column("audio_channels", Integer),
    Column("audio_rate", Integer, comment="samples a second of one channel"),
    Column("audio_samples_are", Text, comment="as frames_are"),
    Column("reason", Text, comment="why a medium is unreadable"),
    comment="what many media have in common, once",
)

media = Table(
    "media",
    catalog_metadata,
    Column("sample", BigInteger, primary_key=True, comment="of a folder of media, the file's id"),
    Column("ext", Integer, primary_key=True),
    Column("form", Integer, nullable=False),
    Column("width", Integer, comment="pixels, as stored"),
    Column("height", Integer, comment="pixels, as stored"),
    Column("seconds", Float, comment="of the video, or of a sound on its own"),
    Column("frames", Integer),
    Column("fps_num", Integer, comment="frames a second, without rounding"),
    Column("fps_den", Integer),
    Column("audio_seconds", Float, comment="of the sound of a video"),
    Column("audio_samples", BigInteger, comment="of one channel"),
    sqlite_with_rowid=False,
    comment="one row a medium that `--media` asked for: what its header says",
)

media_shard = Table(
    "media_shard",
    catalog_metadata,
    Column("shard", Integer, primary_key=True),
    Column("mark", LargeBinary, nullable=False, comment="names the shard's content and what was asked of it"),
    comment="the shards whose media are in the catalog",
)

media_count = Table(
    "media_count",
    catalog_metadata,
    Column("shard", Integer, primary_key=True, comment="0 for all files of a folder of media"),
    Column("ext", Integer, primary_key=True),
    Column("form", Integer, primary_key=True),
    Column("media", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("width_min", Integer),
    Column("width_max", Integer),
    Column("height_min", Integer),
    Column("height_max", Integer),
    Column("seconds", Float, comment="in total"),
    Column("seconds_min", Float),
    Column("seconds_max", Float),
    sqlite_with_rowid=False,
    comment="counts and ranges a shard, part and form, so that inspect adds up instead of scanning",
)

keyframes = Table(
    "keyframes",
    catalog_metadata,
    Column("sample", BigInteger, primary_key=True),
    Column("ext", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False, comment="KeyframeIndex.to_bytes() of wdsctl/core/media/keyframes.py"),
    comment="where the keyframes of a video are, for videos that were indexed for seeking",
)

file = Table(
    "file",
    catalog_metadata,
    Column("id", Integer, primary_key=True),
    Column("path", Text, nullable=False, unique=True, comment="relative to the folder, with /"),
    Column("size", BigInteger, nullable=False, comment="bytes"),
    Column("mtime_ns", BigInteger, nullable=False, comment="nanoseconds since 1970; at a URL, made of the etag"),
    comment="the files of a folder of media; empty in a dataset of shards",
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

#: One row per shard with samples that were renamed in the raw folder, until the catalog has their new keys.
former_key_table = Table(
    "former_key",
    ledger_metadata,
    Column("shard", Text, primary_key=True),  # its path
    Column("layout_hash", Text, nullable=False),  # of the shard in the catalog that has the old keys
    Column("keys", LargeBinary, nullable=False),  # packed like those of `planned_shard_table`: new ones
    Column("former", LargeBinary, nullable=False),  # the old ones, in the same order
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
    Column("bits", LargeBinary),  # one bit a sample, lowest first; null means the whole shard
    sqlite_with_rowid=False,
)

#: What `validate` has checked, and its findings: see `ledger_checks.py`.
check_table = Table(
    "known",
    ledger_metadata,
    Column("shard", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("reach", Text, primary_key=True),  # which of its samples were checked: all, some or none
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
