import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below what systems give to outgoing connections: a program that is restarted on its port finds it free, and a
 * client that keeps dialling it meanwhile cannot be connected to itself.
 */
const lowest = 12_000
const highest = 32_000
const maxTries = 100

/** Ports of 127.0.0.1 that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  for (let tries = 0; ports.size < count; tries++) {
    if (tries === maxTries) throw new Error(`no ${count} free ports found between ${lowest} and ${highest}`)
    const port = randomInt(lowest, highest)
    if (!ports.has(port) && (await isFree(port))) ports.add(port)
  }
  return [...ports]
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
