-- From this version on store_words also has the values of items, under minus their
-- numbers (store_leaves.go). A process of an older version that has the file open would
-- add words without them. It fails, since the column it knows is gone.
ALTER TABLE store_unword RENAME COLUMN seq TO item;

-- The signatures of vectors, so that a process need not compute them from all vectors
-- before its first search (store_parts.go). What is missing here is computed again.
CREATE TABLE store_part (
  key  INTEGER PRIMARY KEY,         -- stamp << 32 | part; part 0 is the mean of the vectors
  mean INTEGER NOT NULL,            -- that the signatures were made with: a checksum of it
  data BLOB    NOT NULL,
  sum  INTEGER NOT NULL
) STRICT;
