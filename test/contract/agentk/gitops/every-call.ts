import { ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { keyText, type ObjectKey } from '../../../../src/kubernetes/key.ts'
import { type KubernetesObject, listAt, textAt } from '../../../../src/kubernetes/object.ts'
import { type Ground, keyOf } from './ground.ts'
import { type Fault, type Files, Pod } from './pod.ts'

/** Rounds that meet a fault at each of their calls in turn, and the state of the cluster after each. */

const namespace = 'shop'
const valueAnnotation = 'example.com/value'
/** part of the names of objects that each commit has */
const staying = 'stays'
const rbac = 'rbac.authorization.k8s.io'
const kinds = [
  { kind: 'ConfigMap', group: '', collection: `/api/v1/namespaces/${namespace}/configmaps` },
  { kind: 'ServiceAccount', group: '', collection: `/api/v1/namespaces/${namespace}/serviceaccounts` },
  { kind: 'Role', group: rbac, collection: `/apis/${rbac}/v1/namespaces/${namespace}/roles` },
] as const

interface Seen {
  readonly owner: string
  readonly value: string
  readonly uid: string
  readonly resourceVersion: string
}

/** Returns all objects of the kinds in the commits, by `keyText`. */
async function objectsOf(ground: Ground): Promise<ReadonlyMap<string, Seen>> {
  const seen = new Map<string, Seen>()
  for (const { kind, group, collection } of kinds) {
    const { status, body } = await ground.client.json('GET', collection, undefined, undefined, { maxBytes: 1 << 24 })
    if (status !== 200) throw new Error(`${collection}: ${status}`)
    for (const { metadata } of listAt(body, 'items') as readonly KubernetesObject[]) {
      const annotations = ((metadata as KubernetesObject).annotations ?? {}) as Readonly<Record<string, string>>
      const key = keyOf(kind, textAt(metadata, 'name'), namespace, group)
      seen.set(keyText(key), {
        owner: annotations[ownerAnnotation] ?? '',
        value: annotations[valueAnnotation] ?? '',
        uid: textAt(metadata, 'uid'),
        resourceVersion: textAt(metadata, 'resourceVersion'),
      })
    }
  }
  return seen
}

/** Commits of one source. Half of the objects stay, and three in four of these change. The others leave and come. */
class Commits {
  readonly #ground: Ground
  readonly #projectId: bigint
  readonly #objects: number
  readonly id: string

  constructor(ground: Ground, { projectId, objects }: { projectId: bigint; objects: number }) {
    this.#ground = ground
    this.#projectId = projectId
    this.#objects = objects
    this.id = this.pod().options.id
  }

  pod(fault?: Fault): Pod {
    const block = { prune_limit: '100%' }
    return new Pod(this.#ground, { projectId: this.#projectId, block, ...(fault && { fault }) })
  }

  /** Objects in the cluster at a commit: values by `keyText`. */
  wanted(commit: number): ReadonlyMap<string, string> {
    return new Map(this.#all(commit).map(({ key, value }) => [keyText(key), value]))
  }

  files(commit: number): Files {
    return Object.fromEntries(
      this.#all(commit).map(({ key, value, wave }) => {
        const annotations = { [valueAnnotation]: value, 'argocd.argoproj.io/sync-wave': String(wave) }
        const apiVersion = key.group === '' ? 'v1' : `${key.group}/v1`
        const object = { apiVersion, kind: key.kind, metadata: { name: key.name, annotations } }
        return [`${key.name}.json`, JSON.stringify(object)]
      }),
    )
  }

  #all(commit: number) {
    return Array.from({ length: this.#objects }, (_, index) => {
      const stays = index < this.#objects / 2
      const { kind, group } = kinds[index % kinds.length] as (typeof kinds)[number]
      const name = `p${this.#projectId}-${stays ? staying : ['even', 'odd'][commit % 2]}-${index}`
      const value = index % 4 < 3 ? `${commit}` : 'as ever'
      return { key: keyOf(kind, name, namespace, group), value, wave: (index + Math.floor(index / 4)) % 3 }
    })
  }
}

interface EveryCallOptions {
  readonly projectId: bigint
  /** number of objects of each commit */
  readonly objects: number
}

/** Creates objects beside the source's own: without marks, of another inventory, and with this source's label only. */
async function strangers(ground: Ground, id: string, projectId: bigint): Promise<readonly string[]> {
  const all: Readonly<Record<string, object>> = {
    nobodys: {},
    others: { annotations: { [ownerAnnotation]: '41-1' }, labels: { 'agent.gitlab.com/inventory': '41-1' } },
    labelled: { labels: { 'agent.gitlab.com/inventory': id } },
  }
  const keys = Object.entries(all).map(([name, marks]) => ({ key: keyOf('ConfigMap', `p${projectId}-${name}`), marks }))
  for (const { key, marks } of keys) await ground.create(key, { metadata: { name: key.name, ...marks } })
  return keys.map(({ key }) => keyText(key))
}

/** Finds faults: objects of the source outside the commit or the inventory, and strangers' objects that changed. */
class Judge {
  readonly #ground: Ground
  readonly #commits: Commits
  readonly #strangers: ReadonlyMap<string, Seen | undefined>
  readonly #uids = new Map<string, string>()
  readonly failures: string[] = []

  private constructor(ground: Ground, commits: Commits, others: ReadonlyMap<string, Seen | undefined>) {
    this.#ground = ground
    this.#commits = commits
    this.#strangers = others
  }

  static async start(ground: Ground, commits: Commits, projectId: bigint): Promise<Judge> {
    const keys = await strangers(ground, commits.id, projectId)
    const seen = await objectsOf(ground)
    return new Judge(ground, commits, new Map(keys.map((key) => [key, seen.get(key)])))
  }

  /** Checks that each object with the source's marks is in the inventory. This is true at any moment. */
  async nothingForgotten(where: string): Promise<void> {
    const known = await this.#commits.pod().entries()
    for (const [key] of await this.#own()) if (!known.has(key)) this.#fail(where, `${key} is forgotten`)
  }

  /** Checks that no object has an older value. An object may be absent: a late deletion may still remove it. */
  async nothingOlder(commit: number, where: string): Promise<void> {
    const wanted = this.#commits.wanted(commit)
    for (const [key, { value }] of await this.#own()) {
      if (value !== (wanted.get(key) ?? value)) this.#fail(where, `${key} has ${value}, not ${wanted.get(key)}`)
    }
  }

  async isAt(commit: number, orphans: readonly ObjectKey[], where: string): Promise<void> {
    const seen = await objectsOf(this.#ground)
    const own = new Map(this.#ownOf(seen))
    const wanted = this.#commits.wanted(commit)
    const known = await this.#commits.pod().entries()
    for (const key of orphans) this.#fail(where, `${keyText(key)} is an orphan`)
    for (const key of new Set([...own.keys(), ...known.keys(), ...wanted.keys()])) {
      const [found, value] = [own.get(key), wanted.get(key)]
      if (found?.value !== value) this.#fail(where, `${key} has ${found?.value}, not ${value}`)
      if (known.has(key) !== wanted.has(key))
        this.#fail(where, `${key} is ${known.has(key) ? '' : 'not '}in the inventory`)
      const uid = this.#uids.get(key)
      if (uid !== undefined && found && found.uid !== uid) this.#fail(where, `${key} was made again`)
      if (found && key.includes(`-${staying}-`)) this.#uids.set(key, found.uid)
    }
    for (const [key, before] of this.#strangers) {
      if (JSON.stringify(seen.get(key)) !== JSON.stringify(before)) this.#fail(where, `${key} was touched`)
    }
  }

  async #own(): Promise<[string, Seen][]> {
    return this.#ownOf(await objectsOf(this.#ground))
  }

  #ownOf(seen: ReadonlyMap<string, Seen>): [string, Seen][] {
    return [...seen].filter(([, { owner }]) => owner === this.#commits.id)
  }

  #fail(where: string, what: string): void {
    this.failures.push(`${where}: ${what}`)
  }
}

export interface EveryCall {
  /** number of calls in a round */
  readonly calls: number
  /** faults; empty: none */
  readonly failures: readonly string[]
}

/** Kills a round at each of its calls. The next pod repeats the round. */
export async function killedAtEachCall(
  ground: Ground,
  { projectId, objects, kind }: EveryCallOptions & { readonly kind: 'unsent' | 'unanswered' },
): Promise<EveryCall> {
  const commits = new Commits(ground, { projectId, objects })
  const judge = await Judge.start(ground, commits, projectId)
  await commits.pod().bring(commits.files(0))
  for (let at = 1; ; at++) {
    const pod = commits.pod({ at, kind })
    await pod.bring(commits.files(at)).catch((error: unknown) => {
      if (!pod.isKilled) throw error
    })
    await pod.landed()
    await judge.nothingForgotten(`killed at ${at}`)
    const { orphans } = await commits.pod().bring(commits.files(at))
    await judge.isAt(at, orphans, `after ${at}`)
    if (!pod.isKilled) return { calls: at - 1, failures: judge.failures }
  }
}

/** Freezes a round at each of its calls. It thaws after the next pod has applied a newer commit. */
export async function frozenAtEachCall(ground: Ground, { projectId, objects }: EveryCallOptions): Promise<EveryCall> {
  const commits = new Commits(ground, { projectId, objects })
  const judge = await Judge.start(ground, commits, projectId)
  await commits.pod().bring(commits.files(0))
  for (let at = 1, commit = 0; ; at++) {
    const [older, newer] = [commit + 1, commit + 2]
    commit = newer
    const frozen = commits.pod({ at, kind: 'held' })
    const round = frozen.bring(commits.files(older))
    const isFrozen = await Promise.race([frozen.frozen.then(() => true), round.then(() => false)])
    const next = commits.pod()
    await next.bring(commits.files(newer), { mayHaveCallsInFlight: true })
    frozen.thaw()
    await Promise.allSettled([round])
    await frozen.landed()
    await judge.nothingOlder(newer, `thawed at ${at}`)
    await judge.nothingForgotten(`thawed at ${at}`)
    const { orphans } = await next.bring(commits.files(newer))
    await judge.isAt(newer, orphans, `settled after ${at}`)
    if (!isFrozen) return { calls: at - 1, failures: judge.failures }
  }
}
