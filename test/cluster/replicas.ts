import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import type { Discovered, DiscoverySource } from '../../src/membership/discovery/source.ts'
import type { Membership, MembershipOptions } from '../../src/membership/membership.ts'
import type { MembershipTimers } from '../../src/membership/protocol/timers.ts'
import { capturedLog } from '../support/captured-log.ts'
import { eventually } from '../support/eventually.ts'
import { createMembership } from '../support/membership.ts'

/** Memberships of replicas in one process, on loopback, with shortened timers. */

/** Some twenty times shorter than the default, where a busy machine allows it. */
export const shortTimers: Partial<MembershipTimers> = {
  batchMs: 5,
  heartbeatMs: 100,
  pullJitterMs: 10,
  pullRetryMs: 20,
  pullRetryMaxMs: 200,
  forgetMs: 400,
  silenceMs: 3000,
  joinMs: 5000,
  sourcePatienceMs: 15_000,
  reconcileMs: 60,
  handshakeMs: 2000,
  banMs: 60_000,
}

/** A source that lists the addresses that a test sets. */
export class ListedSource implements DiscoverySource {
  readonly name = 'static'
  #current: Discovered
  readonly #listeners = new Set<() => void>()

  constructor(addresses: readonly string[] | undefined) {
    this.#current = { addresses: addresses ?? [], stale: false, answered: addresses !== undefined }
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {}

  current(): Discovered {
    return this.#current
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  list(addresses: readonly string[]): void {
    this.#current = { addresses: [...addresses].sort(), stale: false, answered: true }
    for (const listener of this.#listeners) listener()
  }
}

export interface Replica {
  readonly membership: Membership
  readonly source: ListedSource
  readonly address: string
  readonly lines: Record<string, unknown>[]
  /** value of a counter or gauge; 0 if there is none with these labels */
  metric(name: string, labels?: Record<string, string>): Promise<number>
}

export interface ReplicaOptions extends Partial<MembershipOptions> {
  /** addresses that discovery lists; `undefined`: it never answers */
  readonly listed?: readonly string[] | undefined
}

/** Creates a replica without starting it. It is stopped at the end of the test. */
export function createReplica(t: Test, name: string, options: ReplicaOptions = {}) {
  const { log, lines } = capturedLog()
  const metrics = new Registry()
  const { listed = [], ...changes } = options
  const source = new ListedSource('listed' in options ? options.listed : listed)
  const membership = createMembership(
    { name, ...changes, timers: { ...shortTimers, ...changes.timers } },
    { log, sources: [source], metrics },
  )
  t.teardown(() => membership.stop())
  const metric = async (metricName: string, labels: Record<string, string> = {}) => {
    const { values = [] } = (await metrics.getSingleMetric(metricName)?.get()) ?? {}
    const matches = values.filter((value) => Object.entries(labels).every(([key, want]) => value.labels[key] === want))
    return matches.reduce((sum, value) => sum + value.value, 0)
  }
  return { membership, source, lines, metric }
}

/** Starts a replica that serves. */
export async function startReplica(t: Test, name: string, options: ReplicaOptions = {}): Promise<Replica> {
  const replica = createReplica(t, name, options)
  await replica.membership.start()
  replica.membership.setState('serving')
  return { ...replica, address: `127.0.0.1:${replica.membership.port}` }
}

/** Starts `count` serving replicas that list one another, and know all rows. */
export async function startReplicas(t: Test, count: number, options: ReplicaOptions = {}): Promise<Replica[]> {
  const replicas: Replica[] = []
  for (let i = 0; i < count; i++) {
    replicas.push(await startReplica(t, `kas-${i}`, { listed: replicas.map(({ address }) => address), ...options }))
  }
  for (const { source } of replicas) source.list(replicas.map(({ address }) => address))
  for (const replica of replicas) await eventually(() => knowsAll(replica, replicas), replica.membership)
  return replicas
}

export const knowsAll = (replica: Replica, all: readonly Replica[]) =>
  all.every(({ membership }) => replica.membership.row(membership.instance)?.head.state === 'serving')

/** A TCP relay to `port` that can be cut. */
export class Way {
  readonly #server = createServer((socket) => this.#carry(socket))
  readonly #sockets = new Set<Socket>()
  readonly #port: number
  /** new connections get no answer */
  blocked = false

  constructor(port: number) {
    this.#port = port
  }

  static async to(t: Test, port: number): Promise<Way> {
    const way = new Way(port)
    way.#server.listen(0, '127.0.0.1')
    await once(way.#server, 'listening')
    t.teardown(() => way.stop())
    return way
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Ends all open connections, and answers nothing from now on, as a network that drops packets. */
  cut(): void {
    this.blocked = true
    for (const socket of this.#sockets) socket.destroy()
  }

  stop(): void {
    this.cut()
    this.#server.close()
  }

  #carry(socket: Socket): void {
    this.#keep(socket)
    if (this.blocked) return
    const onward = connect(this.#port, '127.0.0.1')
    this.#keep(onward)
    socket.pipe(onward).pipe(socket)
    socket.once('close', () => onward.destroy())
    onward.once('close', () => socket.destroy())
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => this.#sockets.delete(socket))
  }
}
