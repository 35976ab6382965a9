import { Agent, type Dispatcher, request } from 'undici'
import { delay } from '../../src/lib/signals.ts'
import { eventually } from './eventually.ts'
import type { TornDown } from './processes.ts'

export interface SteadyWatchOptions {
  /** URL of a collection */
  url: string
  /** PEM */
  ca: string
  token: string
}

/** pause between two tries of requests that must not fail. ms */
const retryMs = 100
const timeoutMs = 30_000

/** The part of an object that this needs. */
interface Named {
  metadata: { name: string; resourceVersion: string }
}

/**
 * Follows a collection as an informer does: a list, then watches, each from the end of the last one. It lists again
 * when the API server has forgotten that place. It repeats requests after an answer with `Retry-After`.
 */
export class SteadyWatch {
  /** names of objects, in the order in which they came */
  readonly seen: string[] = []
  /** requests without an answer, or with a wrong one */
  readonly failures: string[] = []
  /** number of begun watches */
  watches = 0
  readonly #options: SteadyWatchOptions
  readonly #dispatcher: Agent
  readonly #stop = new AbortController()
  readonly #listeners = new Set<() => void>()

  private constructor(options: SteadyWatchOptions) {
    this.#options = options
    this.#dispatcher = new Agent({ connect: { ca: options.ca }, headersTimeout: 0, bodyTimeout: 0 })
  }

  /** Resolves when a watch is open. */
  static async start(t: TornDown, options: SteadyWatchOptions): Promise<SteadyWatch> {
    const watch = new SteadyWatch(options)
    t.teardown(() => watch.#end())
    void watch.#run()
    await watch.#until(() => watch.watches > 0, 'a watch')
    return watch
  }

  /** Resolves when the object has been seen. @throws Error after 30 s */
  sees(name: string): Promise<void> {
    return this.#until(() => this.seen.includes(name), name)
  }

  async #end(): Promise<void> {
    this.#stop.abort()
    await this.#dispatcher.destroy()
  }

  async #run(): Promise<void> {
    let version: string | undefined
    while (!this.#stop.signal.aborted) {
      try {
        version = version === undefined ? await this.#list() : await this.#watch(version)
      } catch (error) {
        if (!this.#stop.signal.aborted) this.failures.push(String(error))
        await delay(retryMs)
      }
    }
  }

  /** @returns version from which a watch may begin */
  async #list(): Promise<string> {
    const { body, statusCode } = await this.#ask('')
    if (statusCode !== 200) throw new Error(`list: ${statusCode} ${await body.text()}`)
    const { items, metadata } = (await body.json()) as { items: Named[]; metadata: { resourceVersion: string } }
    for (const { metadata } of items) if (!this.seen.includes(metadata.name)) this.#see(metadata.name)
    return metadata.resourceVersion
  }

  /** @returns version from which the next one may begin; undefined: a list must come first */
  async #watch(from: string): Promise<string | undefined> {
    const { body, statusCode } = await this.#ask(`?watch=1&resourceVersion=${from}`)
    if (statusCode !== 200) throw new Error(`watch: ${statusCode} ${await body.text()}`)
    this.watches++
    this.#tell()
    let version = from
    let rest = ''
    try {
      for await (const chunk of body.setEncoding('utf8')) {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          const { type, object } = JSON.parse(line) as { type: string; object: Named & { code?: number } }
          if (object.code === 410) return undefined
          version = object.metadata.resourceVersion
          if (type === 'ADDED') this.#see(object.metadata.name)
        }
      }
    } catch {
      // cut: all events so far are complete
    }
    return version
  }

  async #ask(query: string): Promise<Dispatcher.ResponseData> {
    const { url, token } = this.#options
    const { signal } = this.#stop
    for (;;) {
      const headers = { authorization: `Bearer ${token}` }
      const answer = await request(`${url}${query}`, { dispatcher: this.#dispatcher, headers, signal })
      const after = answer.headers['retry-after']
      if (after === undefined || answer.headers['kas-delivery']) return answer
      await answer.body.dump()
      await delay(Number(after) * 1000, signal)
    }
  }

  #see(name: string): void {
    this.seen.push(name)
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }

  async #until(condition: () => boolean, what: string): Promise<void> {
    const check = () => {
      if (!condition()) throw new Error(`no ${what}; ${this.failures.length} failures, first ${this.failures[0]}`)
    }
    const onChange = (listener: () => void) => {
      this.#listeners.add(listener)
      return () => void this.#listeners.delete(listener)
    }
    await eventually(check, { timeoutMs, onChange })
  }
}
