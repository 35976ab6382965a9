import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { eventually } from '../support/eventually.ts'
import { GitRepository } from '../support/git-repository.ts'
import type { ApiDoubleProgramOptions } from '../support/network/api-double-program.ts'
import { NetworkReplica } from '../support/network/network-replica.ts'
import type { Host } from '../support/network/virtual-network.ts'
import { Processes, type TestProcess, type TornDown } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'
import { agentConfiguration, agentId, agentToken, directoryFile } from '../support/stack-directory.ts'

const apiDouble = new URL('../support/network/api-double-program.ts', import.meta.url).pathname
const apiPort = 6443
const apiToken = 'of-the-cluster'
/** agentk logs keys like this one that it does not know */
export const unknownKey = 'no_such_key'

/** Replicas in hosts of their own, and an agent with its cluster in another. */
export class ConfinedAgent {
  readonly processes: Processes
  /** PEM */
  readonly ca: string
  readonly replicas: NetworkReplica[] = []

  private constructor(processes: Processes, ca: string) {
    this.processes = processes
    this.ca = ca
  }

  /**
   * Resolves when the replicas reach one another. @param hosts - of the replicas, which announce their addresses to
   * agents
   */
  static async start(t: TornDown, hosts: readonly Host[]): Promise<ConfinedAgent> {
    const processes = await Processes.start(t)
    const write = (name: string, text: string) => writeFile(join(processes.folder, name), text, { mode: 0o600 })
    const authority = await Authority.create('one port')
    const addresses = ['127.0.0.1', ...hosts.map(({ ipv4 }) => ipv4)]
    const serving = await authority.issueServing({ dns: ['localhost'], ip: addresses })
    const confined = new ConfinedAgent(processes, authority.certificate)
    await write('ca.crt', authority.certificate)
    await write('serving.crt', serving.certificate)
    await write('serving.key', serving.key)
    await write('secret', Buffer.alloc(32, 7).toString('base64'))
    await write('agent-token', agentToken)
    await mkdir(confined.#file('git'))
    const repository = await GitRepository.create(confined.#file('git'), 'clusters')
    const configuration = JSON.stringify({ ...agentConfiguration, [unknownKey]: true })
    await repository.push('.gitlab/agents/prod/config.yaml', configuration)
    await write('directory.yaml', JSON.stringify(directoryFile(repository.path)))
    const user = { token: apiToken }
    const server = `https://127.0.0.1:${apiPort}`
    await write('cluster.kubeconfig', kubeconfigText({ server, authority: authority.certificate, user }))
    for (const host of hosts) await confined.#addReplica(host, hosts)
    await eventually(() => Promise.all(confined.replicas.map((replica) => reachesAll(replica, hosts.length))), {
      timeoutMs: 60_000,
    })
    return confined
  }

  /** Starts the agent's cluster on the agent's host, which alone can reach it. */
  async startCluster({ name }: Host): Promise<void> {
    const options: ApiDoubleProgramOptions = {
      port: apiPort,
      token: apiToken,
      certificateFile: this.#file('serving.crt'),
      keyFile: this.#file('serving.key'),
      authorityFile: this.#file('ca.crt'),
    }
    const double = await this.#inside(name, [process.execPath, apiDouble, JSON.stringify(options)])
    await double.says(/https:/)
  }

  /** Starts a pod of the agent. @param addresses - its own, and those that kas may name */
  async startPod(
    { name }: Host,
    pod: string,
    { address, allowed }: { address: string; allowed: readonly string[] },
  ): Promise<TestProcess> {
    const flags = [
      `--kas-address=${address}`,
      ...allowed.map((host) => `--kas-allow-home=${host}`),
      `--token-file=${this.#file('agent-token')}`,
      `--kubeconfig=${this.#file('cluster.kubeconfig')}`,
      '--observability-listen-network=unix',
      `--observability-listen-address=${this.#file(`${pod}.sock`)}`,
    ]
    return await this.#inside(name, [process.execPath, mainOf('agentk'), ...flags], {
      POD_NAME: pod,
      POD_NAMESPACE: 'default',
    })
  }

  /** Targets, as `host:port`, to which the host can connect within half a second. */
  async reached({ name }: Host, targets: readonly string[]): Promise<string[]> {
    const script = `
      for (const target of process.argv.slice(1)) {
        const [host, port] = target.split(':')
        const socket = require('node:net').connect({ host, port: Number(port) })
        socket.on('error', () => undefined)
        socket.on('connect', () => console.log(target))
      }
      setTimeout(() => process.exit(), 500)`
    const { stdout } = await (await this.#inside(name, [process.execPath, '-e', script, ...targets])).ends()
    return stdout.toString().trim().split('\n').sort()
  }

  #file(name: string): string {
    return join(this.processes.folder, name)
  }

  #inside(host: string, command: readonly string[], environment = {}): Promise<TestProcess> {
    return this.processes.spawn({ command: 'ip', args: ['netns', 'exec', host, ...command], environment })
  }

  async #addReplica(host: Host, hosts: readonly Host[]): Promise<void> {
    const tls = { certificate_file: this.#file('serving.crt'), key_file: this.#file('serving.key') }
    const discovery = { static: hosts.map(({ ipv4 }) => `${ipv4}:8156`) }
    const shared = {
      processes: this.processes,
      secretFile: this.#file('secret'),
      directoryFile: this.#file('directory.yaml'),
    }
    const agent = {
      listen: { address: ':8150', websocket: true, listen_grace_period: '0s' },
      kubernetes_api: { listen: { address: ':8154', ...tls } },
    }
    const cluster = { name: host.name, discovery, agent_address: `grpc://${host.ipv4}:8150` }
    this.replicas.push(await NetworkReplica.start(shared, host, { discovery, configuration: { agent, cluster } }))
  }
}

/** The agent as the replica's status shows it; undefined: the replica does not know it. */
export async function seenBy(replica: NetworkReplica): Promise<StatusReport['agents'][number] | undefined> {
  return (await replica.status(agentId)).agents[0]
}

async function reachesAll(replica: NetworkReplica, count: number): Promise<void> {
  const { members = [] } = await replica.status()
  const inReach = members.filter(({ reach, state }) => state === 'serving' && /^(self|reachable)$/.test(reach))
  if (inReach.length < count) throw new Error(`${replica.name} reaches ${inReach.length} of ${count}`)
}
