import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { Pool } from 'undici'
import { largeBytes } from './contents.ts'

/** URL and headers of requests. */
export interface Target {
  readonly origin: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly tls?: { ca: string; cert: string; key: string }
}

export interface LoadResult {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly perSecond: number
}

/**
 * Sends `count` GETs, `inFlight` at a time, each on a kept connection. @throws Error if one is not answered 200 in full
 */
export async function load(target: Target, inFlight: number, count: number): Promise<LoadResult> {
  const pool = open(target, inFlight)
  const times: number[] = []
  const one = async () => {
    const began = performance.now()
    const { statusCode, body } = await pool.request({ path: target.path, method: 'GET', headers: target.headers })
    const bytes = (await body.bytes()).length
    if (statusCode !== 200 || bytes < 1024)
      throw new Error(`${target.origin}${target.path}: ${statusCode}, ${bytes} bytes`)
    times.push(performance.now() - began)
  }
  await Promise.all(Array.from({ length: inFlight }, one)) // opens and warms connections
  times.length = 0
  const began = performance.now()
  let left = count
  const worker = async () => {
    while (left-- > 0) await one()
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  const seconds = (performance.now() - began) / 1000
  await pool.destroy()
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.floor((times.length - 1) * share)] as number
  return { p50Ms: at(0.5), p99Ms: at(0.99), perSecond: count / seconds }
}

/** Reads one large body. @returns MB a second */
export async function download(target: Target): Promise<number> {
  const pool = open(target, 1)
  const began = performance.now()
  const { statusCode, body } = await pool.request({ path: target.path, method: 'GET', headers: target.headers })
  let bytes = 0
  for await (const chunk of body) bytes += (chunk as Buffer).length
  const seconds = (performance.now() - began) / 1000
  await pool.destroy()
  if (statusCode !== 200 || bytes < 1024 * 1024) throw new Error(`${target.path}: ${statusCode}, ${bytes} bytes`)
  return bytes / 1e6 / seconds
}

/** Sends one large body that repeats one chunk. @returns MB a second */
export async function upload(target: Target, chunk: Buffer): Promise<number> {
  const pool = open(target, 1)
  const began = performance.now()
  const { statusCode, body } = await pool.request({
    path: target.path,
    method: 'POST',
    headers: { ...target.headers, 'content-length': String(largeBytes) },
    body: Readable.from(copies(chunk)),
  })
  const said = await body.text()
  const seconds = (performance.now() - began) / 1000
  await pool.destroy()
  if (statusCode !== 200) throw new Error(`${target.path}: ${statusCode}, ${said}`)
  return largeBytes / 1e6 / seconds
}

function* copies(chunk: Buffer): Iterable<Buffer> {
  for (let left = largeBytes; left > 0; left -= chunk.length) yield chunk
}

function open({ origin, tls }: Target, connections: number): Pool {
  const files = tls && { ca: readFileSync(tls.ca), cert: readFileSync(tls.cert), key: readFileSync(tls.key) }
  return new Pool(origin, { connections, pipelining: 1, ...(files ? { connect: files } : {}) })
}
