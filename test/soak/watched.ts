import type { IncomingMessage } from 'node:http'
import type { Kube } from './kube.ts'

/** Names of the objects in the events of a watch, and a way to wait for one. */
export class Watched {
  readonly names = new Set<string>()
  readonly #answer: IncomingMessage
  readonly #stop: AbortController
  #wanted: { name: string; met: PromiseWithResolvers<void> } | undefined
  #end: Error | undefined
  #rest = ''

  private constructor(answer: IncomingMessage, stop: AbortController) {
    this.#answer = answer
    this.#stop = stop
    answer.setEncoding('utf8')
    answer.on('data', (chunk: string) => this.#read(chunk))
    answer.once('error', (error) => this.#ended(error))
    answer.once('end', () => this.#ended(new Error('the watch ended')))
  }

  /** @param path - of the collection, with `watch=1` @throws Error if the answer is not 200 */
  static async open(kube: Kube, path: string): Promise<Watched> {
    const stop = new AbortController()
    const answer = await kube.open(path, { signal: stop.signal })
    if (answer.statusCode !== 200) {
      stop.abort()
      throw new Error(`${path}: ${answer.statusCode}`)
    }
    return new Watched(answer, stop)
  }

  /** Resolves once the watch has shown `name`. @throws Error if it has ended before, or the signal's reason */
  async sees(name: string, signal: AbortSignal): Promise<void> {
    if (this.names.has(name)) return
    if (this.#end) throw this.#end
    const met = Promise.withResolvers<void>()
    this.#wanted = { name, met }
    const onAbort = () => met.reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await met.promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** True if it has ended, although `close` was not called. */
  get broken(): boolean {
    return this.#end !== undefined
  }

  close(): void {
    this.#answer.on('error', () => undefined) // this end is ours
    this.#stop.abort()
  }

  #read(chunk: string): void {
    const lines = (this.#rest + chunk).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.names.add(JSON.parse(line).object.metadata?.name)
    if (this.#wanted && this.names.has(this.#wanted.name)) this.#wanted.met.resolve()
  }

  #ended(error: Error): void {
    this.#end ??= error
    this.#wanted?.met.reject(error)
  }
}
