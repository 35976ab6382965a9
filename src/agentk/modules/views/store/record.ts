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
  /** source of the opinion if nothing is found; absent: none */
  readonly by?: Exclude<Opinion['by'], 'nobody'>
}

/** Record of an object. It is never changed, only replaced. Everything but uid and name may be shared. */
export interface ObjectRecord {
  readonly uid: string
  readonly name: string
  /** empty: none */
  readonly namespace: string
  readonly kind: ResourceKind
  readonly labels: ReadonlyMap<string, string>
  /** the controller, else the first owner */
  readonly owner: Owner | undefined
  readonly otherOwners: readonly Owner[]
  /** parent of an object without owners, by its kind's custom: `group/Kind` and name, in the same namespace */
  readonly customParent: Omit<Owner, 'uid'> | undefined
  /** ms since 1970 */
  readonly created: number
  /** generation of the spec; 0: there is none */
  readonly generation: number
  /** node that the object runs on; empty: none */
  readonly node: string
  /** undefined: the kind is followed without its status */
  readonly health: Health | undefined
  readonly facts: readonly string[]
  readonly selector: LabelSelector | undefined
  readonly references: readonly Reference[]
  /** fields by which others are judged, as they are in the object; undefined: none */
  readonly traits: KubernetesObject | undefined
  /** `<project id>/<slug>`; empty: none */
  readonly environment: string
  /** application by the marks that count; empty: none */
  readonly application: string
  /** application that an earlier mark names, not yet believed */
  readonly claim: Claim | undefined
}

export interface RecordChange {
  /** undefined: the object was not there */
  readonly before: ObjectRecord | undefined
  /** undefined: the object is gone */
  readonly after: ObjectRecord | undefined
  /** change of the judgement; absent: none */
  readonly judged?: { readonly before: Judgement | undefined; readonly after: Judgement | undefined }
}

/** Fields of an object that others may name. */
export type Place = Pick<ObjectRecord, 'uid' | 'name' | 'namespace'> & { readonly kind: Pick<ResourceKind, 'key'> }

/** All records, without regard to the rights of callers. */
export interface ReadonlyRecords {
  readonly size: number
  get(uid: string): ObjectRecord | undefined
  all(): Iterable<ObjectRecord>
  /** Finds a record by `group/Kind`, namespace (empty: none) and name. */
  named(kind: string, namespace: string, name: string): ObjectRecord | undefined
  /** Objects that name `parent`: by `owner.uid`, by custom, or as their application; believed or not. */
  claiming(parent: Place): Iterable<ObjectRecord>
  /** Objects that name `parent` by custom: another object may become their parent instead. */
  claimingByCustom(parent: Place): Iterable<ObjectRecord>
  /** True if objects name `parent` by `owner.uid`, or may by custom. */
  isClaimed(parent: Place): boolean
  /** Objects that name an object in their spec, or run on it. */
  naming(kind: string, namespace: string, name: string): Iterable<ObjectRecord>
  /** Judgement of the object by itself; undefined: it is well, or nothing is known of it. */
  judged(uid: string): Judgement | undefined
  /** Returns the fields of an object that show why it or another is not well. */
  objectOf(record: ObjectRecord): KubernetesObject
  /** Finds a kind that is followed, or that has objects. */
  kindOf(kind: string): ResourceKind | undefined
  /** Kinds and namespaces (empty: none) in which there are objects, and how many. */
  places(): Iterable<{ readonly kind: ResourceKind; readonly namespace: string; readonly size: number }>
  /** Objects of one namespace. New ones that come while it is read may be missed; each of them is a change. */
  inNamespace(kind: string, namespace: string): Iterable<ObjectRecord>
  /** Calls the listener at each change, until the returned function is called. */
  onChange(listener: (change: RecordChange) => void): () => void
}

export interface EventChange {
  /** undefined: the event was not there */
  readonly before: EventRow | undefined
  /** undefined: the event is gone */
  readonly after: EventRow | undefined
}

/** Events that are kept, without regard to the rights of callers. */
export interface ReadonlyEvents {
  readonly states: FollowStates
  /** the latest first; events of the same time by uid */
  all(): Iterable<EventRow>
  /** Calls the listener at each change, until the returned function is called. */
  onChange(listener: (change: EventChange) => void): () => void
}

/** State of a kind that is followed. */
export interface FollowState {
  /** `aside`: the kind has failed for long while others are followed; what is known of it is old */
  readonly is: 'live' | 'syncing' | 'stale' | 'aside' | 'refused'
  /** ms since 1970: begin of the state, or end of the last watch */
  readonly since: number
  /** for people; names no object and no namespace */
  readonly why: string
  /** answer of the API server while `aside`, for callers who may list CustomResourceDefinitions; absent: none */
  readonly message?: string
  /** namespaces that may not be followed, of a kind that is followed by namespace */
  readonly refusedNamespaces: readonly string[]
  /** the kind is followed in some namespaces alone */
  readonly isPartial?: boolean
  /** objects that are too large, or cannot be kept: callers who may list them see their names */
  readonly leftOut: readonly { readonly namespace: string; readonly name: string }[]
}

/** States of the kinds that are followed. */
export interface FollowStates {
  all(): Iterable<readonly [kind: ResourceKind, state: FollowState]>
  /** Calls the listener at each change, until the returned function is called. */
  onChange(listener: () => void): () => void
}

/** Receives the objects that are followed. */
export interface ObjectSink {
  /**
   * A list of the kind begins, in one namespace or in all: objects that are not put until `listed` are removed then.
   */
  listing(kind: ResourceKind, namespace: string | undefined): void
  /** The object has a uid. If its kind is followed without its status, it is a PartialObjectMetadata. */
  put(kind: ResourceKind, object: KubernetesObject): void
  deleted(kind: ResourceKind, uid: string): void
  listed(kind: ResourceKind, namespace: string | undefined): void
  /** The kind is no longer followed: its objects are removed, and with all namespaces also its state. */
  dropped(kind: ResourceKind, namespace: string | undefined): void
  state(kind: ResourceKind, state: FollowState): void
}

/** Rights of one caller. */
export interface Visibility {
  mayList(kind: ResourceKind, namespace: string): boolean
  /** True if the caller may list the kind in at least one of the namespaces; there may be thousands. */
  mayListWithin(kind: ResourceKind, namespaces: ReadonlySet<string>): boolean
  /** True if the caller may list events in the namespace. */
  mayListEvents(namespace: string): boolean
  /** True if the caller may see the name of the namespace. */
  mayName(namespace: string): boolean
  /** equal keys mean equal answers */
  readonly key: string
}
