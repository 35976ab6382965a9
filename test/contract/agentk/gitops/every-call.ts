import type { Test } from 'tap'
import { type KubernetesObject, listAt, textAt } from '../../../../src/agentk/health/object.ts'
import { ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/marks.ts'
import { keyText } from '../../../../src/agentk/modules/gitops/manifests/object-key.ts'
import { type Ground, keyOf } from './ground.ts'
import { type Fault, type Files, Pod } from './pod.ts'

/** Rounds that meet a fault at each of their calls, one after another, and what is in the cluster then. */

const namespace = 'shop'
const valueAnnotation = 'example.com/value'
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

/** All objects of the kinds that commits bring, by `keyText`. */
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

/** One commit after another of one source: half of the objects stay, of these half change; the others leave and come. */
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

  /** What the cluster holds at a commit: values by `keyText`. */
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
      const { kind, group } = kinds[Math.floor(index / 3) % kinds.length] as (typeof kinds)[number]
      const name = `p${this.#projectId}-${stays ? 'stays' : ['even', 'odd'][commit % 2]}-${index}`
      const value = Math.floor(index / 2) % 2 === 0 ? `${commit}` : 'as ever'
      return { key: keyOf(kind, name, namespace, group), value, wave: index % 3 }
    })
  }
}

interface EveryCallOptions {
  readonly projectId: bigint
  /** of each commit */
  readonly objects: number
}

/** Beside the source's own: nobody's, another inventory's, and one that bears its label alone. */
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

/** The source's objects are the commit's, and so is its inventory; objects that stay are the same, strangers untouched. */
class Judge {
  readonly #t: Test
  readonly #ground: Ground
  readonly #commits: Commits
  readonly #strangers: ReadonlyMap<string, Seen | undefined>
  readonly #uids = new Map<string, string>()

  private constructor(t: Test, ground: Ground, commits: Commits, others: ReadonlyMap<string, Seen | undefined>) {
    this.#t = t
    this.#ground = ground
    this.#commits = commits
    this.#strangers = others
  }

  static async start(t: Test, ground: Ground, commits: Commits, projectId: bigint): Promise<Judge> {
    const keys = await strangers(ground, commits.id, projectId)
    const seen = await objectsOf(ground)
    return new Judge(t, ground, commits, new Map(keys.map((key) => [key, seen.get(key)])))
  }

  /** What bears the source's marks is in its inventory, at any moment. */
  async nothingForgotten(where: string): Promise<void> {
    const known = await this.#commits.pod().entries()
    const forgotten = (await this.#own()).map(([key]) => key).filter((key) => !known.has(key))
    this.#t.strictSame(forgotten, [], `${where}: no orphans`)
  }

  async isAt(commit: number, where: string): Promise<void> {
    const own = await this.#own()
    const values = new Map(own.map(([key, { value }]) => [key, value]))
    const wanted = this.#commits.wanted(commit)
    this.#t.strictSame(sorted(values), sorted(wanted), `${where}: as the commit has them`)
    const known = await this.#commits.pod().entries()
    this.#t.strictSame([...known.keys()].sort(), [...wanted.keys()].sort(), `${where}: and the inventory`)
    const again = own.filter(([key, { uid }]) => /-stays-/.test(key) && (this.#uids.get(key) ?? uid) !== uid)
    this.#t.strictSame(again, [], `${where}: what stays was not made again`)
    for (const [key, { uid }] of own) this.#uids.set(key, uid)
    const seen = await objectsOf(this.#ground)
    for (const [key, before] of this.#strangers) this.#t.strictSame(seen.get(key), before, `${where}: ${key} untouched`)
  }

  /** What is there of the commit is as it has it: a deletion of what came back as it was may have been taken. */
  async nothingOlder(commit: number, where: string): Promise<void> {
    const wanted = this.#commits.wanted(commit)
    const older = (await this.#own()).filter(([key, { value }]) => value !== (wanted.get(key) ?? value))
    this.#t.strictSame(older, [], `${where}: nothing older`)
  }

  async #own(): Promise<[string, Seen][]> {
    return [...(await objectsOf(this.#ground))].filter(([, { owner }]) => owner === this.#commits.id)
  }
}

function sorted(values: ReadonlyMap<string, string>): readonly (readonly [string, string])[] {
  return [...values].sort(([one], [other]) => (one < other ? -1 : 1))
}

/** @returns the calls of a round */
export async function killedAtEachCall(
  t: Test,
  ground: Ground,
  { projectId, objects, is }: EveryCallOptions & { is: 'unsent' | 'unanswered' },
): Promise<number> {
  const commits = new Commits(ground, { projectId, objects })
  const judge = await Judge.start(t, ground, commits, projectId)
  await commits.pod().bring(commits.files(0))
  for (let at = 1; ; at++) {
    const pod = commits.pod({ at, is })
    await pod.bring(commits.files(at)).catch((error: unknown) => {
      if (!pod.isKilled) throw error
    })
    await pod.landed()
    await judge.nothingForgotten(`killed at ${at}`)
    const { orphans } = await commits.pod().bring(commits.files(at))
    t.strictSame(orphans, [], `after ${at}: no orphans`)
    await judge.isAt(at, `after ${at}`)
    if (!pod.isKilled) return at - 1
  }
}

/** @returns the calls of a round */
export async function frozenAtEachCall(
  t: Test,
  ground: Ground,
  { projectId, objects }: EveryCallOptions,
): Promise<number> {
  const commits = new Commits(ground, { projectId, objects })
  const judge = await Judge.start(t, ground, commits, projectId)
  await commits.pod().bring(commits.files(0))
  for (let at = 1, commit = 0; ; at++) {
    const [older, newer] = [commit + 1, commit + 2]
    commit = newer
    const frozen = commits.pod({ at, is: 'held' })
    const round = frozen.bring(commits.files(older))
    const isFrozen = await Promise.race([frozen.frozen.then(() => true), round.then(() => false)])
    const next = commits.pod()
    await next.bring(commits.files(newer), { isSettling: true })
    frozen.thaw()
    await Promise.allSettled([round])
    await frozen.landed()
    await judge.nothingOlder(newer, `thawed at ${at}`)
    await judge.nothingForgotten(`thawed at ${at}`)
    const { orphans } = await next.bring(commits.files(newer))
    t.strictSame(orphans, [], `settled after ${at}: no orphans`)
    await judge.isAt(newer, `settled after ${at}`)
    if (!isFrozen) return at - 1
  }
}
