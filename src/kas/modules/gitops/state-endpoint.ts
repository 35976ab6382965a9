import { setImmediate } from 'node:timers/promises'
import { create, toJson } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import { SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import { Gitops, type PushedState, StatesResponseSchema } from '../../../proto/gen/replica_gitops_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import { Reader } from '../../../proto/wire/wire.ts'
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

/**
 * `GET <prefix>gitops/state`: how the agent's sources fare, as any replica was told last (doc/gitops.md). Who asks while
 * another is answered gets the same answer.
 */
export function stateEndpoint(components: StateComponents): OwnEndpoint {
  const answers = new Map<AgentId, Promise<Uint8Array>>()
  const answer = (agentId: AgentId) => {
    const running = answers.get(agentId)
    if (running) return running
    const begun = bodyFor(components, agentId).finally(() => answers.delete(agentId))
    answers.set(agentId, begun)
    return begun
  }
  return {
    path: '/gitops/state',
    methods: ['GET'],
    serve: async ({ agentId }) => ({ status: 200, mediaType: 'application/json', body: await answer(agentId) }),
  }
}

async function bodyFor(components: StateComponents, agentId: AgentId): Promise<Uint8Array> {
  const answers = await components.peers.broadcast(Gitops.method.states, { agentId })
  const all = [...ownStates(components, agentId), ...[...answers.values()].flatMap(({ state }) => state)]
  const states = newest(all)
  const body = (await textOf(states, sourceJson)) ?? (await textOf(states, shortJson))
  if (!body) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: maxBodyBytes + 1, maxBytes: maxBodyBytes })
  return body
}

/** Objects are named in a body of so many bytes; in a longer one there are their numbers alone. */
const maxBodyBytes = 3 * 1024 * 1024

/**
 * Others have their turn after each source.
 *
 * @returns undefined: it is longer than a body may be
 */
async function textOf(
  states: readonly State[],
  json: (state: State) => object | undefined,
): Promise<Uint8Array | undefined> {
  const texts: string[] = []
  let bytes = 0
  for (const state of states) {
    const source = json(state)
    if (source) {
      const text = JSON.stringify(source)
      bytes += Buffer.byteLength(text) + 1
      if (bytes > maxBodyBytes) return undefined
      texts.push(text)
    }
    await setImmediate()
  }
  return Buffer.from(`{"sources":[${texts.join()}]}`)
}

type State = Pick<PushedState, 'state' | 'ageMs' | 'live'>

function ownStates({ states, clock }: Omit<StateComponents, 'peers'>, agentId: AgentId): State[] {
  const now = clock.now()
  return Array.from(states.of(agentId).values(), ({ bytes, at, live }) => ({
    state: bytes,
    ageMs: ageMs(at, now),
    live,
  }))
}

/** Of each source the newest state, and one of an open stream first: as the agent moves, two replicas may know it. */
function newest(all: readonly State[]): State[] {
  const bySource = new Map<string, State>()
  for (const state of all) {
    const source = sourceOf(state.state)
    const known = bySource.get(source)
    if (known && (known.live === state.live ? known.ageMs <= state.ageMs : known.live)) continue
    bySource.set(source, state)
  }
  return [...bySource.values()]
}

/** Without building the rest. @throws KasError INVALID_MESSAGE */
function sourceOf(state: Uint8Array): string {
  let source = ''
  const reader = new Reader(state)
  while (reader.next()) if (reader.field === SourceStateSchema.field.source.number) source = reader.utf8
  return source
}

/** @returns undefined: the configuration has it no longer */
function sourceJson({ state, ageMs, live }: State): object | undefined {
  const { removed, ...source } = toJson(SourceStateSchema, decodeMessage(SourceStateSchema, state), {
    alwaysEmitImplicit: true,
    useProtoFieldName: true,
  }) as Record<string, unknown>
  return removed ? undefined : { ...source, age_ms: ageMs, stale: !live }
}

function shortJson(state: State): object | undefined {
  const source = sourceJson(state)
  return source && { ...source, trouble: [], planned: [], environment: [], orphan: [], problem: '', cut: true }
}
