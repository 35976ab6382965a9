import type { Count, OutputKind, Time } from '../../../../command/output.ts'

/** Health of an object, as kas judges it (doc/health.md). */
export type Verdict = 'Healthy' | 'Suspended' | 'Progressing' | 'Missing' | 'Degraded' | 'Unknown'

/** What the agent knows of its cluster, and how far it can be relied on. */
export interface ViewDescription {
  /** number of the agent */
  readonly agent: Count
  /** `live`: items are as in the cluster; `syncing`: items are missing; `stale`: items may be old; `unreached`: no answer */
  readonly state: 'live' | 'syncing' | 'stale' | 'unreached'
  /** begin of that state */
  readonly stateSince?: Time | undefined
  /** reason of that state, a sentence */
  readonly stateMessage?: string | undefined
  /** time up to which the items are known to be true; absent: not all are known */
  readonly asOf?: Time | undefined
  /** reasons why not all that was asked for is shown, a sentence each; absent: none */
  readonly problems?: readonly string[] | undefined
  /** faults in the agent's `views.yaml` and its rules, and what is used in their place; absent: none */
  readonly configurationProblems?: readonly string[] | undefined
  /** what the agent does not follow, as `GROUP/KIND` or `GROUP/KIND NAMESPACE[/NAME]`; at most 100; absent: nothing */
  readonly notFollowed?: readonly string[] | undefined
  /** kinds that the API server fails to list; their items may be old; absent: none */
  readonly aside?: readonly AsideKind[] | undefined
  /** who you are in the cluster, where something is refused; absent: as the agent itself, or nothing is refused */
  readonly you?: ClusterUser | undefined
  /** resources that you asked for and may not list; absent: none */
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
  /** what the API server answers */
  readonly message: string
  /** begin of the failures */
  readonly since?: Time | undefined
}

/** User as whom a caller acts in the cluster. */
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
  /** namespace; absent: all namespaces, or the resource is in none */
  readonly namespace?: string | undefined
}

/** A word that names no kind. */
export interface UnknownKind {
  /** as it was written */
  readonly word: string
  /** nearest name of a kind */
  readonly nearest?: string | undefined
}

/** Objects by verdict, those that are not listed included. */
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
 * Objects of a cluster. `kas get` lists what was asked for, the worst first; `kas tree` lists each object after the one
 * that it belongs to, which `parent` names.
 *
 * @command kas get, kas tree
 */
export interface ObjectList extends OutputKind<'ObjectList'>, ViewDescription {
  /** what was asked for by verdict: objects of `kas get`, roots of `kas tree` */
  readonly counts: VerdictCounts
  /** objects, or roots, that are not listed, because a list has at most 500 and a tree 100 roots */
  readonly unlisted: Count
  /** objects */
  readonly items: readonly ObjectItem[]
}

/** An object, or what stands for several of them. */
export interface ObjectItem {
  /** names this item in the list; of an object its uid */
  readonly id: string
  /** `group`: an application or environment; `bundle`: many children of a kind; `owner`: one that you may not see */
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
  /** reason why it is not well, one word */
  readonly reason?: string | undefined
  /** the same in a sentence */
  readonly message?: string | undefined
  /** the object that is at fault; it may be this one */
  readonly culprit?: Culprit | undefined
  /** further causes; absent: none */
  readonly otherCauses?: Count | undefined
  /** begin of the trouble */
  readonly since?: Time | undefined
  /** whether the trouble may have begun before `since`, at which it was first seen */
  readonly sinceAtLeast?: boolean | undefined
  /** time at which the trouble happened last */
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
  /** worst verdict of what is below it, where that is not well */
  readonly worstBelow?: Verdict | undefined
  /** `id` of what it belongs to in `kas tree`; absent: it is a root */
  readonly parent?: string | undefined
  /** health by the rules of Argo CD */
  readonly argo?: Verdict | undefined
  /** status by the rules of kstatus */
  readonly kstatus?: 'Current' | 'InProgress' | 'Terminating' | 'Failed' | 'Unknown' | undefined
  /** what it names or selects, and what names or selects it; absent: not read, or nothing */
  readonly links?: readonly ObjectLink[] | undefined
  /** kinds that cannot be listed and from which its verdict is made, each as `GROUP/KIND`: it may be old */
  readonly asideKinds?: readonly string[] | undefined
}

/** The object that is at fault. */
export interface Culprit {
  /** kind */
  readonly kind: string
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** namespace; absent: it is in none */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
  /** its uid; absent: it does not exist, or you may not see it */
  readonly uid?: string | undefined
  /** objects that fail by the same cause, for which this one stands */
  readonly count: Count
}

/** How an object is connected with another one. */
export interface ObjectLink {
  /** what it does, such as `mounts`, `selects`, `runs on` */
  readonly relation: string
  /** kind of the other object */
  readonly kind: string
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** namespace; absent: it is in none */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
  /** uid of the other object; absent: it does not exist, or you may not see it */
  readonly uid?: string | undefined
}

/** An object by its name. */
export interface ObjectReference {
  /** kind, or the word that was written for it */
  readonly kind: string
  /** API group; absent: the core group, or not written */
  readonly group?: string | undefined
  /** namespace; absent: it is in none, or not written */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
  /** uid, where one is known */
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
  /** names this item in the list */
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
  /** times that it happened */
  readonly count: Count
  /** time at which it happened last */
  readonly lastSeen?: Time | undefined
}

/**
 * Health of what was asked for, with the causes.
 *
 * @command kas health
 */
export interface HealthReport extends OutputKind<'HealthReport'>, ViewDescription {
  /** exit code of the command: 0 healthy or suspended, 1 refused, 3 progressing, 4 degraded, 5 unknown or not there */
  readonly exitCode: Count
  /** worst verdict of what is judged; absent: there is none, or `problems`, `absent`, `undecidedBy` or a state other than `live` say why it is not known */
  readonly verdict?: Verdict | undefined
  /** what is judged, by verdict */
  readonly counts: VerdictCounts
  /** what is judged; roots past the first 500 are only counted */
  readonly items: readonly JudgedItem[]
  /** named objects that are not there, or not yet in the generation that is asked for */
  readonly absent: readonly ObjectReference[]
  /** named objects that are not judged, because the agent does not follow their kind */
  readonly notJudged: readonly ObjectReference[]
  /** kinds, as `GROUP/KIND`, that cannot be listed and without which there is no verdict; absent: none */
  readonly undecidedBy?: readonly string[] | undefined
}

/** An object that is judged. */
export interface JudgedItem extends ObjectItem {
  /** verdict that it counts as, where that is another one: for what is below it, or with `--addresses` */
  readonly judgedAs?: Verdict | undefined
}

/**
 * A line of `--watch`: an object that is listed now, has changed, or is no longer listed.
 *
 * @command kas get --watch, kas tree --watch
 */
export interface ObjectChange extends OutputKind<'ObjectChange'> {
  /** what has happened; `DELETED`: it is no longer listed */
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** the object; of a deleted one as it was last */
  readonly object: ObjectItem
}

/**
 * A line of `--watch`: an event that is listed now, has changed, or is no longer listed.
 *
 * @command kas get events --watch
 */
export interface EventChange extends OutputKind<'EventChange'> {
  /** what has happened; `DELETED`: it is no longer listed */
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** the event; of a deleted one as it was last */
  readonly event: EventItem
}

/**
 * A line of `--watch`: what is known of the whole. One follows the first items, and each change of it.
 *
 * @command kas get --watch, kas get events --watch, kas tree --watch
 */
export interface StateChange extends OutputKind<'StateChange'>, ViewDescription {
  /** always `STATE` */
  readonly type: 'STATE'
  /** whether all that was asked for is listed by the lines so far */
  readonly complete: boolean
  /** what was asked for, by verdict; absent: of events */
  readonly counts?: VerdictCounts | undefined
  /** what is not listed, as in the list */
  readonly unlisted: Count
}
