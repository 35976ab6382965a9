import { createHash } from 'node:crypto'
import { conditionStatus } from '../../../../kubernetes/conditions.ts'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn, kindKey } from '../../../../kubernetes/kind.ts'
import { at, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly, ObjectList } from '../../../cluster/object-list.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import { lossOf, withLoss } from '../manifests/losses.ts'
import { isNamespace } from '../manifests/parents.ts'

/** Objects that are deleted with a namespace or a definition, also those of others. */
export interface Dependents {
  /** `2 ConfigMap, 1 Secret: ConfigMap a, ConfigMap b, Secret c`; empty: none */
  readonly text: string
  /** of their uids; empty: none */
  readonly digest: string
  /** the first of them, as `Kind/name`; of a definition with their namespace: `Kind/namespace/name` */
  readonly names: readonly string[]
  /** number of the others */
  readonly more: number
  /** uids of all objects found, also of those that have a controller among them */
  readonly seen: ReadonlySet<string>
}

/** Contents that cannot be listed, so that nobody can approve their deletion. */
export interface NotListed {
  readonly refused: string
  /** agentk may not list them: it does not try again by itself */
  readonly isForbidden: boolean
}

/** Kinds of objects that come and go all the time, and do not count. */
const transient: ReadonlySet<string> = new Set([
  'Event',
  'events.k8s.io/Event',
  'coordination.k8s.io/Lease',
  'discovery.k8s.io/EndpointSlice',
  'Endpoints',
])
const claimKind = 'PersistentVolumeClaim'
/** Objects that Kubernetes makes in each namespace. */
const everywhere: ReadonlySet<string> = new Set(['/ConfigMap/kube-root-ca.crt', '/ServiceAccount/default'])
/** Limit of namespaces and definitions in one plan; the rest is decided upon when these are deleted. */
const maxParents = 20
/** Limit of objects that would be deleted with these, in one plan. */
const maxObjects = 20_000
/** Limit of names in one plan; other objects are counted. */
const maxNames = 100
/** Limit of names in a list for one namespace or definition. */
const maxListed = 20
/** Limits of a text, below that of a state's field: names, and numbers by kind. Bytes */
const maxBytes = { names: 8000, counts: 4000 }
/** objects in a page: metadata alone */
const pageSize = 500
/** limit for a page, with its wait for a turn behind all applies. ms */
const pageTimeoutMs = 300_000
/** Statuses of a kind that is not served, or has no list: none of its objects is stored. */
const empty: ReadonlySet<number> = new Set([404, 405])

export interface DependentsComponents {
  /** acts as agentk itself, which may see more than the source's account; all other requests go first */
  readonly lane: ApiLane
  /** reads the current kinds */
  readonly kinds: (signal: AbortSignal) => Promise<ClusterKinds>
}

interface Found {
  readonly kind: string
  readonly name: string
  readonly uid: string
  /** uid of its controller; empty: none */
  readonly controller: string
}

/** Finds the objects that would be deleted with the namespaces and definitions of one plan. */
export class DependentsOfPlan {
  readonly #components: DependentsComponents
  readonly #own: ReadonlySet<string>
  #objectsLeft = maxObjects
  #namesLeft = maxNames

  /** @param own - uids of objects that the same plan deletes: the plan lists them itself */
  constructor(components: DependentsComponents, own: ReadonlySet<string>) {
    this.#components = components
    this.#own = own
  }

  /** Lists one parent after another. @returns by `keyText`. @throws the connection's error, or the signal's reason */
  async list(parents: readonly ObjectKey[], signal: AbortSignal): Promise<ReadonlyMap<string, Dependents | NotListed>> {
    const all = new Map<string, Dependents | NotListed>()
    const kinds = await this.#components.kinds(signal)
    for (const [index, parent] of parents.entries()) {
      const tooMany = `more than ${maxParents} namespaces and definitions would go at once: it is one of the later ones`
      all.set(keyText(parent), index < maxParents ? await this.#planned(parent, kinds, signal) : notListed(tooMany))
    }
    return all
  }

  /**
   * Lists the objects again, right before the parent is deleted.
   *
   * @returns the reason to keep it; undefined: nothing has come since the plan. @throws as `list`
   */
  async cameSince(parent: ObjectKey, planned: Dependents, signal: AbortSignal): Promise<string | undefined> {
    this.#objectsLeft = maxObjects
    const now = await this.#found(parent, await this.#components.kinds(signal), signal)
    if ('refused' in now) return now.refused
    const came = now.counted.filter(({ uid }) => !planned.seen.has(uid)).length
    return came === 0 ? undefined : `${came} objects that would go with it have come since`
  }

  async #planned(parent: ObjectKey, known: ClusterKinds, signal: AbortSignal): Promise<Dependents | NotListed> {
    const found = await this.#found(parent, known, signal)
    if ('refused' in found) return found
    const { counted, seen } = found
    const text = textOf(counted, this.#namesLeft)
    this.#namesLeft = Math.max(0, this.#namesLeft - counted.length)
    const names = counted.slice(0, maxListed).map(({ kind, name }) => `${kind}/${name}`)
    return { text, digest: digestOf(counted), names, more: counted.length - names.length, seen }
  }

  /** @returns `counted`: objects without a controller among those found */
  async #found(
    parent: ObjectKey,
    known: ClusterKinds,
    signal: AbortSignal,
  ): Promise<{ readonly counted: readonly Found[]; readonly seen: ReadonlySet<string> } | NotListed> {
    const kinds = await this.#kindsOf(parent, known, signal)
    if ('refused' in kinds) return kinds
    const all = new Map<string, Found>()
    for (const kind of kinds) {
      const found = await this.#add(all, kind, parent, signal)
      if (found) return found
    }
    const isKept = keptByOthers(all, this.#own)
    const counted = [...all.values()].filter(({ uid }) => !this.#own.has(uid) && !isKept(uid))
    return { counted, seen: new Set(all.keys()) }
  }

  /** @returns the reason for which it cannot be listed */
  async #add(
    all: Map<string, Found>,
    kind: ClusterKind,
    parent: ObjectKey,
    signal: AbortSignal,
  ): Promise<NotListed | undefined> {
    const path = collectionPath(kind, isNamespace(parent) ? parent.name : '')
    const { lane } = this.#components
    const list = new ObjectList(lane, { path, accept: metadataOnly.list, pageSize, timeoutMs: pageTimeoutMs })
    for (;;) {
      const page = await list.page(signal)
      if (!('items' in page)) {
        const isAbsent = empty.has(page.status) && (isNamespace(parent) || !(await this.#isEstablished(parent, signal)))
        if (isAbsent) return undefined
        const text = `${kind.plural} cannot be listed: the API server answered ${page.status}`
        return notListed(text, page.status === 403)
      }
      const before = all.size
      for (const item of page.items as KubernetesObject[]) add(all, kind, item, isNamespace(parent))
      this.#objectsLeft -= all.size - before
      if (this.#objectsLeft < 0) return notListed(`there are more than ${maxObjects}`)
      if (page.isLast) return undefined
    }
  }

  /** Returns the kinds to list, each in one version: all namespaced kinds for a namespace, its own for a definition. */
  async #kindsOf(
    parent: ObjectKey,
    kinds: ClusterKinds,
    signal: AbortSignal,
  ): Promise<readonly ClusterKind[] | NotListed> {
    if (isNamespace(parent)) {
      if (!kinds.isWhole) return notListed('the API server cannot say now of which kinds it has objects')
      return kinds.listable.filter(
        ({ isNamespaced, group, kind }) => isNamespaced && !transient.has(kindKey(group, kind)),
      )
    }
    const own = kinds.listable.filter(({ plural, group }) => parent.name === `${plural}.${group}`)
    if (own.length > 0 || !(await this.#isEstablished(parent, signal))) return own
    return notListed('its kind is not served now, and there may be objects of it')
  }

  /** True if the definition was established; otherwise it has no objects. */
  async #isEstablished({ name }: ObjectKey, signal: AbortSignal): Promise<boolean> {
    const path = objectPath(builtIn.customResourceDefinitions, { name })
    const { status, body } = await this.#components.lane.json('GET', path, undefined, signal)
    if (status === 404) return false
    return status !== 200 || conditionStatus(body, 'Established') === 'True'
  }
}

function notListed(refused: string, isForbidden = false): NotListed {
  return { refused, isForbidden }
}

function add(all: Map<string, Found>, { group, kind }: ClusterKind, item: KubernetesObject, isInside: boolean): void {
  const [uid, name, namespace] = ['uid', 'name', 'namespace'].map((key) => textAt(item, `metadata.${key}`)) as [
    string,
    string,
    string,
  ]
  if (uid === '' || everywhere.has(`${group}/${kind}/${name}`)) return // not stored, or not counted
  const owner = listAt(item, 'metadata.ownerReferences').find((one) => at(one, 'controller') === true)
  const shown = isInside || namespace === '' ? name : `${namespace}/${name}`
  all.set(uid, { kind: group === '' ? kind : `${kind}.${group}`, name: shown, uid, controller: textAt(owner, 'uid') })
}

/**
 * Finds objects that a controller keeps, also over several steps: they come and go with it, and are not counted.
 * Objects that control each other in a circle all count.
 */
function keptByOthers(all: ReadonlyMap<string, Found>, own: ReadonlySet<string>): (uid: string) => boolean {
  const ends = new Map<string, string>()
  const endOf = (uid: string): string => {
    const chain = new Set<string>()
    let end: string | undefined
    for (let at = uid; end === undefined; ) {
      chain.add(at)
      const controller = all.get(at)?.controller ?? ''
      if (own.has(controller)) end = 'own'
      else if (!all.has(controller)) end = at
      else if (chain.has(controller)) end = 'circle'
      else end = ends.get(controller)
      at = controller
    }
    for (const one of chain) ends.set(one, end)
    return end
  }
  return (uid) => {
    const end = ends.get(uid) ?? endOf(uid)
    return end !== 'circle' && end !== uid
  }
}

/** Returns the number of objects by kind, and some of their names. */
function textOf(all: readonly Found[], maxNames: number): string {
  if (all.length === 0) return ''
  const counts = [...Map.groupBy(all, ({ kind }) => kind)].map(([kind, found]) => `${found.length} ${kind}`)
  const names = all.map(({ kind, name }) => `${kind} ${name}`).sort()
  const claims = all.some(({ kind }) => kind === claimKind) ? lossOf({ group: '', kind: claimKind }) : ''
  const text = `${listText(counts.sort(), counts.length, maxBytes.counts)}: ${listText(names, maxNames, maxBytes.names)}`
  return withLoss(text, claims)
}

/** Returns as many as there is room for, and the number of the others. */
function listText(all: readonly string[], maxCount: number, max: number): string {
  const shown: string[] = []
  let bytes = 0
  for (const one of all) {
    bytes += Buffer.byteLength(one) + 2
    if (shown.length >= maxCount || bytes > max) break
    shown.push(one)
  }
  const more = all.length - shown.length
  return [...shown, ...(more > 0 ? [`${more} more`] : [])].join(', ')
}

function digestOf(all: readonly Found[]): string {
  if (all.length === 0) return ''
  const uids = all.map(({ uid }) => uid).sort()
  return createHash('sha256').update(uids.join()).digest('hex')
}
