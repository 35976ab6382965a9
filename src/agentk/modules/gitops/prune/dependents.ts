import { createHash } from 'node:crypto'
import type { ApiLane } from '../../../cluster/api-lanes.ts'
import { metadataOnly, ObjectList } from '../../../cluster/object-list.ts'
import { at, type KubernetesObject, listAt, textAt } from '../../../health/object.ts'
import { type ClusterKind, type ClusterKinds, collectionPath } from '../cluster-kinds.ts'
import type { ObjectKey } from '../manifests/object-key.ts'
import { isNamespace } from '../manifests/parents.ts'

/** What goes with a namespace, or with the definition of a kind, whoever has made it. */
export interface Dependents {
  /** `2 ConfigMap (a, b), 1 Secret (c)`; empty: nothing */
  readonly text: string
  /** of their uids; empty: nothing */
  readonly digest: string
}

/** They come and go all the time, and count for nothing. */
const transient: ReadonlySet<string> = new Set([
  '/Event',
  'events.k8s.io/Event',
  'coordination.k8s.io/Lease',
  'discovery.k8s.io/EndpointSlice',
  '/Endpoints',
])
/** Kubernetes makes them in each namespace. */
const everywhere: ReadonlySet<string> = new Set(['/ConfigMap/kube-root-ca.crt', '/ServiceAccount/default'])
/** of a parent: what is beyond is not decided upon */
const maxObjects = 20_000
/** of a parent */
const maxNames = 100
/** objects: metadata alone */
const pageSize = 500
/** of a page, with the time in which it waits for its turn. ms */
const pageTimeoutMs = 60_000
/** It is not served any more, or cannot be listed: nothing of it is stored. */
const empty: ReadonlySet<number> = new Set([404, 405])

export interface DependentsComponents {
  /** of agentk itself: it may see what the source's account may not */
  readonly lane: ApiLane
  readonly kinds: ClusterKinds
}

interface Found {
  readonly kind: string
  readonly name: string
  readonly uid: string
  /** of the controller that keeps it; empty: none does */
  readonly controller: string
}

/**
 * Lists what would go with `parent`.
 *
 * @param own - uids of what goes by the same plan: it is listed there. @returns why it cannot be listed
 * @throws the connection's error, or the signal's reason
 */
export async function listDependents(
  { lane, kinds }: DependentsComponents,
  parent: ObjectKey,
  own: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Dependents | { readonly refused: string }> {
  const all = new Map<string, Found>()
  for (const kind of kindsIn(kinds, parent)) {
    const path = collectionPath(kind, isNamespace(parent) ? parent.name : '')
    const list = new ObjectList(lane, { path, accept: metadataOnly.list, pageSize, timeoutMs: pageTimeoutMs })
    for (;;) {
      const page = await list.page(signal)
      if (!('items' in page)) {
        if (empty.has(page.status)) break
        return { refused: `${kind.plural} cannot be listed: the API server answered ${page.status}` }
      }
      for (const item of page.items as KubernetesObject[]) add(all, kind, item, isNamespace(parent))
      if (all.size > maxObjects) return { refused: `there are more than ${maxObjects}` }
      if (page.isLast) break
    }
  }
  const counted = [...all.values()].filter(({ uid, controller }) => {
    return !own.has(uid) && !all.has(controller) && !own.has(controller)
  })
  return { text: textOf(counted), digest: digestOf(counted) }
}

/** One version of each kind. */
function kindsIn(kinds: ClusterKinds, parent: ObjectKey): ClusterKind[] {
  if (isNamespace(parent)) {
    return kinds.listable.filter(({ isNamespaced, group, kind }) => isNamespaced && !transient.has(`${group}/${kind}`))
  }
  return kinds.listable.filter(({ plural, group }) => parent.name === `${plural}.${group}`)
}

function add(all: Map<string, Found>, { group, kind }: ClusterKind, item: KubernetesObject, isInside: boolean): void {
  const [uid, name, namespace] = ['uid', 'name', 'namespace'].map((key) => textAt(item, `metadata.${key}`)) as [
    string,
    string,
    string,
  ]
  if (uid === '' || everywhere.has(`${group}/${kind}/${name}`)) return // not stored, or of no account
  const owner = listAt(item, 'metadata.ownerReferences').find((one) => at(one, 'controller') === true)
  const shown = isInside || namespace === '' ? name : `${namespace}/${name}`
  all.set(uid, { kind: group === '' ? kind : `${kind}.${group}`, name: shown, uid, controller: textAt(owner, 'uid') })
}

function textOf(all: readonly Found[]): string {
  const byKind = Map.groupBy(all, ({ kind }) => kind)
  let left = maxNames
  return [...byKind]
    .map(([kind, found]) => {
      const names = found
        .map(({ name }) => name)
        .sort()
        .slice(0, left)
      left -= names.length
      const more = found.length > names.length ? [`${found.length - names.length} more`] : []
      return `${found.length} ${kind} (${[...names, ...more].join(', ')})`
    })
    .join(', ')
}

function digestOf(all: readonly Found[]): string {
  if (all.length === 0) return ''
  const uids = all.map(({ uid }) => uid).sort()
  return createHash('sha256').update(uids.join()).digest('hex')
}
