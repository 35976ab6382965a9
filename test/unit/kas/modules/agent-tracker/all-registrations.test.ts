import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Agent } from '../../../../../src/kas/agent.ts'
import { AllRegistrations } from '../../../../../src/kas/modules/agent-tracker/all-registrations.ts'
import { OwnRegistrations } from '../../../../../src/kas/modules/agent-tracker/own-registrations.ts'
import { createLogger } from '../../../../../src/lib/log.ts'
import type { InstanceId, Registration, RowRegistrations } from '../../../../../src/membership/membership.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'
import { instance } from '../../../membership/rows.ts'

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'a/b' } }
const meta = Buffer.from([0x0a, 2, 0x76, 0x31])
const names = ['kas-0', 'kas-1', 'kas-2'] as const

const key = ({ agentId, podId }: Pick<Registration, 'agentId' | 'podId'>) => `${agentId} ${podId}`

/** Replicas that see each other's rows at once. The first living one in `rank` has the first rank. */
class World {
  readonly clock = new ManualClock()
  readonly rows = new Map<InstanceId, Map<string, Registration>>()
  readonly listeners = new Map<InstanceId, (gone: readonly Registration[]) => void>()
  readonly unreachable = new Set<InstanceId>()
  rank: readonly string[] = names
  readonly replicas = names.map((name) => this.#create(name))

  #create(name: string) {
    const id = instance(name)
    const own = new OwnRegistrations({ clock: this.clock, monotonic: this.clock })
    const row = new Map<string, Registration>()
    this.rows.set(id, row)
    const peers = {
      isFirst: () => this.rank.find((other) => other === name || this.#isReachable(other)) === name,
      forgetPod: async (other: InstanceId, agentId: AgentId, podId: bigint) =>
        void this.replicas.find((replica) => replica.id === other)?.own.forget(agentId, podId),
    }
    const log = createLogger({ level: 'silent' })
    const registrations = this.#registrationsOf(id)
    const agents = new AllRegistrations({ own, registrations, peers, clock: this.clock, log })
    return { id, own, agents, row }
  }

  #isReachable(name: string): boolean {
    const id = instance(name)
    return this.rows.has(id) && !this.unreachable.has(id)
  }

  #registrationsOf(id: InstanceId): RowRegistrations {
    const elsewhere = () =>
      [...this.rows].flatMap(([owner, row]) =>
        owner === id ? [] : Array.from(row.values(), (one) => ({ instance: owner, registration: { ...one, id: '' } })),
      )
    return {
      add: (registration) => this.rows.get(id)?.set(key(registration), registration) !== undefined,
      remove: (registration) => void this.rows.get(id)?.delete(key(registration)),
      of: (agentId) => elsewhere().filter(({ registration }) => registration.agentId === agentId),
      all: () => elsewhere().map(({ registration }) => registration),
      onRowRemoved: (listener) => {
        this.listeners.set(id, listener)
        return () => this.listeners.delete(id)
      },
    }
  }

  async start() {
    for (const { agents } of this.replicas) await agents.start()
    return this.replicas as [Replica, Replica, Replica]
  }

  /** Removes the replica's row with its registrations, as a kill does. */
  kill({ id, row }: Replica): void {
    this.rows.delete(id)
    this.listeners.delete(id)
    for (const listener of this.listeners.values()) listener([...row.values()])
  }
}

type Replica = World['replicas'][number]
const podIds = ({ agents }: Replica) => agents.ofAgents(new Set([agent.id])).map((one) => one.podId)
const inRow = ({ row }: Replica) => Array.from(row.values(), ({ podId }) => podId)

t.test(
  'a pod is in the row of the replica with which it registered last, and keeps the time of its first registration',
  async (t) => {
    const world = new World()
    const [first, second, third] = await world.start()
    const since = world.clock.now()
    first.own.register(agent, 7n, meta)
    t.match([...first.row.values()], [{ meta, podId: 7n, renewed: true, registeredAt: since }])
    world.clock.advance(60_000)
    second.own.register(agent, 7n, meta)
    for (const replica of [first, second, third]) {
      t.strictSame(podIds(replica), [7n], 'once')
      t.match(replica.agents.all(), [{ registeredAt: since, projectId: 1n }])
      t.strictSame(replica.agents.all(), replica.agents.ofProjects(new Set([1n])))
    }
    t.strictSame([inRow(first), inRow(second)], [[7n], [7n]], 'in both until all peers have the newer row')
    world.clock.advance(1000)
    t.strictSame([inRow(first), inRow(second)], [[], [7n]])
    t.match(third.agents.all(), [{ registeredAt: since }])
    first.own.unregister(agent, 7n)
    for (const replica of [first, second, third])
      t.strictSame(podIds(replica), [], 'it unregistered with another replica')
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

t.test('a registration that is not renewed leaves the row though nobody asks', async (t) => {
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

t.test('pods of a replica that is gone are adopted by one, unless they end with their streams', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  third.own.register(agent, 8n, meta, { renewed: false })
  third.own.register(agent, 9n, meta)
  second.own.register(agent, 9n, meta) // the pod has already moved
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

t.test('what does not answer adopts nothing: the next in rank does', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  world.unreachable.add(first.id)
  world.listeners.delete(first.id) // the replica is frozen
  world.kill(third)
  world.clock.advance(500)
  t.strictSame([inRow(first), inRow(second)], [[], [7n]])
})

t.test('until a pod is adopted it is still listed, but not for long', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  world.rank = ['kas-2'] // an outdated rank
  world.kill(third)
  t.strictSame([inRow(first), inRow(second)], [[], []])
  t.strictSame([podIds(first), podIds(second)], [[7n], [7n]])
  t.strictSame(first.agents.all(), second.agents.ofProjects(new Set([1n])))
  world.clock.advance(2000)
  t.strictSame([podIds(first), podIds(second)], [[], []])
})

t.test('a pod that unregisters just after its replica is gone is not adopted for good', async (t) => {
  const world = new World()
  const [first, second, third] = await world.start()
  third.own.register(agent, 7n, meta)
  world.kill(third)
  second.own.unregister(agent, 7n)
  t.strictSame(podIds(second), [])
  world.clock.advance(500)
  t.strictSame(inRow(first), [7n], 'the first adopts it meanwhile')
  world.clock.advance(1500)
  t.strictSame([podIds(first), podIds(second)], [[], []])
})

t.test('what was registered before the start is published at the start; what does not fit stays here', async (t) => {
  const world = new World()
  const [first, second] = world.replicas as [Replica, Replica, Replica]
  first.own.register(agent, 7n, meta)
  await first.agents.start()
  await second.agents.start()
  t.strictSame(podIds(second), [7n])

  const own = new OwnRegistrations({ clock: world.clock, monotonic: world.clock })
  const full = new AllRegistrations({
    own,
    registrations: {
      add: () => {
        throw new Error('the row is full')
      },
      remove: () => undefined,
      of: () => [],
      all: () => [],
      onRowRemoved: () => () => undefined,
    },
    peers: { isFirst: () => true, forgetPod: async () => undefined },
    clock: world.clock,
    log: createLogger({ level: 'silent' }),
  })
  await full.start()
  t.teardown(() => full.stop())
  own.register(agent, 5n, meta)
  t.match(full.all(), [{ podId: 5n }])
})
