import type { ApiClient } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import { mergePatch } from './merge-patch.ts'

const everyMs = 250
/** config maps that exist at once */
const keptMaps = 3
const wanted = 1000

/** One deployment in each namespace whose status changes all the time, and objects that come and go. */
export class Beats {
  readonly #admin: ApiClient
  readonly #namespaces: readonly string[]
  #count = 0

  constructor(admin: ApiClient, namespaces: readonly string[]) {
    this.#admin = admin
    this.#namespaces = namespaces
  }

  async create(): Promise<void> {
    const labels = { app: 'beat' }
    const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'none' }] } }
    for (const namespace of this.#namespaces) {
      await this.#admin.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
        metadata: { name: 'beat' },
        spec: { replicas: wanted, selector: { matchLabels: labels }, template },
      })
    }
  }

  /** @returns ends it; resolves after the last change */
  begin(): () => Promise<void> {
    const stop = new AbortController()
    const ended = this.#run(stop.signal)
    ended.catch(() => undefined) // awaited at the end
    return () => {
      stop.abort()
      return ended
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const number = ++this.#count
      await Promise.all(this.#namespaces.map((namespace) => this.#beat(namespace, number)))
      await delay(everyMs, signal).catch(() => undefined)
    }
  }

  async #beat(namespace: string, number: number): Promise<void> {
    const admin = this.#admin
    const ready = number % wanted
    const status = { replicas: wanted, updatedReplicas: wanted, readyReplicas: ready, availableReplicas: ready }
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/beat/status`
    await mergePatch(admin, path, { status: { ...status, observedGeneration: 1 } })
    const maps = `/api/v1/namespaces/${namespace}/configmaps`
    await admin.create(maps, { metadata: { name: `map-${number}` } })
    if (number > keptMaps) await admin.request(`${maps}/map-${number - keptMaps}`, { method: 'DELETE' })
  }
}
