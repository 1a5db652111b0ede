-- An id of a thread or a line is never used again: a process that remembers one
-- may be behind the times, but it is never wrong about what the id means.
CREATE TABLE thread (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  name  BLOB    NOT NULL UNIQUE,
  epoch INTEGER NOT NULL            -- of the newest writer
) STRICT;

-- One namespace of one thread.
CREATE TABLE line (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  thread      INTEGER NOT NULL,
  path        BLOB    NOT NULL,     -- the namespace; empty for the root graph's
  head        BLOB    NOT NULL,     -- 16 zero bytes before the first put
  at          INTEGER NOT NULL,     -- the ordinal of the head
  last        INTEGER NOT NULL,     -- the last ordinal that was used
  next        INTEGER NOT NULL,     -- the first number of a chain or run that was not
  rev         INTEGER NOT NULL,     -- how often the head went back to an older checkpoint
  open        INTEGER NOT NULL,     -- 1: the head may have results that the next put consumes
  checkpoints INTEGER NOT NULL,     -- how many
  bytes       INTEGER NOT NULL,     -- of their records and chunks
  UNIQUE (thread, path)
) STRICT;

-- The key is line<<32 | ordinal. Within a line a greater ordinal is a greater
-- id, so ids are found without an index of their own.
CREATE TABLE checkpoint (
  key    INTEGER PRIMARY KEY,
  id     BLOB    NOT NULL,
  run    INTEGER NOT NULL,          -- 0: none
  record BLOB    NOT NULL           -- manifest.go
) STRICT;

-- This has a rowid because without one, a row of more than a quarter of a page
-- would spill to a page of its own.
CREATE TABLE chunk (
  line  INTEGER NOT NULL,
  chain INTEGER NOT NULL,
  seq   INTEGER NOT NULL,           -- of the first chunk in the row
  n     INTEGER NOT NULL,           -- the row has seq to seq+n-1
  data  BLOB    NOT NULL,           -- chunk.go
  PRIMARY KEY (line, chain, seq)
) STRICT;

-- In the order of their rowids.
CREATE TABLE pending (
  checkpoint INTEGER NOT NULL,      -- its key
  task       BLOB    NOT NULL,
  kind       BLOB    NOT NULL,
  data       BLOB,
  PRIMARY KEY (checkpoint, task, kind)
) STRICT;

-- What checkpoints of a run that follow each other have in common, once.
CREATE TABLE run (
  line     INTEGER NOT NULL,
  run      INTEGER NOT NULL,
  name     BLOB    NOT NULL,
  metadata BLOB,
  PRIMARY KEY (line, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_name ON run (name);

-- The channel names of manifests. A row is never changed and never removed.
CREATE TABLE shape (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  names BLOB    NOT NULL UNIQUE
) STRICT;

CREATE TABLE cache (
  space   BLOB NOT NULL,
  key     BLOB NOT NULL,            -- SHA-256 of the key, which may be as long as an input
  value   BLOB,
  expires INTEGER,                  -- nanoseconds since 1970; NULL: never
  PRIMARY KEY (space, key)
) STRICT;
CREATE INDEX cache_expires ON cache (expires) WHERE expires IS NOT NULL;
