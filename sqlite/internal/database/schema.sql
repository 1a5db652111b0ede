-- The tables of a file, except for the ledger's, which ledger.sql creates.
--
-- The column sum of a row is the checksum of its content and location (sum.go).

-- A thread's ID is never reused: a process that has cached an ID may be outdated, but it
-- is never wrong about what the ID means. The same holds for lines. Threads and pending
-- writes are one tree each, without a separate index, because a transaction writes a page
-- of each tree that it changes.
CREATE TABLE thread (
  name  BLOB    NOT NULL PRIMARY KEY,
  id    INTEGER NOT NULL,
  fence INTEGER NOT NULL,           -- epoch of the newest writer
  sum   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A line is one namespace of one thread.
CREATE TABLE line (
  id     INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL,
  path   BLOB    NOT NULL,          -- the namespace; empty for the root graph
  head   BLOB    NOT NULL,
  at     INTEGER NOT NULL,          -- ordinal of the head
  last   INTEGER NOT NULL,          -- last used ordinal
  next   INTEGER NOT NULL,          -- first unused number of a chain or run
  rev    INTEGER NOT NULL,          -- number of times that the head went back to an older checkpoint
  open   INTEGER NOT NULL,          -- 1: the head may have results that the next put consumes
  count  INTEGER NOT NULL,          -- number of checkpoints
  bytes  INTEGER NOT NULL,          -- size of their records and chunks
  sum    INTEGER NOT NULL,
  UNIQUE (thread, path)
) STRICT;

-- The key is line<<32 | ordinal. Within a line, a greater ordinal means a greater ID, so
-- IDs are found without an index.
CREATE TABLE checkpoint (
  key    INTEGER PRIMARY KEY,
  id     BLOB    NOT NULL,
  run    INTEGER NOT NULL,          -- 0: none
  record BLOB    NOT NULL,          -- manifest.go
  sum    INTEGER NOT NULL
) STRICT;

-- This table has a rowid because, without one, a row of more than a quarter of a page
-- would spill to a separate page.
CREATE TABLE chunk (
  line  INTEGER NOT NULL,
  chain INTEGER NOT NULL,
  seq   INTEGER NOT NULL,           -- of the first chunk in the row
  n     INTEGER NOT NULL,           -- the row contains seq to seq+n-1
  data  BLOB    NOT NULL,           -- chunk.go
  sum   INTEGER NOT NULL,
  PRIMARY KEY (line, chain, seq)
) STRICT;

CREATE TABLE pending (
  checkpoint INTEGER NOT NULL,      -- its key
  task       BLOB    NOT NULL,
  kind       BLOB    NOT NULL,
  seq        INTEGER NOT NULL,      -- order in which the checkpoint's writes were first saved
  data       BLOB,
  sum        INTEGER NOT NULL,
  PRIMARY KEY (checkpoint, task, kind)
) STRICT, WITHOUT ROWID;

-- Data that consecutive checkpoints of a run share.
CREATE TABLE run (
  line     INTEGER NOT NULL,
  run      INTEGER NOT NULL,
  name     BLOB    NOT NULL,
  metadata BLOB,
  sum      INTEGER NOT NULL,
  PRIMARY KEY (line, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_name ON run (name);

-- The channel names of manifests. Rows are never changed or removed.
CREATE TABLE shape (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  names BLOB    NOT NULL UNIQUE,
  sum   INTEGER NOT NULL
) STRICT;

CREATE TABLE cache (
  space   BLOB    NOT NULL,
  key     BLOB    NOT NULL,         -- SHA-256 of the key, which may be as long as an input
  value   BLOB,
  expires INTEGER,                  -- nanoseconds since 1970; NULL: never
  sum     INTEGER NOT NULL,
  PRIMARY KEY (space, key)
) STRICT;
CREATE INDEX cache_expires ON cache (expires) WHERE expires IS NOT NULL;

-- Hashes of the names of all threads, lines, namespaces, and stamps. If a name is not
-- found but its hash is, its row is missing.
CREATE TABLE witness (hash INTEGER PRIMARY KEY) STRICT;

-- The last reserved IDs. With AUTOINCREMENT, SQLite would write them for each new row.
CREATE TABLE meta (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  threads INTEGER NOT NULL,
  lines   INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, 0);

-- The store. Times are microseconds since 1970, names are encoded by store.Namespace, and
-- IDs are never reused.

-- The namespaces of records and all their ancestors except for the root, whose ID would
-- be 0.
CREATE TABLE store_space (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  name BLOB    NOT NULL UNIQUE,
  sum  INTEGER NOT NULL
) STRICT;

-- The ways in which records were indexed: store.Indexed.Stamp. Rows are never removed.
CREATE TABLE store_stamp (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  text BLOB    NOT NULL UNIQUE,
  sum  INTEGER NOT NULL
) STRICT;

-- The versions of items. Short columns come first, because a long value continues on
-- separate pages.
CREATE TABLE store_record (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  space    INTEGER NOT NULL,
  key      BLOB    NOT NULL,        -- empty: all items of a namespace were forgotten
  kind     INTEGER NOT NULL,        -- store_record.go
  created  INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  lifetime INTEGER NOT NULL,        -- 0: forever
  stamp    INTEGER,                 -- NULL: queries never find it
  words    INTEGER NOT NULL,        -- number of words, including repetitions
  sum      INTEGER NOT NULL,        -- of meta and value
  seal     INTEGER NOT NULL,        -- of the other columns
  paths    BLOB,
  terms    BLOB    NOT NULL,        -- store_words.go
  meta     BLOB,
  value    BLOB
) STRICT;
CREATE UNIQUE INDEX store_record_key ON store_record (space, key, seq);
CREATE INDEX store_record_stamp ON store_record (stamp, seq) WHERE stamp IS NOT NULL;

-- Mutable data of records. It is separate because a change would otherwise rewrite the
-- value. A record without a row is current and never expires.
CREATE TABLE store_life (
  seq     INTEGER PRIMARY KEY,
  expires INTEGER,                  -- NULL: never
  ended   INTEGER,                  -- time of the key's next record, or of this record if it is an end; NULL: this record is current
  sum     INTEGER NOT NULL
) STRICT;
CREATE INDEX store_life_expires ON store_life (expires) WHERE expires IS NOT NULL AND ended IS NULL;
CREATE INDEX store_life_ended ON store_life (ended) WHERE ended IS NOT NULL;

-- The current records, including expired ones, by location. A record is listed under
-- minus the ID of its namespace, under minus the ID of each ancestor, and under 0, so the
-- newest records below a namespace are adjacent.
CREATE TABLE store_under (
  space INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  PRIMARY KEY (space, seq)
) STRICT, WITHOUT ROWID;

-- The current records, including expired ones, by namespace and key. If a key has no
-- record but its hash is found, the record is missing.
CREATE TABLE store_key (
  space INTEGER NOT NULL,
  hash  INTEGER NOT NULL,           -- of the key
  seq   INTEGER NOT NULL,
  PRIMARY KEY (space, hash, seq)
) STRICT, WITHOUT ROWID;

-- The vectors of records, one row per record. The ID of a past record's row is negative,
-- so an index in memory that contains the ID of a replaced record finds nothing.
CREATE TABLE store_vector (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  seq   INTEGER NOT NULL UNIQUE,
  stamp INTEGER NOT NULL,
  data  BLOB    NOT NULL,           -- store_vectors.go
  sum   INTEGER NOT NULL
) STRICT;

-- The signatures of vectors, so that a process need not compute them from all vectors
-- before its first search (store_parts.go). Missing rows are computed again.
CREATE TABLE store_part (
  key  INTEGER PRIMARY KEY,         -- stamp << 32 | part; part 0 is the mean of the vectors
  mean INTEGER NOT NULL,            -- checksum of the mean that the signatures were computed with
  data BLOB    NOT NULL,
  sum  INTEGER NOT NULL
) STRICT;

-- Under the number of an item, its words and, as _id, the namespaces that contain it;
-- under minus the number, its value (store_leaves.go). The index contains the items up to
-- store_state.folded, except for those replaced since, plus those in store_unword: a
-- segment of the index for each put would be expensive.
CREATE VIRTUAL TABLE store_words USING fts5 (
  words, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '_'"
);
CREATE TABLE store_unword (item INTEGER PRIMARY KEY) STRICT;

CREATE TABLE store_state (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  folded    INTEGER NOT NULL,
  compacted INTEGER NOT NULL,       -- greatest seq of an end that a sweep has dropped
  sum       INTEGER NOT NULL
) STRICT;
INSERT INTO store_state VALUES (1, 0, 0, 1189287517); -- stateSum(0, 0)
