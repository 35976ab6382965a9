import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { App, AppComponents } from '../../src/kas/app.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { secret } from '../contract/rails-server/start-server.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { startKasApp } from '../support/kas-app.ts'

/** Whole replicas of kas in one process, with their servers on ports of their own; they list one another. */

export const agentToken = 'agent-token'

export interface KasApp {
  readonly name: string
  readonly app: App
  readonly lines: readonly Record<string, unknown>[]
  readonly socket: string
  /** port of the server that logs its start with this name, such as `API` */
  port(endpoint: string): number
}

export interface KasAppsOptions {
  /** modules beside those of kas, by the replica's name */
  readonly modules?: (name: string) => NonNullable<AppComponents['modules']>
  readonly schemas?: AppComponents['schemas']
  /** default: there is no access log */
  readonly accessSink?: AppComponents['accessSink']
  /** YAML: more keys of project 1, in the directory file */
  readonly project?: string
  /** YAML: more keys of the directory file */
  readonly directory?: string
  /** YAML: more keys of `agent`, in the configuration */
  readonly agent?: string
}

/**
 * Starts replicas that reach one another. They serve agent 42 of project 1, with `agentToken`, and agent 43 of project
 * 2, with `agentToken` and a 3.
 */
export async function startKasApps(t: Test, count: number, options: KasAppsOptions = {}): Promise<KasApp[]> {
  const sha256 = (token: string) => createHash('sha256').update(token).digest('hex')
  const folder = t.testdir({
    secret: secret.toString('base64'),
    'directory.yaml': `
projects: [{ id: 1, path: platform/clusters${options.project ?? ''} }, { id: 2, path: platform/others }]
agents:
  - { id: 42, name: prod, project: 1, tokens: [{ sha256: "${sha256(agentToken)}" }] }
  - { id: 43, name: test, project: 2, tokens: [{ sha256: "${sha256(`${agentToken}3`)}" }] }
${options.directory ?? ''}
`,
  })
  const gossipPorts = await freePorts(count)
  const sockets = await mkdtemp(join(tmpdir(), 'kas-apps-')) // t.testdir's is too long for a socket
  t.teardown(() => rm(sockets, { recursive: true }))
  const replicas = await Promise.all(
    gossipPorts.map((_, i) => startReplica(t, { folder, sockets, gossipPorts, i, options })),
  )
  await eventually(async () => {
    for (const { socket } of replicas) {
      const { members = [] } = (await askSocket(socket, '/status')) as StatusReport
      const inReach = members.filter(({ reach, state }) => state === 'serving' && /^(self|reachable)$/.test(reach))
      if (inReach.length < count) throw new Error(`${socket} reaches ${inReach.length} of ${count}`)
    }
  })
  return replicas
}

interface Place {
  readonly folder: string
  readonly sockets: string
  readonly gossipPorts: readonly number[]
  readonly i: number
  readonly options: KasAppsOptions
}

async function startReplica(t: Test, place: Place): Promise<KasApp> {
  const name = `kas-${place.i}`
  const socket = join(place.sockets, name)
  const modules = place.options.modules?.(name)
  const { schemas, accessSink } = place.options
  const { app, lines, portOf } = await startKasApp(t, configuration(place, { name, socket }), {
    ...(modules ? { modules } : {}),
    ...(schemas ? { schemas } : {}),
    ...(accessSink ? { accessSink } : {}),
    version: '0.1.0',
    env: process.env,
  })
  return { name, app, lines, socket, port: portOf }
}

function configuration(
  { folder, gossipPorts, i, options }: Place,
  { name, socket }: { name: string; socket: string },
): string {
  const secretFile = `authentication_secret_file: ${join(folder, 'secret')}, listen_grace_period: 0s`
  return `
directory: { file: ${join(folder, 'directory.yaml')} }
agent:
  listen: { address: "127.0.0.1:0", listen_grace_period: 0s }
${options.agent ?? ''}
api: { listen: { address: "127.0.0.1:0", ${secretFile} } }
private_api: { listen: { address: "127.0.0.1:0", ${secretFile} } }
observability: { listen: { address: "127.0.0.1:0" } }
ops: { socket: ${socket} }
cluster:
  name: ${name}
  listen: { address: "127.0.0.1:${gossipPorts[i]}" }
  discovery: { static: [${gossipPorts.map((port) => `"127.0.0.1:${port}"`).join(', ')}] }
`
}
