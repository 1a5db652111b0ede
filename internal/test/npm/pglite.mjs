// A Postgres with pgvector, of the kind that runs in Node.js: see internal/pgtest.
// It prints its port when it answers, and ends with its input.
import { PGlite } from '@electric-sql/pglite'
import { vector } from '@electric-sql/pglite-pgvector'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'

process.stdin.resume()
process.stdin.once('end', () => process.exit(0))

const db = await PGlite.create({ extensions: { vector } })
const port = Number(process.argv[2])
await new PGLiteSocketServer({ db, host: '127.0.0.1', port, maxConnections: 16 }).start()
console.log(port)
