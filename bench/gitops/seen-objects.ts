import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { machineTime } from '../support/machine-time.ts'
import { collections, toolLabel } from './objects.ts'

/** Objects of one tool in the API server's watches, as they come. */
export class SeenObjects {
  readonly #admin: ApiClient
  readonly #tool: string
  readonly #stop = new AbortController()
  /** version in each object, by uid */
  readonly #versions = new Map<string, string>()
  #lastAt = 0
  #wake: () => void = () => undefined

  constructor(admin: ApiClient, tool: string) {
    this.#admin = admin
    this.#tool = tool
  }

  start(): void {
    const selector = encodeURIComponent(`${toolLabel}=${this.#tool}`)
    for (const path of collections) void this.#follow(`${path}?labelSelector=${selector}`)
  }

  stop(): void {
    this.#stop.abort()
  }

  /** @returns time when the last of `count` came, by the machine's clock. ms */
  count(count: number, signal: AbortSignal): Promise<number> {
    return this.#until(() => this.#versions.size >= count, signal)
  }

  /** @returns time when the last of `count` objects had this version. ms */
  version(version: string, count: number, signal: AbortSignal): Promise<number> {
    const says = () => Array.from(this.#versions.values()).filter((one) => one === version).length
    return this.#until(() => says() >= count, signal)
  }

  async #until(isThere: () => boolean, signal: AbortSignal): Promise<number> {
    while (!isThere()) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      this.#wake = resolve
      const late = () => reject(signal.reason)
      signal.addEventListener('abort', late, { once: true })
      await promise.finally(() => signal.removeEventListener('abort', late))
    }
    return this.#lastAt
  }

  async #follow(path: string): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        for await (const { type, object } of this.#admin.watch(path, signal)) {
          if (type === 'ADDED' || type === 'MODIFIED')
            this.#versions.set(object.metadata.uid, object.data?.version ?? '')
          else if (type === 'DELETED') this.#versions.delete(object.metadata.uid)
          this.#lastAt = machineTime()
          this.#wake()
        }
      } catch (error) {
        if (!signal.aborted) throw error
      }
    }
  }
}
