import t from 'tap'
import type { Reach } from '../../../../src/kas/peers/link.ts'
import { ReplicaLinks } from '../../../../src/kas/peers/replica-links.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import type { InstanceId, Member } from '../../../../src/membership/membership.ts'
import type { UnaryMethods } from '../../../../src/proto/unary.ts'
import { FakePeers } from './fake-peers.ts'

/** Each replica reports the peers that it reaches. The replica that is asked merges the reports and names the gaps. */

const member = (name: string, more: Partial<Member> = {}): Member => ({
  name,
  instance: name as InstanceId,
  state: 'serving',
  address: `${name}:8155`,
  self: false,
  connected: true,
  instances: 1,
  ...more,
})

function replica(name: string, { members, reach = {}, peers = new FakePeers(), nowMs = 0 }: Scene) {
  const membership = {
    name,
    instance: name as InstanceId,
    members: () => [member(name, { self: true }), ...members],
    failingSources: () => [{ name: 'dns', reason: 'SERVFAIL' }],
    unanswered: () => [{ address: '10.0.0.9:8156', dials: 3, reason: 'connect ECONNREFUSED' }],
  }
  const link = (instance: InstanceId) => ({ reach: reach[instance] ?? 'reachable' }) as never
  return new ReplicaLinks({ membership, links: { link }, peers, clock: { ...systemClock, now: () => nowMs } })
}

interface Scene {
  readonly members: readonly Member[]
  readonly reach?: Readonly<Record<string, Reach>>
  readonly peers?: FakePeers
  readonly nowMs?: number
}

t.test('what each says of the others, clocks, and who says nothing', async (t) => {
  const other = replica('kas-1', { members: [member('kas-0', { connected: false })], nowMs: 61_000 })
  const peers = new FakePeers(
    new Map<string, UnaryMethods>([
      ['kas-1', other.replicaMethods],
      ['kas-2', new Map()],
    ]),
  )
  const own = replica('kas-0', {
    members: [member('kas-1'), member('kas-2')],
    reach: { 'kas-2': 'down' },
    peers,
    nowMs: 1000,
  })
  const unanswered = [{ address: '10.0.0.9:8156', dials: 3, reason: 'connect ECONNREFUSED' }]
  t.strictSame(await own.report(), {
    replicas: [
      {
        name: 'kas-0',
        instance: 'kas-0',
        links: [
          { name: 'kas-1', instance: 'kas-1', address: 'kas-1:8155', reach: 'reachable', gossip: true },
          { name: 'kas-2', instance: 'kas-2', address: 'kas-2:8155', reach: 'down', gossip: true },
        ],
        unanswered,
      },
      {
        name: 'kas-1',
        instance: 'kas-1',
        links: [{ name: 'kas-0', instance: 'kas-0', address: 'kas-0:8155', reach: 'reachable', gossip: false }],
        unanswered,
        ahead: [60_000, 60_000],
      },
    ],
    silent: [{ name: 'kas-2', reason: 'not served' }],
    failingSources: [{ name: 'dns', reason: 'SERVFAIL' }],
  })
})
