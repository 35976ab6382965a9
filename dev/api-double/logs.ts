import type { ServerResponse } from 'node:http'
import { fieldAt, type KubeObject } from './kube-object.ts'
import { containersOf } from './resources.ts'
import { StatusError } from './status-error.ts'

export interface LogOptions {
  /** interval of the lines. ms */
  readonly lineEveryMs: number
  /** length of the past part of a log, in lines */
  readonly pastLines: number
  /** current time. ms since 1970 */
  readonly now: () => number
}

/** Number of lines in one write, some 16 KiB, as a kubelet writes. */
const linesAtOnce = 256

/**
 * Serves a pod's log: its lines follow from the time since the pod's start, so that none is stored. With `follow` it
 * goes on until the client leaves; a client that pauses gets the missed lines later.
 *
 * @throws StatusError 400 for an unknown container or an invalid number
 */
export function serveLog(pod: KubeObject, query: URLSearchParams, response: ServerResponse, options: LogOptions): void {
  checkContainer(pod, query)
  const log = new PodLog(pod, options)
  const line =
    query.get('timestamps') === 'true' ? (i: number) => `${log.time(i)} ${log.text(i)}` : (i: number) => log.text(i)
  const follow = query.get('follow') === 'true'
  const { length } = log // once: another line may be due at any time
  const last = follow ? Number.POSITIVE_INFINITY : length
  let next = firstLine(length, query, options)
  let bytesLeft = count(query, 'limitBytes') ?? Number.POSITIVE_INFINITY
  const writeDue = () => {
    while (next < Math.min(log.length, last) && bytesLeft > 0 && !response.writableNeedDrain) {
      const end = Math.min(next + linesAtOnce, log.length, last)
      const lines = Array.from({ length: end - next }, (_, i) => `${line(next + i)}\n`)
      next = end
      const bytes = Buffer.from(lines.join('')).subarray(0, bytesLeft)
      bytesLeft -= bytes.length
      response.write(bytes)
    }
    if (next >= last || bytesLeft === 0) response.end()
  }
  response.writeHead(200, { 'Content-Type': 'text/plain' })
  response.flushHeaders()
  const timer = follow ? setInterval(writeDue, options.lineEveryMs) : undefined
  response.on('drain', writeDue)
  response.once('close', () => clearInterval(timer))
  writeDue()
}

class PodLog {
  readonly #name: string
  readonly #startedAt: number
  readonly #options: LogOptions

  constructor(pod: KubeObject, options: LogOptions) {
    this.#name = pod.metadata.name
    this.#startedAt = Date.parse(String(fieldAt(pod, 'status.startTime')))
    this.#options = options
  }

  /** number of lines so far */
  get length(): number {
    return Math.max(1, Math.floor((this.#options.now() - this.#startedAt) / this.#options.lineEveryMs) + 1)
  }

  time(index: number): string {
    return new Date(this.#startedAt + index * this.#options.lineEveryMs).toISOString()
  }

  text(index: number): string {
    return `${this.time(index).slice(11, 19)} ${this.#name}: line ${index + 1} of the embedded API double`
  }
}

function firstLine(length: number, query: URLSearchParams, options: LogOptions): number {
  const { lineEveryMs, pastLines } = options
  const tail = count(query, 'tailLines') ?? pastLines
  const since = count(query, 'sinceSeconds')
  const sinceTime = query.get('sinceTime')
  const pastMs = since !== undefined ? since * 1000 : sinceTime ? options.now() - Date.parse(sinceTime) : undefined
  const recent = pastMs === undefined ? pastLines : Math.ceil(pastMs / lineEveryMs)
  return Math.max(0, length - Math.min(tail, pastLines, Number.isFinite(recent) ? recent : pastLines))
}

function count(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new StatusError(400, `${name} is no count`)
}

function checkContainer(pod: KubeObject, query: URLSearchParams): void {
  const container = query.get('container')
  if (container && !containersOf(pod).some(({ name }) => name === container)) {
    throw new StatusError(400, `container ${container} is not valid for pod ${pod.metadata.name}`)
  }
  if (query.get('previous') === 'true') {
    throw new StatusError(400, `previous terminated container in pod ${JSON.stringify(pod.metadata.name)} not found`)
  }
}
