
CREATE TABLE IF NOT EXISTS known (
	shard TEXT NOT NULL, 
	level TEXT NOT NULL, 
	reach TEXT NOT NULL, 
	layout_hash TEXT NOT NULL, 
	mark BLOB NOT NULL, 
	findings TEXT NOT NULL, 
	PRIMARY KEY (shard, level, reach)
)
 WITHOUT ROWID

;

CREATE TABLE IF NOT EXISTS plan_source (
	path BLOB NOT NULL, 
	PRIMARY KEY (path)
)

;

CREATE TABLE IF NOT EXISTS planned_shard (
	name TEXT NOT NULL, 
	ordinal INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	keys BLOB NOT NULL, 
	marks BLOB NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (name)
)

;

CREATE TABLE IF NOT EXISTS quarantine (
	id INTEGER NOT NULL, 
	shard TEXT NOT NULL, 
	layout_hash TEXT NOT NULL, 
	place INTEGER, 
	"key" TEXT NOT NULL, 
	code TEXT NOT NULL, 
	run_id INTEGER NOT NULL, 
	PRIMARY KEY (id)
)

;

CREATE TABLE IF NOT EXISTS renamed (
	mark BLOB NOT NULL
)

;

CREATE TABLE IF NOT EXISTS run (
	id INTEGER NOT NULL, 
	uuid TEXT NOT NULL, 
	command TEXT NOT NULL, 
	argv TEXT NOT NULL, 
	version TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	finished_at TEXT, 
	status TEXT, 
	details TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (uuid)
)

;

CREATE TABLE IF NOT EXISTS "view" (
	name TEXT NOT NULL, 
	expression TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	generation INTEGER NOT NULL, 
	samples INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (name)
)

;

CREATE TABLE IF NOT EXISTS view_shard (
	"view" TEXT NOT NULL, 
	shard TEXT NOT NULL, 
	layout_hash TEXT NOT NULL, 
	samples INTEGER NOT NULL, 
	bits BLOB, 
	PRIMARY KEY ("view", shard)
)
 WITHOUT ROWID

;

CREATE TABLE IF NOT EXISTS finding (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	code TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	shard TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	part TEXT NOT NULL, 
	byte_offset INTEGER, 
	count INTEGER NOT NULL, 
	message TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES run (id)
)

;
CREATE INDEX IF NOT EXISTS ix_finding_run_id ON finding (run_id);
