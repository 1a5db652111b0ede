-- Checkpoints.

-- IDs of threads, lines, and runs are never reused, so an ID that a process has
-- cached may be gone, but never names something else. Names are bytes of any
-- length, so the indexes contain their digests.
CREATE TABLE {schema}.thread (
  id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name  bytea  NOT NULL,
  epoch bigint NOT NULL                 -- lease epoch of the latest writer
);
CREATE UNIQUE INDEX thread_name ON {schema}.thread (sha256(name));
CREATE INDEX thread_order ON {schema}.thread (substring(name, 1, 256));

-- A line is a namespace of a thread. Every put updates its row in place: no
-- indexed column changes, and the pages have room for the next version.
CREATE TABLE {schema}.line (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  thread      bigint NOT NULL,
  path        bytea  NOT NULL,          -- the namespace; empty for the root graph
  head        uuid   NOT NULL,
  rev         bigint NOT NULL,          -- number of times the head moved back to an earlier checkpoint
  next        bigint NOT NULL,          -- first unused chain
  checkpoints bigint NOT NULL,          -- their number
  bytes       bigint NOT NULL           -- size of their rows and chunks
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX line_path ON {schema}.line (thread, sha256(path));

-- With a ninth column, the header of every row would be longer.
CREATE TABLE {schema}.checkpoint (
  line     bigint NOT NULL,
  id       uuid   NOT NULL,
  run      bigint,
  base     bigint,                      -- chain of the record's base
  record   bytea  NOT NULL,             -- values and step: manifest.go
  control  bytea,
  echo     bytea,                       -- replaces the control: echo.go
  metadata bytea,                       -- NULL: the metadata of the run; empty: none
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
  id   uuid   NOT NULL,                 -- ID of the checkpoint
  task bytea  NOT NULL,
  kind bytea  NOT NULL,
  data bytea,
  ord  bigint GENERATED ALWAYS AS IDENTITY
);
CREATE UNIQUE INDEX pending_task ON {schema}.pending (line, id, sha256(task), sha256(kind));

-- Data shared by the checkpoints of a run.
CREATE TABLE {schema}.run (
  thread   bigint NOT NULL,
  id       bigint GENERATED ALWAYS AS IDENTITY,
  name     bytea  NOT NULL,
  metadata bytea,
  PRIMARY KEY (thread, id)
);
CREATE UNIQUE INDEX run_name ON {schema}.run (sha256(name), thread);

-- The channel names of records. Rows are never changed or removed.
CREATE TABLE {schema}.shape (
  id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  names bytea  NOT NULL
);
CREATE UNIQUE INDEX shape_names ON {schema}.shape (sha256(names));

CREATE TABLE {schema}.cache (
  space   bytea NOT NULL,               -- SHA-256 of the space
  key     bytea NOT NULL,               -- SHA-256 of the key, which can be as long as an input
  value   bytea,
  expires bigint,                       -- nanoseconds since 1970; NULL: never
  PRIMARY KEY (space, key)
);
CREATE INDEX cache_expires ON {schema}.cache (expires) WHERE expires IS NOT NULL;

-- Behind a pooler, every statement is planned on each call. The statements in
-- these functions are planned once per connection, and one call is one
-- transaction.
--
-- Lock order: a thread's row, then the rows of its lines. A put that extends a
-- head locks only its line. A transaction that raises a thread's epoch locks the
-- thread and updates all its lines, so every put either precedes it or reads the
-- new epoch. (It updates the lines instead of locking them: if the default
-- isolation level is stricter than read committed, a concurrent put then fails
-- and is retried instead of reading the old epoch.)
--
-- SQLSTATE TR001 means that the caller's cached state is stale: read it and retry.

-- put saves a checkpoint. It returns the thread, the line, the run (or NULL), and
-- whether the run's metadata applies (0 or 1). It writes nothing and returns
-- NULL if the caller's cached state is stale. (The result is one array because
-- Postgres plans a call in the SELECT list several times as fast as one in FROM.)
CREATE FUNCTION {schema}.put(
  p_thread bigint, p_name bytea,        -- 0: create the thread
  p_line bigint, p_path bytea,          -- 0: create the line
  p_head uuid, p_rev bigint,            -- expected values of the line
  p_epoch bigint, p_raise bigint,       -- expected epoch of the thread, and its new epoch unless NULL
  p_id uuid, p_parent uuid, p_next bigint, p_bytes bigint,
  p_run bigint, p_run_name bytea,       -- the head's run, the name of another run, or neither
  p_base bigint, p_record bytea, p_control bytea, p_metadata bytea,
  p_chain bigint[], p_seq bigint[], p_data bytea[],
  p_echo bytea,                         -- replaces the parent's control unless NULL
  p_task bytea[], p_kind bytea[], p_write bytea[]
) RETURNS bigint[] LANGUAGE plpgsql AS $body$
DECLARE
  v_thread bigint := p_thread;
  v_line bigint := p_line;
  v_run bigint := p_run;
  v_shared boolean := false;
  v_epoch bigint;
  v_metadata bytea := p_metadata;
BEGIN
  IF p_thread = 0 THEN
    INSERT INTO {schema}.thread (name, epoch) VALUES (p_name, coalesce(p_raise, p_epoch))
      ON CONFLICT DO NOTHING RETURNING id INTO v_thread;
    IF v_thread IS NULL THEN RETURN NULL; END IF;
  ELSIF p_line = 0 OR p_raise IS NOT NULL THEN
    PERFORM FROM {schema}.thread t WHERE t.id = p_thread AND t.epoch = p_epoch FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    IF p_raise IS NOT NULL THEN
      UPDATE {schema}.line l SET rev = l.rev WHERE l.thread = p_thread;
    END IF;
  END IF;

  IF p_line = 0 THEN
    INSERT INTO {schema}.line (thread, path, head, rev, next, checkpoints, bytes)
      VALUES (v_thread, p_path, p_id, p_rev, p_next, 1, p_bytes)
      ON CONFLICT DO NOTHING RETURNING id INTO v_line;
    IF v_line IS NULL THEN RETURN NULL; END IF;
  ELSE
    UPDATE {schema}.line l SET head = p_id, next = p_next, checkpoints = l.checkpoints + 1, bytes = l.bytes + p_bytes
      WHERE l.id = p_line AND l.head = p_head AND l.rev = p_rev;
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT t.epoch INTO v_epoch FROM {schema}.thread t WHERE t.id = p_thread;
    IF v_epoch IS DISTINCT FROM p_epoch THEN
      RAISE EXCEPTION 'thread epoch changed' USING ERRCODE = 'TR001';
    END IF;
    IF p_parent <> p_head THEN
      PERFORM FROM {schema}.checkpoint c WHERE c.line = p_line AND c.id = p_parent;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'parent checkpoint removed' USING ERRCODE = 'TR001';
      END IF;
    END IF;
  END IF;
  IF p_raise IS NOT NULL AND p_thread <> 0 THEN
    UPDATE {schema}.thread t SET epoch = p_raise WHERE t.id = p_thread;
  END IF;

  IF p_run_name IS NOT NULL THEN
    SELECT r.id, r.metadata IS NOT DISTINCT FROM p_metadata INTO v_run, v_shared
      FROM {schema}.run r WHERE sha256(r.name) = sha256(p_run_name) AND r.thread = v_thread;
    IF NOT FOUND THEN
      INSERT INTO {schema}.run (thread, name, metadata) VALUES (v_thread, p_run_name, p_metadata)
        ON CONFLICT DO NOTHING RETURNING id INTO v_run;
      IF v_run IS NULL THEN
        RAISE EXCEPTION 'run created by another writer' USING ERRCODE = 'TR001';
      END IF;
      v_shared := true;
    END IF;
    IF v_shared THEN
      v_metadata := NULL;
    ELSE
      v_metadata := coalesce(p_metadata, '');
    END IF;
  END IF;
  IF v_metadata <> '' THEN
    UPDATE {schema}.line l SET bytes = l.bytes + octet_length(v_metadata) WHERE l.id = v_line;
  END IF;

  INSERT INTO {schema}.checkpoint (line, id, run, base, record, control, metadata)
    VALUES (v_line, p_id, v_run, p_base, p_record, p_control, v_metadata);
  IF p_chain IS NOT NULL THEN
    INSERT INTO {schema}.chunk (line, chain, seq, data)
      SELECT v_line, u.chain, u.seq, u.data FROM unnest(p_chain, p_seq, p_data) AS u(chain, seq, data);
  END IF;
  IF p_echo IS NOT NULL THEN
    UPDATE {schema}.checkpoint c SET control = NULL, echo = p_echo WHERE c.line = v_line AND c.id = p_parent AND c.control IS NOT NULL;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'control changed' USING ERRCODE = 'TR001';
    END IF;
  END IF;
  IF p_parent IS NOT NULL THEN
    DELETE FROM {schema}.pending w WHERE w.line = v_line AND w.id = p_parent AND w.kind = 'done';
  END IF;
  IF p_task IS NOT NULL THEN
    INSERT INTO {schema}.pending (line, id, task, kind, data)
      SELECT v_line, p_id, u.task, u.kind, u.data
      FROM unnest(p_task, p_kind, p_write) WITH ORDINALITY AS u(task, kind, data, nr) ORDER BY u.nr;
  END IF;
  RETURN ARRAY[v_thread, v_line, v_run, v_shared::int];
END $body$;

-- put_writes saves pending writes. o_status: 0 saved, 2 not found, 3 fenced.
CREATE FUNCTION {schema}.put_writes(
  p_name bytea, p_path bytea, p_id uuid, -- NULL: the head
  p_fence bigint, p_task bytea[], p_kind bytea[], p_write bytea[],
  OUT o_status int, OUT o_epoch bigint
) LANGUAGE plpgsql AS $body$
DECLARE
  v_thread bigint;
  v_line bigint;
  v_head uuid;
BEGIN
  o_status := 2;
  SELECT t.id, t.epoch INTO v_thread, o_epoch FROM {schema}.thread t WHERE sha256(t.name) = sha256(p_name);
  IF NOT FOUND THEN RETURN; END IF;
  IF p_fence > o_epoch THEN
    PERFORM FROM {schema}.thread t WHERE t.id = v_thread FOR NO KEY UPDATE;
    UPDATE {schema}.line l SET rev = l.rev WHERE l.thread = v_thread;
  END IF;
  SELECT l.id, l.head INTO v_line, v_head FROM {schema}.line l
    WHERE l.thread = v_thread AND sha256(l.path) = sha256(p_path) FOR NO KEY UPDATE;
  -- The line is locked, so this epoch cannot change until the transaction ends.
  SELECT t.epoch INTO o_epoch FROM {schema}.thread t WHERE t.id = v_thread;
  IF p_fence < o_epoch THEN
    o_status := 3;
    RETURN;
  END IF;
  v_head := coalesce(p_id, v_head);
  PERFORM FROM {schema}.checkpoint c WHERE c.line = v_line AND c.id = v_head;
  IF NOT FOUND THEN RETURN; END IF;
  -- A replaced write keeps its position.
  INSERT INTO {schema}.pending (line, id, task, kind, data)
    SELECT v_line, v_head, u.task, u.kind, u.data
    FROM unnest(p_task, p_kind, p_write) WITH ORDINALITY AS u(task, kind, data, nr) ORDER BY u.nr
    ON CONFLICT (line, id, sha256(task), sha256(kind)) DO UPDATE SET data = excluded.data;
  IF p_fence > o_epoch THEN
    UPDATE {schema}.thread t SET epoch = p_fence WHERE t.id = v_thread;
  END IF;
  o_status := 0;
END $body$;

-- fence raises a thread's epoch. o_status: 0 done, 3 fenced.
CREATE FUNCTION {schema}.fence(p_name bytea, p_epoch bigint, OUT o_status int, OUT o_epoch bigint) LANGUAGE plpgsql AS $body$
DECLARE
  v_thread bigint;
BEGIN
  o_status := 3;
  o_epoch := 0;
  IF p_epoch <= 0 THEN RETURN; END IF;
  SELECT t.id, t.epoch INTO v_thread, o_epoch FROM {schema}.thread t WHERE sha256(t.name) = sha256(p_name) FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    o_epoch := 0;
    INSERT INTO {schema}.thread (name, epoch) VALUES (p_name, p_epoch) ON CONFLICT DO NOTHING RETURNING id INTO v_thread;
    IF v_thread IS NULL THEN
      RAISE EXCEPTION 'thread created by another writer' USING ERRCODE = 'TR001';
    END IF;
    o_status := 0;
    RETURN;
  END IF;
  IF p_epoch <= o_epoch THEN RETURN; END IF;
  UPDATE {schema}.line l SET rev = l.rev WHERE l.thread = v_thread;
  UPDATE {schema}.thread t SET epoch = p_epoch WHERE t.id = v_thread;
  o_status := 0;
END $body$;

-- read returns a line and one of its checkpoints with its pending writes, from
-- one snapshot. If p_id is NULL, it reads the head. Missing data is NULL.
CREATE FUNCTION {schema}.read(
  p_name bytea, p_path bytea, p_id uuid,
  OUT o_thread bigint, OUT o_epoch bigint, OUT o_line bigint, OUT o_head uuid, OUT o_rev bigint, OUT o_next bigint,
  OUT o_id uuid, OUT o_run bigint, OUT o_run_name bytea, OUT o_run_metadata bytea,
  OUT o_base bigint, OUT o_record bytea, OUT o_control bytea, OUT o_echo bytea, OUT o_metadata bytea,
  OUT o_task bytea[], OUT o_kind bytea[], OUT o_write bytea[],
  OUT o_base_data bytea
) LANGUAGE plpgsql STABLE AS $body$
BEGIN
  SELECT t.id, t.epoch INTO o_thread, o_epoch FROM {schema}.thread t WHERE sha256(t.name) = sha256(p_name);
  IF NOT FOUND THEN RETURN; END IF;
  SELECT l.id, l.head, l.rev, l.next INTO o_line, o_head, o_rev, o_next FROM {schema}.line l
    WHERE l.thread = o_thread AND sha256(l.path) = sha256(p_path);
  IF NOT FOUND THEN RETURN; END IF;
  SELECT c.id, c.run, c.base, c.record, c.control, c.echo, c.metadata
    INTO o_id, o_run, o_base, o_record, o_control, o_echo, o_metadata
    FROM {schema}.checkpoint c WHERE c.line = o_line AND c.id = coalesce(p_id, o_head);
  IF NOT FOUND THEN RETURN; END IF;
  IF o_base IS NOT NULL THEN
    SELECT k.data INTO o_base_data FROM {schema}.chunk k WHERE k.line = o_line AND k.chain = o_base AND k.seq = 0;
  END IF;
  IF o_run IS NOT NULL THEN
    SELECT r.name, r.metadata INTO o_run_name, o_run_metadata FROM {schema}.run r WHERE r.thread = o_thread AND r.id = o_run;
  END IF;
  SELECT array_agg(w.task ORDER BY w.ord), array_agg(w.kind ORDER BY w.ord), array_agg(w.data ORDER BY w.ord)
    INTO o_task, o_kind, o_write FROM {schema}.pending w WHERE w.line = o_line AND w.id = o_id;
END $body$;

-- chunks returns chunks p_lo to p_hi of each chain.
CREATE FUNCTION {schema}.chunks(p_line bigint, p_chain bigint[], p_lo bigint[], p_hi bigint[])
RETURNS TABLE (o_chain bigint, o_seq bigint, o_data bytea) LANGUAGE plpgsql STABLE AS $body$
BEGIN
  FOR i IN 1 .. cardinality(p_chain) LOOP
    RETURN QUERY SELECT k.chain, k.seq, k.data FROM {schema}.chunk k
      WHERE k.line = p_line AND k.chain = p_chain[i] AND k.seq BETWEEN p_lo[i] AND p_hi[i] ORDER BY k.seq;
  END LOOP;
END $body$;

-- shape_of returns the ID of a shape and creates the shape if necessary.
CREATE FUNCTION {schema}.shape_of(p_names bytea) RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
  v_id bigint;
BEGIN
  LOOP
    SELECT s.id INTO v_id FROM {schema}.shape s WHERE sha256(s.names) = sha256(p_names);
    IF FOUND THEN RETURN v_id; END IF;
    INSERT INTO {schema}.shape (names) VALUES (p_names) ON CONFLICT DO NOTHING RETURNING id INTO v_id;
    IF v_id IS NOT NULL THEN RETURN v_id; END IF;
  END LOOP;
END $body$;

-- delete_thread deletes a thread. It deletes the lines first, which waits for
-- concurrent puts and prevents new ones.
CREATE FUNCTION {schema}.delete_thread(p_name bytea) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_thread bigint;
  v_line bigint[];
BEGIN
  SELECT t.id INTO v_thread FROM {schema}.thread t WHERE sha256(t.name) = sha256(p_name) FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  WITH gone AS (DELETE FROM {schema}.line l WHERE l.thread = v_thread RETURNING l.id)
    SELECT array_agg(gone.id) INTO v_line FROM gone;
  DELETE FROM {schema}.checkpoint c WHERE c.line = ANY (v_line);
  DELETE FROM {schema}.chunk k WHERE k.line = ANY (v_line);
  DELETE FROM {schema}.pending w WHERE w.line = ANY (v_line);
  DELETE FROM {schema}.run r WHERE r.thread = v_thread;
  DELETE FROM {schema}.thread t WHERE t.id = v_thread;
END $body$;

-- copy_thread copies a thread except for its epoch. References are relative to a
-- line, so records and chunks are copied verbatim; runs get new IDs.
-- o_status: 0 copied, 1 the target exists, 2 not found.
CREATE FUNCTION {schema}.copy_thread(p_from bytea, p_to bytea, OUT o_status int) LANGUAGE plpgsql AS $body$
DECLARE
  v_from bigint;
  v_to bigint;
  v_old bigint;
  v_new bigint;
BEGIN
  o_status := 2;
  SELECT t.id INTO v_from FROM {schema}.thread t WHERE sha256(t.name) = sha256(p_from) FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  INSERT INTO {schema}.thread (name, epoch) VALUES (p_to, 0) ON CONFLICT DO NOTHING RETURNING id INTO v_to;
  IF v_to IS NULL THEN
    o_status := 1;
    RETURN;
  END IF;
  PERFORM FROM {schema}.line l WHERE l.thread = v_from ORDER BY l.id FOR NO KEY UPDATE;
  INSERT INTO {schema}.run (thread, name, metadata) SELECT v_to, r.name, r.metadata FROM {schema}.run r WHERE r.thread = v_from ORDER BY r.id;
  FOR v_old IN SELECT l.id FROM {schema}.line l WHERE l.thread = v_from ORDER BY l.id LOOP
    INSERT INTO {schema}.line (thread, path, head, rev, next, checkpoints, bytes)
      SELECT v_to, l.path, l.head, l.rev, l.next, l.checkpoints, l.bytes FROM {schema}.line l WHERE l.id = v_old
      RETURNING id INTO v_new;
    INSERT INTO {schema}.checkpoint (line, id, run, base, record, control, echo, metadata)
      SELECT v_new, c.id, b.id, c.base, c.record, c.control, c.echo, c.metadata FROM {schema}.checkpoint c
      LEFT JOIN {schema}.run a ON a.thread = v_from AND a.id = c.run
      LEFT JOIN {schema}.run b ON b.thread = v_to AND sha256(b.name) = sha256(a.name)
      WHERE c.line = v_old ORDER BY c.id;
    INSERT INTO {schema}.chunk (line, chain, seq, data)
      SELECT v_new, k.chain, k.seq, k.data FROM {schema}.chunk k WHERE k.line = v_old ORDER BY k.chain, k.seq;
    INSERT INTO {schema}.pending (line, id, task, kind, data)
      SELECT v_new, w.id, w.task, w.kind, w.data FROM {schema}.pending w WHERE w.line = v_old ORDER BY w.ord;
  END LOOP;
  o_status := 0;
END $body$;

-- remember stores a value in the cache and removes up to eight expired values, so
-- that they cannot accumulate.
CREATE FUNCTION {schema}.remember(p_space bytea, p_key bytea, p_value bytea, p_expires bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
  INSERT INTO {schema}.cache (space, key, value, expires) VALUES (p_space, p_key, p_value, p_expires)
    ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, expires = excluded.expires;
  DELETE FROM {schema}.cache c WHERE (c.space, c.key) IN (
    SELECT d.space, d.key FROM {schema}.cache d WHERE d.expires <= p_now ORDER BY d.expires LIMIT 8 FOR UPDATE SKIP LOCKED);
END $body$;

-- The store. Times are in microseconds since 1970. Names are namespaces, encoded
-- by store.Namespace.

-- How records were indexed: store.Indexed.Stamp. Rows are never removed. A process
-- that caches vector signatures identifies them by record number, which reindexing
-- preserves. When reindexed changes, the process rebuilds its cache.
CREATE TABLE {schema}.store_stamp (
  id        int    GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  text      bytea  NOT NULL,
  dimension int    NOT NULL,            -- of the vectors; 0: no vectors yet
  reindexed bigint NOT NULL DEFAULT 0   -- number of reindexed records
);
CREATE UNIQUE INDEX store_stamp_text ON {schema}.store_stamp (sha256(text));

-- The versions of items.
CREATE TABLE {schema}.store_record (
  seq     bigint   PRIMARY KEY,
  created bigint   NOT NULL,
  updated bigint   NOT NULL,
  ttl     bigint   NOT NULL,            -- 0: never expires
  stamp   int,                          -- NULL: not indexed for queries
  words   int      NOT NULL,            -- number of words, including repetitions
  kind    smallint NOT NULL,            -- store_record.go
  name    bytea    NOT NULL,
  key     bytea    NOT NULL,            -- empty: the whole namespace was forgotten
  paths   bytea,
  terms   bytea,                        -- store_words.go
  meta    bytea,
  value   bytea
);
CREATE UNIQUE INDEX store_record_key ON {schema}.store_record (name, key, seq);
CREATE INDEX store_record_stamp ON {schema}.store_record (stamp, seq) WHERE stamp IS NOT NULL;

-- The mutable part of a record, in a separate table so that an update does not
-- rewrite the value. A record without a row is the current version of an item and
-- never expires.
CREATE TABLE {schema}.store_life (
  seq     bigint PRIMARY KEY,
  expires bigint,                       -- NULL: never
  ended   bigint                        -- time of the key's next record, or of a tombstone itself; NULL: the current version of an item
);
CREATE INDEX store_life_expires ON {schema}.store_life (expires) WHERE expires IS NOT NULL AND ended IS NULL;
CREATE INDEX store_life_ended ON {schema}.store_life (ended) WHERE ended IS NOT NULL;

-- The current versions of items, including expired items, with the columns that
-- narrow searches. (Words are an array because a tsvector is limited to one
-- megabyte, and bytes because the encoding of the database must not matter.)
CREATE TABLE {schema}.store_item (
  seq   bigint  PRIMARY KEY,
  name  bytea   NOT NULL,
  words bytea[] NOT NULL,               -- without repetitions
  doc   jsonb                           -- the value; NULL if jsonb cannot represent it exactly: store_filter.go
);
CREATE INDEX store_item_name ON {schema}.store_item (name, seq);
CREATE INDEX store_item_words ON {schema}.store_item USING gin (words);
CREATE INDEX store_item_doc ON {schema}.store_item USING gin (doc jsonb_path_ops);
CREATE INDEX store_item_odd ON {schema}.store_item (seq) WHERE doc IS NULL;

-- The vectors of records. They are arrays, so they do not depend on pgvector. With
-- pgvector, each stamp has an index of the vectors that have a name: store_index.
CREATE TABLE {schema}.store_vector (
  seq   bigint NOT NULL,
  n     int    NOT NULL,
  stamp int    NOT NULL,
  name  bytea,                          -- NULL: the record is not the current version
  field bytea  NOT NULL,
  data  real[] NOT NULL,
  raw   bytea,                          -- data in binary, which is ten times as fast to read; NULL if written with pgvector
  PRIMARY KEY (seq, n)
);
ALTER TABLE {schema}.store_vector ALTER COLUMN data SET STORAGE EXTERNAL; -- not compressible
CREATE INDEX store_vector_name ON {schema}.store_vector (stamp, name) WHERE name IS NOT NULL;

-- A writer updates this row first and so locks it until its commit: records become
-- visible in the order of their numbers. A process that caches the items that
-- contain a word reads them again when reworded changes.
CREATE TABLE {schema}.store_state (
  one       boolean PRIMARY KEY CHECK (one),
  seq       bigint  NOT NULL,           -- number of the last record
  compacted bigint  NOT NULL,           -- greatest seq of a tombstone that a sweep has removed
  reworded  bigint  NOT NULL DEFAULT 0  -- number of records whose words were replaced
) WITH (fillfactor = 10);
INSERT INTO {schema}.store_state (one, seq, compacted) VALUES (true, 0, 0);

-- store_check raises TR002 unless p_want is the current version of a key. The
-- detail contains the index of the write and the current version.
CREATE FUNCTION {schema}.store_check(p_name bytea, p_key bytea, p_now bigint, p_want bigint, p_index int)
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_have bigint;
BEGIN
  PERFORM FROM {schema}.store_state FOR UPDATE;
  SELECT CASE WHEN r.kind = 1 AND (l.expires IS NULL OR l.expires > p_now) THEN r.seq ELSE 0 END INTO v_have
    FROM {schema}.store_record r LEFT JOIN {schema}.store_life l ON l.seq = r.seq
    WHERE r.name = p_name AND r.key = p_key ORDER BY r.seq DESC LIMIT 1;
  IF coalesce(v_have, 0) <> p_want THEN
    RAISE EXCEPTION 'item version changed' USING ERRCODE = 'TR002', DETAIL = p_index || ' ' || coalesce(v_have, 0);
  END IF;
END $body$;

-- store_vectors writes the vectors of a record; p_data contains them one after another.
CREATE FUNCTION {schema}.store_vectors(p_seq bigint, p_stamp int, p_name bytea, p_fields bytea[], p_data real[], p_raw bytea[])
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_size int := cardinality(p_data) / cardinality(p_fields);
BEGIN
  INSERT INTO {schema}.store_vector (seq, n, stamp, name, field, data, raw)
    SELECT p_seq, i, p_stamp, p_name, p_fields[i], p_data[(i - 1) * v_size + 1 : i * v_size], p_raw[i] FROM generate_subscripts(p_fields, 1) AS i;
END $body$;

-- store_write adds a record as the current version of its key. It returns the
-- record's number, the creation time of the item, and the number of removed older
-- records. It does nothing and returns NULL if the record would end an item that
-- does not exist.
CREATE FUNCTION {schema}.store_write(
  p_name bytea, p_key bytea, p_kind smallint, p_now bigint, p_ttl bigint, p_keep bigint,
  p_stamp int, p_words int, p_paths bytea, p_terms bytea, p_meta bytea, p_value bytea,
  p_tokens bytea[], p_doc jsonb, p_fields bytea[], p_data real[], p_raw bytea[]
) RETURNS bigint[] LANGUAGE plpgsql AS $body$
DECLARE
  v_seq bigint;
  v_old bigint;
  v_kind smallint;
  v_created bigint;
  v_expires bigint;
  v_live boolean;
  v_cut bigint;                         -- newest record to remove
  v_dropped bigint := 0;
BEGIN
  UPDATE {schema}.store_state SET seq = seq + 1 RETURNING seq INTO v_seq;
  SELECT r.seq, r.kind, r.created, l.expires INTO v_old, v_kind, v_created, v_expires
    FROM {schema}.store_record r LEFT JOIN {schema}.store_life l ON l.seq = r.seq
    WHERE r.name = p_name AND r.key = p_key AND octet_length(p_key) > 0 ORDER BY r.seq DESC LIMIT 1;
  v_live := v_old IS NOT NULL AND v_kind = 1 AND (v_expires IS NULL OR v_expires > p_now);
  IF p_kind = 2 AND NOT v_live OR p_kind = 3 AND (v_live OR v_kind IS DISTINCT FROM 1) THEN
    RETURN NULL;
  END IF;

  IF v_old IS NOT NULL THEN
    IF v_kind = 1 THEN
      DELETE FROM {schema}.store_item i WHERE i.seq = v_old;
    END IF;
    IF p_kind = 4 THEN
      v_cut := v_old;
    ELSE
      INSERT INTO {schema}.store_life (seq, ended) VALUES (v_old, p_now) ON CONFLICT (seq) DO UPDATE SET ended = excluded.ended;
      IF v_kind = 1 AND p_keep > 1 THEN
        UPDATE {schema}.store_vector v SET name = NULL WHERE v.seq = v_old;
      END IF;
      SELECT r.seq INTO v_cut FROM {schema}.store_record r WHERE r.name = p_name AND r.key = p_key
        ORDER BY r.seq DESC OFFSET p_keep - 1 LIMIT 1;
    END IF;
    IF v_cut IS NOT NULL THEN
      WITH gone AS (DELETE FROM {schema}.store_record r WHERE r.name = p_name AND r.key = p_key AND r.seq <= v_cut RETURNING r.seq),
        lives AS (DELETE FROM {schema}.store_life l USING gone WHERE l.seq = gone.seq),
        vectors AS (DELETE FROM {schema}.store_vector v USING gone WHERE v.seq = gone.seq)
      SELECT count(*) INTO v_dropped FROM gone;
    END IF;
  END IF;

  v_created := CASE WHEN p_kind <> 1 THEN 0 WHEN v_live THEN v_created ELSE p_now END;
  INSERT INTO {schema}.store_record (seq, created, updated, ttl, stamp, words, kind, name, key, paths, terms, meta, value)
    VALUES (v_seq, v_created, p_now, p_ttl, p_stamp, p_words, p_kind, p_name, p_key, p_paths, p_terms, p_meta, p_value);
  IF p_ttl > 0 OR p_kind <> 1 THEN
    INSERT INTO {schema}.store_life (seq, expires, ended)
      VALUES (v_seq, CASE WHEN p_ttl > 0 THEN p_now + p_ttl END, CASE WHEN p_kind <> 1 THEN p_now END);
  END IF;
  IF p_kind = 1 THEN
    INSERT INTO {schema}.store_item (seq, name, words, doc) VALUES (v_seq, p_name, coalesce(p_tokens, '{}'), p_doc);
    IF p_fields IS NOT NULL THEN
      PERFORM {schema}.store_vectors(v_seq, p_stamp, p_name, p_fields, p_data, p_raw);
    END IF;
  END IF;
  RETURN ARRAY[v_seq, v_created, v_dropped];
END $body$;

-- store_forget removes all records whose name is in a range, except the records
-- without a key that earlier calls left.
CREATE FUNCTION {schema}.store_forget(p_from bytea, p_to bytea) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
  PERFORM FROM {schema}.store_state FOR UPDATE;
  WITH gone AS (DELETE FROM {schema}.store_record r WHERE r.name >= p_from AND r.name < p_to AND octet_length(r.key) > 0 RETURNING r.seq),
    items AS (DELETE FROM {schema}.store_item i USING gone WHERE i.seq = gone.seq),
    lives AS (DELETE FROM {schema}.store_life l USING gone WHERE l.seq = gone.seq)
  DELETE FROM {schema}.store_vector v USING gone WHERE v.seq = gone.seq;
END $body$;

-- store_expire ends up to p_most expired items. It returns their number and the
-- number of removed records.
CREATE FUNCTION {schema}.store_expire(p_now bigint, p_keep bigint, p_most int) RETURNS bigint[] LANGUAGE plpgsql AS $body$
DECLARE
  v_due record;
  v_made bigint[];
  v_expired bigint := 0;
  v_dropped bigint := 0;
BEGIN
  PERFORM FROM {schema}.store_state FOR UPDATE;
  FOR v_due IN SELECT r.name, r.key FROM {schema}.store_life l JOIN {schema}.store_record r ON r.seq = l.seq
    WHERE l.ended IS NULL AND l.expires <= p_now ORDER BY l.seq LIMIT p_most FOR UPDATE OF l
  LOOP
    v_made := {schema}.store_write(v_due.name, v_due.key, 3::smallint, p_now, 0, p_keep, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    IF v_made IS NOT NULL THEN
      v_expired := v_expired + 1;
      v_dropped := v_dropped + v_made[3];
    END IF;
  END LOOP;
  RETURN ARRAY[v_expired, v_dropped];
END $body$;

-- store_age removes those of the given records that ended before a time, and
-- returns their number.
CREATE FUNCTION {schema}.store_age(p_seqs bigint[], p_before bigint) RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
  v_seqs bigint[];
  v_names bytea[];
  v_keys bytea[];
BEGIN
  PERFORM FROM {schema}.store_state FOR UPDATE;
  v_seqs := ARRAY(SELECT l.seq FROM {schema}.store_life l WHERE l.seq = ANY (p_seqs) AND l.ended < p_before);
  UPDATE {schema}.store_state s SET compacted = greatest(s.compacted, (
    SELECT max(r.seq) FROM {schema}.store_record r WHERE r.seq = ANY (v_seqs) AND r.kind <> 1 AND (octet_length(r.key) = 0
      OR NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name = r.name AND n.key = r.key AND n.seq > r.seq))));
  SELECT array_agg(k.name), array_agg(k.key) INTO v_names, v_keys
    FROM (SELECT DISTINCT r.name, r.key FROM {schema}.store_record r WHERE r.seq = ANY (v_seqs) AND octet_length(r.key) > 0) k;
  DELETE FROM {schema}.store_record r WHERE r.seq = ANY (v_seqs);
  DELETE FROM {schema}.store_life l WHERE l.seq = ANY (v_seqs);
  DELETE FROM {schema}.store_vector v WHERE v.seq = ANY (v_seqs);
  -- If the clock was set back, an earlier record may remain. The record after the
  -- removed ones is now its successor.
  UPDATE {schema}.store_life l SET ended = n.updated FROM (
      SELECT r.seq, lead(r.updated) OVER (PARTITION BY r.name, r.key ORDER BY r.seq) AS updated
      FROM unnest(v_names, v_keys) AS k(name, key) JOIN {schema}.store_record r ON r.name = k.name AND r.key = k.key
    ) n WHERE l.seq = n.seq AND l.ended <> n.updated;
  RETURN cardinality(v_seqs);
END $body$;

-- store_reindex replaces the index entries of a record.
CREATE FUNCTION {schema}.store_reindex(
  p_seq bigint, p_stamp int, p_words int, p_paths bytea, p_terms bytea, p_tokens bytea[], p_fields bytea[], p_data real[], p_raw bytea[]
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_name bytea;
BEGIN
  UPDATE {schema}.store_record r SET stamp = p_stamp, words = p_words, paths = p_paths, terms = p_terms WHERE r.seq = p_seq;
  IF NOT FOUND THEN RETURN; END IF;
  UPDATE {schema}.store_state SET reworded = reworded + 1;
  UPDATE {schema}.store_item i SET words = coalesce(p_tokens, '{}') WHERE i.seq = p_seq RETURNING i.name INTO v_name;
  DELETE FROM {schema}.store_vector v WHERE v.seq = p_seq;
  IF p_fields IS NOT NULL THEN
    PERFORM {schema}.store_vectors(p_seq, p_stamp, v_name, p_fields, p_data, p_raw);
    UPDATE {schema}.store_stamp s SET reindexed = s.reindexed + 1 WHERE s.id = p_stamp;
  END IF;
END $body$;

-- store_index creates missing vector indexes if pgvector is available. It runs with
-- the privileges of its owner, because the application's role cannot create
-- indexes. A stamp gets its index before it has vectors, so this takes no time.
CREATE FUNCTION {schema}.store_index() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  v_schema name;
  v_stamp record;
BEGIN
  SELECT n.nspname INTO v_schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector' AND (string_to_array(e.extversion, '.'))[1:2]::int[] >= '{0,8}';
  IF NOT FOUND THEN RETURN; END IF;
  FOR v_stamp IN SELECT s.id, s.dimension, 'store_near_' || s.id AS index FROM {schema}.store_stamp s WHERE s.dimension BETWEEN 1 AND 2000 ORDER BY s.id LOOP
    CONTINUE WHEN to_regclass(format('%s.%I', $name${schema}$name$, v_stamp.index)) IS NOT NULL;
    EXECUTE format('CREATE INDEX %I ON %s.store_vector USING hnsw ((data::%I.vector(%s)) %I.vector_ip_ops) WHERE stamp = %s AND name IS NOT NULL',
      v_stamp.index, $name${schema}$name$, v_schema, v_stamp.dimension, v_schema, v_stamp.id);
  END LOOP;
END $body$;

-- store_stamp_of returns the ID of a stamp and creates the stamp if necessary.
CREATE FUNCTION {schema}.store_stamp_of(p_text bytea, p_dimension int) RETURNS int LANGUAGE plpgsql AS $body$
DECLARE
  v_id int;
BEGIN
  INSERT INTO {schema}.store_stamp AS s (text, dimension) VALUES (p_text, p_dimension)
    ON CONFLICT (sha256(text)) DO UPDATE SET dimension = excluded.dimension WHERE s.dimension = 0 AND excluded.dimension > 0
    RETURNING s.id INTO v_id;
  IF v_id IS NULL THEN
    SELECT s.id INTO v_id FROM {schema}.store_stamp s WHERE sha256(s.text) = sha256(p_text);
  ELSIF p_dimension > 0 THEN
    PERFORM {schema}.store_index();
  END IF;
  RETURN v_id;
END $body$;

-- The server's ledger: ledger.Row and ledger.Events. Times are in microseconds
-- since 1970. Kind 4 is ledger.Runs.

-- If a body makes a row larger than 2 KB, Postgres stores it separately (TOAST):
-- queries that do not select it do not read it, and updates that do not change it
-- do not write it. A separate table would cost an insert more for each small body
-- and save nothing for large ones.
--
-- Each run writes its row and its thread's row twice, so the table needs vacuuming
-- more often than others.
CREATE TABLE {schema}.server_row (
  id      uuid     NOT NULL,
  created bigint   NOT NULL,
  due     bigint,                       -- NULL: never
  parent  uuid,
  worker  uuid,
  kind    smallint NOT NULL,
  open    boolean  NOT NULL,
  terms   bigint[],                     -- NULL: none
  doc     bytea    NOT NULL,
  body    bytea,
  PRIMARY KEY (id, kind)                -- a transaction starts by reading all rows of some IDs
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Runs are inserted and ended often, so they are in as few indexes as possible: an
-- ended run is only in the primary key and in the indexes by creation and by parent.
-- Kinds from 9 (spans) are only listed by parent, term, or due time.
CREATE INDEX server_row_created     ON {schema}.server_row (kind, created, id) WHERE kind < 9;
CREATE INDEX server_row_parent      ON {schema}.server_row (kind, parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX server_row_worker      ON {schema}.server_row (kind, worker, created, id) WHERE worker IS NOT NULL;
CREATE INDEX server_row_open        ON {schema}.server_row (kind, created, id) WHERE open;
CREATE INDEX server_row_open_parent ON {schema}.server_row (kind, parent, created, id) WHERE open AND parent IS NOT NULL;
CREATE INDEX server_row_due         ON {schema}.server_row (kind, due, id) WHERE due IS NOT NULL AND kind <> 4;
CREATE INDEX server_row_open_due    ON {schema}.server_row (kind, due, id) WHERE due IS NOT NULL AND open AND kind <> 4;
CREATE INDEX server_row_parent_due  ON {schema}.server_row (kind, parent, due, id) WHERE due IS NOT NULL AND parent IS NOT NULL;

-- The terms of rows in listing order, so the first page is fast whether a term has
-- ten rows or a million. (A GIN index of server_row.terms would be smaller, but
-- each page would read and sort all rows of a term, and each run of a thread would
-- write all its terms again.)
CREATE TABLE {schema}.server_term (
  term    bigint   NOT NULL,
  created bigint   NOT NULL,
  id      uuid     NOT NULL,
  kind    smallint NOT NULL,
  PRIMARY KEY (kind, term, created, id)
);

CREATE TABLE {schema}.server_event (
  thread  uuid   NOT NULL,
  run     uuid   NOT NULL,
  first   bigint NOT NULL,
  last    bigint NOT NULL,
  created bigint NOT NULL,              -- time of the append
  data    bytea  NOT NULL,
  PRIMARY KEY (thread, last, run)
);
CREATE INDEX server_event_created ON {schema}.server_event (created);

-- server_put inserts a row or replaces the version that the transaction has read.
-- It raises TR001 if the row has another version.
CREATE FUNCTION {schema}.server_put(
  p_kind smallint, p_id uuid,
  p_version xid,                        -- xmin of the row that was read; NULL: no row
  p_created bigint,                     -- creation time of that row, or of the new row
  p_due bigint, p_parent uuid, p_worker uuid, p_open boolean,
  p_terms bigint[], p_drop bigint[], p_add bigint[], -- all terms, and the changes from that row
  p_doc bytea, p_body bytea             -- NULL: keep the body, if any
) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
  IF p_version IS NULL THEN
    INSERT INTO {schema}.server_row (id, created, due, parent, worker, kind, open, terms, doc, body)
      VALUES (p_id, p_created, p_due, p_parent, p_worker, p_kind, p_open, p_terms, p_doc, p_body)
      ON CONFLICT DO NOTHING;
  ELSIF p_body IS NULL THEN
    UPDATE {schema}.server_row r SET due = p_due, parent = p_parent, worker = p_worker, open = p_open, terms = p_terms, doc = p_doc
      WHERE r.id = p_id AND r.kind = p_kind AND r.xmin = p_version;
  ELSE
    UPDATE {schema}.server_row r SET due = p_due, parent = p_parent, worker = p_worker, open = p_open, terms = p_terms, doc = p_doc, body = p_body
      WHERE r.id = p_id AND r.kind = p_kind AND r.xmin = p_version;
  END IF;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'row changed by another transaction' USING ERRCODE = 'TR001';
  END IF;
  IF p_drop IS NOT NULL THEN
    DELETE FROM {schema}.server_term t WHERE t.kind = p_kind AND t.term = ANY (p_drop) AND t.created = p_created AND t.id = p_id;
  END IF;
  IF p_add IS NOT NULL THEN
    INSERT INTO {schema}.server_term (term, created, id, kind) SELECT a.term, p_created, p_id, p_kind FROM unnest(p_add) AS a(term)
      ON CONFLICT DO NOTHING;
  END IF;
END $body$;

-- server_delete deletes rows one by one, so each is found by its key, whatever
-- their number.
CREATE FUNCTION {schema}.server_delete(p_kinds smallint[], p_ids uuid[]) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_created bigint;
  v_terms bigint[];
BEGIN
  FOR i IN 1 .. cardinality(p_ids) LOOP
    DELETE FROM {schema}.server_row r WHERE r.id = p_ids[i] AND r.kind = p_kinds[i] RETURNING r.created, r.terms INTO v_created, v_terms;
    IF v_terms IS NOT NULL THEN
      DELETE FROM {schema}.server_term t WHERE t.kind = p_kinds[i] AND t.term = ANY (v_terms) AND t.created = v_created AND t.id = p_ids[i];
    END IF;
  END LOOP;
END $body$;

-- pgvector is optional: without it, processes compare vectors themselves.
BEGIN
  IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
    CREATE EXTENSION IF NOT EXISTS vector;
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE NOTICE 'pgvector is available but was not created: %', SQLERRM;
END;
