import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import { namespaces, type PushedSources, soakLabel } from './pushed-sources.ts'

/** interval of checks of another process. ms */
const askAgainMs = 500
const watched = `/api/v1/configmaps?labelSelector=${encodeURIComponent(soakLabel)}`

/** The ConfigMaps of the sources in the API server's watch, one write after another. */
export class WrittenMaps {
  readonly #admin: ApiClient
  readonly #stop = new AbortController()
  /** highest number of a push so far, by ConfigMap */
  readonly #newest = new Map<string, number>()
  /** ConfigMaps that an older commit wrote after a newer one, a line each */
  readonly steppedBack: string[] = []
  /** writes of commits so far */
  writes = 0

  constructor(admin: ApiClient) {
    this.#admin = admin
  }

  start(): void {
    void this.#follow()
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Waits until the cluster equals Git, or the time is over. @returns the differences, a line each */
  async differences(sources: PushedSources, limitMs: number, signal: AbortSignal): Promise<readonly string[]> {
    const late = AbortSignal.timeout(limitMs)
    for (;;) {
      const found = (await Promise.all(namespaces.map((name) => this.#differences(name, sources)))).flat()
      if (found.length === 0 || late.aborted) return found
      await delay(askAgainMs, signal)
    }
  }

  async #differences(namespace: string, sources: PushedSources): Promise<string[]> {
    const path = `/api/v1/namespaces/${namespace}/configmaps?labelSelector=${encodeURIComponent(soakLabel)}`
    const { items } = await this.#admin.get(path)
    const there = new Map<string, string>(
      items.map(({ metadata, data }: KubernetesObject) => [metadata.name, data?.push]),
    )
    const held = sources.held(namespace)
    const wrong = [...held].filter(([name, push]) => there.get(name) !== String(push))
    const more = [...there.keys()].filter((name) => !held.has(name))
    return [
      ...wrong.map(([name, push]) => `${namespace}/${name} is of ${there.get(name) ?? 'no push'}, not of ${push}`),
      ...more.map((name) => `${namespace}/${name} has left the repository`),
    ]
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        for await (const { type, object } of this.#admin.watch(watched, signal)) {
          if (type === 'ADDED' || type === 'MODIFIED') this.#seen(object)
        }
      } catch (error) {
        if (!signal.aborted) throw error
      }
    }
  }

  #seen({ metadata, data }: KubernetesObject): void {
    const push = Number(data?.push)
    if (!Number.isInteger(push)) return // another writer's
    const name = `${metadata.namespace}/${metadata.name}`
    const newest = this.#newest.get(name) ?? 0
    this.writes += 1
    if (push < newest) this.steppedBack.push(`${name}: ${push} after ${newest}`)
    this.#newest.set(name, Math.max(push, newest))
  }
}
