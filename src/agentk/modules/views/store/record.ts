import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import type { ArgoWord, EventRow, KstatusWord } from '../../../../proto/views-json.ts'
import type { Opinion } from '../../../health/kas/opinion.ts'
import type { Claim } from '../projection/application.ts'
import type { LabelSelector, Owner, Reference } from '../projection/projector.ts'
import type { Judgement } from './judgement.ts'

export interface Health {
  /** `''`: no verdict */
  readonly argo: ArgoWord
  readonly kstatus: KstatusWord
  readonly argoText: string
  readonly kstatusText: string
  /** who says how it is where nothing is found; absent: nobody */
  readonly by?: Exclude<Opinion['by'], 'nobody'>
}

/** What is kept of an object. Never changed: another one takes its place. All but uid and name may be shared. */
export interface ObjectRecord {
  readonly uid: string
  readonly name: string
  /** empty: in none */
  readonly namespace: string
  readonly kind: ResourceKind
  readonly labels: ReadonlyMap<string, string>
  /** the controller, else the first owner */
  readonly owner: Owner | undefined
  readonly otherOwners: readonly Owner[]
  /** the parent of one without owners, by its kind's custom: `group/Kind` and name, in its namespace */
  readonly customParent: Omit<Owner, 'uid'> | undefined
  /** ms since 1970 */
  readonly created: number
  /** of its spec; 0: it has none */
  readonly generation: number
  /** the node that it runs on; empty: none */
  readonly node: string
  /** undefined: of a kind that is followed without its status */
  readonly health: Health | undefined
  readonly facts: readonly string[]
  readonly selector: LabelSelector | undefined
  readonly references: readonly Reference[]
  /** what others are judged by, as it stands in the object; undefined: nothing */
  readonly traits: KubernetesObject | undefined
  /** `<project id>/<slug>`, of its own labels; empty: none */
  readonly environment: string
  /** of its own marks, those that are believed; empty: none */
  readonly application: string
  /** what it says before that */
  readonly claim: Claim | undefined
}

export interface RecordChange {
  /** undefined: it was not there */
  readonly before: ObjectRecord | undefined
  /** undefined: it is gone */
  readonly after: ObjectRecord | undefined
  /** what is said of it; absent: the same as before */
  readonly judged?: { readonly before: Judgement | undefined; readonly after: Judgement | undefined }
}

/** What others may say of an object. */
export type Place = Pick<ObjectRecord, 'uid' | 'name' | 'namespace'> & { readonly kind: Pick<ResourceKind, 'key'> }

/** All that is known, whoever may see it. */
export interface ReadonlyRecords {
  readonly size: number
  get(uid: string): ObjectRecord | undefined
  all(): Iterable<ObjectRecord>
  /** `group/Kind`, namespace (empty: in none) and name */
  named(kind: string, namespace: string, name: string): ObjectRecord | undefined
  /** Those that say so by `owner.uid`, by custom or as their application, whether that is to be believed or not. */
  claiming(parent: Place): Iterable<ObjectRecord>
  /** Of those, the ones that do by custom: another one may be their parent in its place. */
  claimingByCustom(parent: Place): Iterable<ObjectRecord>
  /** Whether there are some that say so by `owner.uid`, or may by custom. */
  isClaimed(parent: Place): boolean
  /** Those that name it in their spec, or run on it. */
  naming(kind: string, namespace: string, name: string): Iterable<ObjectRecord>
  /** How it is by itself; undefined: it is well, or nothing is known of it. */
  judged(uid: string): Judgement | undefined
  /** So much of the object as says why it or another is not well. */
  objectOf(record: ObjectRecord): KubernetesObject
  /** Of a kind that is followed, or of which there is an object. */
  kindOf(kind: string): ResourceKind | undefined
  /** Where there are objects: of which kind in which namespace (empty: in none), and how many. */
  places(): Iterable<{ readonly kind: ResourceKind; readonly namespace: string; readonly size: number }>
  /** Of one namespace. It may change while it is read: what comes meanwhile may be missed, and is a change. */
  inNamespace(kind: string, namespace: string): Iterable<ObjectRecord>
  /** Called at each change, until the returned function is called. */
  onChange(listener: (change: RecordChange) => void): () => void
}

export interface EventChange {
  /** undefined: it was not there */
  readonly before: EventRow | undefined
  /** undefined: it is gone */
  readonly after: EventRow | undefined
}

/** Events that are kept, whoever may see them. */
export interface ReadonlyEvents {
  readonly states: FollowStates
  /** the latest first; of the same time by uid */
  all(): Iterable<EventRow>
  /** Called at each change, until the returned function is called. */
  onChange(listener: (change: EventChange) => void): () => void
}

/** How far a kind is followed. */
export interface FollowState {
  /** `aside`: it has failed for long while others are followed; what is known of it is old */
  readonly is: 'live' | 'syncing' | 'stale' | 'aside' | 'refused'
  /** ms since 1970: when its watch ended, or began */
  readonly since: number
  /** for people; names no object and no namespace */
  readonly why: string
  /** of one that is aside: what the API server said, for those who may list CustomResourceDefinitions; absent: nothing */
  readonly message?: string
  /** namespaces where it may not be followed, where it is followed by namespace */
  readonly refusedNamespaces: readonly string[]
  /** it is followed in some namespaces alone */
  readonly isPartial?: boolean
  /** objects that are left out because they are too large: named to those who may list them */
  readonly leftOut: readonly { readonly namespace: string; readonly name: string }[]
}

/** How far kinds are followed. */
export interface FollowStates {
  all(): Iterable<readonly [kind: ResourceKind, state: FollowState]>
  /** Called at each change, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** What follows objects passes them to what keeps them. */
export interface ObjectSink {
  /** A list of the kind begins (in one namespace, or in all): what has not been put until `listed` is gone then. */
  listing(kind: ResourceKind, namespace: string | undefined): void
  /** It has a uid. Of a kind that is followed without its status: `kind: PartialObjectMetadata`, with `metadata` alone. */
  put(kind: ResourceKind, object: KubernetesObject): void
  deleted(kind: ResourceKind, uid: string): void
  listed(kind: ResourceKind, namespace: string | undefined): void
  /** It is not followed any more: its objects are gone, and with all namespaces its state, until it comes again. */
  dropped(kind: ResourceKind, namespace: string | undefined): void
  state(kind: ResourceKind, state: FollowState): void
}

/** What one caller may list. */
export interface Visibility {
  mayList(kind: ResourceKind, namespace: string): boolean
  /** In one of them at least; there may be thousands. */
  mayListWithin(kind: ResourceKind, namespaces: ReadonlySet<string>): boolean
  /** Events of the namespace. */
  mayListEvents(namespace: string): boolean
  /** Whether the namespace itself may be named. */
  mayName(namespace: string): boolean
  /** equal ones answer alike */
  readonly key: string
}
