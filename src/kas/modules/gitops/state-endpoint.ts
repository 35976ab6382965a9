import { create, toJson } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import { Gitops, type PushedState, StatesResponseSchema } from '../../../proto/gen/replica_gitops_pb.ts'
import { decodeMessage, type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { OwnEndpoint } from '../../module.ts'
import type { Peers } from '../../replicas/peers.ts'
import type { States } from './states.ts'

export interface StateComponents {
  readonly states: Pick<States, 'of'>
  readonly peers: Pick<Peers, 'broadcast'>
  readonly clock: Clock
}

/** What peers ask this replica. */
export function statesOfPeer({ states, clock }: Omit<StateComponents, 'peers'>): UnaryMethods {
  return unaryService(Gitops, {
    states: async ({ agentId }) =>
      create(StatesResponseSchema, { state: ownStates({ states, clock }, agentId as AgentId) }),
  })
}

/** `GET <prefix>gitops/state`: how the agent's sources fare, as any replica was told last (doc/gitops.md). */
export function stateEndpoint(components: StateComponents): OwnEndpoint {
  return {
    path: '/gitops/state',
    methods: ['GET'],
    serve: async ({ agentId }) => {
      const answers = await components.peers.broadcast(Gitops.method.states, { agentId })
      const all = [...ownStates(components, agentId), ...[...answers.values()].flatMap(({ state }) => state)]
      return { status: 200, mediaType: 'application/json', body: bodyOf(newest(all)) }
    },
  }
}

/** Objects are named in a body of so many bytes; in a longer one there are their numbers alone. */
const maxBodyBytes = 3 * 1024 * 1024

function bodyOf(sources: readonly object[]): Uint8Array {
  const whole = Buffer.from(JSON.stringify({ sources }))
  if (whole.length <= maxBodyBytes) return whole
  const cut = sources.map((source) => ({ ...source, trouble: [], planned: [], orphan: [], problem: '', cut: true }))
  return Buffer.from(JSON.stringify({ sources: cut }))
}

type State = Pick<PushedState, 'state' | 'ageMs' | 'live'>

/** the largest of proto: 49 days */
const maxAgeMs = 0xffff_ffff

function ownStates({ states, clock }: Omit<StateComponents, 'peers'>, agentId: AgentId): State[] {
  const now = clock.now()
  return Array.from(states.of(agentId).values(), ({ bytes, at, live }) => ({
    state: bytes,
    ageMs: Math.min(maxAgeMs, Math.max(0, Math.round(now - at))),
    live,
  }))
}

interface Newest {
  readonly ageMs: number
  readonly live: boolean
  /** undefined: the configuration has it no longer */
  readonly json: object | undefined
}

/** Of each source what was told last, by who still tells: as the agent moves, two replicas may know it. */
function newest(all: readonly State[]): object[] {
  const bySource = new Map<string, Newest>()
  for (const { state, ageMs, live } of all) {
    const message = decodeMessage(SourceStateSchema, state)
    const known = bySource.get(message.source)
    if (known && (known.live === live ? known.ageMs <= ageMs : known.live)) continue
    const { removed, ...told } = toJson(SourceStateSchema, message, {
      alwaysEmitImplicit: true,
      useProtoFieldName: true,
    }) as Record<string, unknown>
    bySource.set(message.source, { ageMs, live, json: removed ? undefined : { ...told, age_ms: ageMs, stale: !live } })
  }
  return [...bySource.values()].flatMap(({ json }) => json ?? [])
}
