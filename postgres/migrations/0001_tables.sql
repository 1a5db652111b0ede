-- An id of a thread, a line or a run is never used again: a process that
-- remembers one may be behind the times, but it is never wrong about what the
-- id means. Names are bytes, of any length, so the indexes have their digests.
CREATE TABLE {schema}.thread (
  id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name  bytea  NOT NULL,
  epoch bigint NOT NULL                 -- of the newest writer
);
CREATE UNIQUE INDEX thread_name ON {schema}.thread (sha256(name));
CREATE INDEX thread_order ON {schema}.thread (substring(name, 1, 256));

-- One namespace of one thread. It is updated by every put, in place: no index
-- has a column that changes, and the pages have room for the next version.
CREATE TABLE {schema}.line (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  thread      bigint NOT NULL,
  path        bytea  NOT NULL,          -- the namespace; empty for the root graph's
  head        uuid   NOT NULL,
  rev         bigint NOT NULL,          -- how often the head went back to an older checkpoint
  next        bigint NOT NULL,          -- the first chain that was never used
  checkpoints bigint NOT NULL,          -- how many
  bytes       bigint NOT NULL           -- of their rows and chunks
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX line_path ON {schema}.line (thread, sha256(path));

-- Eight columns: one more and the header of every row would be longer.
CREATE TABLE {schema}.checkpoint (
  line     bigint NOT NULL,
  id       uuid   NOT NULL,
  run      bigint,
  base     bigint,                      -- the chain that the record is based on
  record   bytea  NOT NULL,             -- what the values are, and the step: manifest.go
  control  bytea,
  echo     bytea,                       -- in place of the control: echo.go
  metadata bytea,                       -- NULL: the run's; empty: none
  PRIMARY KEY (line, id)
);

CREATE TABLE {schema}.chunk (
  line  bigint NOT NULL,
  chain bigint NOT NULL,
  seq   bigint NOT NULL,
  data  bytea  NOT NULL,                -- chunk.go
  PRIMARY KEY (line, chain, seq)
);

CREATE TABLE {schema}.pending (
  line bigint NOT NULL,
  id   uuid   NOT NULL,                 -- of the checkpoint
  task bytea  NOT NULL,
  kind bytea  NOT NULL,
  data bytea,
  ord  bigint GENERATED ALWAYS AS IDENTITY
);
CREATE UNIQUE INDEX pending_task ON {schema}.pending (line, id, sha256(task), sha256(kind));

-- What the checkpoints of a run have in common, once.
CREATE TABLE {schema}.run (
  thread   bigint NOT NULL,
  id       bigint GENERATED ALWAYS AS IDENTITY,
  name     bytea  NOT NULL,
  metadata bytea,
  PRIMARY KEY (thread, id)
);
CREATE UNIQUE INDEX run_name ON {schema}.run (sha256(name), thread);

-- The channel names of records. A row is never changed and never removed.
CREATE TABLE {schema}.shape (
  id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  names bytea  NOT NULL
);
CREATE UNIQUE INDEX shape_names ON {schema}.shape (sha256(names));

CREATE TABLE {schema}.cache (
  space   bytea NOT NULL,               -- SHA-256 of the space
  key     bytea NOT NULL,               -- SHA-256 of the key, which may be as long as an input
  value   bytea,
  expires bigint,                       -- nanoseconds since 1970; NULL: never
  PRIMARY KEY (space, key)
);
CREATE INDEX cache_expires ON {schema}.cache (expires) WHERE expires IS NOT NULL;
