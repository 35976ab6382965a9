import type { ChildProcess } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BalancedReplica } from '../../dev/balancer.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { nodeFlags } from '../../dev/node-flags.ts'
import { eventually } from '../../test/support/eventually.ts'
import type { Programs } from '../support/programs.ts'
import { emptyRepository } from './empty-repository.ts'
import { type GitlabThere, tokenOf } from './questions.ts'

/** Node's flags for kas, with the probe that reports its use of memory and CPU. */
export const replicaFlags = [...nodeFlags, '--expose-gc', `--import=${join(import.meta.dirname, 'replica-probe.ts')}`]
const program = join(import.meta.dirname, '../../src/kas/main.ts')
export const readyTimeoutMs = 180_000

type Ports = [number, number, number, number, number, number]

/** One whole kas, as it runs in production. */
export interface Replica {
  readonly child: ChildProcess
  readonly balanced: BalancedReplica
}

export interface ReplicasOptions {
  readonly folder: string
  readonly replicas: number
  readonly agents: number
  /**
   * GitLab with the agents 0 to `agents` - 1 and their configuration; absent: a directory file, and one Git repository
   */
  readonly gitlab?: GitlabThere | undefined
}

export async function startReplicas(
  programs: Programs,
  { folder, replicas, agents, gitlab }: ReplicasOptions,
): Promise<Replica[]> {
  mkdirSync(folder)
  const file = (name: string) => join(folder, name)
  const knower = gitlab ? gitlabOf(file('gitlab.secret'), gitlab) : fileOf(file, agents)
  writeFileSync(file('secret'), randomBytes(32).toString('base64'), { mode: 0o600 })
  const portsOf = 6
  const ports = await freePorts(replicas * portsOf)
  const members = Array.from({ length: replicas }, (_, i) => `127.0.0.1:${ports[i * portsOf]}`)
  const all = members.map((gossip, i): Replica => {
    const [, agentsPort, opsPort, kubernetes, links, rails] = ports.slice(i * portsOf) as Ports
    const at = (port: number) => ({ address: `127.0.0.1:${port}` })
    const name = `kas-${i}`
    const configuration = {
      ...knower,
      agent: { listen: { ...at(agentsPort), websocket: true }, kubernetes_api: { listen: at(kubernetes) } },
      observability: { listen: at(opsPort), logging: { level: 'error' } },
      api: { listen: { ...at(rails), authentication_secret_file: file('secret') } },
      private_api: { listen: { ...at(links), authentication_secret_file: file('secret') } },
      cluster: { name, listen: { address: gossip }, discovery: { static: members } },
    }
    writeFileSync(file(`${name}.yaml`), JSON.stringify(configuration))
    const args = [`--configuration-file=${file(`${name}.yaml`)}`]
    const child = programs.spawn(program, args, { flags: replicaFlags })
    return { child, balanced: { name, opsPort, ports: [agentsPort] } }
  })
  await Promise.all(all.map(isReady))
  return all
}

/** @throws Error if it ends before */
async function isReady({ child, balanced }: Replica): Promise<void> {
  const ended = once(child, 'exit').then((): never => {
    throw new Error(`${balanced.name} ended`)
  })
  await Promise.race([
    eventually(async () => (await ops(balanced, '/readiness')).ok, { timeoutMs: readyTimeoutMs }),
    ended,
  ])
}

/** Number of agents with a tunnel at this replica, by its metrics. */
export async function connectedAgents({ balanced }: Replica): Promise<number> {
  const text = await (await ops(balanced, '/metrics')).text()
  return Number(/^connected_agents_count (\d+)$/m.exec(text)?.[1] ?? Number.NaN)
}

function ops({ opsPort }: BalancedReplica, path: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${opsPort}${path}`)
}

function gitlabOf(secretFile: string, { address, secret }: GitlabThere): object {
  writeFileSync(secretFile, secret, { mode: 0o600 })
  return { gitlab: { address, authentication_secret_file: secretFile } }
}

function fileOf(file: (name: string) => string, agents: number): object {
  emptyRepository(file('clusters.git'))
  writeFileSync(file('directory.yaml'), JSON.stringify(directory(file('clusters.git'), agents)), { mode: 0o600 })
  return { directory: { file: file('directory.yaml') } }
}

function directory(repository: string, agents: number) {
  return {
    projects: [{ id: 1, path: 'platform/clusters', groups: [], git: { url: repository } }],
    agents: Array.from({ length: agents }, (_, i) => ({
      id: i + 1,
      name: `agent-${i}`,
      project: 1,
      tokens: [{ sha256: createHash('sha256').update(tokenOf(i)).digest('hex') }],
    })),
    users: [],
    ci_tokens: [],
  }
}
