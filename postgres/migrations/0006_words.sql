-- A process that keeps which items have a word knows them by the numbers of records. So it
-- reads them anew when words of old records have changed.
ALTER TABLE {schema}.store_state ADD COLUMN reworded bigint NOT NULL DEFAULT 0;

-- store_reindex replaces what a record can be found by.
CREATE OR REPLACE FUNCTION {schema}.store_reindex(
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
