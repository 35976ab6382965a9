import assert from 'node:assert/strict'
import type { Test } from 'tap'
import type { KasConnections } from '../../../src/agentk/tunnels/kas-connections.ts'
import { eventually } from '../../support/eventually.ts'
import { echoMethod } from './connections-side.ts'
import { FakeKas, type KasTunnel, listenAs } from './fake-kas.ts'

/** A replica with an address of its own. */
export interface FakeReplica {
  readonly kas: FakeKas
  readonly name: string
  readonly address: string
}

export async function startReplicas(t: Test, count: number): Promise<FakeReplica[]> {
  const replicas: FakeReplica[] = []
  for (let i = 0; i < count; i++) {
    const kas = new FakeKas()
    const address = `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`
    replicas.push({ kas, name: `kas-${i}`, address })
  }
  return replicas
}

/** Sets the hints that all replicas send from now on. */
export function tell(replicas: FakeReplica[], home: FakeReplica, standby?: FakeReplica, more = {}): void {
  for (const { kas, name } of replicas) {
    kas.hints = {
      'kas-replica': [name],
      'kas-home': [home.name],
      'kas-home-address': [home.address],
      ...(standby ? { 'kas-standby': [standby.name], 'kas-standby-address': [standby.address] } : {}),
      ...more,
    }
  }
}

/** Ends an idle tunnel as kas does after a change. The next tunnel of its slot gets the new hints. */
export async function poke({ kas }: FakeReplica): Promise<void> {
  const [tunnel] = kas.idle as [KasTunnel]
  tunnel.end()
  const { connects } = kas
  await eventually(() => assert.ok(kas.connects > connects))
}

export const at = (connections: KasConnections, home: string | undefined, standby: string | undefined) =>
  eventually(() => assert.deepEqual(connections.places, { home, standby }))

export const idleAre = (replicas: FakeReplica[], counts: number[]) =>
  eventually(() =>
    assert.deepEqual(
      replicas.map(({ kas }) => kas.idle.length),
      counts,
    ),
  )

export async function serves(t: Test, { kas }: FakeReplica): Promise<void> {
  const tunnel = await kas.take()
  tunnel.begin(echoMethod)
  tunnel.message(Buffer.from('x'))
  tunnel.closeSend()
  const kinds: string[] = []
  for (let message = await tunnel.next(); message; message = await tunnel.next()) kinds.push(message.kind)
  t.strictSame(kinds, ['header', 'message', 'trailer'])
  tunnel.end()
}
