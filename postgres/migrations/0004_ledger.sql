-- The ledger of a server: ledger.Row and ledger.Events. Times are microseconds
-- since 1970. Kind 4 are runs: ledger.Runs.

-- A body that makes a row larger than 2 KB is kept apart by Postgres (TOAST):
-- queries that do not ask for it do not read it, and an update that leaves it as
-- it is does not write it. A table of bodies would cost more for the small
-- ones, since each run would be two inserts, and would save nothing for the
-- large ones.
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
  PRIMARY KEY (id, kind)                -- a transaction reads all rows of some ids at its beginning
);
-- Every run writes its row and that of its thread twice, so the table needs a
-- vacuum sooner than others.
ALTER TABLE {schema}.server_row SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- A run is inserted and ended all the time, so it is in as few indexes as will
-- do: once it has ended these are the primary key and that of its thread.
CREATE INDEX server_row_created     ON {schema}.server_row (kind, created, id) WHERE kind <> 4;
CREATE INDEX server_row_parent      ON {schema}.server_row (kind, parent, created, id) WHERE parent IS NOT NULL;
CREATE INDEX server_row_worker      ON {schema}.server_row (kind, worker, created, id) WHERE worker IS NOT NULL;
CREATE INDEX server_row_open        ON {schema}.server_row (kind, created, id) WHERE open;
CREATE INDEX server_row_open_parent ON {schema}.server_row (kind, parent, created, id) WHERE open AND parent IS NOT NULL;
CREATE INDEX server_row_due         ON {schema}.server_row (kind, due, id) WHERE due IS NOT NULL AND kind <> 4;
CREATE INDEX server_row_open_due    ON {schema}.server_row (kind, due, id) WHERE due IS NOT NULL AND open AND kind <> 4;
CREATE INDEX server_row_parent_due  ON {schema}.server_row (kind, parent, due, id) WHERE due IS NOT NULL AND parent IS NOT NULL;

-- The terms of rows, in the order that pages are read in: the first page comes at
-- once, whether a term has ten rows or a million. (A GIN index of
-- server_row.terms would be smaller, but all rows of a term would be read and
-- sorted for a page, and each run of a thread would write all its terms again.)
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
  created bigint NOT NULL,              -- when it was appended
  data    bytea  NOT NULL,
  PRIMARY KEY (thread, last, run)
);
CREATE INDEX server_event_created ON {schema}.server_event (created);

-- server_put stores a row in place of the version that its transaction has read,
-- or inserts it. If there is another version by now, that is TR001.
CREATE FUNCTION {schema}.server_put(
  p_kind smallint, p_id uuid,
  p_version xid,                        -- xmin of the row that was read; NULL: there was none
  p_created bigint,                     -- of that row, if there was one
  p_due bigint, p_parent uuid, p_worker uuid, p_open boolean,
  p_terms bigint[], p_drop bigint[], p_add bigint[], -- all, and how they differ from those of that row
  p_doc bytea, p_body bytea             -- NULL: it has none, or the one it has
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
    RAISE EXCEPTION 'another transaction has changed the row' USING ERRCODE = 'TR001';
  END IF;
  IF p_drop IS NOT NULL THEN
    DELETE FROM {schema}.server_term t WHERE t.kind = p_kind AND t.term = ANY (p_drop) AND t.created = p_created AND t.id = p_id;
  END IF;
  IF p_add IS NOT NULL THEN
    INSERT INTO {schema}.server_term (term, created, id, kind) SELECT a.term, p_created, p_id, p_kind FROM unnest(p_add) AS a(term)
      ON CONFLICT DO NOTHING;
  END IF;
END $body$;

-- server_delete removes rows, one by one: so it finds them by their key, however
-- many there are.
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
