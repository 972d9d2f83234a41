
CREATE TABLE excluded_shard (
	shard INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	bits BLOB, 
	PRIMARY KEY (shard)
)
 WITHOUT ROWID

;

CREATE TABLE ext (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
)

;

CREATE TABLE file (
	id INTEGER NOT NULL, 
	path TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	mtime_ns BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (path)
)

;

CREATE TABLE former_split (
	split INTEGER NOT NULL, 
	shard INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	bits BLOB, 
	PRIMARY KEY (split, shard)
)
 WITHOUT ROWID

;

CREATE TABLE keyframes (
	sample BIGINT NOT NULL, 
	ext INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (sample, ext)
)

;

CREATE TABLE media (
	sample BIGINT NOT NULL, 
	ext INTEGER NOT NULL, 
	form INTEGER NOT NULL, 
	width INTEGER, 
	height INTEGER, 
	seconds FLOAT, 
	frames INTEGER, 
	fps_num INTEGER, 
	fps_den INTEGER, 
	audio_seconds FLOAT, 
	audio_samples BIGINT, 
	PRIMARY KEY (sample, ext)
)
 WITHOUT ROWID

;

CREATE TABLE media_count (
	shard INTEGER NOT NULL, 
	ext INTEGER NOT NULL, 
	form INTEGER NOT NULL, 
	media INTEGER NOT NULL, 
	bytes BIGINT NOT NULL, 
	width_min INTEGER, 
	width_max INTEGER, 
	height_min INTEGER, 
	height_max INTEGER, 
	seconds FLOAT, 
	seconds_min FLOAT, 
	seconds_max FLOAT, 
	PRIMARY KEY (shard, ext, form)
)
 WITHOUT ROWID

;

CREATE TABLE media_form (
	id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	format TEXT, 
	mode TEXT, 
	codec TEXT, 
	orientation INTEGER, 
	rotation INTEGER, 
	frames_are TEXT, 
	has_audio INTEGER, 
	audio_codec TEXT, 
	audio_channels INTEGER, 
	audio_rate INTEGER, 
	audio_samples_are TEXT, 
	reason TEXT, 
	PRIMARY KEY (id)
)

;

CREATE TABLE media_shard (
	shard INTEGER NOT NULL, 
	mark BLOB NOT NULL, 
	PRIMARY KEY (shard)
)

;

CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
)

;

CREATE TABLE sample (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	"offset" BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	parts TEXT NOT NULL, 
	PRIMARY KEY (id)
)

;

CREATE TABLE shard (
	id INTEGER NOT NULL, 
	path TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	mtime_ns BIGINT NOT NULL, 
	samples INTEGER NOT NULL, 
	parts INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	code TEXT, 
	layout_hash TEXT NOT NULL, 
	added INTEGER NOT NULL, 
	removed INTEGER, 
	sha256 TEXT, 
	PRIMARY KEY (id)
)

;

CREATE TABLE shard_part (
	shard INTEGER NOT NULL, 
	ext INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	bytes BIGINT NOT NULL, 
	empty INTEGER NOT NULL, 
	PRIMARY KEY (shard, ext)
)
 WITHOUT ROWID

;

CREATE TABLE split (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	share TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	seed INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
)

;

CREATE TABLE split_shard (
	split INTEGER NOT NULL, 
	shard INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	bits BLOB, 
	PRIMARY KEY (split, shard)
)
 WITHOUT ROWID

;
CREATE VIEW v_shard AS SELECT id, path, size, samples, parts, status, sha256 FROM shard WHERE removed IS NULL;
CREATE VIEW v_sample AS SELECT sample.id, key, shard.path AS shard, sample.id & 268435455 AS position, offset, sample.size FROM sample JOIN shard ON shard.id = sample.id >> 28;
CREATE VIEW v_part AS SELECT sample.id, sample.key, ext.name AS part, shard.path AS shard, sample.offset + json_extract(item.value, '$[1]') AS offset, json_extract(item.value, '$[2]') AS size FROM sample JOIN json_each(sample.parts) AS item JOIN ext ON ext.id = json_extract(item.value, '$[0]') JOIN shard ON shard.id = sample.id >> 28;
CREATE VIEW v_split AS SELECT split.name, split.share, count(*) AS shards, sum(split_shard.samples) AS samples FROM split JOIN split_shard ON split_shard.split = split.id GROUP BY split.id;
CREATE VIEW v_media AS SELECT media.sample AS id, sample.key, ext.name AS part, shard.path AS shard, media_form.kind, media_form.format, media_form.mode, media_form.codec, media.width, media.height, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.height ELSE media.width END AS display_width, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.width ELSE media.height END AS display_height, media_form.orientation, media_form.rotation, media.seconds, media.fps_num * 1.0 / media.fps_den AS fps, media.frames, media_form.frames_are, media_form.has_audio, media_form.audio_codec, media.audio_seconds, media_form.audio_channels, media_form.audio_rate, media.audio_samples, media_form.audio_samples_are, media_form.reason FROM media LEFT JOIN media_form ON media_form.id = media.form LEFT JOIN ext ON ext.id = media.ext LEFT JOIN sample ON sample.id = media.sample LEFT JOIN shard ON shard.id = media.sample >> 28;
CREATE VIEW v_file AS SELECT file.id, file.path, file.size, media_form.kind, media_form.format, media_form.mode, media_form.codec, media.width, media.height, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.height ELSE media.width END AS display_width, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.width ELSE media.height END AS display_height, media_form.orientation, media_form.rotation, media.seconds, media.fps_num * 1.0 / media.fps_den AS fps, media.frames, media_form.frames_are, media_form.has_audio, media_form.audio_codec, media.audio_seconds, media_form.audio_channels, media_form.audio_rate, media.audio_samples, media_form.audio_samples_are, media_form.reason FROM file LEFT JOIN media ON media.sample = file.id LEFT JOIN media_form ON media_form.id = media.form;
