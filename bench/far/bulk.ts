import { readFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { Pool } from 'undici'
import type { Target } from '../hop/load.ts'

/** Speed of one large answer. */
export interface Bulk {
  readonly mbPerSecond: number
  /** time from the request to the end of the first million bytes */
  readonly firstMs: number
}

/** window of a stream in client-go's HTTP/2; that of its connection is practically unlimited */
const directWindowBytes = 4 * 1024 * 1024
const directConnectionBytes = 1024 * 1024 * 1024

/** Reads from the API server itself over HTTP/2, on an open connection. */
export async function directly({ origin, path, tls }: Target): Promise<Bulk> {
  const files = tls && { ca: readFileSync(tls.ca), cert: readFileSync(tls.cert), key: readFileSync(tls.key) }
  const session = connect(origin, { ...files, settings: { initialWindowSize: directWindowBytes } })
  await new Promise<void>((resolve, reject) => session.once('error', reject).once('remoteSettings', () => resolve()))
  session.setLocalWindowSize(directConnectionBytes)
  const began = performance.now()
  const bulk = await measured(began, session.request({ ':path': path }))
  session.close()
  return bulk
}

/** Reads through kas, on an open connection. */
export async function through({ origin, path, headers }: Target): Promise<Bulk> {
  const pool = new Pool(origin, { connections: 1, pipelining: 1 })
  await pool.request({ path: '/version', method: 'GET', headers }).then(({ body }) => body.dump())
  const began = performance.now()
  const { statusCode, body } = await pool.request({ path, method: 'GET', headers })
  if (statusCode !== 200) throw new Error(`${origin}${path}: ${statusCode} ${await body.text()}`)
  const bulk = await measured(began, body)
  await pool.destroy()
  return bulk
}

async function measured(began: number, body: AsyncIterable<Buffer>): Promise<Bulk> {
  let bytes = 0
  let firstMs = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (firstMs === 0 && bytes >= 1e6) firstMs = performance.now() - began
  }
  if (bytes < 10e6) throw new Error(`only ${bytes} bytes`)
  return { mbPerSecond: bytes / 1000 / (performance.now() - began), firstMs }
}
