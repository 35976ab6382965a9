import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { OwnRequest } from '../../../../../src/kas/module.ts'
import { stateEndpoint } from '../../../../../src/kas/modules/gitops/state-endpoint.ts'
import type { Peers } from '../../../../../src/kas/replicas/peers.ts'
import { SourceStateSchema } from '../../../../../src/proto/gen/gitops_states_pb.ts'
import { StatesResponseSchema } from '../../../../../src/proto/gen/replica_gitops_pb.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

/** An endpoint at a replica with one peer, which knows of so many sources of each agent. */
function start(count: number, environment: string[]) {
  let asked = 0
  const broadcast = async (_: unknown, { agentId }: { agentId: bigint }) => {
    asked += 1
    const state = Array.from({ length: count }, (_each, i) => {
      const bytes = toBinary(SourceStateSchema, create(SourceStateSchema, { source: `${agentId}-${i}`, environment }))
      return { state: bytes, ageMs: 1, live: true }
    })
    return new Map([['peer', create(StatesResponseSchema, { state })]])
  }
  const peers = { broadcast } as unknown as Pick<Peers, 'broadcast'>
  const endpoint = stateEndpoint({ states: { of: () => new Map() }, peers, clock: new ManualClock() })
  const get = async (agentId: bigint) => {
    const { status, body } = await endpoint.serve({ agentId: agentId as AgentId } as OwnRequest)
    return { status, sources: JSON.parse(Buffer.from(body).toString()).sources as { source: string; cut?: true }[] }
  }
  return { get, asked: () => asked }
}

t.test('who asks of one agent at once shares an answer, and nobody gets another agent’s', async (t) => {
  const { get, asked } = start(1, [])
  const [first, second, other] = await Promise.all([get(42n), get(42n), get(43n)])
  t.strictSame(
    [first, second, other].map(({ sources }) => sources.map(({ source }) => source)),
    [['42-0'], ['42-0'], ['43-0']],
  )
  t.equal(asked(), 2)
  await get(42n)
  t.equal(asked(), 3, 'who comes later gets what is so then')
})

t.test('states that are too long together are cut, whatever makes them so', async (t) => {
  const { get } = start(60, Array(6).fill('e'.repeat(10_000)))
  const { status, sources } = await get(42n)
  t.equal(status, 200)
  t.equal(sources.filter(({ cut }) => cut).length, 60)
})
