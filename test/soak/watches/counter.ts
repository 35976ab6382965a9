import type { ApiClient } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'

export const counterName = 'counter'

/** A Lease whose holder is a number, which grows by one so many times a second. It is written without kas. */
export class Counter {
  readonly #admin: ApiClient
  readonly #path: string
  readonly #perSecond: number
  #value = 0
  #isStopping = false
  #running: Promise<void> | undefined

  constructor(admin: ApiClient, { path, perSecond }: { path: string; perSecond: number }) {
    this.#admin = admin
    this.#path = path
    this.#perSecond = perSecond
  }

  /** Value of the last write. */
  get value(): number {
    return this.#value
  }

  async start(): Promise<void> {
    await this.#admin.create(this.#path, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: counterName },
      spec: { holderIdentity: '0' },
    })
    this.#running = this.#count()
    this.#running.catch(() => undefined) // awaited by `stop`
  }

  /** @returns the last value */
  async stop(): Promise<number> {
    this.#isStopping = true
    await this.#running
    return this.#value
  }

  async #count(): Promise<void> {
    const began = performance.now()
    for (let i = 1; !this.#isStopping; i++) {
      await delay(Math.max(0, began + (i * 1000) / this.#perSecond - performance.now()))
      const answer = await this.#admin.request(`${this.#path}/${counterName}`, {
        method: 'PATCH',
        contentType: 'application/merge-patch+json',
        body: { spec: { holderIdentity: String(this.#value + 1) } },
      })
      if (answer.status !== 200) throw new Error(`the counter: ${answer.status} ${answer.body}`)
      this.#value++
    }
  }
}
