import { Registry } from 'prom-client'
import type { GossipComponents, GossipNetwork } from '../../../src/membership/network/gossip.ts'
import type { RowDelta, RowSnapshot } from '../../../src/membership/table/row.ts'
import { encodeGossip } from '../../../src/membership/table/row-codec.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock, settle } from '../../support/manual-clock.ts'
import { createMembership } from '../../support/membership.ts'
import { head, instance, snapshot } from './rows.ts'

const other = instance('other')
/** Starts a membership that is connected with one peer. The peer's row has no agents yet. */
export async function startMembership() {
  const { log, lines } = capturedLog()
  const register = new Registry()
  let row: RowSnapshot = snapshot(other, 1, { head: { ...head, name: 'kas-1' } })
  let gossip: GossipComponents | undefined
  const createGossip = (components: GossipComponents): GossipNetwork => {
    gossip = components
    return {
      instance: instance('own'),
      port: 8156,
      start: async () => undefined,
      stop: async () => undefined,
      publish: () => undefined,
      pull: async () => row,
      cut: () => undefined,
      isConnected: (one) => one === other,
      connected: () => [other],
      hostOf: () => '127.0.0.1',
      dial: async () => ({ kind: 'self' }),
    }
  }
  const membership = createMembership(
    { name: 'kas-0' },
    { log, clock: new ManualClock(), metrics: register, createGossip },
  )
  const started = membership.start()
  gossip?.connected(other)
  await started
  /** Receives a delta of the peer. */
  const receive = (change: RowDelta) => gossip?.received(other, encodeGossip(other, { kind: 'delta', delta: change }))
  /** Receives the peer's farewell. */
  const leave = () => gossip?.received(other, encodeGossip(other, { kind: 'farewell' }))
  /** Fetches the peer's row, which has changed. */
  const pull = async (changes: Partial<RowSnapshot>) => {
    row = { ...row, version: row.version + 1, ...changes }
    membership.refresh(other)
    await settle()
  }
  const refused = async () =>
    (await register.getSingleMetric('kas_gossip_refused_total')?.get())?.values.filter(({ value }) => value > 0)
  return { membership, receive, leave, pull, refused, lines }
}
