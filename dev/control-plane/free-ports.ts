import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/**
 * Lower than the ports that systems use for outgoing connections: a restarted program finds its port free. Also, a
 * client that dials it meanwhile cannot be connected to itself.
 */
const lowest = 12_000
const highest = 32_000
/** number of ports that one process reserves; it listens on the first, so that no other process gets the rest */
const blockSize = 100
const blocks = (highest - lowest) / blockSize

/** reserved ports of this process that are not used yet */
const left: number[] = []
let nextBlock = process.pid % blocks

/**
 * Returns ports of 127.0.0.1 that were free a moment ago, all different; no other process that calls this gets one of
 * them.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) {
    const port = left.shift()
    if (port === undefined) left.push(...(await claimBlock()))
    else if (await isFree(port)) ports.push(port)
  }
  return ports
}

/** @throws Error when other processes have all blocks */
async function claimBlock(): Promise<number[]> {
  for (let tries = 0; tries < blocks; tries++) {
    const first = lowest + nextBlock * blockSize
    nextBlock = (nextBlock + 1) % blocks
    const claim = await listen(first)
    if (!claim) continue
    claim.unref() // until this process ends
    return Array.from({ length: blockSize - 1 }, (_, index) => first + 1 + index)
  }
  throw new Error(`no free ports found between ${lowest} and ${highest}`)
}

async function isFree(port: number): Promise<boolean> {
  const server = await listen(port)
  if (server) await once(server.close(), 'close')
  return server !== undefined
}

async function listen(port: number): Promise<Server | undefined> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return server
  } catch {
    return undefined
  }
}
