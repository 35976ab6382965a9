import type { AgentId } from '../../../../call/call.ts'
import { ByteBudget, countedByBoth } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import { SharedRooms } from '../../../../lib/shared-room.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import type { OwnEndpoint } from '../../../own-endpoint.ts'
import { viewSockets } from '../feed/view.ts'
import { GraphConversation, type GraphConversationComponents } from './graph-conversation.ts'

export interface GraphOptions {
  /** time for the request of a graph to come, once its WebSocket is open, in ms */
  readonly requestMs: number
  /** bytes that are kept of a graph: the client's current one and the next one */
  readonly maxBytes: number
  /** bytes that are kept of all graphs of one agent (`graph_bytes_about_agent`) */
  readonly maxAgentBytes: number
}

export const defaultGraph: GraphOptions = {
  requestMs: 10_000,
  maxBytes: 4 * 1024 * 1024, // 5,000 vertices of 160 bytes and 10,000 arcs, twice
  maxAgentBytes: 32 * 1024 * 1024,
}

/** Subprotocol of GitLab's clients (doc/reference/tunnel-protocol.md 6.8). */
const protocol = 'gitlab-agent-graph-api'

/** Bytes around a request in the query of its view. */
const maxFrameBytes = 64

/** Graphs of one agent's cluster, as GitLab's clients request them (doc/reference/graph.md): over a WebSocket only. */
export function graphEndpoint(
  { feeds, clock }: Pick<GraphConversationComponents, 'feeds' | 'clock'>,
  options: GraphOptions = defaultGraph,
): OwnEndpoint {
  const rooms = new SharedRooms<AgentId>({ name: 'graph_bytes_about_agent', limit: options.maxAgentBytes })
  return {
    path: '/graph',
    methods: ['GET'],
    serve: () => Promise.reject(new KasError({ code: 'UPGRADE_REQUIRED', protocol })),
    upgrade: {
      protocol,
      maxMessageBytes: viewsBounds.maxQueryBytes - maxFrameBytes,
      what: viewSockets,
      beginsByMessage: true,
      open: (opened) => {
        const { agentId, caller } = opened
        const end = (reason: KasError) => conversation.withdraw(reason)
        const hold = rooms.enter(agentId, caller, { what: 'bytes of graphs of this agent', end, amount: 0 })
        const budget = new ByteBudget(options.maxBytes, countedByBoth(hold, opened.socket.memory))
        const parts = { feeds, budget, clock, onClosed: () => hold.leave() }
        const conversation = new GraphConversation(parts, opened, options)
        return conversation
      },
    },
  }
}
