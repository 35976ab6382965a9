import type { Caller } from '../../../src/agentk/caller.ts'
import { vendorRules } from '../../../src/agentk/health/custom/vendors.ts'
import type { Judged } from '../../../src/agentk/health/kas/root-causes/judge.ts'
import { eventKind } from '../../../src/agentk/modules/views/access/list-rights.ts'
import { Reviews } from '../../../src/agentk/modules/views/access/reviews.ts'
import { Interned } from '../../../src/agentk/modules/views/store/interned.ts'
import type { FollowState } from '../../../src/agentk/modules/views/store/record.ts'
import { Records } from '../../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../../src/agentk/modules/views/store/rules.ts'
import { type OpenView, ViewHost } from '../../../src/agentk/modules/views/view/view-host.ts'
import type { ResourceKind } from '../../../src/kubernetes/kind.ts'
import { type KubernetesObject, kindOf, textAt } from '../../../src/kubernetes/object.ts'
import type { Query, Row } from '../../../src/proto/views-json.ts'
import { capturedLog } from '../captured-log.ts'
import { anyIdentity } from '../identities.ts'
import { ManualClock } from '../manual-clock.ts'
import { kindOf as resourceKind } from './records.ts'
import { ReviewDouble, type Right } from './review-double.ts'
import { ViewClient } from './view-client.ts'
import { EventsDouble, settle, viewerOf } from './view-stage.ts'

const live: FollowState = { is: 'live', since: 1, why: '', refusedNamespaces: [], leftOut: [] }
const syncing: FollowState = { ...live, is: 'syncing' }

/** Kinds that count as known without any object. */
const known = [
  'Pod',
  'Service',
  'Secret',
  'Node',
  'PersistentVolumeClaim',
  'apps/Deployment',
  'apps/StatefulSet',
  'apps/ReplicaSet',
  'discovery.k8s.io/EndpointSlice',
  'storage.k8s.io/StorageClass',
  'networking.k8s.io/IngressClass',
]

const clusterWide: ReadonlySet<string> = new Set([
  'Node',
  'storage.k8s.io/StorageClass',
  'networking.k8s.io/IngressClass',
])

export const kindNamed = (key: string, isNamespaced = !clusterWide.has(key)): ResourceKind =>
  resourceKind(key, `${key.slice(key.indexOf('/') + 1).toLowerCase()}s`, isNamespaced)

/** A cluster's objects from API servers, followed by real records, and shown by views. Time stands still. */
export class ClusterStage {
  readonly clock = new ManualClock()
  readonly api = new ReviewDouble()
  readonly events = new EventsDouble()
  readonly records: Records
  readonly #kinds = new Map<string, ResourceKind>()
  readonly host: ViewHost
  readonly #reviews: Reviews

  constructor(now: number, rules = new Rules([], [])) {
    this.clock.advance(now - this.clock.now())
    this.records = new Records({ clock: this.clock, rules, interned: new Interned() })
    const { records, clock, api, events } = this
    this.#reviews = new Reviews({ api, clock, identities: anyIdentity, log: capturedLog().log })
    const components = { records, states: records.states, events, reviews: this.#reviews, clock }
    this.host = new ViewHost(components, { verdict: 'kas' })
    for (const key of known) this.kind(key)
    events.states.set(eventKind, {})
  }

  /** Adds the kind to the followed ones. */
  kind(key: string, isNamespaced?: boolean, version = 'v1'): ResourceKind {
    const kind = this.#kinds.get(key) ?? { ...kindNamed(key, isNamespaced), version }
    if (!this.#kinds.has(key)) {
      this.#kinds.set(key, kind)
      this.records.state(kind, syncing)
    }
    return kind
  }

  resource(key: string): ResourceKind {
    return key === eventKind.key ? eventKind : this.kind(key)
  }

  put(object: KubernetesObject): void {
    const namespace = textAt(object, 'metadata.namespace')
    const version = textAt(object, 'apiVersion').split('/').at(-1)
    this.records.put(this.kind(kindOf(object), namespace !== '', version), object)
  }

  deleted(object: KubernetesObject): void {
    this.records.deleted(this.kind(kindOf(object)), textAt(object, 'metadata.uid'))
  }

  event(event: KubernetesObject): void {
    this.records.evidence.put(eventKind, event)
  }

  /** Marks all kinds as listed. */
  listed(): void {
    for (const kind of this.#kinds.values()) this.records.state(kind, live)
  }

  /** Gives rights to all but these kinds. */
  mayNotList(user: string, hidden: readonly string[]): void {
    const rights = [eventKind, ...this.#kinds.values()]
      .filter(({ key }) => !hidden.includes(key))
      .map(({ group, plural }): Right => [`${group}/${plural}`, '*'])
    this.api.rights.set(user, rights)
  }

  open(caller: Caller, query: Query): { client: ViewClient; view: OpenView } {
    const client = new ViewClient()
    const view = this.host.open({ caller, viewer: viewerOf(caller), query: Buffer.from(JSON.stringify(query)) }, client)
    client.onTaken = (seq) => view.taken(seq)
    return { client, view }
  }

  pass(ms = 0): Promise<void> {
    return settle(this.clock, ms)
  }

  close(): void {
    this.host.close()
    this.#reviews.close()
    this.records.stop()
  }
}

/** read once */
const vendors = vendorRules()

export async function rulesOf(kinds: readonly string[]): Promise<Rules> {
  const rules = new Rules([], await vendors)
  for (const kind of kinds) await rules.ready(kind)
  return rules
}

/** Returns a row's judgement of its root. */
export function judgedOf(row: Row | undefined): Judged | undefined {
  if (!row) return undefined
  const verdict = row.h?.[2] || 'Healthy'
  if (!row.z) return { verdict, cause: undefined, atLeast: undefined }
  const { since, atLeast = false, last, count = 1, others = 0, ...rest } = row.z
  const cause = {
    ...rest,
    word: verdict,
    about: '',
    needs: [],
    since: atLeast ? undefined : since,
    seen: undefined,
    last,
    count,
    others,
  }
  return { verdict, cause, atLeast: atLeast ? since : undefined }
}
