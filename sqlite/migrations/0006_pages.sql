-- From this version on a record may have the elements of a short list.

-- Threads and pending writes are one tree each instead of a table and its index, because a
-- transaction writes a page of each tree that it changes. A process of an older version that
-- has the file open fails, since it looks for rowids and does not know some columns.
CREATE TABLE thread_new (
  name  BLOB    NOT NULL PRIMARY KEY,
  id    INTEGER NOT NULL,
  fence INTEGER NOT NULL,           -- of the newest writer
  sum   INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO thread_new SELECT name, id, fence, sum FROM thread;

CREATE TABLE pending_new (
  checkpoint INTEGER NOT NULL,      -- its key
  task       BLOB    NOT NULL,
  kind       BLOB    NOT NULL,
  seq        INTEGER NOT NULL,      -- the order in which those of a checkpoint were first written
  data       BLOB,
  sum        INTEGER,
  PRIMARY KEY (checkpoint, task, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO pending_new SELECT checkpoint, task, kind, rowid, data, sum FROM pending;

-- The last ids of threads and lines that were given out. SQLite would write its own note of
-- them for each new one.
ALTER TABLE meta ADD COLUMN threads INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN lines   INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET threads=coalesce((SELECT seq FROM sqlite_sequence WHERE name='thread'),0),
  lines=coalesce((SELECT seq FROM sqlite_sequence WHERE name='line'),0);
CREATE TABLE line_new (
  id     INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL,
  path   BLOB    NOT NULL,          -- the namespace; empty for the root graph's
  head   BLOB    NOT NULL,
  at     INTEGER NOT NULL,          -- the ordinal of the head
  last   INTEGER NOT NULL,          -- the last ordinal that was used
  next   INTEGER NOT NULL,          -- the first number of a chain or run that was not
  rev    INTEGER NOT NULL,          -- how often the head went back to an older checkpoint
  open   INTEGER NOT NULL,          -- 1: the head may have results that the next put consumes
  count  INTEGER NOT NULL,          -- of checkpoints
  bytes  INTEGER NOT NULL,          -- of their records and chunks
  sum    INTEGER,
  UNIQUE (thread, path)
) STRICT;
INSERT INTO line_new SELECT id, thread, path, head, at, last, next, rev, open, count, bytes, sum FROM line;

DROP TABLE thread;
DROP TABLE line;
DROP TABLE pending;
ALTER TABLE thread_new  RENAME TO thread;
ALTER TABLE line_new    RENAME TO line;
ALTER TABLE pending_new RENAME TO pending;
