-- The store. Times are microseconds since 1970, names are as store.Namespace
-- encodes them, and ids are never used again.

-- The namespaces that records have, and all above them but the root, whose id
-- would be 0.
CREATE TABLE store_space (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  name BLOB    NOT NULL UNIQUE
) STRICT;

-- How records were indexed: store.Indexed.Stamp. A row is never removed.
CREATE TABLE store_stamp (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  text BLOB    NOT NULL UNIQUE
) STRICT;

-- The versions of items. What is short comes first, since a long value goes on
-- on pages of its own.
CREATE TABLE store_record (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  space   INTEGER NOT NULL,
  key     BLOB    NOT NULL,         -- empty: all of a namespace were forgotten
  kind    INTEGER NOT NULL,         -- store_record.go
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  ttl     INTEGER NOT NULL,         -- 0: for ever
  stamp   INTEGER,                  -- NULL: queries never find it
  words   INTEGER NOT NULL,         -- how many, repetitions included
  paths   BLOB,
  terms   BLOB,                     -- store_words.go
  meta    BLOB,
  value   BLOB
) STRICT;
CREATE UNIQUE INDEX store_record_key ON store_record (space, key, seq);
CREATE INDEX store_record_stamp ON store_record (stamp, seq) WHERE stamp IS NOT NULL;

-- What changes about a record without making a new one, apart from its value,
-- which would be written again. A record without a row is that of an item and
-- never expires.
CREATE TABLE store_life (
  seq     INTEGER PRIMARY KEY,
  expires INTEGER,                  -- NULL: never
  ended   INTEGER                   -- when the next record of the key was written, or this one if it is an end; NULL: it is that of an item
) STRICT;
CREATE INDEX store_life_expires ON store_life (expires) WHERE expires IS NOT NULL AND ended IS NULL;
CREATE INDEX store_life_ended ON store_life (ended) WHERE ended IS NOT NULL;

-- The records of items, expired ones included, by where they are: each is
-- under its own namespace's id, under minus that, under minus the id of each
-- namespace above it, and under 0. So the newest in a namespace or in all below
-- one follow each other.
CREATE TABLE store_under (
  space INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  PRIMARY KEY (space, seq)
) STRICT, WITHOUT ROWID;

-- The vectors of records, each record's in one row. The id is negative for a
-- record that is history, so that an index in a process that has the id of one
-- that was replaced finds nothing under it.
CREATE TABLE store_vector (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  seq   INTEGER NOT NULL UNIQUE,
  stamp INTEGER NOT NULL,
  data  BLOB    NOT NULL            -- store_vectors.go
) STRICT;

-- The words of items and, as _id, the namespaces they are under. It has the
-- items up to store_state.folded, less those that were replaced, plus those
-- in store_unword: a segment of the index for each put would be dear.
CREATE VIRTUAL TABLE store_words USING fts5 (
  words, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '_'"
);
CREATE TABLE store_unword (seq INTEGER PRIMARY KEY) STRICT;

CREATE TABLE store_state (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  folded    INTEGER NOT NULL,
  compacted INTEGER NOT NULL        -- the greatest seq of an end that a sweep has dropped
) STRICT;
INSERT INTO store_state VALUES (1, 0, 0);
