"""Brings a draft that began as an older catalog to the present schema: one function a version, none ever changed.

A published catalog is never migrated in place: an older one is read as it is, and the next run that writes makes a new
one of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable


def to_2(connection: sqlite3.Connection) -> None:
    """Facts of media, and folders of media."""
    for statement in _SECOND.split(";\n"):
        connection.execute(statement)


_SECOND = """
CREATE TABLE media_form (id INTEGER NOT NULL, kind TEXT NOT NULL, format TEXT, mode TEXT, codec TEXT, orientation
    INTEGER, rotation INTEGER, frames_are TEXT, has_audio INTEGER, audio_codec TEXT, audio_channels INTEGER,
    audio_rate INTEGER, audio_samples_are TEXT, reason TEXT, PRIMARY KEY (id));
CREATE TABLE media (sample BIGINT NOT NULL, ext INTEGER NOT NULL, form INTEGER NOT NULL, width INTEGER, height
    INTEGER, seconds FLOAT, frames INTEGER, fps_num INTEGER, fps_den INTEGER, audio_seconds FLOAT, audio_samples
    BIGINT, PRIMARY KEY (sample, ext)) WITHOUT ROWID;
CREATE TABLE media_shard (shard INTEGER NOT NULL, mark BLOB NOT NULL, PRIMARY KEY (shard));
CREATE TABLE media_count (shard INTEGER NOT NULL, ext INTEGER NOT NULL, form INTEGER NOT NULL, media INTEGER NOT
    NULL, bytes BIGINT NOT NULL, width_min INTEGER, width_max INTEGER, height_min INTEGER, height_max INTEGER,
    seconds FLOAT, seconds_min FLOAT, seconds_max FLOAT, PRIMARY KEY (shard, ext, form)) WITHOUT ROWID;
CREATE TABLE keyframes (sample BIGINT NOT NULL, ext INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (sample, ext));
CREATE TABLE file (id INTEGER NOT NULL, path TEXT NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL, PRIMARY
    KEY (id), UNIQUE (path));
CREATE VIEW v_media AS SELECT media.sample AS id, sample.key, ext.name AS part, shard.path AS shard,
    media_form.kind, media_form.format, media_form.mode, media_form.codec, media.width, media.height, CASE WHEN
    media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.height ELSE media.width END AS
    display_width, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.width ELSE
    media.height END AS display_height, media_form.orientation, media_form.rotation, media.seconds, media.fps_num *
    1.0 / media.fps_den AS fps, media.frames, media_form.frames_are, media_form.has_audio, media_form.audio_codec,
    media.audio_seconds, media_form.audio_channels, media_form.audio_rate, media.audio_samples,
    media_form.audio_samples_are, media_form.reason FROM media LEFT JOIN media_form ON media_form.id = media.form
    LEFT JOIN ext ON ext.id = media.ext LEFT JOIN sample ON sample.id = media.sample LEFT JOIN shard ON shard.id =
    media.sample >> 28;
CREATE VIEW v_file AS SELECT file.id, file.path, file.size, media_form.kind, media_form.format, media_form.mode,
    media_form.codec, media.width, media.height, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN
    (90, 270) THEN media.height ELSE media.width END AS display_width, CASE WHEN media_form.orientation >= 5 OR
    media_form.rotation IN (90, 270) THEN media.width ELSE media.height END AS display_height,
    media_form.orientation, media_form.rotation, media.seconds, media.fps_num * 1.0 / media.fps_den AS fps,
    media.frames, media_form.frames_are, media_form.has_audio, media_form.audio_codec, media.audio_seconds,
    media_form.audio_channels, media_form.audio_rate, media.audio_samples, media_form.audio_samples_are,
    media_form.reason FROM file LEFT JOIN media ON media.sample = file.id LEFT JOIN media_form ON media_form.id =
    media.form
"""


def to_3(connection: sqlite3.Connection) -> None:
    """Hashes of shards, and samples that are excluded."""
    for statement in _THIRD.split(";\n"):
        connection.execute(statement)


_THIRD = """
CREATE TABLE older AS SELECT * FROM shard;
DROP TABLE shard;
CREATE TABLE shard (id INTEGER NOT NULL, path TEXT NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL, samples
    INTEGER NOT NULL, parts INTEGER NOT NULL, status TEXT NOT NULL, code TEXT, layout_hash TEXT NOT NULL, added
    INTEGER NOT NULL, removed INTEGER, sha256 TEXT, PRIMARY KEY (id));
INSERT INTO shard SELECT older.*, NULL FROM older;
DROP TABLE older;
CREATE TABLE excluded_shard (shard INTEGER NOT NULL, samples INTEGER NOT NULL, bits BLOB, PRIMARY KEY (shard)) WITHOUT
    ROWID;
DROP VIEW v_shard;
CREATE VIEW v_shard AS SELECT id, path, size, samples, parts, status, sha256 FROM shard WHERE removed IS NULL
"""


def to_4(connection: sqlite3.Connection) -> None:
    """The split that a sample had before it was excluded, or its shard was gone."""
    connection.execute(_FOURTH)


_FOURTH = """
CREATE TABLE former_split (split INTEGER NOT NULL, shard INTEGER NOT NULL, samples INTEGER NOT NULL, bits BLOB, PRIMARY
    KEY (split, shard)) WITHOUT ROWID
"""

#: The version that each of them makes, by the version it begins with.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: to_2, 2: to_3, 3: to_4}


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a catalog that is no one's yet to the present schema; one that is new is left alone. Raises sqlite3.Error.

    The connection is in autocommit.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    while version in MIGRATIONS:
        MIGRATIONS[version](connection)
        version += 1
        connection.execute(f"PRAGMA user_version = {version}")
