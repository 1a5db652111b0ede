package postgres

// statements contains the SQL statements, with the schema's name inserted.
type statements struct {
	put, putWrites, fence, read, chunks, shapeOf, deleteThread, copyThread, remember     string
	tally, names, line, listRange, listIDs, metadata                                     string
	threads, threadsAfter, size                                                          string
	recall, forget, forgetAll                                                            string
	lockThread, lockLines, linesOf, idsOf, idsOfRuns, interrupted, runsNamed             string
	writesIn, dropWrites                                                                 string
	bases, records, deleteCheckpoints, deletePending, deleteChunks, chunkPlaces, recount string
	headBack, collectRuns, deleteLine, deleteThreadRow                                   string
}

// newStatements returns the statements; in inserts the schema's name.
func newStatements(in func(query string) string) statements {
	const rows = `SELECT c.id, c.run, r.name, r.metadata, c.base, c.record, c.control, c.echo, c.metadata, w.task, w.kind, w.data
		FROM {schema}.checkpoint c
		LEFT JOIN {schema}.run r ON r.thread = $2 AND r.id = c.run
		LEFT JOIN LATERAL (SELECT array_agg(p.task ORDER BY p.ord) AS task, array_agg(p.kind ORDER BY p.ord) AS kind, array_agg(p.data ORDER BY p.ord) AS data
			FROM {schema}.pending p WHERE p.line = c.line AND p.id = c.id) w ON true `
	const threads = `SELECT t.name, s.head, s.checkpoints, s.bytes FROM {schema}.thread t, LATERAL (` + sums + `) s `
	return statements{
		put:       in(`SELECT {schema}.put(` + putNames() + `)`),
		putWrites: in(`SELECT o_status, o_epoch FROM {schema}.put_writes($1,$2,$3,$4,$5,$6,$7)`),
		fence:     in(`SELECT o_status, o_epoch FROM {schema}.fence($1,$2)`),
		read: in(`SELECT o_thread, o_epoch, o_line, o_head, o_rev, o_next, o_id, o_run, o_run_name, o_run_metadata,
			o_base, o_record, o_control, o_echo, o_metadata, o_task, o_kind, o_write, o_base_data FROM {schema}.read($1,$2,$3)`),
		chunks:       in(`SELECT o_chain, o_seq, o_data FROM {schema}.chunks($1,$2,$3,$4)`),
		shapeOf:      in(`SELECT {schema}.shape_of($1)`),
		deleteThread: in(`SELECT {schema}.delete_thread($1)`),
		copyThread:   in(`SELECT o_status FROM {schema}.copy_thread($1,$2)`),
		remember:     in(`SELECT {schema}.remember($1,$2,$3,$4,$5)`),

		names: in(`SELECT s.names FROM {schema}.shape s WHERE s.id = $1`),
		tally: in(`SELECT l.checkpoints, (SELECT count(*) FROM {schema}.checkpoint c WHERE c.line = l.id),
			EXISTS (SELECT FROM {schema}.checkpoint c WHERE c.line = l.id AND c.id = l.head) FROM {schema}.line l WHERE l.id = $1`),
		line: in(`SELECT l.thread, l.id, l.checkpoints FROM {schema}.thread t JOIN {schema}.line l ON l.thread = t.id
			WHERE sha256(t.name) = sha256($1) AND sha256(l.path) = sha256($2)`),
		listRange: in(rows + `WHERE c.line = $1 AND c.id < $3 ORDER BY c.id DESC LIMIT $4`),
		listIDs:   in(rows + `WHERE c.line = $1 AND c.id = ANY ($3) ORDER BY c.id DESC`),
		metadata: in(`SELECT c.id, coalesce(c.metadata, r.metadata) FROM {schema}.checkpoint c
			LEFT JOIN {schema}.run r ON r.thread = $2 AND r.id = c.run
			WHERE c.line = $1 AND c.id < $3 ORDER BY c.id DESC LIMIT $4`),

		threads:      in(threads + `ORDER BY substring(t.name, 1, 256), t.name LIMIT $1`),
		threadsAfter: in(threads + `WHERE (substring(t.name, 1, 256), t.name) > (substring($2, 1, 256), $2) ORDER BY substring(t.name, 1, 256), t.name LIMIT $1`),
		size:         in(`SELECT s.bytes FROM {schema}.thread t, LATERAL (` + sums + `) s WHERE sha256(t.name) = sha256($1)`),

		recall:    in(`SELECT value FROM {schema}.cache WHERE space = $1 AND key = $2 AND (expires IS NULL OR expires > $3)`),
		forget:    in(`DELETE FROM {schema}.cache WHERE space = ANY ($1)`),
		forgetAll: in(`DELETE FROM {schema}.cache`),

		lockThread: in(`SELECT t.id FROM {schema}.thread t WHERE sha256(t.name) = sha256($1) FOR NO KEY UPDATE`),
		lockLines:  in(`SELECT FROM {schema}.line l WHERE l.thread = $1 ORDER BY l.id FOR NO KEY UPDATE`),
		linesOf:    in(`SELECT l.id, l.head FROM {schema}.line l WHERE l.thread = $1 ORDER BY l.id`),
		idsOf:      in(`SELECT c.id FROM {schema}.checkpoint c WHERE c.line = $1 ORDER BY c.id`),
		idsOfRuns:  in(`SELECT c.id FROM {schema}.checkpoint c WHERE c.line = $1 AND c.run = ANY ($2) ORDER BY c.id`),
		interrupted: in(`SELECT DISTINCT w.id FROM {schema}.pending w WHERE w.line = $1 AND (w.kind IN ('interrupt', 'resume')
			OR substring(w.kind, 1, 10) = '\x696e7465727275707400' OR substring(w.kind, 1, 7) = '\x726573756d6500')`), // the last two match kinds with a run: see saved.WriteRow
		runsNamed: in(`SELECT r.id FROM {schema}.run r WHERE r.thread = $1
			AND sha256(r.name) = ANY (SELECT sha256(u.name) FROM unnest($2::bytea[]) AS u(name))`),
		writesIn:          in(`SELECT w.ord, w.kind, w.data FROM {schema}.pending w WHERE w.line = $1`),
		dropWrites:        in(`DELETE FROM {schema}.pending w WHERE w.line = $1 AND w.ord = ANY ($2)`),
		bases:             in(`SELECT k.chain, k.data FROM {schema}.chunk k WHERE k.line = $1 AND k.seq = 0 AND k.chain IN (SELECT c.base FROM {schema}.checkpoint c WHERE c.line = $1)`),
		records:           in(`SELECT c.id, c.base, c.record, c.echo FROM {schema}.checkpoint c WHERE c.line = $1`),
		deleteCheckpoints: in(`DELETE FROM {schema}.checkpoint c WHERE c.line = $1 AND c.id = ANY ($2)`),
		deletePending:     in(`DELETE FROM {schema}.pending w WHERE w.line = $1 AND w.id = ANY ($2)`),
		chunkPlaces:       in(`SELECT k.chain, k.seq FROM {schema}.chunk k WHERE k.line = $1 ORDER BY k.chain, k.seq`),
		deleteChunks: in(`DELETE FROM {schema}.chunk k USING unnest($2::bigint[], $3::bigint[]) AS d(chain, seq)
			WHERE k.line = $1 AND k.chain = d.chain AND k.seq >= d.seq`),
		recount: in(`UPDATE {schema}.line SET (checkpoints, bytes) = (
			SELECT count(*), coalesce(sum(octet_length(c.record) + coalesce(octet_length(c.control), octet_length(c.echo), 0) + coalesce(octet_length(c.metadata), 0)), 0)
				+ (SELECT coalesce(sum(octet_length(k.data)), 0) FROM {schema}.chunk k WHERE k.line = $1)
			FROM {schema}.checkpoint c WHERE c.line = $1) WHERE id = $1`),
		headBack: in(`UPDATE {schema}.line SET rev = rev + 1, head = (SELECT c.id FROM {schema}.checkpoint c WHERE c.line = $1 ORDER BY c.id DESC LIMIT 1) WHERE id = $1`),
		collectRuns: in(`DELETE FROM {schema}.run r WHERE r.thread = $1 AND NOT EXISTS (
			SELECT FROM {schema}.line l JOIN {schema}.checkpoint c ON c.line = l.id WHERE l.thread = $1 AND c.run = r.id)`),
		deleteLine:      in(`DELETE FROM {schema}.line l WHERE l.id = $1`),
		deleteThreadRow: in(`DELETE FROM {schema}.thread t WHERE t.id = $1 AND t.epoch = 0 AND NOT EXISTS (SELECT FROM {schema}.line l WHERE l.thread = $1)`),
	}
}

// sums computes the totals of a thread t: the counters of its lines, plus data that
// changes so often, or is so small, that it is summed on demand.
const sums = `SELECT max(l.head::text) FILTER (WHERE octet_length(l.path) = 0) AS head, coalesce(sum(l.checkpoints), 0)::bigint AS checkpoints,
	(coalesce(sum(l.bytes), 0)
	+ coalesce(sum((SELECT sum(octet_length(p.data)) FROM {schema}.pending p WHERE p.line = l.id)), 0)
	+ coalesce((SELECT sum(octet_length(r.name) + coalesce(octet_length(r.metadata), 0)) FROM {schema}.run r WHERE r.thread = t.id), 0))::bigint AS bytes
	FROM {schema}.line l WHERE l.thread = t.id`
