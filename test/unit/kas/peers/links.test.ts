import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import type { Reach } from '../../../../src/kas/peers/link.ts'
import { createLinkMetrics, Links } from '../../../../src/kas/peers/links.ts'
import type { ReplicaIdentity } from '../../../../src/kas/peers/replica-identity.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { createLogger } from '../../../../src/lib/log.ts'
import { createRegistry } from '../../../../src/lib/metrics.ts'
import { noTracer } from '../../../../src/lib/tracing/tracer.ts'
import type { Holder, InstanceId, MembershipChange, Row } from '../../../../src/membership/membership.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const agentId = 42n as AgentId
const method = '/service/Method'

/** Peers that all hold the agent and cannot be dialled. */
class FakeMembership {
  readonly instance = 'own' as InstanceId
  readonly leaving = new Set<string>()
  asked = 0
  #listener: (change: MembershipChange) => void = () => undefined
  #version = 1
  readonly #names: readonly string[]

  constructor(names: readonly string[]) {
    this.#names = names
  }

  rows(): readonly Row[] {
    return this.#names.map((name) => {
      const state = this.leaving.has(name) ? 'leaving' : 'serving'
      const head = { name, state, replicaPort: 8155, publicKeyHash: '' }
      return { instance: name, version: this.#version, head } as unknown as Row
    })
  }

  holders(): readonly Holder[] {
    this.asked++
    return this.rows().map((row) => ({ row, connections: [], methods: new Set([method]), address: undefined }))
  }

  rank(): readonly string[] {
    return this.#names.toReversed()
  }

  addressOf({ instance }: Row): string {
    return `${instance}:8155`
  }

  announce(): void {}

  onChange(listener: (change: MembershipChange) => void): () => void {
    this.#listener = listener
    return () => undefined
  }

  change(change: MembershipChange): void {
    this.#version++
    this.#listener(change)
  }
}

t.test('candidates stand in the order of the ring, those that leave last, and are looked for once', async (t) => {
  const membership = new FakeMembership(['a', 'b', 'c'])
  const links = new Links({
    membership,
    identity: {} as ReplicaIdentity,
    log: createLogger({ level: 'error' }),
    dial: () => Promise.reject(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })),
    tracer: noTracer,
    clock: new ManualClock(),
  })
  await links.start()
  t.teardown(() => links.stop())
  const found = () => links.candidates(agentId, method).map(({ instance, version }) => `${instance} ${version}`)
  t.strictSame(found(), ['c 1', 'b 1', 'a 1'])
  t.strictSame(found(), ['c 1', 'b 1', 'a 1'])
  t.equal(membership.asked, 1)
  membership.change({ kind: 'connections', agentIds: new Set([43n as AgentId]) })
  t.strictSame(found(), ['c 1', 'b 1', 'a 1'], 'what changes for another agent does not concern it')
  membership.change({ kind: 'connections', agentIds: new Set([agentId]) })
  t.strictSame(found(), ['c 3', 'b 3', 'a 3'])
  membership.leaving.add('c')
  membership.change({ kind: 'members' })
  t.strictSame(found(), ['b 4', 'a 4', 'c 4'])
  t.equal(membership.asked, 3)
  t.strictSame(links.candidates(agentId, '/service/Other'), [])
})

t.test('links are counted by whether they answer, anew at each scrape', async (t) => {
  const register = createRegistry()
  let now: Reach[] = ['reachable', 'reachable', 'down']
  createLinkMetrics(register, { reaches: () => now })
  const counts = async () => {
    const { values = [] } = (await register.getSingleMetric('kas_replica_links')?.get()) ?? {}
    return Object.fromEntries(values.map(({ labels, value }) => [labels.reach, value]))
  }
  t.strictSame(await counts(), { reachable: 2, suspect: 0, unreachable: 0, down: 1 })
  now = ['suspect', 'unreachable']
  t.strictSame(await counts(), { reachable: 0, suspect: 1, unreachable: 1, down: 0 })
})
