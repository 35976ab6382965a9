import type { AgentId, Forward } from '../call/call.ts'
import type { Clock } from '../lib/clock.ts'
import type { Away } from '../lib/errors.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { Service } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import type { RowRegistrations } from '../membership/membership.ts'
import type { UnaryMethods } from '../proto/unary.ts'
import type { ObserveCall } from './access-log/call-record.ts'
import type { AgentConfigs } from './agent-config/agent-configs.ts'
import type { AgentMethod } from './agent-method.ts'
import type { Directory } from './directory/directory.ts'
import type { Gitlab } from './directory/gitlab.ts'
import type { LocalDirectory } from './directory/local-directory.ts'
import type { Usage } from './directory/usage.ts'
import type { KasEndpoint } from './own-endpoint.ts'
import type { Leads } from './peers/leads.ts'
import type { Peers } from './peers/peers.ts'
import type { GitalyCoordinates } from './repositories/gitaly/gitaly-coordinates.ts'
import type { Pushes } from './repositories/local-pushes.ts'
import type { Repositories } from './repositories/repositories.ts'
import type { SharedPolls } from './repositories/shared-polls.ts'
import type { Trees } from './repositories/tree.ts'

/** A feature of kas, with its parts on each port. Each module is in its own folder of `modules`. */
export interface KasModule {
  /** heading in `kas status` */
  readonly name: string
  /** 8150, by `/package.Service/Method` */
  readonly agentMethods?: Readonly<Record<string, AgentMethod>>
  /** 8153 */
  readonly railsMethods?: UnaryMethods
  /** 8155: methods for peers */
  readonly replicaMethods?: UnaryMethods
  /** 8154 */
  readonly endpoints?: readonly KasEndpoint[]
  /** 8154: called for each request with a valid head, from any caller, and for each watch over a WebSocket */
  readonly observe?: ObserveCall
  /** features that are sent to each agentk that takes hints; its modules ask for them by name (`kas.hasFeature`) */
  readonly features?: readonly string[]
  /** services that start once the peers are known, and stop after the servers */
  readonly services?: readonly Service[]
  /** returns lines of `kas status` */
  status?(): readonly StatusLine[]
}

export type StatusLine = readonly [label: string, value: string | number]

/** Parts of kas that a module gets. */
export interface KasHost {
  readonly directory: Directory
  /** undefined: kas uses a directory file */
  readonly gitlab: Gitlab | undefined
  /** undefined: kas uses GitLab */
  readonly localDirectory: LocalDirectory | undefined
  readonly agentConfig: Pick<AgentConfigs, 'newest' | 'refreshed' | 'followed' | 'allFollowed' | 'onChange' | 'file'>
  readonly repositories: HostRepositories
  /** pushes that this replica knows of */
  readonly pushes: Pushes
  /** registrations of agents' pods, at all replicas; undefined: this replica is alone */
  readonly registrations: RowRegistrations | undefined
  readonly peers: Peers
  readonly leads: Pick<Leads, 'leads' | 'onChange' | 'passOn'>
  /** calls agents, through any replica */
  readonly forward: Forward
  /** true if any pod of the agent serves the method; undefined: no connection of the agent is known */
  readonly serves: (agentId: AgentId, method: string) => boolean | undefined
  /**
   * returns agents that have been away from all replicas for so long that callers need not wait; undefined: not so, or
   * unknown
   */
  readonly away: (agentId: AgentId) => Away | undefined
  readonly usage: Usage
  readonly tracer: Tracer
  readonly clock: Clock
  readonly register: Registry
  readonly log: Logger
}

export interface HostRepositories extends Pick<Repositories, 'pollAfterNotice'> {
  /** trees of projects that agents may read, at any ref */
  readonly trees: Pick<Repositories, 'head' | 'seenAt' | 'lastPoll' | 'pollAndReport' | 'onMove'> &
    Pick<Trees, 'files' | 'blobs' | 'contains'>
  /** Calls `listener` with projects whose branch only a poll found moved, until the returned function is called. */
  onFound(listener: (projectId: bigint) => void): () => void
  /** Absent: of the replicas with an agent of the project, one polls, as `leads` says. */
  readonly sharedPolls?: SharedPolls
  /**
   * Returns the file with the secret of the hooks of the project's Git server; undefined: it has none. Absent: no
   * project has one.
   */
  hookSecretFile?(projectId: bigint): string | undefined
  /** Returns the file of any project with such a secret; undefined: no project has one. */
  someHookSecretFile?(): string | undefined
  /**
   * Returns full paths of the files below a folder of the repository with these coordinates. Absent: no repository has
   * coordinates.
   *
   * @throws KasError REPOSITORY_FAILED, or the signal's reason
   */
  filesAt?(coordinates: GitalyCoordinates, folder: string, signal: AbortSignal): Promise<readonly string[]>
}
