-- A statement behind a pooler is planned at every call. What these functions
-- hold is planned once per connection, and one call is one transaction.
--
-- What is locked, always in this order: a thread's row, then rows of its lines.
-- A put that goes on from a head holds its line and nothing else. Whoever moves
-- a thread's epoch holds the thread and has updated all of its lines, so that
-- every put is before it or sees the new epoch. (An update, not a lock: where
-- the default isolation is stricter than read committed, the put fails then
-- and is tried again, instead of reading the old epoch.)
--
-- SQLSTATE TR001: what the caller remembers does not hold; read and try again.

-- put stores a checkpoint. It returns the thread, the line, the run (or NULL)
-- and whether the metadata is the run's (0 or 1); or NULL, which is as TR001,
-- with nothing written. (One array: a call in a SELECT's list is planned several
-- times as fast as one in its FROM.)
CREATE FUNCTION {schema}.put(
  p_thread bigint, p_name bytea,        -- 0: there is no such thread yet
  p_line bigint, p_path bytea,          -- 0: there is no such line yet
  p_head uuid, p_rev bigint,            -- what the line must have
  p_epoch bigint, p_raise bigint,       -- what the thread must have, and is to have if not NULL
  p_id uuid, p_parent uuid, p_next bigint, p_bytes bigint,
  p_run bigint, p_run_name bytea,       -- the head's run, or the name of another one, or neither
  p_base bigint, p_record bytea, p_control bytea, p_metadata bytea,
  p_chain bigint[], p_seq bigint[], p_data bytea[],
  p_echo bytea,                         -- of the parent's control, in its place, if not NULL
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
      RAISE EXCEPTION 'another writer has the thread' USING ERRCODE = 'TR001';
    END IF;
    IF p_parent <> p_head THEN
      PERFORM FROM {schema}.checkpoint c WHERE c.line = p_line AND c.id = p_parent;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'the parent was removed' USING ERRCODE = 'TR001';
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
        RAISE EXCEPTION 'another line has begun the run' USING ERRCODE = 'TR001';
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
      RAISE EXCEPTION 'the control has changed' USING ERRCODE = 'TR001';
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

-- put_writes records what became of tasks. o_status: 0 stored, 2 not found, 3 fenced.
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
  -- Now that the line is held: an epoch that is seen here stays until the end.
  SELECT t.epoch INTO o_epoch FROM {schema}.thread t WHERE t.id = v_thread;
  IF p_fence < o_epoch THEN
    o_status := 3;
    RETURN;
  END IF;
  v_head := coalesce(p_id, v_head);
  PERFORM FROM {schema}.checkpoint c WHERE c.line = v_line AND c.id = v_head;
  IF NOT FOUND THEN RETURN; END IF;
  -- A write that is replaced keeps its place.
  INSERT INTO {schema}.pending (line, id, task, kind, data)
    SELECT v_line, v_head, u.task, u.kind, u.data
    FROM unnest(p_task, p_kind, p_write) WITH ORDINALITY AS u(task, kind, data, nr) ORDER BY u.nr
    ON CONFLICT (line, id, sha256(task), sha256(kind)) DO UPDATE SET data = excluded.data;
  IF p_fence > o_epoch THEN
    UPDATE {schema}.thread t SET epoch = p_fence WHERE t.id = v_thread;
  END IF;
  o_status := 0;
END $body$;

-- fence moves a thread's epoch forward. o_status: 0 done, 3 fenced.
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
      RAISE EXCEPTION 'another writer has made the thread' USING ERRCODE = 'TR001';
    END IF;
    o_status := 0;
    RETURN;
  END IF;
  IF p_epoch <= o_epoch THEN RETURN; END IF;
  UPDATE {schema}.line l SET rev = l.rev WHERE l.thread = v_thread;
  UPDATE {schema}.thread t SET epoch = p_epoch WHERE t.id = v_thread;
  o_status := 0;
END $body$;

-- read returns a line and one of its checkpoints with its pending writes, all
-- of one moment. p_id: NULL is the head; what is not found is NULL.
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

-- chunks returns those of chains from p_lo to p_hi.
CREATE FUNCTION {schema}.chunks(p_line bigint, p_chain bigint[], p_lo bigint[], p_hi bigint[])
RETURNS TABLE (o_chain bigint, o_seq bigint, o_data bytea) LANGUAGE plpgsql STABLE AS $body$
BEGIN
  FOR i IN 1 .. cardinality(p_chain) LOOP
    RETURN QUERY SELECT k.chain, k.seq, k.data FROM {schema}.chunk k
      WHERE k.line = p_line AND k.chain = p_chain[i] AND k.seq BETWEEN p_lo[i] AND p_hi[i] ORDER BY k.seq;
  END LOOP;
END $body$;

-- shape_of finds or makes the row of the names.
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

-- delete_thread removes a thread. Deleting the lines first waits for the puts
-- that are under way; no other can begin then.
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

-- copy_thread copies all of a thread but its epoch. References are relative to
-- a line, so records and chunks stay as they are; runs get new ids.
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

-- remember stores a value of the cache and removes a few whose time is over. It
-- adds one, so they cannot pile up.
CREATE FUNCTION {schema}.remember(p_space bytea, p_key bytea, p_value bytea, p_expires bigint, p_now bigint)
RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
  INSERT INTO {schema}.cache (space, key, value, expires) VALUES (p_space, p_key, p_value, p_expires)
    ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, expires = excluded.expires;
  DELETE FROM {schema}.cache c WHERE (c.space, c.key) IN (
    SELECT d.space, d.key FROM {schema}.cache d WHERE d.expires <= p_now ORDER BY d.expires LIMIT 8 FOR UPDATE SKIP LOCKED);
END $body$;
