-- The ledger of a server: ledger.Row and ledger.Events. Ids are 16 bytes, times are
-- microseconds since 1970. The tables are made when the ledger is first used.

CREATE TABLE server_row (
  seq     INTEGER PRIMARY KEY,
  kind    INTEGER NOT NULL,
  id      BLOB    NOT NULL,
  parent  BLOB,
  worker  BLOB,
  open    INTEGER NOT NULL,
  due     INTEGER,                  -- NULL: never
  created INTEGER NOT NULL,
  terms   BLOB,                     -- eight bytes each
  doc     BLOB    NOT NULL,
  sum     INTEGER NOT NULL,
  UNIQUE (kind, id)
) STRICT;
-- A run is inserted and ended all the time, so it is in as few indexes as will do:
-- workers of runs are looked for among those that are open. Due runs are rare, as most
-- start at once. Kinds from 9 (spans) are only listed by parent, term, or due time.
CREATE INDEX server_row_created    ON server_row (kind, created, id) WHERE kind < 9;
CREATE INDEX server_row_parent     ON server_row (kind, parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX server_row_open       ON server_row (kind, parent, created, id, worker) WHERE open = 1;
CREATE INDEX server_row_due        ON server_row (kind, due, id) WHERE due IS NOT NULL;
CREATE INDEX server_row_open_due   ON server_row (kind, due, id) WHERE due IS NOT NULL AND open = 1;
CREATE INDEX server_row_parent_due ON server_row (kind, parent, due, id) WHERE due IS NOT NULL AND parent IS NOT NULL;

-- Bodies may be large, and rows are rewritten more often than they change.
CREATE TABLE server_body (
  row  INTEGER PRIMARY KEY,         -- server_row.seq
  body BLOB    NOT NULL,
  sum  INTEGER NOT NULL
) STRICT;

CREATE TABLE server_term (
  kind    INTEGER NOT NULL,
  term    INTEGER NOT NULL,
  created INTEGER NOT NULL,
  id      BLOB    NOT NULL,
  PRIMARY KEY (kind, term, created, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE server_event (
  seq     INTEGER PRIMARY KEY,
  thread  BLOB    NOT NULL,
  run     BLOB    NOT NULL,
  first   INTEGER NOT NULL,
  last    INTEGER NOT NULL,
  created INTEGER NOT NULL,
  data    BLOB    NOT NULL,
  sum     INTEGER NOT NULL
) STRICT;
CREATE INDEX server_event_thread  ON server_event (thread, last, run);
CREATE INDEX server_event_created ON server_event (created);
