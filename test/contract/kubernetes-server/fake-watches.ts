import type { Call } from '../../../src/call/call.ts'
import type { KasError } from '../../../src/lib/errors.ts'
import type { Headers, HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'

/** A watch as the cluster sees it. */
export class FakeWatch {
  readonly header: HttpRequestHeader
  readonly call: Call
  readonly #told: (Uint8Array | KasError | 'end')[] = []
  #changed: (() => void) | undefined

  constructor(header: HttpRequestHeader, call: Call) {
    this.header = header
    this.call = call
  }

  /** Sends bytes of the body. */
  say(text: string | Uint8Array): this {
    return this.#tell(data(text))
  }

  /** @param resourceVersion - undefined: the event has none, and a watch cannot resume after it */
  event(name: string, type = 'ADDED', resourceVersion?: string): this {
    return this.say(`${JSON.stringify({ type, object: { metadata: { name, resourceVersion } } })}\n`)
  }

  end(how: KasError | 'end' = 'end'): void {
    this.#tell(how)
  }

  /** Resolves when kas has cancelled the watch. */
  get cancelled(): Promise<void> {
    const { signal } = this.call
    return new Promise((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
  }

  async *answer(statusCode = 200): AsyncGenerator<Uint8Array, void, void> {
    const json: Headers = [['Content-Type', ['application/json']]]
    yield head(statusCode, json)
    for (;;) {
      const next = this.#told.shift()
      if (next === undefined) await this.#change()
      else if (next === 'end') break
      else if (next instanceof Uint8Array) yield next
      else throw next
    }
    yield trailer
  }

  #tell(what: Uint8Array | KasError | 'end'): this {
    this.#told.push(what)
    this.#changed?.()
    return this
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#changed = resolve
    })
  }
}

/** A cluster. The test answers its watches one by one. */
export class FakeWatches {
  readonly all: FakeWatch[] = []
  readonly forward = clusterForward(this.#cluster())
  readonly #statusCode: number
  readonly #refusals = new Map<number, { readonly statusCode: number; readonly status: object }>()
  #changed: (() => void) | undefined

  constructor(statusCode = 200) {
    this.#statusCode = statusCode
  }

  /** Returns the watch number `n`, counted from 0. */
  async nth(n: number): Promise<FakeWatch> {
    for (;;) {
      const watch = this.all[n]
      if (watch) return watch
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
  }

  /** Refuses the watch number `n`, counted from 0. */
  refuse(n: number, statusCode: number, status: object): void {
    this.#refusals.set(n, { statusCode, status })
  }

  #cluster(): Cluster {
    const begin = (header: HttpRequestHeader, call: Call) => {
      const watch = new FakeWatch(header, call)
      const refusal = this.#refusals.get(this.all.length)
      if (refusal) watch.say(JSON.stringify(refusal.status)).end()
      this.all.push(watch)
      this.#changed?.()
      return watch.answer(refusal?.statusCode ?? this.#statusCode)
    }
    return ({ header, call }) => begin(header, call)
  }
}
