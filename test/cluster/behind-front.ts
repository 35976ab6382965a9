import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { clusterForward, head, trailer } from '../contract/kubernetes-server/fake-cluster.ts'
import { startServer } from '../contract/kubernetes-server/start-server.ts'
import { Processes } from '../support/processes.ts'
import { CountingRelay } from './counting-relay.ts'
import type { BehindFront, FrontNeeds } from './front-program.ts'

/** A request as an agent gets it from kas, or as it arrives at the agents' port. */
export interface Reached {
  /** method and path; `agents` first, if it arrived at the agents' port */
  readonly line: string
  readonly body: string
  readonly isUpgrade: boolean
}

interface Kept {
  readonly reached: Reached[]
  readonly accels: Set<string | undefined>
}

/** The HTTP server of kas for callers, as three replicas behind a front, with a cluster that records each request. */
export class KasBehindFront implements FrontNeeds {
  readonly processes: Processes
  /** PEM */
  readonly ca: string
  readonly accelSecret = Buffer.alloc(32, 5).toString('base64')
  readonly all: readonly BehindFront[]
  /** relay before port 8154 */
  readonly relay: CountingRelay
  readonly #kept: Kept

  private constructor(init: Pick<KasBehindFront, 'processes' | 'ca' | 'relay' | 'all'>, kept: Kept) {
    this.processes = init.processes
    this.ca = init.ca
    this.relay = init.relay
    this.all = init.all
    this.#kept = kept
  }

  static async start(t: Test): Promise<KasBehindFront> {
    const processes = await Processes.start(t)
    const authority = await Authority.create('front')
    const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
    await writeFile(join(processes.folder, 'front.crt'), serving.certificate)
    await writeFile(join(processes.folder, 'front.key'), serving.key, { mode: 0o600 })
    const kept: Kept = { reached: [], accels: new Set() }
    const relay = await CountingRelay.start(t, await startKas(t, kept))
    const agentsPort = await startAgents(t, kept)
    const all = Array.from({ length: 3 }, () => ({ agentsPort, opsPort: agentsPort, relay }))
    return new KasBehindFront({ processes, ca: authority.certificate, relay, all }, kept)
  }

  /** Requests since the last call of this method. */
  reached(): readonly Reached[] {
    return this.#kept.reached.splice(0)
  }

  /** All values of `Gitlab-Kas-Accel` so far. */
  get accels(): readonly (string | undefined)[] {
    return [...this.#kept.accels]
  }
}

/** Starts port 8154 before a cluster that refuses all upgrades. @returns the port */
async function startKas(t: Test, { reached, accels }: Kept): Promise<number> {
  const forward = clusterForward(async function* ({ header, body }) {
    const isUpgrade = header.header.some(([name]) => name === 'Upgrade')
    const text = isUpgrade ? '' : (await body()).toString('latin1')
    reached.push({ line: `${header.method} ${header.urlPath}`, body: text, isUpgrade })
    yield head(isUpgrade ? 403 : 200, [['Content-Length', ['0']]])
    yield trailer
  })
  const redirect = {
    locationFor({ headers }: Pick<IncomingMessage, 'headers'>) {
      accels.add(headers['gitlab-kas-accel']?.toString())
      return undefined
    },
  }
  const { server, port } = await startServer(forward, { urlPathPrefix: '/' }, undefined, { redirect })
  t.teardown(() => server.stop(AbortSignal.abort()))
  return port
}

/** Starts port 8150, which also answers the front's readiness probes. @returns the port */
async function startAgents(t: Test, { reached }: Kept): Promise<number> {
  const server = createServer(({ method, url }, response) => {
    if (url !== '/readiness') reached.push({ line: `agents ${method} ${url}`, body: '', isUpgrade: false })
    response.end()
  })
  server.listen(0, '127.0.0.1')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
