PRAGMA application_id = 1464095555;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
);
INSERT INTO "ext" VALUES(0,'jpg');
INSERT INTO "ext" VALUES(1,'txt');
INSERT INTO "ext" VALUES(2,'seg.png');
CREATE TABLE file (
	id INTEGER NOT NULL, 
	path TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	mtime_ns BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (path)
);
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
);
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
);
CREATE TABLE media_shard (
	shard INTEGER NOT NULL, 
	mark BLOB NOT NULL, 
	PRIMARY KEY (shard)
);
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('uuid','golden');
INSERT INTO "meta" VALUES('generation','1');
INSERT INTO "meta" VALUES('written_by','golden');
INSERT INTO "meta" VALUES('last_shard_id','3');
INSERT INTO "meta" VALUES('exclude','[]');
INSERT INTO "meta" VALUES('totals','{"shards":3,"samples":6,"size_bytes":20486,"statuses":{"bad":1,"ok":2},"ids":[1,3],"digest":"4485b41764c3e65e763ad64c39e08cc4","excluded":0,"without_facts":2,"parts":[{"name":"jpg","samples":6,"share":1.0,"size_bytes":35,"empty":0},{"name":"txt","samples":4,"share":0.6666666666666666,"size_bytes":32,"empty":0},{"name":"seg.png","samples":1,"share":0.16666666666666666,"size_bytes":0,"empty":1}],"splits":[{"name":"train","share":2.0,"shards":2,"samples":4},{"name":"val","share":1.0,"shards":2,"samples":2}],"media":null}');
CREATE TABLE sample (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	"offset" BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	parts TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "sample" VALUES(268435456,'000000',0,2048,'[[0,512,8],[1,1536,8]]');
INSERT INTO "sample" VALUES(268435457,'000001',2048,2048,'[[0,512,8],[1,1536,8]]');
INSERT INTO "sample" VALUES(268435458,'000002',4096,2048,'[[0,512,8],[1,1536,8]]');
INSERT INTO "sample" VALUES(268435459,'000003',6144,2048,'[[0,512,8],[1,1536,8]]');
INSERT INTO "sample" VALUES(536870912,'x/1',0,1536,'[[0,512,1],[2,1536,0]]');
INSERT INTO "sample" VALUES(536870913,'x/2',1536,1024,'[[0,512,2]]');
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
);
INSERT INTO "shard" VALUES(1,'a.tar',10240,1000000000000000000,4,8,'ok',NULL,'be5420896575054f21e0cf7efc32c952',1,NULL,NULL);
INSERT INTO "shard" VALUES(2,'b/c.tar',10240,1000000000000000000,2,3,'ok',NULL,'e90431e41a2417f1ed9cba930ef5d58b',1,NULL,NULL);
INSERT INTO "shard" VALUES(3,'d.tar',6,1000000000000000000,0,0,'bad','WDS101','532fe82fc5db1ef54fd5be9ba44b69b4',1,NULL,NULL);
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
INSERT INTO "shard_part" VALUES(1,0,4,32,0);
INSERT INTO "shard_part" VALUES(1,1,4,32,0);
INSERT INTO "shard_part" VALUES(2,0,2,3,0);
INSERT INTO "shard_part" VALUES(2,2,1,0,1);
CREATE TABLE split (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	share TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	seed INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "split" VALUES(1,'train','2','sample',1);
INSERT INTO "split" VALUES(2,'val','1','sample',1);
CREATE TABLE split_shard (
	split INTEGER NOT NULL, 
	shard INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	bits BLOB, 
	PRIMARY KEY (split, shard)
)
 WITHOUT ROWID

;
INSERT INTO "split_shard" VALUES(1,1,3,X'0B');
INSERT INTO "split_shard" VALUES(1,2,1,X'02');
INSERT INTO "split_shard" VALUES(2,1,1,X'04');
INSERT INTO "split_shard" VALUES(2,2,1,X'01');
CREATE VIEW v_shard AS SELECT id, path, size, samples, parts, status, sha256 FROM shard WHERE removed IS NULL;
CREATE VIEW v_sample AS SELECT sample.id, key, shard.path AS shard, sample.id & 268435455 AS position, offset, sample.size FROM sample JOIN shard ON shard.id = sample.id >> 28;
CREATE VIEW v_part AS SELECT sample.id, sample.key, ext.name AS part, shard.path AS shard, sample.offset + json_extract(item.value, '$[1]') AS offset, json_extract(item.value, '$[2]') AS size FROM sample JOIN json_each(sample.parts) AS item JOIN ext ON ext.id = json_extract(item.value, '$[0]') JOIN shard ON shard.id = sample.id >> 28;
CREATE VIEW v_split AS SELECT split.name, split.share, count(*) AS shards, sum(split_shard.samples) AS samples FROM split JOIN split_shard ON split_shard.split = split.id GROUP BY split.id;
CREATE VIEW v_media AS SELECT media.sample AS id, sample.key, ext.name AS part, shard.path AS shard, media_form.kind, media_form.format, media_form.mode, media_form.codec, media.width, media.height, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.height ELSE media.width END AS display_width, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.width ELSE media.height END AS display_height, media_form.orientation, media_form.rotation, media.seconds, media.fps_num * 1.0 / media.fps_den AS fps, media.frames, media_form.frames_are, media_form.has_audio, media_form.audio_codec, media.audio_seconds, media_form.audio_channels, media_form.audio_rate, media.audio_samples, media_form.audio_samples_are, media_form.reason FROM media LEFT JOIN media_form ON media_form.id = media.form LEFT JOIN ext ON ext.id = media.ext LEFT JOIN sample ON sample.id = media.sample LEFT JOIN shard ON shard.id = media.sample >> 28;
CREATE VIEW v_file AS SELECT file.id, file.path, file.size, media_form.kind, media_form.format, media_form.mode, media_form.codec, media.width, media.height, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.height ELSE media.width END AS display_width, CASE WHEN media_form.orientation >= 5 OR media_form.rotation IN (90, 270) THEN media.width ELSE media.height END AS display_height, media_form.orientation, media_form.rotation, media.seconds, media.fps_num * 1.0 / media.fps_den AS fps, media.frames, media_form.frames_are, media_form.has_audio, media_form.audio_codec, media.audio_seconds, media_form.audio_channels, media_form.audio_rate, media.audio_samples, media_form.audio_samples_are, media_form.reason FROM file LEFT JOIN media ON media.sample = file.id LEFT JOIN media_form ON media_form.id = media.form;
CREATE INDEX sample_key ON sample (key);
COMMIT;
