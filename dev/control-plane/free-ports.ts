import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below what systems give to outgoing connections: a program that is restarted on its port finds it free, and a
 * client that keeps dialling it meanwhile cannot be connected to itself.
 */
const lowest = 12_000
const highest = 32_000
/** what one process takes its ports from, so that others do not get those on which nobody listens yet */
const blockSize = 100
const maxTries = 1000

/** by this process: one that was given is not given again while there are others */
const given = new Set<number>()

/** Ports of 127.0.0.1 that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  for (let tries = 0; ports.length < count; tries++) {
    if (tries === maxTries) throw new Error(`no ${count} free ports found between ${lowest} and ${highest}`)
    const port = tries < blockSize ? inOwnBlock(tries) : randomInt(lowest, highest)
    if (given.has(port)) continue
    given.add(port)
    if (await isFree(port)) ports.push(port)
  }
  return ports
}

function inOwnBlock(index: number): number {
  const blocks = (highest - lowest) / blockSize
  return lowest + (process.pid % blocks) * blockSize + index
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    await once(server.close(), 'close')
    return true
  } catch {
    return false
  }
}
