-- From this version on a record may have the elements of a short list.

-- One tree instead of a table and its index, since each of the two costs a page in every
-- transaction that stores a question or an answer. A process of an older version that has
-- the file open fails, since the numbers are missing in what it stores.
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
DROP TABLE pending;
ALTER TABLE pending_new RENAME TO pending;
