import type { ApiClient, JsonOptions } from '../../../../src/agentk/cluster/api-client.ts'
import type { ApiRequest, ApiResponseHandler } from '../../../../src/agentk/cluster/api-request.ts'
import type { WatchEvent } from '../../../../src/agentk/cluster/watch-request.ts'

/** A request for JSON that waits for the test's answer. */
export interface Ask {
  readonly path: string
  readonly query: URLSearchParams
  readonly accept: string
  readonly headers: readonly string[]
  answer(status: number, body?: unknown): Promise<void>
  fail(error: unknown): Promise<void>
}

/** A watch that sends only the bytes and events that the test gives. */
export interface Watch {
  readonly path: string
  readonly query: URLSearchParams
  readonly accept: string
  /** the client has ended the watch */
  readonly isAborted: boolean
  readonly isPaused: boolean
  open(status?: number): Promise<void>
  tell(...events: WatchEvent[]): Promise<void>
  bytes(chunk: Buffer): Promise<void>
  end(): Promise<void>
  cut(): Promise<void>
}

/** An API server. The test gives every answer, in the order of the requests. */
export class ScriptedApi implements Pick<ApiClient, 'json' | 'send'> {
  readonly #asks: Ask[] = []
  readonly #watches: Watch[] = []

  /** Returns the oldest request for JSON that the test has not taken yet, only of `path` if that is given. */
  async ask(path?: string): Promise<Ask> {
    await settled()
    return take(this.#asks, path)
  }

  async watch(path?: string): Promise<Watch> {
    await settled()
    return take(this.#watches, path)
  }

  /** Paths of the requests that the test has not taken yet. */
  async waiting(): Promise<string[]> {
    await settled()
    return [...this.#asks, ...this.#watches].map(({ path }) => path)
  }

  json(
    _method: string,
    target: string,
    _body?: unknown,
    signal?: AbortSignal,
    options: JsonOptions = {},
  ): Promise<{ status: number; body: unknown }> {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: unknown }>()
    signal?.addEventListener('abort', () => reject(signal.reason))
    this.#asks.push({
      ...targetOf(target),
      accept: options.accept ?? '',
      headers: options.headers ?? [],
      answer: (status, body) => {
        resolve({ status, body })
        return settled()
      },
      fail: (error) => {
        reject(error)
        return settled()
      },
    })
    return promise
  }

  send({ path, headers }: ApiRequest, handler: ApiResponseHandler): ReturnType<ApiClient['send']> {
    let isOver = false
    let isAborted = false
    let isPaused = false
    const over = (action: () => void) => {
      if (!isOver) {
        isOver = true
        action()
      }
      return settled()
    }
    const bytes = (chunk: Buffer) => {
      if (!isOver) handler.onData(chunk)
      return settled()
    }
    this.#watches.push({
      ...targetOf(path),
      accept: headers[1] ?? '',
      get isAborted() {
        return isAborted
      },
      get isPaused() {
        return isPaused
      },
      open: (status = 200) => {
        handler.onHead(status, '', [])
        return settled()
      },
      tell: (...events) => bytes(Buffer.from(events.map((event) => `${JSON.stringify(event)}\n`).join(''))),
      bytes,
      end: () => over(() => handler.onEnd()),
      cut: () => over(() => handler.onError(new Error('cut'))),
    })
    const exchange = {
      abort: (reason: unknown) => {
        isAborted = true
        void over(() => handler.onError(reason))
      },
      pause: () => {
        isPaused = true
      },
      resume: () => {
        isPaused = false
      },
    }
    return exchange as ReturnType<ApiClient['send']>
  }
}

function targetOf(target: string): { path: string; query: URLSearchParams } {
  const [path = '', query] = target.split('?')
  return { path, query: new URLSearchParams(query) }
}

/** Resolves when everything that needs no timer has run. */
async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
}

function take<T extends { readonly path: string }>(waiting: T[], path: string | undefined): T {
  const found = waiting.findIndex((each) => path === undefined || each.path === path)
  const [taken] = found < 0 ? [] : waiting.splice(found, 1)
  if (!taken)
    throw new Error(`not asked for ${path ?? 'anything'}, but for ${waiting.map((each) => each.path).join(', ')}`)
  return taken
}
