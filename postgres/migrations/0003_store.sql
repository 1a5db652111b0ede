-- The store. Times are microseconds since 1970, names are as store.Namespace
-- encodes them.

-- How records were indexed: store.Indexed.Stamp. A row is never removed.
CREATE TABLE {schema}.store_stamp (
  id        int   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  text      bytea NOT NULL,
  dimension int   NOT NULL              -- of the vectors; 0: there are none so far
);
CREATE UNIQUE INDEX store_stamp_text ON {schema}.store_stamp (sha256(text));

-- The versions of items.
CREATE TABLE {schema}.store_record (
  seq     bigint   PRIMARY KEY,
  created bigint   NOT NULL,
  updated bigint   NOT NULL,
  ttl     bigint   NOT NULL,            -- 0: for ever
  stamp   int,                          -- NULL: queries never find it
  words   int      NOT NULL,            -- how many, repetitions included
  kind    smallint NOT NULL,            -- store_record.go
  name    bytea    NOT NULL,
  key     bytea    NOT NULL,            -- empty: all of a namespace were forgotten
  paths   bytea,
  terms   bytea,                        -- store_words.go
  meta    bytea,
  value   bytea
);
CREATE UNIQUE INDEX store_record_key ON {schema}.store_record (name, key, seq);
CREATE INDEX store_record_stamp ON {schema}.store_record (stamp, seq) WHERE stamp IS NOT NULL;

-- What changes about a record without making a new one, apart from its value,
-- which would be written again. A record without a row is that of an item and
-- never expires.
CREATE TABLE {schema}.store_life (
  seq     bigint PRIMARY KEY,
  expires bigint,                       -- NULL: never
  ended   bigint                        -- when the next record of the key was written, or this one if it is an end; NULL: it is that of an item
);
CREATE INDEX store_life_expires ON {schema}.store_life (expires) WHERE expires IS NOT NULL AND ended IS NULL;
CREATE INDEX store_life_ended ON {schema}.store_life (ended) WHERE ended IS NOT NULL;

-- The records of items, expired ones included, with what narrows searches down.
-- (Words are an array and no tsvector, which has room for a megabyte only, and
-- bytes, so that the encoding of the database does not matter.)
CREATE TABLE {schema}.store_item (
  seq   bigint  PRIMARY KEY,
  name  bytea   NOT NULL,
  words bytea[] NOT NULL,               -- different ones
  doc   jsonb                           -- the value; NULL if jsonb would not keep it as it is: store_filter.go
);
CREATE INDEX store_item_name ON {schema}.store_item (name, seq);
CREATE INDEX store_item_words ON {schema}.store_item USING gin (words);
CREATE INDEX store_item_doc ON {schema}.store_item USING gin (doc jsonb_path_ops);
CREATE INDEX store_item_odd ON {schema}.store_item (seq) WHERE doc IS NULL;

-- The vectors of records. They are arrays, so that they are there with and
-- without pgvector, which has an index for each stamp over those with a name:
-- store_index.
CREATE TABLE {schema}.store_vector (
  seq   bigint NOT NULL,
  n     int    NOT NULL,
  stamp int    NOT NULL,
  name  bytea,                          -- NULL: the record is history
  field bytea  NOT NULL,
  data  real[] NOT NULL,
  raw   bytea,                          -- the same for those who read many, where there was no pgvector: it comes ten times as fast
  PRIMARY KEY (seq, n)
);
ALTER TABLE {schema}.store_vector ALTER COLUMN data SET STORAGE EXTERNAL; -- nothing makes it smaller
CREATE INDEX store_vector_name ON {schema}.store_vector (stamp, name) WHERE name IS NOT NULL;

-- Whoever writes updates this row first, and so holds it until the commit:
-- records become visible in the order of their numbers.
CREATE TABLE {schema}.store_state (
  one       boolean PRIMARY KEY CHECK (one),
  seq       bigint  NOT NULL,           -- of the last record
  compacted bigint  NOT NULL            -- the greatest seq of an end that a sweep has dropped
) WITH (fillfactor = 10);
INSERT INTO {schema}.store_state VALUES (true, 0, 0);

-- store_check fails if the live record of a key is not the one it must be, with
-- the place of the write and the number that the record has as the detail.
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
    RAISE EXCEPTION 'the item has another version' USING ERRCODE = 'TR002', DETAIL = p_index || ' ' || coalesce(v_have, 0);
  END IF;
END $body$;

-- store_vectors writes the vectors of a record, which come one after another.
CREATE FUNCTION {schema}.store_vectors(p_seq bigint, p_stamp int, p_name bytea, p_fields bytea[], p_data real[], p_raw bytea[])
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_size int := cardinality(p_data) / cardinality(p_fields);
BEGIN
  INSERT INTO {schema}.store_vector (seq, n, stamp, name, field, data, raw)
    SELECT p_seq, i, p_stamp, p_name, p_fields[i], p_data[(i - 1) * v_size + 1 : i * v_size], p_raw[i] FROM generate_subscripts(p_fields, 1) AS i;
END $body$;

-- store_write makes a record the current one of its key, or does nothing where
-- nothing is to be ended. It returns the record's number, when the item was
-- created and how many older records have gone, or NULL.
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
  v_cut bigint;                         -- the newest record to go
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

-- store_forget removes all records of the names in a span. Records without a
-- key, of what was forgotten before, stay.
CREATE FUNCTION {schema}.store_forget(p_from bytea, p_to bytea) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
  PERFORM FROM {schema}.store_state FOR UPDATE;
  WITH gone AS (DELETE FROM {schema}.store_record r WHERE r.name >= p_from AND r.name < p_to AND octet_length(r.key) > 0 RETURNING r.seq),
    items AS (DELETE FROM {schema}.store_item i USING gone WHERE i.seq = gone.seq),
    lives AS (DELETE FROM {schema}.store_life l USING gone WHERE l.seq = gone.seq)
  DELETE FROM {schema}.store_vector v USING gone WHERE v.seq = gone.seq;
END $body$;

-- store_expire ends items whose time is up, at most so many, and returns how
-- many those are, and how many records have gone.
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

-- store_age drops records that ended before a time, unless one did not after
-- all, and returns how many.
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
  -- A clock that went back can leave one before them, whose successor is now the
  -- one after them.
  UPDATE {schema}.store_life l SET ended = n.updated FROM (
      SELECT r.seq, lead(r.updated) OVER (PARTITION BY r.name, r.key ORDER BY r.seq) AS updated
      FROM unnest(v_names, v_keys) AS k(name, key) JOIN {schema}.store_record r ON r.name = k.name AND r.key = k.key
    ) n WHERE l.seq = n.seq AND l.ended <> n.updated;
  RETURN cardinality(v_seqs);
END $body$;

-- store_reindex replaces what a record can be found by.
CREATE FUNCTION {schema}.store_reindex(
  p_seq bigint, p_stamp int, p_words int, p_paths bytea, p_terms bytea, p_tokens bytea[], p_fields bytea[], p_data real[], p_raw bytea[]
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_name bytea;
BEGIN
  UPDATE {schema}.store_record r SET stamp = p_stamp, words = p_words, paths = p_paths, terms = p_terms WHERE r.seq = p_seq;
  IF NOT FOUND THEN RETURN; END IF;
  UPDATE {schema}.store_item i SET words = coalesce(p_tokens, '{}') WHERE i.seq = p_seq RETURNING i.name INTO v_name;
  DELETE FROM {schema}.store_vector v WHERE v.seq = p_seq;
  IF p_fields IS NOT NULL THEN
    PERFORM {schema}.store_vectors(p_seq, p_stamp, v_name, p_fields, p_data, p_raw);
  END IF;
END $body$;

-- store_index makes the indexes of vectors that are missing, if pgvector is
-- there. Its owner's rights are for that: the program has none to make indexes.
-- A stamp gets its index before it has vectors, so nobody waits for long.
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

-- store_stamp_of finds or makes a stamp.
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

-- Vectors can be compared without the extension, so it is no harm if it cannot
-- be had.
BEGIN
  IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
    CREATE EXTENSION IF NOT EXISTS vector;
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE NOTICE 'pgvector is there and was not created: %', SQLERRM;
END;
