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
import type { OwnEndpoint, SignedEndpoint, UserEndpoint } from './own-endpoint.ts'
import type { Leads } from './peers/leads.ts'
import type { Peers } from './peers/peers.ts'
import type { GitalyCoordinates } from './repositories/gitaly/gitaly-coordinates.ts'
import type { Pushes } from './repositories/local-pushes.ts'
import type { Repositories } from './repositories/repositories.ts'
import type { SharedPolls } from './repositories/shared-polls.ts'
import type { Trees } from './repositories/tree.ts'

/** A feature of kas: what it serves on each port. Each stands in its own folder of `modules`. */
export interface KasModule {
  /** heading in `kas status` */
  readonly name: string
  /** 8150, by `/package.Service/Method` */
  readonly agentMethods?: Readonly<Record<string, AgentMethod>>
  /** 8153 */
  readonly railsMethods?: UnaryMethods
  /** 8155: what peers call */
  readonly replicaMethods?: UnaryMethods
  /** 8154 */
  readonly endpoints?: readonly OwnEndpoint[]
  /** 8154 */
  readonly userEndpoints?: readonly UserEndpoint[]
  /** 8154 */
  readonly signedEndpoints?: readonly SignedEndpoint[]
  /** 8154: sees each request whose head can be read, whoever asks, and each watch over a WebSocket, too */
  readonly observe?: ObserveCall
  /** said to each agentk that takes hints: a module of its own asks for them by name (`kas.hasFeature`) */
  readonly features?: readonly string[]
  /** they start once the peers are known, and stop after the servers */
  readonly services?: readonly Service[]
  /** lines of `kas status` */
  status?(): readonly StatusLine[]
}

export type StatusLine = readonly [label: string, value: string | number]

/** What a module is given. */
export interface KasHost {
  readonly directory: Directory
  /** undefined: there is a directory file */
  readonly gitlab: Gitlab | undefined
  /** undefined: there is GitLab */
  readonly localDirectory: LocalDirectory | undefined
  readonly agentConfig: Pick<AgentConfigs, 'newest' | 'refreshed' | 'followed' | 'allFollowed' | 'onChange' | 'file'>
  readonly repositories: HostRepositories
  /** those that this replica knows of */
  readonly pushes: Pushes
  /** of agents' pods, at all replicas; undefined: this replica is alone */
  readonly registrations: RowRegistrations | undefined
  readonly peers: Peers
  readonly leads: Pick<Leads, 'leads' | 'onChange' | 'passOn'>
  /** to agents, whichever replica holds them */
  readonly forward: Forward
  /** whether any pod of the agent serves the method; undefined: none is known to be connected */
  readonly serves: (agentId: AgentId, method: string) => boolean | undefined
  /** agents that have been connected to no replica for so long that nobody need wait; undefined: it is not so, or not known */
  readonly away: (agentId: AgentId) => Away | undefined
  readonly usage: Usage
  readonly tracer: Tracer
  readonly clock: Clock
  readonly register: Registry
  readonly log: Logger
}

export interface HostRepositories extends Pick<Repositories, 'poke'> {
  /** of projects that agents may read, at any ref */
  readonly trees: Pick<Repositories, 'head' | 'seenAt' | 'lastPoll' | 'refresh' | 'onMove'> &
    Pick<Trees, 'files' | 'blobs' | 'contains'>
  /** Calls `listener` with projects whose branch was found moved by a poll alone, until the returned function is called. */
  onFound(listener: (projectId: bigint) => void): () => void
  /** Absent: of the replicas that hold an agent one polls, as `leads` says. */
  readonly sharedPolls?: SharedPolls
  /** A file with the secret of the hooks of the project's Git server; undefined: it has none. Absent: no project has. */
  hookSecretFile?(projectId: bigint): string | undefined
  /** The file of one of the projects that have such a secret; undefined: none has. */
  someHookSecretFile?(): string | undefined
  /**
   * Full paths of the files below a folder of the repository with these coordinates. Absent: no repository has any.
   *
   * @throws KasError REPOSITORY_FAILED, or the signal's reason
   */
  filesAt?(coordinates: GitalyCoordinates, folder: string, signal: AbortSignal): Promise<readonly string[]>
}
