import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { Service } from '../lib/service.ts'
import type { Tracer } from '../lib/tracing/tracer.ts'
import type { AgentMeta } from '../proto/gen/entity_pb.ts'
import type { ApiClient } from './cluster/api-client.ts'
import type { Identities } from './cluster/identities.ts'
import type { Configuration } from './configuration/configuration.ts'
import type { Election } from './election/election.ts'
import type { Term } from './election/terms.ts'
import type { KasConnections } from './tunnels/kas-connections.ts'
import type { Serve } from './tunnels/serve.ts'

/** A feature of agentk: a folder in `modules`, and a line in `app.ts`. */
export interface AgentkModule {
  /** by `/package.Service/Method`: serve through the tunnels of every pod; `kas.announce` reads them again */
  readonly methods?: ReadonlyMap<string, Serve>
  /** features that kas has to know before it sends the configuration: parts of it are for agents that have them */
  readonly features?: readonly string[]
  /** started in every pod, in order, after the connections to kas and before their tunnels */
  readonly services?: readonly Service[]
  /** Does work that one pod does for all, after the first configuration; ends soon after the term's signal aborts. */
  readonly lead?: (term: Term) => Promise<void>
}

/** Parts of agentk that modules are built with. */
export interface AgentkHost {
  readonly api: ApiClient
  /** decides who a request acts as, if not as agentk's own account */
  readonly identities: Identities
  readonly kas: Pick<
    KasConnections,
    'connected' | 'session' | 'onSession' | 'metadata' | 'announce' | 'hasFeature' | 'onFeature'
  >
  readonly configuration: Pick<Configuration, 'current' | 'onChange' | 'block'>
  readonly election: Pick<Election, 'identity' | 'leader' | 'holds' | 'onChange'>
  readonly self: {
    /** without kubernetes_version */
    readonly meta: AgentMeta
    /** `gitlab-agent/<version>/<commit>` */
    readonly product: string
  }
  readonly tracer: Tracer
  readonly clock: Clock
  /** the API server's time since 1970, by which times in objects are compared. It may be set back by a second */
  readonly serverClock: Clock
  readonly random: () => number
  readonly register: Registry
  /** Logger of one part; its level follows the agent's configuration. */
  log(part: string): Logger
}
