"""The catalog's tables, once: `docs/catalog.md` is made from them. Tables may change with a migration; views may not.

A sample's id is `shard << 28 | its index in the shard`, so that tar order is row order and appending is append-only.
Rows of shards know the generation that added and removed them; ids are never given out twice.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

INDEX_BITS = 28
SAMPLES_A_SHARD = 1 << INDEX_BITS

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    comment="facts about the catalog itself: uuid, generation, the version that wrote it",
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
    Column("status", Text, nullable=False, comment="ok, partial (its end is missing), bad or unreadable"),
    Column("code", Text, comment="the WDSnnn of what is wrong with it, if anything is"),
    Column("layout_hash", Text, nullable=False, comment="names where everything in the shard is"),
    Column("added", Integer, nullable=False, comment="the first generation with this shard"),
    Column("removed", Integer, comment="the first generation without it; null while it is there"),
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
    Column("share", Text, nullable=False, comment="its part of the ratio, as written"),
    Column("by", Text, nullable=False, comment="shard or sample"),
    Column("seed", Integer, nullable=False),
    comment="the splits, in the order they were named",
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

VIEWS = {
    "v_shard": "SELECT id, path, size, samples, parts, status FROM shard WHERE removed IS NULL",
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
}

KEY_INDEX = "CREATE INDEX IF NOT EXISTS sample_key ON sample (key)"
