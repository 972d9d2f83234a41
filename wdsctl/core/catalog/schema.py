"""The catalog's tables, once: `docs/catalog.md` is made from them. Tables may change with a migration; views may not.

A sample's id is `shard << 28 | its index in the shard`, so that tar order is row order and appending is append-only.
Rows of shards know the generation that added and removed them; ids are never given out twice.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, MetaData, Table, Text

from wdsctl.core.sample_id import INDEX_BITS

SAMPLES_A_SHARD = 1 << INDEX_BITS

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    comment="facts about the catalog itself: uuid, generation, the version that wrote it; and its totals",
)

shard = Table(
    "shard",
    metadata,
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
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True, comment="what follows the key's first dot: jpg, seg.png"),
    comment="part names, once",
)

sample = Table(
    "sample",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, comment="shard << 28 | index in it"),
    Column("key", Text, nullable=False),
    Column("offset", BigInteger, nullable=False, comment="of the sample's first tar header, in bytes"),
    Column("size", BigInteger, nullable=False, comment="bytes from there to the end of its last part"),
    Column("parts", Text, nullable=False, comment="JSON [[ext, offset from the sample's, bytes], ...] in tar order"),
    comment="one row a sample, in tar order",
)

shard_part = Table(
    "shard_part",
    metadata,
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
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("share", Text, nullable=False, comment="its part of the ratio, as written; 0.0 where there is none"),
    Column("by", Text, nullable=False, comment="shard, sample, key, group, balanced, pattern or keys"),
    Column("seed", Integer, nullable=False),
    comment="the splits, in the order they were named; SET/NAME in a set that has a name",
)

split_shard = Table(
    "split_shard",
    metadata,
    Column("split", Integer, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="one bit a sample, lowest first; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="which samples of which shard a split has",
)

excluded_shard = Table(
    "excluded_shard",
    metadata,
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="as in split_shard; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="which samples are in no split, since a rule or a quarantine excludes them",
)

former_split = Table(
    "former_split",
    metadata,
    Column("split", Integer, primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary, comment="as in split_shard; null means the whole shard"),
    sqlite_with_rowid=False,
    comment="which samples a split had that are excluded now, or of a shard that is gone: they go back to it",
)

media_form = Table(
    "media_form",
    metadata,
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
    metadata,
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
    metadata,
    Column("shard", Integer, primary_key=True),
    Column("mark", LargeBinary, nullable=False, comment="names the shard's content and what was asked of it"),
    comment="the shards whose media are in the catalog",
)

media_count = Table(
    "media_count",
    metadata,
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
    metadata,
    Column("sample", BigInteger, primary_key=True),
    Column("ext", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False, comment="KeyframeIndex.to_bytes() of wdsctl/core/media/keyframes.py"),
    comment="where the keyframes of a video are, for videos that were indexed for seeking",
)

file = Table(
    "file",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("path", Text, nullable=False, unique=True, comment="relative to the folder, with /"),
    Column("size", BigInteger, nullable=False, comment="bytes"),
    Column("mtime_ns", BigInteger, nullable=False, comment="nanoseconds since 1970; at a URL, made of the etag"),
    comment="the files of a folder of media; empty in a dataset of shards",
)

_SIDEWAYS = "media_form.orientation >= 5 OR media_form.rotation IN (90, 270)"  # its sides are swapped when it is shown

#: The columns that say what a medium is, by their names.
MEDIA_FACTS = {
    "kind": "media_form.kind",
    "format": "media_form.format",
    "mode": "media_form.mode",
    "codec": "media_form.codec",
    "width": "media.width",
    "height": "media.height",
    "display_width": f"CASE WHEN {_SIDEWAYS} THEN media.height ELSE media.width END",
    "display_height": f"CASE WHEN {_SIDEWAYS} THEN media.width ELSE media.height END",
    "orientation": "media_form.orientation",
    "rotation": "media_form.rotation",
    "seconds": "media.seconds",
    "fps": "media.fps_num * 1.0 / media.fps_den",
    "frames": "media.frames",
    "frames_are": "media_form.frames_are",
    "has_audio": "media_form.has_audio",
    "audio_codec": "media_form.audio_codec",
    "audio_seconds": "media.audio_seconds",
    "audio_channels": "media_form.audio_channels",
    "audio_rate": "media_form.audio_rate",
    "audio_samples": "media.audio_samples",
    "audio_samples_are": "media_form.audio_samples_are",
    "reason": "media_form.reason",
}
_FACTS = ", ".join(fact if fact.endswith(f".{name}") else f"{fact} AS {name}" for name, fact in MEDIA_FACTS.items())

VIEWS = {
    "v_shard": "SELECT id, path, size, samples, parts, status, sha256 FROM shard WHERE removed IS NULL",
    "v_sample": (
        "SELECT sample.id, key, shard.path AS shard, sample.id & 268435455 AS position, offset, sample.size "
        "FROM sample JOIN shard ON shard.id = sample.id >> 28"
    ),
    "v_part": (
        "SELECT sample.id, sample.key, ext.name AS part, shard.path AS shard, "
        "sample.offset + json_extract(item.value, '$[1]') AS offset, json_extract(item.value, '$[2]') AS size "
        "FROM sample JOIN json_each(sample.parts) AS item "
        "JOIN ext ON ext.id = json_extract(item.value, '$[0]') JOIN shard ON shard.id = sample.id >> 28"
    ),
    "v_split": (
        "SELECT split.name, split.share, count(*) AS shards, sum(split_shard.samples) AS samples "
        "FROM split JOIN split_shard ON split_shard.split = split.id GROUP BY split.id"
    ),
    # Outer joins: SQLite leaves out those whose columns a query does not ask for.
    "v_media": (
        f"SELECT media.sample AS id, sample.key, ext.name AS part, shard.path AS shard, {_FACTS} "
        "FROM media LEFT JOIN media_form ON media_form.id = media.form LEFT JOIN ext ON ext.id = media.ext "
        "LEFT JOIN sample ON sample.id = media.sample LEFT JOIN shard ON shard.id = media.sample >> 28"
    ),
    "v_file": (
        f"SELECT file.id, file.path, file.size, {_FACTS} "
        "FROM file LEFT JOIN media ON media.sample = file.id LEFT JOIN media_form ON media_form.id = media.form"
    ),
}
