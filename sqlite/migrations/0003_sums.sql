-- Every row gets a checksum of what it says and where it belongs (sum.go). Those
-- that older versions have written have none.
ALTER TABLE thread     ADD COLUMN sum INTEGER;
ALTER TABLE line       ADD COLUMN sum INTEGER;
ALTER TABLE checkpoint ADD COLUMN sum INTEGER;
ALTER TABLE chunk      ADD COLUMN sum INTEGER;
ALTER TABLE pending    ADD COLUMN sum INTEGER;
ALTER TABLE run        ADD COLUMN sum INTEGER;
ALTER TABLE shape      ADD COLUMN sum INTEGER;
ALTER TABLE cache      ADD COLUMN sum INTEGER;
ALTER TABLE store_space  ADD COLUMN sum INTEGER;
ALTER TABLE store_stamp  ADD COLUMN sum INTEGER;
ALTER TABLE store_record ADD COLUMN sum  INTEGER; -- of meta and value
ALTER TABLE store_record ADD COLUMN seal INTEGER; -- of all other columns
ALTER TABLE store_life   ADD COLUMN sum INTEGER;
ALTER TABLE store_vector ADD COLUMN sum INTEGER;
ALTER TABLE store_state  ADD COLUMN sum INTEGER;

-- A process of an older version that has the file open would go on and write rows
-- whose checksums are wrong. It fails, since the columns it knows are gone.
ALTER TABLE thread       RENAME COLUMN epoch       TO fence;
ALTER TABLE line         RENAME COLUMN checkpoints TO count;
ALTER TABLE store_record RENAME COLUMN ttl         TO lifetime;

-- The threads, lines, namespaces and stamps that there are, by a hash of their
-- names. What is not found under its name and is here is missing.
CREATE TABLE witness (hash INTEGER PRIMARY KEY) STRICT;

-- The same of items, by their namespaces. It takes the place of the rows that
-- store_under had under the positive ids of namespaces.
CREATE TABLE store_key (
  space INTEGER NOT NULL,
  hash  INTEGER NOT NULL,           -- of the key
  seq   INTEGER NOT NULL,
  PRIMARY KEY (space, hash, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  summed INTEGER NOT NULL           -- 1: all rows have a checksum
) STRICT;
INSERT INTO meta VALUES (1, NOT EXISTS (SELECT 1 FROM thread) AND NOT EXISTS (SELECT 1 FROM shape)
  AND NOT EXISTS (SELECT 1 FROM cache) AND NOT EXISTS (SELECT 1 FROM store_record) AND NOT EXISTS (SELECT 1 FROM store_space));
