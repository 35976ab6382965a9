import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import * as grpc from '@grpc/grpc-js'
import type { Test } from 'tap'
import type { MemberReport } from '../../../src/kas/servers/ops-socket/status-report.ts'
import { callUnary, goodMetadata, secret, type UnaryResult } from '../../contract/rails-server/start-server.ts'
import { eventually } from '../eventually.ts'
import { echoMethod, FakeAgent, type FakeTunnel } from '../fake-agent.ts'
import { Processes } from '../processes.ts'
import { NetworkReplica, type NetworkReplicaOptions, type Shared } from './network-replica.ts'
import type { Host, VirtualNetwork } from './virtual-network.ts'

const agentIds = [42, 43] as const
const tokenOf = (agentId: number) => `token-of-${agentId}`
/** limit for replicas that start side by side on a busy machine */
const startTimeoutMs = 60_000

/** Replicas that share a secret and a directory, each on a host of its own. */
export class NetworkCluster {
  readonly network: VirtualNetwork
  readonly replicas: NetworkReplica[] = []
  readonly #t: Test
  readonly #shared: Shared

  private constructor(t: Test, network: VirtualNetwork, shared: Shared) {
    this.#t = t
    this.network = network
    this.#shared = shared
  }

  static async start(t: Test, network: VirtualNetwork): Promise<NetworkCluster> {
    const processes = await Processes.start(t)
    const file = (name: string) => join(processes.folder, name)
    const sha256 = (token: string) => createHash('sha256').update(token).digest('hex')
    const agents = agentIds.map((id) => ({
      id,
      name: `agent-${id}`,
      project: 1,
      tokens: [{ sha256: sha256(tokenOf(id)) }],
    }))
    const directory = { projects: [{ id: 1, path: 'platform/clusters' }], agents }
    await writeFile(file('secret'), secret.toString('base64'))
    await writeFile(file('directory.yaml'), JSON.stringify(directory), { mode: 0o600 })
    const shared = { processes, secretFile: file('secret'), directoryFile: file('directory.yaml') }
    return new NetworkCluster(t, network, shared)
  }

  /** Resolves when the process runs: `agree` waits until it is a member. */
  async add(
    host: Host,
    options: NetworkReplicaOptions,
    { inPlaceOf }: { inPlaceOf?: NetworkReplica } = {},
  ): Promise<NetworkReplica> {
    const replica = await NetworkReplica.start(this.#shared, host, options)
    if (inPlaceOf) this.replicas[this.replicas.indexOf(inPlaceOf)] = replica
    else this.replicas.push(replica)
    return replica
  }

  /** Resolves once each replica knows all, reaches all, and has each row at its owner's version. */
  async agree(options: { timeoutMs?: number; withoutLinks?: boolean } = {}): Promise<void> {
    const names = this.replicas.map(({ name }) => name)
    const agreed = eventually(
      async () => {
        const all = await Promise.all(this.replicas.map((replica) => membersOf(replica)))
        for (const [i, members] of all.entries()) {
          const seen = members.map(({ name, state, reach, gossip, row }) => ({
            name,
            state,
            gossip,
            isInReach: options.withoutLinks || reach === 'self' || reach === 'reachable',
            version: row.version,
          }))
          const expected = names.map((name, owner) => ({
            name,
            state: 'serving',
            gossip: true,
            isInReach: true,
            version: all[owner]?.find((member) => member.name === name)?.row.version,
          }))
          assert.deepEqual(seen, expected, `as ${names[i]} sees it: ${JSON.stringify(seen)}`)
        }
      },
      { timeoutMs: options.timeoutMs ?? startTimeoutMs },
    )
    await agreed.catch((cause: Error) => {
      throw new Error(`${cause.message}\n${this.replicas.map(lastWords).join('\n')}`, { cause })
    })
  }

  /** Starts an agent with some idle tunnels at the replica, each of which serves one call as an echo. */
  async agentAt(replica: NetworkReplica, agentId: (typeof agentIds)[number]): Promise<FakeAgent> {
    const socket = connect({ host: replica.host.ipv4, port: 8150, noDelay: true })
    await once(socket, 'connect')
    const agent = new FakeAgent(socket, { authorization: [`Bearer ${tokenOf(agentId)}`] })
    this.#t.teardown(() => agent.close())
    for (let i = 0; i < idleTunnels; i++) keepOne(agent)
    return agent
  }

  /** Makes an unsafe call to the agent at the replica, as GitLab does. */
  async call(entry: NetworkReplica, agentId: (typeof agentIds)[number]): Promise<UnaryResult & { tookMs: number }> {
    const client = new grpc.Client(`${entry.host.ipv4}:8153`, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_http_proxy': 0,
    })
    try {
      const began = performance.now()
      const metadata = await goodMetadata({ 'kas-hop-routing-agent-id': String(agentId) })
      const result = await callUnary(client, echoMethod, Buffer.from('x'), metadata)
      return { ...result, tookMs: performance.now() - began }
    } finally {
      client.close()
    }
  }
}

/** last lines of a replica's log, for the message of a failure */
function lastWords(replica: NetworkReplica): string {
  const lines = replica.lines().filter(({ level }) => level !== 'debug')
  const said = lines.slice(-8).map(({ time, msg, reason, net_address }) => [time, msg, reason, net_address].join(' '))
  return [`${replica.name}:`, ...said].join('\n  ')
}

const idleTunnels = 2

/** Opens a tunnel, and another one after each call that it has served. */
function keepOne(agent: FakeAgent): void {
  const tunnel: FakeTunnel = agent.open()
  const served = tunnel.serveEcho(() => {
    if (!agent.session.draining) keepOne(agent)
  })
  served.catch(() => undefined) // the replica or the agent ended
}

/** Members in a replica's status, sorted by name. */
export async function membersOf(replica: NetworkReplica): Promise<readonly MemberReport[]> {
  const { members, replica: own } = await replica.status()
  if (own.problem !== undefined) throw new Error(`${replica.name}: ${own.problem}`)
  return members ?? []
}
