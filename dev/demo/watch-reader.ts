import { createInterface } from 'node:readline'
import type { Caller } from './caller.ts'
import { configMaps } from './ledger.ts'

/** A watch of ConfigMaps of one label, with its events in order. */
export class WatchReader {
  /** name of the caller */
  readonly name: string
  /** events such as `ADDED a`, in order */
  readonly events: string[] = []
  /** reason of an end by itself; undefined: it runs */
  ended: string | undefined
  readonly #closing = new AbortController()
  readonly #waiting = new Set<() => void>()

  private constructor(name: string) {
    this.name = name
  }

  /**
   * Resolves once the API server answers; only later changes are seen.
   *
   * @throws Error for another answer than 200
   */
  static async open(caller: Caller, label: string): Promise<WatchReader> {
    const reader = new WatchReader(caller.name)
    const listed = await caller.ask(`${configMaps}?limit=1`)
    const version = (JSON.parse(listed.body) as { metadata?: { resourceVersion?: string } }).metadata?.resourceVersion
    const path = `${configMaps}?watch=true&resourceVersion=${version}&labelSelector=${encodeURIComponent(label)}`
    const { statusCode, body } = await caller.open(path, { signal: reader.#closing.signal })
    if (statusCode !== 200) throw new Error(`a watch through ${caller.name}: ${statusCode} ${await body.text()}`)
    void reader.#read(createInterface({ input: body }), body)
    return reader
  }

  /** Resolves once it has seen so many events, or has ended, or `signal` aborts. */
  async seen(count: number, signal: AbortSignal): Promise<void> {
    while (this.events.length < count && this.ended === undefined && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#waiting.add(resolve)
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  close(): void {
    this.#closing.abort()
  }

  async #read(lines: AsyncIterable<string>, body: NodeJS.EventEmitter): Promise<void> {
    body.on('error', (error: Error) => this.#end(error.message))
    try {
      for await (const line of lines) {
        const { type, object } = JSON.parse(line) as { type: string; object: { metadata?: { name?: string } } }
        if (type !== 'BOOKMARK') this.events.push(`${type} ${object.metadata?.name}`)
        this.#tell()
      }
      this.#end('it ended in order')
    } catch (error) {
      this.#end((error as Error).message)
    }
  }

  #end(why: string): void {
    this.ended ??= why
    this.#tell()
  }

  #tell(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}
