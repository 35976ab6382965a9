import type { Count, OutputKind, Time } from '../../../command/output.ts'

/** What is known of an agent's GitOps sources as a whole, and what the command makes of it. */
export interface SourcesDescription {
  /** number of the agent */
  readonly agent: Count
  /** `stock`: GitLab's own agent, which reports no status; `absent`: no pod of the agent is connected; absent: not known */
  readonly agentState?: 'connected' | 'stock' | 'absent' | undefined
  /** since when the agent is away, and what to do, a sentence */
  readonly agentMessage?: string | undefined
  /** exit code of the command (doc/gitops.md, doc/gate.md) */
  readonly exitCode: Count
  /** the agent's file, which names the sources; absent: not known */
  readonly configuration?: ConfigurationStatus | undefined
  /** commit for which the history of each head was searched; absent: none was */
  readonly searchedCommit?: string | undefined
  /** whether the agent has more sources than kas keeps, and some are not listed */
  readonly incomplete: boolean
}

/**
 * Status of the GitOps sources of an agent.
 *
 * @command kas gitops status
 */
export interface SourceList extends OutputKind<'SourceList'>, SourcesDescription {
  /** reason of the exit code with `--commit`, `--wait` or `--fresh`, a sentence; absent: all is as it should be */
  readonly message?: string | undefined
  /** sources by name: those of the agent's file, and those that have left it and are not gone */
  readonly items: readonly SourceStatus[]
}

/**
 * A line of `--watch`: a source that is listed now, has changed, or is no longer listed.
 *
 * @command kas gitops status --watch
 */
export interface SourceChange extends OutputKind<'SourceChange'> {
  /** what has happened; `DELETED`: it is no longer listed */
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  /** the source; of a deleted one as it was last */
  readonly source: SourceStatus
}

/**
 * A line of `--watch`: what is known of the whole. One follows the first sources, and each change of it.
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
  /** reason of the phase, a sentence */
  readonly message?: string | undefined
  /** what to do */
  readonly next?: string | undefined
  /** newest poll of its repository; absent: not polled yet */
  readonly polled?: PolledHead | undefined
}

/** Result of the newest poll of a ref. */
export interface PolledHead {
  /** commit at the head; absent: nothing is there, or it cannot be read */
  readonly commit?: string | undefined
  /** time of the poll */
  readonly time?: Time | undefined
  /** whether `searchedCommit` is in the history of the head; absent: not asked, or not answered yet */
  readonly containsCommit?: boolean | undefined
}

/** A GitOps source, as agentk has reported it and as kas knows it. */
export interface SourceStatus {
  /** names it for `kas gitops forget`: the number of the agent, the project and the name of the source */
  readonly id: string
  /** path of the project */
  readonly project?: string | undefined
  /** name, as the agent's file has it; absent: it is the only source of its project */
  readonly name?: string | undefined
  /** such as `branch main`; absent: the default branch */
  readonly ref?: string | undefined
  /** such as `SYNCED` or `FAILING`: doc/gitops.md lists them */
  readonly phase: string
  /** reason of the phase, one word for programs */
  readonly reason?: string | undefined
  /** the same in a sentence */
  readonly message?: string | undefined
  /** what to do */
  readonly next?: string | undefined
  /** whether the pod that reported it is gone, and all of this may be old */
  readonly stale: boolean
  /** commit that is in the cluster; absent: none */
  readonly commit?: string | undefined
  /** commit that is to be in the cluster; absent: not known */
  readonly wanted?: string | undefined
  /** whether agentk has taken what the agent's file says of it now; absent: not known */
  readonly configurationTaken?: boolean | undefined
  /** its objects by what became of them */
  readonly counts?: SourceCounts | undefined
  /** time of the report */
  readonly reported?: Time | undefined
  /** time at which all of `commit` was applied last */
  readonly applied?: Time | undefined
  /** time at which the cluster was compared with a commit last */
  readonly compared?: Time | undefined
  /** newest poll of its ref; absent: not polled yet */
  readonly polled?: PolledHead | undefined
  /** digest of the plan that waits for approval; absent: none waits */
  readonly plan?: string | undefined
  /** objects that are not as they should be, at most 100 */
  readonly failures: readonly SourceFailure[]
  /** objects that the plan deletes, at most 100 */
  readonly leaving: readonly LeavingObject[]
  /** objects that have left the commit and stay, at most 100 */
  readonly kept: readonly LeavingObject[]
  /** objects that bear its marks and are in no inventory, at most 100: they are never deleted */
  readonly orphans: readonly SourceObject[]
  /** environments that it deploys to */
  readonly environments: readonly string[]
  /** path of the GitSync or ConfigMap that takes approvals; absent: there is none yet */
  readonly statusObject?: string | undefined
  /** whether not all of its objects are listed, because the answer would be too large; `counts` has all */
  readonly incomplete: boolean
}

/** Objects of a source by what became of them. */
export interface SourceCounts {
  /** objects of the commit */
  readonly objects: Count
  /** objects that were applied */
  readonly applied: Count
  /** objects that were as they should be */
  readonly unchanged: Count
  /** objects that could not be applied */
  readonly failed: Count
  /** objects that wait for others */
  readonly waiting?: Count | undefined
  /** objects that were deleted, because they have left the commit */
  readonly pruned?: Count | undefined
  /** objects that were to be deleted, and are still there */
  readonly surviving?: Count | undefined
  /** objects that others have changed */
  readonly drifted?: Count | undefined
  /** objects that bear its marks and are in no inventory */
  readonly orphans?: Count | undefined
}

/** An object of a source that is not as it should be. */
export interface SourceFailure {
  /** the object; absent: it is about a file */
  readonly object?: SourceObject | undefined
  /** what is wrong, a sentence */
  readonly message: string
  /** file that has it */
  readonly file?: string | undefined
  /** line of the file */
  readonly line?: Count | undefined
}

/** An object that the commit does not have any more. */
export interface LeavingObject {
  /** the object */
  readonly object?: SourceObject | undefined
  /** reason why it is not simply deleted, one word */
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
  /** namespace; absent: it is in none */
  readonly namespace?: string | undefined
  /** name */
  readonly name: string
}
