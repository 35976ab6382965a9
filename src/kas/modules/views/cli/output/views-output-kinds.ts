import type { Count, OutputKind, Time } from '../../../../command/output.ts'

/** Health of an object, as kas judges it (doc/reference/health.md). */
export type Verdict = 'Healthy' | 'Suspended' | 'Progressing' | 'Missing' | 'Degraded' | 'Unknown'

/** Knowledge of the agent about its cluster, and its reliability. */
export interface ViewDescription {
  /** number of the agent */
  readonly agent: Count
  /** `live`: as in the cluster; `syncing`: items are missing; `stale`: items may be old; `unreached`: no answer */
  readonly state: 'live' | 'syncing' | 'stale' | 'unreached'
  /** start of that state */
  readonly stateSince?: Time | undefined
  /** reason for that state, a sentence */
  readonly stateMessage?: string | undefined
  /** time up to which the items are known to be true; absent: not all are known */
  readonly asOf?: Time | undefined
  /** reasons why not all requested objects are shown, a sentence each; absent: none */
  readonly problems?: readonly string[] | undefined
  /** faults in the agent's `views.yaml` and its rules, and what is used in their place; absent: none */
  readonly configurationProblems?: readonly string[] | undefined
  /** kinds or objects that the agent does not follow: `GROUP/KIND` or `GROUP/KIND NAMESPACE[/NAME]`, at most 100 */
  readonly notFollowed?: readonly string[] | undefined
  /** kinds that the API server fails to list; their items may be old; absent: none */
  readonly aside?: readonly AsideKind[] | undefined
  /** your identity in the cluster, if a resource is refused; absent: the agent's own, or nothing is refused */
  readonly you?: ClusterUser | undefined
  /** requested resources that you may not list; absent: none */
  readonly refused?: readonly RefusedResource[] | undefined
  /** words that name no kind, or none that you may list; absent: none */
  readonly unknownKinds?: readonly UnknownKind[] | undefined
}

/** A kind that the API server fails to list. */
export interface AsideKind {
  /** kind; `*`: all kinds of the group */
  readonly kind: string
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** answer of the API server */
  readonly message: string
  /** start of the failures */
  readonly since?: Time | undefined
}

/** User whose identity a caller has in the cluster. */
export interface ClusterUser {
  /** user name */
  readonly username: string
  /** groups */
  readonly groups: readonly string[]
}

/** A resource that the caller may not list. */
export interface RefusedResource {
  /** resource, in the plural; absent: anything */
  readonly resource?: string | undefined
  /** namespace; absent: all namespaces, or the resource is cluster-scoped */
  readonly namespace?: string | undefined
}

/** A word that names no kind. */
export interface UnknownKind {
  /** the word as you wrote it */
  readonly word: string
  /** nearest name of a kind */
  readonly nearest?: string | undefined
}

/** Numbers of objects by verdict, including objects that are not listed. */
export interface VerdictCounts {
  /** objects that are healthy */
  readonly healthy?: Count | undefined
  /** objects that are suspended */
  readonly suspended?: Count | undefined
  /** objects that are progressing */
  readonly progressing?: Count | undefined
  /** objects that are missing */
  readonly missing?: Count | undefined
  /** objects that are degraded */
  readonly degraded?: Count | undefined
  /** objects of unknown health */
  readonly unknown?: Count | undefined
  /** objects without a verdict */
  readonly none?: Count | undefined
}

/**
 * Objects of a cluster. `kas get` lists the requested objects, the worst first. `kas tree` lists each object after its
 * parent, which `parent` names.
 *
 * @command kas get, kas tree
 */
export interface ObjectList extends OutputKind<'ObjectList'>, ViewDescription {
  /** requested objects by verdict; roots in the output of `kas tree` */
  readonly counts: VerdictCounts
  /** objects, or roots, that are not listed, because a list has at most 500 and a tree 100 roots */
  readonly unlisted: Count
  /** objects */
  readonly items: readonly ObjectItem[]
}

/** An object, or an item that stands for several objects. */
export interface ObjectItem {
  /** id of the item in the list; for an object, its uid */
  readonly id: string
  /** `group`: application or environment; `bundle`: many children of a kind; `owner`: an owner that you may not see */
  readonly type: 'object' | 'group' | 'bundle' | 'owner'
  /** kind; of a group `Application` or `Environment` */
  readonly kind: string
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** namespace */
  readonly namespace?: string | undefined
  /** name; a bundle has none */
  readonly name?: string | undefined
  /** `metadata.uid` of an object */
  readonly uid?: string | undefined
  /** `metadata.creationTimestamp` */
  readonly created?: Time | undefined
  /** `metadata.generation` */
  readonly generation?: Count | undefined
  /** health; absent: kas has no rule for it */
  readonly verdict?: Verdict | undefined
  /** reason why it is not healthy, one word */
  readonly reason?: string | undefined
  /** the same in a sentence */
  readonly message?: string | undefined
  /** the object that is at fault; it may be this one */
  readonly culprit?: Culprit | undefined
  /** further causes; absent: none */
  readonly otherCauses?: Count | undefined
  /** start of the trouble */
  readonly since?: Time | undefined
  /** true if the trouble may have begun before `since`, when it was first seen */
  readonly sinceAtLeast?: boolean | undefined
  /** time at which the trouble last occurred */
  readonly lastSeen?: Time | undefined
  /** command that shows more; it only reads */
  readonly next?: string | undefined
  /** command that undoes the rollout that is stuck */
  readonly undo?: string | undefined
  /** facts, such as `2/3 ready` */
  readonly facts: readonly string[]
  /** children that you may list; absent: not counted */
  readonly children?: Count | undefined
  /** children that are not items of this list; absent: none, or not counted */
  readonly unlisted?: Count | undefined
  /** worst verdict of the objects below it; absent: they are healthy or suspended */
  readonly worstBelow?: Verdict | undefined
  /** `id` of its parent in `kas tree`; absent: it is a root */
  readonly parent?: string | undefined
  /** health by the rules of Argo CD */
  readonly argo?: Verdict | undefined
  /** status by the rules of kstatus */
  readonly kstatus?: 'Current' | 'InProgress' | 'Terminating' | 'Failed' | 'Unknown' | undefined
  /** objects that it names or selects, or that name or select it; absent: not read, or none */
  readonly links?: readonly ObjectLink[] | undefined
  /** kinds, as `GROUP/KIND`, that cannot be listed and that its verdict depends on: it may be old */
  readonly asideKinds?: readonly string[] | undefined
}

/** The object that is at fault. */
export interface Culprit {
  /** kind */
  readonly kind: string
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** namespace; absent: the object is cluster-scoped */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
  /** its uid; absent: it does not exist, or you may not see it */
  readonly uid?: string | undefined
  /** objects that fail for the same cause, which this one represents */
  readonly count: Count
}

/** Link of an object to another one. */
export interface ObjectLink {
  /** relation, such as `mounts`, `selects`, `runs on` */
  readonly relation: string
  /** kind of the other object */
  readonly kind: string
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** namespace; absent: the object is cluster-scoped */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
  /** uid of the other object; absent: it does not exist, or you may not see it */
  readonly uid?: string | undefined
}

/** An object by its name. */
export interface ObjectReference {
  /** kind, or your word for it */
  readonly kind: string
  /** API group; absent: the core group, or not given */
  readonly group?: string | undefined
  /** namespace; absent: the object is cluster-scoped, or not given */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
  /** uid, if it is known */
  readonly uid?: string | undefined
}

/**
 * Events of a cluster, the latest first.
 *
 * @command kas get events
 */
export interface EventList extends OutputKind<'EventList'>, ViewDescription {
  /** events that are not listed: they are older, or were not read */
  readonly unlisted: Count
  /** events */
  readonly items: readonly EventItem[]
}

/** An event. */
export interface EventItem {
  /** id of the item in the list */
  readonly id: string
  /** namespace of the event */
  readonly namespace: string
  /** object that it is about */
  readonly object: ObjectReference
  /** type */
  readonly type: 'Normal' | 'Warning'
  /** reason, one word */
  readonly reason: string
  /** the same in a sentence; may be empty */
  readonly message: string
  /** number of occurrences */
  readonly count: Count
  /** time of the last occurrence */
  readonly lastSeen?: Time | undefined
}

/**
 * Health of the requested objects, with the causes.
 *
 * @command kas health
 */
export interface HealthReport extends OutputKind<'HealthReport'>, ViewDescription {
  /** exit code of the command: 0 healthy or suspended, 1 refused, 3 progressing, 4 degraded, 5 unknown or missing */
  readonly exitCode: Count
  /** worst verdict of all judged objects; absent: not known, see `problems`, `absent`, `undecidedBy` and `state` */
  readonly verdict?: Verdict | undefined
  /** judged objects, by verdict */
  readonly counts: VerdictCounts
  /** judged objects; roots beyond the first 500 are only counted */
  readonly items: readonly JudgedItem[]
  /** named objects that do not exist, or not yet in the requested generation */
  readonly absent: readonly ObjectReference[]
  /** named objects that are not judged, because the agent does not follow their kind */
  readonly notJudged: readonly ObjectReference[]
  /** kinds, as `GROUP/KIND`, that cannot be listed and without which there is no verdict; absent: none */
  readonly undecidedBy?: readonly string[] | undefined
}

/** An object that is judged. */
export interface JudgedItem extends ObjectItem {
  /** verdict that counts, if it differs: because of objects below it, or of `--addresses` */
  readonly judgedAs?: Verdict | undefined
}

/**
 * A line of `--watch`: an object that is listed now, has changed, or is no longer listed.
 *
 * @command kas get --watch, kas tree --watch
 */
export interface ObjectChange extends OutputKind<'ObjectChange'> {
  /** kind of the change; `DELETED`: the object is no longer listed */
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** the object; for a deleted one, its last status */
  readonly object: ObjectItem
}

/**
 * A line of `--watch`: an event that is listed now, has changed, or is no longer listed.
 *
 * @command kas get events --watch
 */
export interface EventChange extends OutputKind<'EventChange'> {
  /** kind of the change; `DELETED`: the event is no longer listed */
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** the event; for a deleted one, its last status */
  readonly event: EventItem
}

/**
 * A line of `--watch` with the state of the view. It follows the first items and each change of the state.
 *
 * @command kas get --watch, kas get events --watch, kas tree --watch
 */
export interface StateChange extends OutputKind<'StateChange'>, ViewDescription {
  /** always `STATE` */
  readonly type: 'STATE'
  /** true if the lines so far list all requested items */
  readonly complete: boolean
  /** requested objects, by verdict; absent: the items are events */
  readonly counts?: VerdictCounts | undefined
  /** items that are not listed, as in the list */
  readonly unlisted: Count
}
