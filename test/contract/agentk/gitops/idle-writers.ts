import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { delay } from '../../../../src/lib/signals.ts'
import type { Kubectl } from '../../../support/kubectl.ts'
import type { Ground } from './ground.ts'

/** Writers that work on a source's objects all the time, and change nothing that Git sets. */

export interface IdleWritersOptions {
  /** objects with a status, which is written ten times a second */
  readonly status: readonly ObjectKey[]
  /** objects, as Git has them, to which other tools apply the same values */
  readonly same: readonly { readonly key: ObjectKey; readonly object: ObjectTree }[]
  /** arguments of `kubectl scale`: `deployment/web` */
  readonly scaled: readonly string[]
}

/** Numbers of writes that the API server has taken. */
export interface WriteCounts {
  readonly status: number
  readonly same: number
  readonly scale: number
}

export class IdleWriters {
  readonly #ground: Ground
  readonly #kubectl: Kubectl
  readonly #options: IdleWritersOptions
  readonly #stopped = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  #counts = { status: 0, same: 0, scale: 0 }

  constructor({ ground, kubectl }: { ground: Ground; kubectl: Kubectl }, options: IdleWritersOptions) {
    this.#ground = ground
    this.#kubectl = kubectl
    this.#options = options
  }

  get counts(): WriteCounts {
    return { ...this.#counts }
  }

  start(): void {
    const { status, same, scaled } = this.#options
    this.#running = Promise.all([
      ...status.map((key) => this.#every(100, (i) => this.#writeStatus(key, i))),
      ...same.map((one) => this.#every(2000, (i) => this.#writeSame(one, i))),
      this.#every(3000, (i) => this.#scale(scaled[i % scaled.length] as string, i)),
    ])
    this.#running.catch(() => undefined) // `stop` throws it
  }

  /** @throws the first failure of a writer */
  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#running
  }

  async #every(periodMs: number, write: (i: number) => Promise<void>): Promise<void> {
    const { signal } = this.#stopped
    for (let i = 0; !signal.aborted; i++) {
      const next = performance.now() + periodMs
      await write(i)
      await delay(Math.max(0, next - performance.now()), signal).catch(() => undefined)
    }
  }

  /** Writes a status as a controller does. An autoscaler reads the one of a Crew. */
  async #writeStatus(key: ObjectKey, i: number): Promise<void> {
    const condition = { type: 'Beat', status: i % 2 ? 'True' : 'False', reason: 'Beat', message: String(i) }
    const conditions = [{ ...condition, lastTransitionTime: new Date().toISOString() }]
    const status = key.kind === 'Crew' ? { replicas: 2, selector: 'app=crew', conditions } : { conditions }
    await this.#ground.merge(key, { status }, 'beats', 'status')
    this.#counts.status += 1
  }

  /** Four tools: two apply the values as they are stored, one puts the whole object, one patches it. */
  async #writeSame(
    { key, object }: { readonly key: ObjectKey; readonly object: ObjectTree },
    i: number,
  ): Promise<void> {
    const { client } = this.#ground
    const path = this.#ground.path(key)
    const live = await this.#ground.get(key)
    const stored = asStored(object, live)
    const [tool, method, body, type] = (
      [
        ['argocd-controller', 'PATCH', stored, 'application/apply-patch+yaml'],
        ['kustomize-controller', 'PATCH', stored, 'application/apply-patch+yaml'],
        ['helm', 'PUT', live, 'application/json'],
        ['kubectl-patch', 'PATCH', sameContent(live), 'application/json-patch+json'],
      ] as const
    )[i % 4] as [string, string, unknown, string]
    const query = `fieldManager=${tool}${type.includes('apply') ? '&force=true' : ''}`
    const answer = await client.json(method, `${path}?${query}`, body, undefined, { contentType: type })
    if (answer.status === 409 && method === 'PUT') return // the status was written meanwhile
    if (answer.status !== 200) throw new Error(`${tool} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    this.#counts.same += 1
  }

  async #scale(name: string, i: number): Promise<void> {
    await this.#kubectl.ok(['scale', name, `--replicas=${2 + (i % 3)}`])
    this.#counts.scale += 1
  }
}

/** Returns a JSON patch that sets what an object has. */
function sameContent({ spec, data }: ObjectTree): readonly object[] {
  const [path, value] = spec === undefined ? ['/data', data] : ['/spec', spec]
  return [{ op: 'replace', path, value }]
}

/** Returns the fields of a manifest with the values that the API server has stored for them, as far as it has any. */
// biome-ignore lint/suspicious/noExplicitAny: any object of Kubernetes
export function asStored(object: any, live: any): any {
  if (Array.isArray(object) && Array.isArray(live) && object.length === live.length) {
    return object.map((item, i) => asStored(item, live[i]))
  }
  if (typeof object !== 'object' || object === null || typeof live !== 'object' || live === null) return live
  return Object.fromEntries(
    Object.entries(object).flatMap(([name, value]) => {
      const stored = asStored(value, live[name])
      return stored === undefined ? [] : [[name, stored]]
    }),
  )
}
