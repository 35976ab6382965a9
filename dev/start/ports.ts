import { createServer } from 'node:net'
import { freePorts } from '../control-plane/free-ports.ts'
import { lastOffset } from '../setup/start-arguments.mjs'

/** Ports of a replica, as distances from its own base; with base 8150 these are the standard ports. */
const offsets = { agents: 0, ops: 1, rails: 3, kubernetes: 4, replicas: 5, gossip: 6 } as const
/**
 * Ports that belong to no replica. The balancer takes the standard ports, so that callers need not know the replicas.
 */
const shared = { agents: 0, kubernetes: 4, agentkOps: 9 } as const
/** distance between the bases of two replicas; the first one comes after the shared ports */
const replicaStep = 10

export type ReplicaPorts = Readonly<Record<keyof typeof offsets, number>>

/** All ports, on 127.0.0.1; callers use `agents` and `kubernetes`. */
export interface Ports extends Readonly<Record<keyof typeof shared, number>> {
  /** ports of kas-0, kas-1 and so on */
  readonly replicas: readonly ReplicaPorts[]
}

export const standardBase = 8150
/** Distance of the bases that are tried when the standard one is taken: 8250, 8350 and so on. */
const step = 100
const maxBases = 10
export const replicaCount = 3

export interface ChosenPorts {
  readonly ports: Ports
  readonly base: number
  /** a port of the standard set that was taken */
  readonly taken?: number
}

/**
 * Returns the ports of base `given`; without it those of the first base, from the `first`th on, where all are free.
 *
 * @throws Error that names a taken port and says how to choose others
 */
export async function choosePorts(given: number | undefined, first = 0): Promise<ChosenPorts> {
  if (given !== undefined) {
    const taken = await takenPort(given)
    if (taken === undefined) return { ports: portsOf(given), base: given }
    throw new Error(`Port ${taken} is taken. Choose others: npm start -- --port-base N uses N to N + ${lastOffset}`)
  }
  let firstTaken: number | undefined
  for (let i = 0; i < maxBases; i++) {
    const base = standardBase + ((first + i) % maxBases) * step
    const taken = await takenPort(base)
    if (taken === undefined) return { ports: portsOf(base), base, ...(firstTaken ? { taken: firstTaken } : {}) }
    firstTaken ??= taken
  }
  throw new Error(
    `Port ${firstTaken} is taken, and so are others. Choose: npm start -- --port-base N uses N to N + ${lastOffset}`,
  )
}

/** Returns any free ports for `count` replicas and the shared parts. */
export async function anyPorts(count: number): Promise<Ports> {
  const names = Object.keys(offsets) as (keyof typeof offsets)[]
  const free = await freePorts(Object.keys(shared).length + names.length * count)
  const next = () => free.pop() as number
  const replicas = Array.from(
    { length: count },
    () => Object.fromEntries(names.map((name) => [name, next()])) as unknown as ReplicaPorts,
  )
  return { agents: next(), kubernetes: next(), agentkOps: next(), replicas }
}

function portsOf(base: number): Ports {
  const replicas = Array.from({ length: replicaCount }, (_, i) => at(base + (i + 1) * replicaStep, offsets))
  return { ...at(base, shared), replicas }
}

function at<Name extends string>(base: number, distances: Readonly<Record<Name, number>>): Record<Name, number> {
  const entries = Object.entries<number>(distances).map(([name, distance]) => [name, base + distance])
  return Object.fromEntries(entries) as Record<Name, number>
}

async function takenPort(base: number): Promise<number | undefined> {
  const { replicas, ...front } = portsOf(base)
  for (const port of [front, ...replicas].flatMap((ports) => Object.values(ports))) {
    if (!(await isFree(port))) return port
  }
  return undefined
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
