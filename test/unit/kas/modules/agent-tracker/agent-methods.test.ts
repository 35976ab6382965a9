import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { noUsage } from '../../../../../src/kas/directory/usage.ts'
import { agentTrackerMethods, registerEvent } from '../../../../../src/kas/modules/agent-tracker/agent-methods.ts'
import { OwnRegistrations } from '../../../../../src/kas/modules/agent-tracker/own-registrations.ts'
import { UnregisterRequestSchema } from '../../../../../src/proto/gen/agent_registrar_pb.ts'
import { AgentMetaSchema } from '../../../../../src/proto/gen/entity_pb.ts'
import { FakeAgentCall } from '../../../../support/fake-agent-call.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'a/b' } }
const service = '/gitlab.agent.agent_registrar.rpc.AgentRegistrar'

/** version "v1", unknown field 6 "abc" and an empty kubernetes_version, in an unusual order */
const meta = Buffer.from([0x32, 0x03, 0x61, 0x62, 0x63, 0x2a, 0x00, 0x0a, 0x02, 0x76, 0x31])
const register = (podId: number, bytes = meta) =>
  Buffer.concat([Buffer.from([0x0a, bytes.length]), bytes, Buffer.from([0x10, podId])])

async function call(methods: ReturnType<typeof agentTrackerMethods>, method: string, ...requests: Uint8Array[]) {
  const call = new FakeAgentCall({ agent, messages: requests })
  await methods[`${service}/${method}`]?.serve(call)
  return call.sent
}

// wire: 8150.Register, 8150.Unregister, 8150.register.meta, 8150.register.pod-id
t.test('a pod is known from Register to Unregister, its meta byte for byte', async (t) => {
  const clock = new ManualClock()
  const own = new OwnRegistrations({ clock, monotonic: clock })
  const methods = agentTrackerMethods({ own, usage: noUsage })
  t.same(Object.keys(methods), [`${service}/Register`, `${service}/Unregister`])
  for (const method of Object.values(methods)) t.match(method, { type: 'unary', patient: false })
  t.same(await call(methods, 'Register', register(7)), [new Uint8Array()])
  clock.advance(300_000)
  await call(methods, 'Register', register(7))
  await call(methods, 'Register', register(8))
  const [first, second] = own.ofAgents(new Set([agent.id]))
  t.match(first, { agentId: 42n, projectId: 1n, podId: 7n, registeredAt: clock.now() - 300_000 })
  t.same(Buffer.from(first?.meta ?? []), meta)
  t.equal(second?.podId, 8n)
  const unregister = toBinary(UnregisterRequestSchema, create(UnregisterRequestSchema, { podId: 7n }))
  t.same(await call(methods, 'Unregister', unregister), [new Uint8Array()])
  t.same(
    own.all().map((one) => one.podId),
    [8n],
  )
})

t.test('a registration that is not renewed goes, and the oldest makes room', async (t) => {
  const clock = new ManualClock()
  const own = new OwnRegistrations({ clock, monotonic: clock }, { maxPodsPerAgent: 2 })
  for (const id of [1n, 2n, 3n]) own.register(agent, id, meta)
  t.same(
    own.all().map((one) => one.podId),
    [2n, 3n],
  )
  clock.advance(300_000)
  own.register(agent, 2n, meta)
  clock.advance(30_000)
  t.same(
    own.ofAgents(new Set([agent.id])).map((one) => one.podId),
    [2n],
  )
  clock.advance(300_000)
  t.same(own.all(), [])
})

t.test('a clock that is set, ahead or back, changes nothing of how long a registration lives', async (t) => {
  const monotonic = new ManualClock(0)
  for (const setByMs of [3_600_000, -3_600_000]) {
    const clock = new ManualClock()
    const own = new OwnRegistrations({ clock: { now: () => clock.now() + (set ? setByMs : 0) }, monotonic })
    let set = false
    own.register(agent, 1n, meta)
    set = true
    monotonic.advance(300_000)
    own.register(agent, 2n, meta)
    t.match(own.all(), [
      { podId: 1n, registeredAt: clock.now() },
      { podId: 2n, registeredAt: clock.now() + setByMs },
    ])
    monotonic.advance(30_000)
    t.match(own.all(), [{ podId: 2n }])
    monotonic.advance(300_000)
    t.same(own.all(), [])
  }
})

// wire: error.agent.invalid
t.test('malformed and oversized requests are refused', async (t) => {
  const methods = agentTrackerMethods({
    usage: noUsage,
    own: new OwnRegistrations({ clock: new ManualClock(), monotonic: new ManualClock() }, { maxMetaBytes: 20 }),
  })
  const refused: [string, Uint8Array[]][] = [
    ['no request message', []],
    ['more than one request message', [register(1), register(1)]],
    ['agent_meta is required', [Buffer.from([0x10, 1])]],
    ['malformed', [Buffer.from([0x0a, 0x7f, 1])]],
    ['agent_meta has 21 bytes, more than 20', [register(1, Buffer.from([0x0a, 19, ...new Uint8Array(19)]))]],
  ]
  for (const [says, requests] of refused) {
    await t.rejects(call(methods, 'Register', ...requests), { code: 'INVALID_MESSAGE', message: new RegExp(says) })
  }
})

t.test("an agent's pods have a budget of bytes, of which others see nothing", (t) => {
  const own = new OwnRegistrations(
    { clock: new ManualClock(), monotonic: new ManualClock() },
    { maxMetaBytesPerAgent: 30 },
  )
  const other: Agent = { ...agent, id: 43n as AgentId }
  own.register(other, 1n, Buffer.alloc(10))
  for (const id of [1n, 2n, 3n]) own.register(agent, id, Buffer.alloc(10))
  own.register(agent, 1n, Buffer.alloc(10))
  own.register(agent, 4n, Buffer.alloc(15))
  t.strictSame(
    own.ofAgents(new Set([agent.id])).map((one) => one.podId),
    [1n, 4n],
  )
  t.equal(own.ofAgents(new Set([other.id])).length, 1)
  own.register(agent, 5n, Buffer.alloc(40))
  t.strictSame(
    own.ofAgents(new Set([agent.id])).map((one) => one.podId),
    [5n],
    'one that is larger than that stands alone',
  )
  t.end()
})

t.test('what GitLab is told of a pod is short, whatever the pod says', (t) => {
  const long = 'x'.repeat(4000)
  const event = registerEvent(
    agent,
    create(AgentMetaSchema, {
      version: long,
      kubernetesVersion: { gitVersion: long, platform: `linux/${long}/${long}` },
    }),
  )
  t.match(event, { project_id: 1n, agent_id: 42n, agent_version: /^x{64}…$/, architecture: /^x{64}…$/ })
  t.match(event, { kubernetes_version: /^x{64}…$/ })
  const kubernetesVersion = { gitVersion: 'v1.31.4-eks-2d5f260', platform: 'linux/arm64' }
  t.match(registerEvent(agent, create(AgentMetaSchema, { version: 'v18.9.0', kubernetesVersion })), {
    agent_version: 'v18.9.0',
    architecture: 'arm64',
    kubernetes_version: 'v1.31.4-eks-2d5f260',
  })
  t.end()
})
