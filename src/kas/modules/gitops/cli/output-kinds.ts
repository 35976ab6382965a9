import type { Count, OutputKind, Time } from '../../../command/output.ts'

/** Knowledge about an agent's GitOps sources as a whole, and the result of the command. */
export interface SourcesDescription {
  /** number of the agent */
  readonly agent: Count
  /** `stock`: GitLab's own agent, which reports no status; `absent`: no pod is connected */
  readonly agentState?: 'connected' | 'stock' | 'absent' | undefined
  /** time since which the agent is away, and the next step, as a sentence */
  readonly agentMessage?: string | undefined
  /** exit code of the command (doc/guide/gitops.md, doc/guide/gate.md) */
  readonly exitCode: Count
  /** the agent's file, which names the sources; absent: not known */
  readonly configuration?: ConfigurationStatus | undefined
  /** commit that was searched in the history of each head; absent: none was */
  readonly searchedCommit?: string | undefined
  /** true if the agent has more sources than kas keeps, and some are not listed */
  readonly incomplete: boolean
}

/**
 * Status of the GitOps sources of an agent.
 *
 * @command kas gitops status
 */
export interface SourceList extends OutputKind<'SourceList'>, SourcesDescription {
  /** reason for the exit code with `--commit`, `--wait` or `--fresh`; absent: every source is as required */
  readonly message?: string | undefined
  /** sources by name: those of the agent's file, and removed ones that still exist */
  readonly items: readonly SourceStatus[]
}

/**
 * A line of `--watch`: a source that is listed now, has changed, or is no longer listed.
 *
 * @command kas gitops status --watch
 */
export interface SourceChange extends OutputKind<'SourceChange'> {
  /** kind of the change; `DELETED`: the source is no longer listed */
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** the source; for a deleted one, its last status */
  readonly source: SourceStatus
}

/**
 * A line of `--watch` with the state of all sources. It follows the first list of sources and each change of the state.
 *
 * @command kas gitops status --watch
 */
export interface SourcesStateChange extends OutputKind<'SourcesStateChange'>, SourcesDescription {
  /** always `STATE` */
  readonly type: 'STATE'
}

/** The agent's file. */
export interface ConfigurationStatus {
  /** commit of the file that the agent was sent last */
  readonly commit?: string | undefined
  /** `REFUSED`: the file cannot be used; `NOT_READY`: it cannot be read; absent: it is in use */
  readonly phase?: string | undefined
  /** reason for the phase, a sentence */
  readonly message?: string | undefined
  /** next step */
  readonly next?: string | undefined
  /** newest poll of the file's repository; absent: not polled yet */
  readonly polled?: PolledHead | undefined
}

/** Result of the newest poll of a ref. */
export interface PolledHead {
  /** commit at the head; absent: the ref does not exist, or cannot be read */
  readonly commit?: string | undefined
  /** time of the poll */
  readonly time?: Time | undefined
  /** true if `searchedCommit` is in the history of the head; absent: not asked, or not answered yet */
  readonly containsCommit?: boolean | undefined
}

/** Status of a GitOps source, from the reports of agentk and the knowledge of kas. */
export interface SourceStatus {
  /** id for `kas gitops forget`: the number of the agent, the project and the name of the source */
  readonly id: string
  /** path of the project */
  readonly project?: string | undefined
  /** name in the agent's file; absent: it is the only source of its project */
  readonly name?: string | undefined
  /** followed ref, such as `branch main`; absent: the default branch */
  readonly ref?: string | undefined
  /** phase, such as `SYNCED` or `FAILING`: doc/guide/gitops.md lists them */
  readonly phase: string
  /** reason for the phase, one word for programs */
  readonly reason?: string | undefined
  /** the same in a sentence */
  readonly message?: string | undefined
  /** next step */
  readonly next?: string | undefined
  /** true if the pod that reported the status has ended, and the status may be old */
  readonly stale: boolean
  /** commit that is in the cluster; absent: none */
  readonly commit?: string | undefined
  /** commit that the cluster is to have; absent: not known */
  readonly wanted?: string | undefined
  /** true if agentk has read the source's current configuration; absent: not known */
  readonly configurationTaken?: boolean | undefined
  /** objects of the source, by result */
  readonly counts?: SourceCounts | undefined
  /** time of the report */
  readonly reported?: Time | undefined
  /** time at which `commit` was last applied as a whole */
  readonly applied?: Time | undefined
  /** time at which the cluster was last compared with a commit */
  readonly compared?: Time | undefined
  /** newest poll of its ref; absent: not polled yet */
  readonly polled?: PolledHead | undefined
  /** digest of the plan that waits for approval; absent: none waits */
  readonly plan?: string | undefined
  /** objects that are not as required, at most 100 */
  readonly failures: readonly SourceFailure[]
  /** objects that the plan deletes, at most 100 */
  readonly leaving: readonly LeavingObject[]
  /** objects that have left the commit and stay, at most 100 */
  readonly kept: readonly LeavingObject[]
  /** objects that differ from Git since they were applied, or cannot be compared with it, at most 100 */
  readonly drifted: readonly DriftedObject[]
  /** mode of the source's drift: `correct`, `report` or `none`; absent: agentk does not compare between commits */
  readonly driftMode?: string | undefined
  /** objects that have the source's marks and are in no inventory, at most 100: they are never deleted */
  readonly orphans: readonly SourceObject[]
  /** environments that the source deploys to */
  readonly environments: readonly string[]
  /** path of the GitSync or ConfigMap that takes approvals; absent: it does not exist yet */
  readonly statusObject?: string | undefined
  /** fields that Git sets and that a rule of `drift.ignore` leaves to others, at most 100 */
  readonly leftToOthers: readonly LeftField[]
  /** kinds whose changes are noticed within a minute, because they are not watched, each with the reason */
  readonly unwatched: readonly string[]
  /** health of its objects; absent: agentk does not judge it */
  readonly health?: HealthCounts | undefined
  /** objects that are not healthy, at most 100, the worst first */
  readonly unhealthy: readonly UnhealthyObject[]
  /** kinds that agentk may not list, so that causes may not be found, each with the reason */
  readonly unlisted: readonly string[]
  /** objects that the lists leave out, because the caller may not get them */
  readonly withheld: Count
  /** true if some objects are not listed, because the answer would be too large; `counts` counts all */
  readonly incomplete: boolean
}

/** Objects of kinds that can be unhealthy, by verdict. */
export interface HealthCounts {
  /** objects that are well */
  readonly healthy: Count
  /** objects that may become well by themselves */
  readonly progressing: Count
  /** objects that have failed */
  readonly degraded: Count
  /** objects that somebody has suspended */
  readonly suspended: Count
  /** objects that do not exist */
  readonly missing: Count
  /** objects that agentk cannot read */
  readonly unknown: Count
  /** objects that were not read yet since they were applied */
  readonly unread: Count
}

/** An object that is not healthy, in the words of `kas health`. */
export interface UnhealthyObject {
  /** the object */
  readonly object?: SourceObject | undefined
  /** `degraded`, `missing`, `progressing`, `unknown` or `suspended` */
  readonly verdict: string
  /** object that is to blame; absent: not known, or the caller may not get it */
  readonly culprit?: SourceObject | undefined
  /** reason, one word for programs */
  readonly reason?: string | undefined
  /** the same in a sentence */
  readonly message?: string | undefined
  /** time since which the cause holds; absent: not known */
  readonly since?: Time | undefined
}

/** Objects of a source, by result. */
export interface SourceCounts {
  /** objects of the commit */
  readonly objects: Count
  /** objects that were applied */
  readonly applied: Count
  /** objects that already were as required */
  readonly unchanged: Count
  /** objects that could not be applied */
  readonly failed: Count
  /** objects that wait for others */
  readonly waiting?: Count | undefined
  /** objects that were deleted, because they have left the commit */
  readonly pruned?: Count | undefined
  /** objects that were to be deleted and still exist */
  readonly surviving?: Count | undefined
  /** objects that others have changed */
  readonly drifted?: Count | undefined
  /** objects that the API server refuses to compare with Git */
  readonly notCompared?: Count | undefined
  /** objects that an apply would change, because an admission webhook came later */
  readonly wouldChange?: Count | undefined
  /** objects that have the source's marks and are in no inventory */
  readonly orphans?: Count | undefined
}

/** An object that Git has not changed since it was applied, and that is not as it was applied. */
export interface DriftedObject {
  /** the object */
  readonly object?: SourceObject | undefined
  /** `drifted`; `not_compared`: the API server refuses to compare it; `would_change`: a webhook came later */
  readonly kind: string
  /** true if the object does not exist any more */
  readonly deleted: boolean
  /** fields that differ, such as `.spec.replicas`: at most 20, of the first 10 objects */
  readonly paths: readonly string[]
  /** fields that differ and are not in `paths` */
  readonly morePaths: Count
  /** field manager that made the change; absent: the API server does not say */
  readonly manager?: string | undefined
  /** `Apply` or `Update` */
  readonly operation?: string | undefined
  /** time of the change, by the API server */
  readonly changed?: Time | undefined
  /** time since which it differs */
  readonly since?: Time | undefined
  /** time at which agentk writes it as Git has it; absent: it does not */
  readonly corrected?: Time | undefined
  /** reason for which agentk leaves it: `mode`, `added`, `hold`, `fight` or `paused` */
  readonly leftBecause?: string | undefined
  /** end of the hold */
  readonly holdUntil?: Time | undefined
  /** reason for which it cannot be compared */
  readonly message?: string | undefined
  /** file of its manifest */
  readonly file?: string | undefined
  /** line of the file */
  readonly line?: Count | undefined
}

/**
 * Objects of a source that differ from Git, with the values of their fields.
 *
 * @command kas gitops drift
 */
export interface DriftList extends OutputKind<'DriftList'> {
  /** id of the source */
  readonly source: string
  /** exit code of the command (doc/guide/drift.md) */
  readonly exitCode: Count
  /** mode of its drift: `correct`, `report` or `none` */
  readonly driftMode?: string | undefined
  /** objects of the source */
  readonly objects: Count
  /** objects that were compared for this answer; absent: without `--scan` */
  readonly compared?: Count | undefined
  /** objects that differ and that the caller may not get */
  readonly withheld: Count
  /** objects that differ and are not listed, because the answer would be too large */
  readonly more: Count
  /** reason for which not all is known, a sentence */
  readonly message?: string | undefined
  /** objects that differ, at most 100 */
  readonly items: readonly DifferingObject[]
}

/** An object that differs from Git, with its fields. */
export interface DifferingObject extends DriftedObject {
  /** fields that differ, at most 20 */
  readonly fields: readonly FieldDifference[]
  /** fields with a value from Git that a rule of `ignore` leaves to others, at most 20 */
  readonly ignored: readonly FieldDifference[]
  /** fields of this kind that are not in `ignored` */
  readonly moreIgnored: Count
}

/** A field of an object that is not as Git has it. */
export interface FieldDifference {
  /** path of the field; absent: the object itself */
  readonly path?: string | undefined
  /** `changed`, `missing`, `reordered`, `added` or `gone` */
  readonly kind: string
  /** value in Git, as JSON, or its beginning; `***`: it is not shown; absent: there is none */
  readonly git?: string | undefined
  /** value in the cluster, in the same form */
  readonly cluster?: string | undefined
  /** field manager that changed it; absent: the API server does not say */
  readonly manager?: string | undefined
  /** `Apply` or `Update` */
  readonly operation?: string | undefined
  /** time of the manager's last change of the object */
  readonly changed?: Time | undefined
  /** key in the content of a Secret */
  readonly secretKey?: string | undefined
  /** rule of `ignore` that leaves the field to others */
  readonly rule?: string | undefined
}

/** A field that Git sets, and that a rule leaves to another field manager. */
export interface LeftField {
  /** the object */
  readonly object?: SourceObject | undefined
  /** path of the field, such as `.spec.replicas` */
  readonly path: string
  /** field manager that has set the field */
  readonly manager: string
  /** the rule */
  readonly rule: string
}

/** An object of a source that is not as required. */
export interface SourceFailure {
  /** the object; absent: the failure is about a file */
  readonly object?: SourceObject | undefined
  /** failure, a sentence */
  readonly message: string
  /** file that causes it */
  readonly file?: string | undefined
  /** line of the file */
  readonly line?: Count | undefined
}

/** An object that the commit no longer has. */
export interface LeavingObject {
  /** the object */
  readonly object?: SourceObject | undefined
  /** reason why it is not deleted at once, one word */
  readonly reason?: string | undefined
  /** the same in a sentence */
  readonly message: string
}

/** An object by its name. */
export interface SourceObject {
  /** API group; absent: the core group */
  readonly group?: string | undefined
  /** version of the API */
  readonly version?: string | undefined
  /** kind */
  readonly kind: string
  /** namespace; absent: the object is cluster-scoped */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
}
