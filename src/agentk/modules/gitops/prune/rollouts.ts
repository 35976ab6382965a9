import { conditionsOf } from '../../../../kubernetes/conditions.ts'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn, type GroupVersionResource, parseApiVersion } from '../../../../kubernetes/kind.ts'
import {
  at,
  entryAt,
  type KubernetesObject,
  listAt,
  nameOf,
  numberAt,
  textAt,
  uidOf,
} from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { metadataOnly, ObjectList } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import { configurationIn } from './used-configuration.ts'

/** Limit of ReplicaSets, or ControllerRevisions, that are read in one namespace. */
const maxTemplates = 5000
const pageSize = 100
/** limit for one page, with its wait for a turn. ms */
const pageTimeoutMs = 120_000
/** Limit of a controller's message. Characters */
const maxMessageLength = 200
/** Limit of namespaces in notes. */
const maxNotes = 10
/** Limit of Pods that are read for one revision: other Pods can have its label. */
const maxPods = 50
/** Limit of a label's value in Kubernetes: no Pod has a longer name as a label. */
const maxLabelLength = 63

const apps = { group: 'apps', version: 'v1' }
const replicaSets: GroupVersionResource = { ...apps, plural: 'replicasets' }
const revisions: GroupVersionResource = { ...apps, plural: 'controllerrevisions' }
/** Resources in which workloads keep the templates of their Pods, also of earlier commits. */
const templatesOf: Readonly<Record<string, GroupVersionResource>> = {
  Deployment: replicaSets,
  Rollout: replicaSets,
  StatefulSet: revisions,
  DaemonSet: revisions,
}

/** Statuses of a list that is not allowed, or not served. */
const refusals: ReadonlySet<number> = new Set([401, 403, 404, 405])

interface Unread {
  /** it lasts until somebody changes roles: nothing waits for that */
  readonly isLasting: boolean
  readonly text: string
}

export interface RolloutsComponents {
  /** in this order: each is asked where the one before may not read */
  readonly lanes: readonly ApiLane[]
  readonly kinds: () => Promise<ClusterKinds>
}

/** ConfigMaps and Secrets that Pods of an earlier commit use until a rollout replaces these Pods. */
export interface RolloutUses {
  /** by `keyText`: its user, and advice if that lasts */
  readonly uses: ReadonlyMap<string, string>
  /** notes for users about namespaces where this is not known */
  readonly notes: readonly string[]
}

/** Template that may have Pods, and names an object that is to be deleted. */
interface Template {
  /** name for people */
  readonly name: string
  /** possible labels of its Pods; undefined: it has Pods */
  readonly podLabels: readonly string[] | undefined
  readonly owner: ObjectKey
  readonly ownerUid: string
  readonly used: readonly string[]
}

/**
 * Finds configuration that is still used. A template counts once its workload has another one. If the newest template
 * still names a deleted object, no rollout will end that use.
 *
 * @param going - ConfigMaps and Secrets. @param wanted - of the commit. @throws the connection's error, or the signal's
 * reason
 */
export async function rolloutUses(
  components: RolloutsComponents,
  { going, wanted }: { readonly going: readonly ObjectKey[]; readonly wanted: readonly ObjectKey[] },
  signal: AbortSignal,
): Promise<RolloutUses> {
  const uses = new Map<string, string>()
  const notes: string[] = []
  const workloads = wanted.filter(({ kind }) => templatesOf[kind])
  for (const namespace of new Set(going.map((key) => key.namespace))) {
    const own = workloads.filter((key) => key.namespace === namespace)
    const reader = new NamespaceReader(components, { namespace, going, own }, signal)
    for (const resource of new Set(own.map(({ kind }) => templatesOf[kind] as GroupVersionResource))) {
      const unread = await reader.read(resource, uses)
      if (unread) notes.push(`whether Pods in namespace ${namespace} use what has left is not known: ${unread}`)
    }
  }
  return { uses, notes: notes.slice(0, maxNotes) }
}

class NamespaceReader {
  readonly #components: RolloutsComponents
  readonly #namespace: string
  /** `keyText` by `ConfigMap/name` */
  readonly #going: ReadonlyMap<string, string>
  readonly #own: ReadonlySet<string>
  readonly #owners = new Map<string, KubernetesObject | undefined>()
  readonly #signal: AbortSignal

  constructor(
    components: RolloutsComponents,
    of: { readonly namespace: string; readonly going: readonly ObjectKey[]; readonly own: readonly ObjectKey[] },
    signal: AbortSignal,
  ) {
    this.#components = components
    this.#namespace = of.namespace
    const going = of.going.filter(({ namespace }) => namespace === of.namespace)
    this.#going = new Map(going.map((key) => [`${key.kind}/${key.name}`, keyText(key)]))
    this.#own = new Set(of.own.map(keyText))
    this.#signal = signal
  }

  /** @returns the reason for which it cannot be known; undefined: it is known, or all stay until it is */
  async read(resource: GroupVersionResource, uses: Map<string, string>): Promise<string | undefined> {
    const found: Template[] = []
    const unread = await this.#list(resource, found)
    for (const template of found) {
      const owner = await this.#owner(template.owner)
      if (!owner || uidOf(owner) !== template.ownerUid) continue
      const now = configurationIn(at(owner, 'spec.template.spec'))
      const left = template.used.filter((name) => !now.has(name))
      if (left.length === 0 || !(await this.#hasPods(template))) continue
      for (const name of left) uses.set(this.#going.get(name) as string, textOf(template, owner))
    }
    if (unread?.isLasting) return unread.text
    if (unread)
      for (const text of this.#going.values()) uses.set(text, `whether Pods use it is not known: ${unread.text}`)
    return undefined
  }

  async #list(resource: GroupVersionResource, found: Template[]): Promise<Unread | undefined> {
    const path = collectionPath(resource, this.#namespace)
    let refused: Unread | undefined
    for (const lane of this.#components.lanes) {
      const list = new ObjectList(lane, { path, accept: undefined, pageSize, timeoutMs: pageTimeoutMs })
      for (let count = 0; ; ) {
        const page = await list.page(this.#signal)
        if (!('items' in page)) {
          const isLasting = refusals.has(page.status)
          refused = { isLasting, text: `${resource.plural} cannot be listed (${page.status})` }
          break
        }
        for (const item of page.items as KubernetesObject[]) found.push(...this.#templateOf(item))
        count += page.items.length
        if (page.isLast) return undefined
        if (count > maxTemplates)
          return { isLasting: true, text: `there are more than ${maxTemplates} ${resource.plural}` }
      }
    }
    return refused
  }

  #templateOf(object: KubernetesObject): Template[] {
    const owner = listAt(object, 'metadata.ownerReferences').find((one) => at(one, 'controller') === true)
    const { group } = parseApiVersion(textAt(owner, 'apiVersion'))
    const key = { group, kind: textAt(owner, 'kind'), namespace: this.#namespace, name: textAt(owner, 'name') }
    const isRevision = at(object, 'data') !== undefined
    const isLive = isRevision || (numberAt(object, 'status.replicas') ?? 0) > 0
    if (!isLive || !this.#own.has(keyText(key))) return []
    const named = configurationIn(at(object, isRevision ? 'data.spec.template.spec' : 'spec.template.spec'))
    const used = [...named].filter((name) => this.#going.has(name))
    if (used.length === 0) return []
    const hash = entryAt(object, 'metadata.labels', 'controller-revision-hash')
    const labels = [nameOf(object), hash].filter((label) => label !== '' && label.length <= maxLabelLength)
    const name = `${isRevision ? 'ControllerRevision' : 'ReplicaSet'} ${nameOf(object)}`
    return [{ name, podLabels: isRevision ? labels : undefined, owner: key, ownerUid: textAt(owner, 'uid'), used }]
  }

  async #owner(key: ObjectKey): Promise<KubernetesObject | undefined> {
    const text = keyText(key)
    if (this.#owners.has(text)) return this.#owners.get(text)
    const kind = (await this.#components.kinds()).find(key)
    const owner = kind && (await this.#get(objectPath(kind, key)))
    this.#owners.set(text, owner)
    return owner
  }

  async #hasPods({ podLabels, ownerUid }: Template): Promise<boolean> {
    if (!podLabels) return true
    const labelSelector = `controller-revision-hash in (${podLabels.join(',')})`
    const path = withQuery(collectionPath(builtIn.pods, this.#namespace), { labelSelector, limit: maxPods })
    const pods = listAt(await this.#get(path, metadataOnly.list), 'items')
    return pods.some((pod) => listAt(pod, 'metadata.ownerReferences').some((one) => textAt(one, 'uid') === ownerUid))
  }

  /** @returns undefined: it does not exist, or may not be read */
  async #get(path: string, accept?: string): Promise<KubernetesObject | undefined> {
    for (const lane of this.#components.lanes) {
      const options = { maxBytes: maxEventBytes, ...(accept !== undefined && { accept }) }
      const { status, body } = await lane.json('GET', path, undefined, this.#signal, options)
      if (status === 200) return body as KubernetesObject
    }
    return undefined
  }
}

function textOf({ name, owner: { kind, name: owner, namespace } }: Template, workload: KubernetesObject): string {
  const { status, message = '' } = conditionsOf(workload).find(({ type }) => type === 'Progressing') ?? {}
  const hangs = status === 'False' ? message : ''
  const reason = hangs === '' ? '' : `, which hangs: ${hangs.slice(0, maxMessageLength)}`
  const pod = kind === 'StatefulSet' ? ', with the Pod that hangs deleted,' : '' // its controller never replaces it
  const shown = `kubectl rollout status ${kind.toLowerCase()}/${owner} -n ${namespace}`
  return `Pods of ${name} use it: it goes once the rollout of ${kind} ${owner} is over${reason}. \`${shown}\` shows that; if it hangs, a commit whose Pods become ready${pod} ends it`
}
