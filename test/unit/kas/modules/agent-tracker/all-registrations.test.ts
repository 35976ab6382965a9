import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { ClusterAgents } from '../../../../../src/kas/modules/agent-tracker/all-registrations.ts'
import { ConnectedAgents } from '../../../../../src/kas/modules/agent-tracker/own-registrations.ts'
import { createLogger } from '../../../../../src/lib/log.ts'
import type { ConnectionEntry, InstanceId, MembershipChange, Row } from '../../../../../src/membership/membership.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'
import { head, instance } from '../../../membership/rows.ts'

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'a/b' } }
const meta = Buffer.from([0x0a, 2, 0x76, 0x31])
const names = ['kas-0', 'kas-1', 'kas-2'] as const

/** Replicas whose rows the others see at once; the first name that lives is first in rank. */
class World {
  readonly clock = new ManualClock()
  readonly rows = new Map<InstanceId, Row & { connections: Map<string, ConnectionEntry> }>()
  readonly listeners = new Map<InstanceId, (change: MembershipChange) => void>()
  readonly unreachable = new Set<InstanceId>()
  rank: readonly string[] = names
  readonly replicas = names.map((name) => this.#create(name))

  #create(name: string) {
    const id = instance(name)
    const own = new ConnectedAgents({ clock: this.clock })
    const row = { instance: id, version: 1, head: { ...head, name }, connections: new Map<string, ConnectionEntry>() }
    this.rows.set(id, row)
    const others = {
      isFirst: () => this.rank.find((other) => other === name || this.#isReachable(other)) === name,
      forgetPod: async (other: InstanceId, agentId: AgentId, podId: bigint) =>
        void this.replicas.find((replica) => replica.id === other)?.own.forget(agentId, podId),
    }
    const log = createLogger({ level: 'silent' })
    const agents = new ClusterAgents({ own, membership: this.#membershipOf(name), others, clock: this.clock, log })
    return { id, own, agents, row }
  }

  #isReachable(name: string): boolean {
    const id = instance(name)
    return this.rows.has(id) && !this.unreachable.has(id)
  }

  #membershipOf(name: string) {
    const id = instance(name)
    const row = () => this.rows.get(id)
    const changed = (agentIds: MembershipChange['agentIds']) => {
      for (const [other, listener] of this.listeners) if (other !== id) listener({ agentIds })
    }
    return {
      instance: id,
      rows: () => [...this.rows.values()],
      holders: (agentId: AgentId) =>
        [...this.rows.values()].flatMap((one) => {
          const connections = [...one.connections.values()].filter((entry) => entry.agentId === agentId)
          const held = { row: one, address: undefined, connections, methods: new Set<string>() }
          return one.instance === id || connections.length === 0 ? [] : [held]
        }),
      onChange: (listener: (change: MembershipChange) => void) => {
        this.listeners.set(id, listener)
        return () => this.listeners.delete(id)
      },
      addConnection: (entry: ConnectionEntry) => {
        row()?.connections.set(entry.id, entry)
        changed(new Set([entry.agentId]))
        return true
      },
      removeConnection: (entryId: string) => {
        const entry = row()?.connections.get(entryId)
        row()?.connections.delete(entryId)
        if (entry) changed(new Set([entry.agentId]))
      },
    }
  }

  async start() {
    for (const { agents } of this.replicas) await agents.start()
    return this.replicas as [Replica, Replica, Replica]
  }

  /** As a kill: its row goes, with what was in it. */
  kill({ id }: Replica): void {
    this.rows.delete(id)
    this.listeners.delete(id)
    for (const listener of this.listeners.values()) listener({ agentIds: 'members' })
  }
}

type Replica = World['replicas'][number]
const podIds = ({ agents }: Replica) => agents.ofAgents(new Set([agent.id])).map((one) => one.connectionId)
const inRow = ({ row }: Replica) => [...row.connections.values()].map(({ registration }) => registration?.podId)

t.test(
  'a pod is in the row of the replica that heard it last, and keeps the time since when it is there',
  async (t) => {
    const world = new World()
    const [first, second, third] = await world.start()
    const since = world.clock.now()
    first.own.register(agent, 7n, meta)
    t.match([...first.row.connections.values()], [{ agentMeta: meta, methods: [], registration: { podId: 7n } }])
    world.clock.advance(60_000)
    second.own.register(agent, 7n, meta)
    for (const replica of [first, second, third]) {
      t.strictSame(podIds(replica), [7n], 'once')
      t.match(replica.agents.all(), [{ connectedAt: since, projectId: 1n }])
      t.strictSame(replica.agents.all(), replica.agents.ofProjects(new Set([1n])))
    }
    t.strictSame([inRow(first), inRow(second)], [[7n], [7n]], 'in both until all have heard')
    world.clock.advance(1000)
    t.strictSame([inRow(first), inRow(second)], [[], [7n]])
    t.match(third.agents.all(), [{ connectedAt: since }])
    first.own.unregister(agent, 7n)
    for (const replica of [first, second, third]) t.strictSame(podIds(replica), [], 'it told another replica')
  },
)

t.test('a pod that goes to and fro is not lost', async (t) => {
  const world = new World()
  const [first, second] = await world.start()
  first.own.register(agent, 7n, meta)
  second.own.register(agent, 7n, meta)
  world.clock.advance(500)
  first.own.forget(agent.id, 7n)
  first.own.register(agent, 7n, meta)
  world.clock.advance(10_000)
  t.equal([...inRow(first), ...inRow(second)].length, 1)
  t.strictSame([podIds(first), podIds(second)], [[7n], [7n]])
})

t.test('a silent pod goes from the row though nobody asks', async (t) => {
  const world = new World()
  const [first, second] = await world.start()
  first.own.register(agent, 7n, meta)
  world.clock.advance(329_000)
  t.strictSame(podIds(second), [7n])
  world.clock.advance(6000)
  t.strictSame([inRow(first), podIds(second)], [[], []])
  for (const { agents } of [...world.replicas]) await agents.stop()
  t.equal(world.clock.pending, 0)
})

t.test('pods of a replica that is gone are taken over by one, unless they end with their streams', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  third.own.register(agent, 8n, meta, { renewed: false })
  third.own.register(agent, 9n, meta)
  second.own.register(agent, 9n, meta) // it has moved already
  world.kill(third)
  world.clock.advance(500)
  t.strictSame([inRow(first), inRow(second)], [[7n], [9n]])
  t.strictSame(
    [podIds(first), podIds(second)].map((ids) => ids.toSorted()),
    [
      [7n, 9n],
      [7n, 9n],
    ],
  )
  world.unreachable.add(first.id)
  world.kill(first)
  world.clock.advance(500)
  t.strictSame(inRow(second).toSorted(), [7n, 9n], 'and again')
  world.clock.advance(335_000)
  t.strictSame(podIds(second), [], 'but not for ever')
})

t.test('what does not answer takes nothing over: the next in rank does', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  world.unreachable.add(first.id)
  world.listeners.delete(first.id) // frozen: it hears nothing
  world.kill(third)
  world.clock.advance(500)
  t.strictSame([inRow(first), inRow(second)], [[], [7n]])
})

t.test('while nobody has taken over a pod yet it is not missed, and not for long', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  world.rank = ['kas-2'] // that of a moment ago
  world.kill(third)
  t.strictSame([inRow(first), inRow(second)], [[], []])
  t.strictSame([podIds(first), podIds(second)], [[7n], [7n]])
  t.strictSame(first.agents.all(), second.agents.ofProjects(new Set([1n])))
  world.clock.advance(2000)
  t.strictSame([podIds(first), podIds(second)], [[], []])
})

t.test('a pod that goes just after its replica is gone for good', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  world.kill(third)
  second.own.unregister(agent, 7n)
  t.strictSame(podIds(second), [])
  world.clock.advance(500)
  t.strictSame(inRow(first), [7n], 'the first did not hear of it')
  world.clock.advance(1500)
  t.strictSame([podIds(first), podIds(second)], [[], []])
})

t.test('what was registered before the start is told at the start; what does not fit stays here', async (t) => {
  const world = new World()
  const [first, second] = world.replicas as [Replica, Replica, Replica]
  first.own.register(agent, 7n, meta)
  await first.agents.start()
  await second.agents.start()
  t.strictSame(podIds(second), [7n])

  const own = new ConnectedAgents({ clock: world.clock })
  const full = new ClusterAgents({
    own,
    membership: {
      instance: instance('x'),
      rows: () => [],
      holders: () => [],
      onChange: () => () => undefined,
      addConnection: () => {
        throw new Error('the row is full')
      },
      removeConnection: () => undefined,
    },
    others: { isFirst: () => true, forgetPod: async () => undefined },
    clock: world.clock,
    log: createLogger({ level: 'silent' }),
  })
  await full.start()
  t.teardown(() => full.stop())
  own.register(agent, 5n, meta)
  t.match(full.all(), [{ connectionId: 5n }])
})
