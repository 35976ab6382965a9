import { createServer } from 'node:net'

/** What listens where, as distances from the base; with base 8150 these are the standard ports. */
const offsets = { agents: 0, ops: 1, rails: 3, kubernetes: 4, replicas: 5, gossip: 6, agentkOps: 9 } as const

export type Ports = Readonly<Record<keyof typeof offsets, number>>

export const standardBase = 8150
/** Bases that are tried when the standard one is taken: 8250, 8350 and so on. */
const step = 100
const maxBases = 10

export interface ChosenPorts {
  readonly ports: Ports
  readonly base: number
  /** a port of the standard set that was taken */
  readonly taken?: number
}

/**
 * The ports of base `given`; without it those of the first base, from the `first`th on, where all are free.
 *
 * @throws Error that names a taken port and says how to choose others
 */
export async function choosePorts(given: number | undefined, first = 0): Promise<ChosenPorts> {
  if (given !== undefined) {
    const taken = await takenPort(given)
    if (taken === undefined) return { ports: portsOf(given), base: given }
    throw new Error(`Port ${taken} is taken. Choose others: npm start -- --port-base N uses N to N + 9`)
  }
  let firstTaken: number | undefined
  for (let i = 0; i < maxBases; i++) {
    const base = standardBase + ((first + i) % maxBases) * step
    const taken = await takenPort(base)
    if (taken === undefined) return { ports: portsOf(base), base, ...(firstTaken ? { taken: firstTaken } : {}) }
    firstTaken ??= taken
  }
  throw new Error(`Port ${firstTaken} is taken, and so are others. Choose: npm start -- --port-base N uses N to N + 9`)
}

function portsOf(base: number): Ports {
  return Object.fromEntries(Object.entries(offsets).map(([name, offset]) => [name, base + offset])) as Ports
}

async function takenPort(base: number): Promise<number | undefined> {
  for (const port of Object.values(portsOf(base))) {
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
