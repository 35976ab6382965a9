import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn, kindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly, ObjectList, type Refusal } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { inventoryLabel } from '../manifests/annotations.ts'
import { isParent } from '../manifests/parents.ts'
import type { SourceOptions } from '../source-options.ts'
import type { ClusterKind, ClusterKinds } from './cluster-kinds.ts'
import { type LiveObject, liveObjectOf } from './live-object.ts'
import { type IgnoredOf, nothingIgnored } from './managed-fields.ts'

/** objects, or definitions, in a page: some 4 KiB of metadata each */
const pageSize = 500
/** limit for one page, with its wait for a turn. ms */
const pageTimeoutMs = 120_000
/** Up to so many objects of a kind are read one by one. */
const maxGets = 10
/** Limit of namespaces and definitions that are read for what blocks their deletion. */
const maxEnding = 20
/** Up to so many namespaces are listed one by one; above, the whole cluster is. */
const maxLists = 5
/** Limit of orphans of one kind: anybody who may write an object can mark it. */
const maxOrphans = 100
/** Statuses of a list that is not allowed, not there, or not offered: objects of the kind are read one by one. */
const refusals: ReadonlySet<number> = new Set([403, 404, 405])

export interface ReadLiveComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  readonly kinds: ClusterKinds
  /** rules of the source for an object; absent: there are none */
  readonly ignoredOf?: (key: ObjectKey) => IgnoredOf
  /** takes the metadata of each object that is listed or read here */
  readonly onMetadata?: (key: ObjectKey, object: KubernetesObject, live: LiveObject) => void
  /** lists objects by watches that begin now; absent: none does */
  readonly watched?: WatchedList | undefined
}

/**
 * Passes on the objects of a kind with the source's label, as the first list of a watch shows them.
 *
 * @returns false: the kind is to be listed. @throws the signal's reason
 */
export type WatchedList = (
  kind: ClusterKind,
  onObject: (key: ObjectKey, live: LiveObject) => void,
  signal: AbortSignal,
) => Promise<boolean>

export type ReadLiveOptions = Pick<SourceOptions, 'id' | 'manager' | 'namespaces'>

/** State in the cluster of the objects that a source wants, or has made. */
export interface LiveObjects {
  /** by `keyText`; absent: it does not exist; null: it cannot be read */
  readonly objects: ReadonlyMap<string, LiveObject | null>
  /** objects with the source's marks that its inventory does not have, up to a limit by kind */
  readonly orphans: readonly ObjectKey[]
}

interface Wanted {
  readonly key: ObjectKey
  readonly version: string
  /** empty: it has not been made yet */
  readonly uid: string
}

/**
 * Reads one list for each kind by the source's label, then the missing objects, by further lists or one by one. Objects
 * in several versions of a kind are read in one of them: their metadata are the same in each.
 *
 * @throws the connection's error, or the signal's reason
 */
export async function readLiveObjects(
  wanted: Iterable<Wanted>,
  components: ReadLiveComponents,
  options: ReadLiveOptions,
  signal: AbortSignal,
): Promise<LiveObjects> {
  const { kinds } = components
  const objects = new Map<string, LiveObject | null>()
  /** by `kindKey` */
  const byKind = new Map<string, readonly [ClusterKind, ObjectKey[]]>()
  const unserved: ObjectKey[] = []
  for (const { key, version, uid } of wanted) {
    const kind = kinds.find(key, version) ?? kinds.find(key)
    const known = byKind.get(kindKey(key.group, key.kind))
    if (kind && known) known[1].push(key)
    else if (kind) byKind.set(kindKey(key.group, key.kind), [kind, [key]])
    else if (kinds.isStale(key.group)) objects.set(keyText(key), null)
    else if (uid !== '') unserved.push(key)
  }
  for (const key of await hidden(unserved, components.lane, signal)) objects.set(keyText(key), null)
  const found = await Promise.all(
    Array.from(byKind.values(), ([kind, keys]) => new KindReader(kind, components, options, signal).read(keys)),
  )
  for (const { objects: some } of found) for (const [text, live] of some) objects.set(text, live)
  await readEnding([...byKind.values()], objects, components.lane, options, signal)
  return { objects, orphans: found.flatMap(({ orphans }) => orphans) }
}

/** Reads namespaces and definitions that are being deleted: their status has the reason. */
async function readEnding(
  byKind: readonly (readonly [ClusterKind, readonly ObjectKey[]])[],
  objects: Map<string, LiveObject | null>,
  lane: ApiLane,
  { manager }: ReadLiveOptions,
  signal: AbortSignal,
): Promise<void> {
  const ending = byKind.flatMap(([kind, keys]) =>
    keys.filter((key) => isParent(key) && objects.get(keyText(key))?.isBeingDeleted).map((key) => ({ kind, key })),
  )
  for (const { kind, key } of ending.slice(0, maxEnding)) {
    const { status, body } = await lane.json('GET', objectPath(kind, key), undefined, signal, {
      maxBytes: maxEventBytes,
    })
    if (status === 200) objects.set(keyText(key), liveObjectOf(body as KubernetesObject, manager))
  }
}

/** Returns the objects that may exist although their kind is not served: it is still defined. */
async function hidden(
  unserved: readonly ObjectKey[],
  lane: ApiLane,
  signal: AbortSignal,
): Promise<readonly ObjectKey[]> {
  if (unserved.length === 0) return []
  const defined = await definedKinds(new Set(unserved.map(({ group }) => group)), lane, signal)
  return defined ? unserved.filter(({ group, kind }) => defined.has(kindKey(group, kind))) : unserved
}

const definitions = builtIn.customResourceDefinitions
/**
 * Returns the kinds of some groups that the cluster defines, served or not, by `kindKey`.
 *
 * @returns undefined: they cannot be read. @throws the connection's error, or the signal's reason
 */
async function definedKinds(
  groups: ReadonlySet<string>,
  lane: ApiLane,
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const options = { path: collectionPath(definitions), accept: metadataOnly.list, pageSize, timeoutMs: pageTimeoutMs }
  const list = new ObjectList(lane, options)
  const names: string[] = []
  for (let isLast = false; !isLast; ) {
    const page = await list.page(signal)
    if (!('items' in page)) return undefined
    names.push(...page.items.map((item) => textAt(item, 'metadata.name')))
    isLast = page.isLast
  }
  // `widgets.example.com`: the group follows the first dot
  const some = names.filter((name) => groups.has(name.slice(name.indexOf('.') + 1)))
  const read = async (name: string) =>
    lane.json('GET', objectPath(definitions, { name }), undefined, signal, {
      maxBytes: maxEventBytes,
    })
  const answers = await Promise.all(some.map(read))
  if (answers.some(({ status }) => status !== 200 && status !== 404)) return undefined
  return new Set(answers.map(({ body }) => kindKey(textAt(body, 'spec.group'), textAt(body, 'spec.names.kind'))))
}

/** True if only single objects can be read: somebody may have marked an object that no list can have. */
function isUnlistable({ status, count }: Refusal): boolean {
  return refusals.has(status) || count !== undefined
}

/** Reads objects of one kind. */
class KindReader {
  readonly #kind: ClusterKind
  readonly #components: ReadLiveComponents
  readonly #options: ReadLiveOptions
  readonly #signal: AbortSignal

  constructor(kind: ClusterKind, components: ReadLiveComponents, options: ReadLiveOptions, signal: AbortSignal) {
    this.#kind = kind
    this.#components = components
    this.#options = options
    this.#signal = signal
  }

  async read(keys: readonly ObjectKey[]): Promise<{ objects: Map<string, LiveObject | null>; orphans: ObjectKey[] }> {
    const { id, namespaces } = this.#options
    const wanted = new Set(keys.map(keyText))
    const objects = new Map<string, LiveObject | null>()
    const orphans: ObjectKey[] = []
    const where = this.#kind.isNamespaced ? (namespaces ?? ['']) : ['']
    const onObject = (key: ObjectKey, live: LiveObject) => {
      if (wanted.has(keyText(key))) objects.set(keyText(key), live)
      else if (live.owner === id && orphans.length < maxOrphans) orphans.push(key)
    }
    const isWatched = await this.#components.watched?.(this.#kind, onObject, this.#signal)
    const outcome = isWatched ? 'listed' : await this.#list(where, `${inventoryLabel}=${id}`, onObject)
    const missing = keys.filter((key) => !objects.has(keyText(key)))
    if (outcome === 'unavailable') for (const key of missing) objects.set(keyText(key), null)
    else await this.#readMissing(missing, outcome === 'listed', objects)
    return { objects, orphans }
  }

  /** Reads objects that the list by label did not have: they do not exist, or are not marked. */
  async #readMissing(
    keys: readonly ObjectKey[],
    mayList: boolean,
    objects: Map<string, LiveObject | null>,
  ): Promise<void> {
    if (mayList && keys.length > maxGets) {
      const namespaces = [...new Set(keys.map(({ namespace }) => namespace))]
      const where = this.#options.namespaces || namespaces.length <= maxLists ? namespaces : ['']
      const wanted = new Set(keys.map(keyText))
      const outcome = await this.#list(where, undefined, (key, live) => {
        if (wanted.has(keyText(key))) objects.set(keyText(key), live)
      })
      if (outcome === 'listed') return
    }
    await Promise.all(keys.map(async (key) => this.#get(key, objects)))
  }

  async #get(key: ObjectKey, objects: Map<string, LiveObject | null>): Promise<void> {
    const options = { accept: metadataOnly.object, maxBytes: maxEventBytes }
    const path = objectPath(this.#kind, key)
    const { status, body } = await this.#components.lane.json('GET', path, undefined, this.#signal, options)
    if (status === 200) objects.set(keyText(key), this.#liveOf(key, body as KubernetesObject))
    else if (status !== 404) objects.set(keyText(key), null)
  }

  /** @param where - namespaces; `''`: all of them, or the cluster's scope */
  async #list(
    where: readonly string[],
    selector: string | undefined,
    onObject: (key: ObjectKey, live: LiveObject) => void,
  ): Promise<'listed' | 'refused' | 'unavailable'> {
    const outcomes = await Promise.all(where.map((namespace) => this.#listOne(namespace, selector, onObject)))
    return outcomes.find((outcome) => outcome !== 'listed') ?? 'listed'
  }

  async #listOne(
    namespace: string,
    selector: string | undefined,
    onObject: (key: ObjectKey, live: LiveObject) => void,
  ): Promise<'listed' | 'refused' | 'unavailable'> {
    const { group, kind } = this.#kind
    const path = withQuery(collectionPath(this.#kind, namespace), { labelSelector: selector })
    const options = { path, accept: metadataOnly.list, pageSize, timeoutMs: pageTimeoutMs }
    const list = new ObjectList(this.#components.lane, options)
    for (;;) {
      const page = await list.page(this.#signal)
      if (!('items' in page)) return isUnlistable(page) ? 'refused' : 'unavailable'
      for (const item of page.items as KubernetesObject[]) {
        const key = { group, kind, namespace: textAt(item, 'metadata.namespace'), name: textAt(item, 'metadata.name') }
        onObject(key, this.#liveOf(key, item))
      }
      if (page.isLast) return 'listed'
    }
  }

  #liveOf(key: ObjectKey, object: KubernetesObject): LiveObject {
    const { ignoredOf = () => nothingIgnored, onMetadata } = this.#components
    const live = liveObjectOf(object, this.#options.manager, ignoredOf(key))
    onMetadata?.(key, object, live)
    return live
  }
}
