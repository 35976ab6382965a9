import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeFlags } from '../../../dev/node-flags.ts'
import type { StatusReport } from '../../../src/kas/servers/ops-socket/status-report.ts'
import { askSocket } from '../ask-socket.ts'
import { eventually } from '../eventually.ts'
import type { Processes, TestProcess } from '../processes.ts'
import { mainOf } from '../programs.ts'
import type { Host } from './virtual-network.ts'

const shiftedClock = join(import.meta.dirname, 'shifted-clock.ts')

/** Files and addresses that Kubernetes gives to a pod. */
export interface Pod {
  readonly namespace: string
  readonly token: string
  /** PEM of the API server's authority */
  readonly ca: string
  readonly server: { readonly host: string; readonly port: number }
}

export interface NetworkReplicaOptions {
  /** value of `cluster.discovery` */
  readonly discovery: object
  readonly pod?: Pod
  /** address of the DNS server */
  readonly resolver?: string
  /** error of its wall clock; SIGUSR2 corrects it and sets it again. ms */
  readonly clockMs?: number
  /** overrides the configuration of all replicas */
  readonly configuration?: object
}

/** Processes and files that all replicas share. */
export interface Shared {
  readonly processes: Processes
  readonly secretFile: string
  readonly directoryFile: string
}

/** mounts, in a mount namespace of its own (`ip netns exec` makes one), the files that only this replica sees */
const script = `
account=$1 names=$2; shift 2
mount -t tmpfs tmpfs /run
[ -L /var/run ] || mount --bind /run /var/run
mkdir -p /run/secrets/kubernetes.io
ln -s "$account" /run/secrets/kubernetes.io/serviceaccount
file=$(readlink -m /etc/resolv.conf)
mkdir -p "\${file%/*}"
[ -e "$file" ] || : > "$file"
mount --bind "$names" "$file"
exec "$@"`

/** kas as a process on a host of the network, at its usual ports. */
export class NetworkReplica {
  readonly host: Host
  readonly #socket: string
  readonly #process: TestProcess

  private constructor(host: Host, socket: string, process: TestProcess) {
    this.host = host
    this.#socket = socket
    this.#process = process
  }

  static async start(shared: Shared, host: Host, options: NetworkReplicaOptions): Promise<NetworkReplica> {
    const folder = join(shared.processes.folder, host.name)
    const account = join(folder, 'account')
    const socket = join(folder, 'ops.sock')
    await mkdir(account, { recursive: true })
    const { pod, resolver, clockMs } = options
    for (const name of ['namespace', 'token', 'ca'] as const) {
      await writeFile(join(account, name === 'ca' ? 'ca.crt' : name), pod?.[name] ?? '')
    }
    await writeFile(join(folder, 'resolv.conf'), resolver === undefined ? '' : `nameserver ${resolver}\n`)
    await writeFile(
      join(folder, 'kas.yaml'),
      JSON.stringify(configuration(shared, { name: host.name, socket }, options)),
    )
    const mounted = ['sh', '-ec', script, 'sh', account, join(folder, 'resolv.conf')]
    const node = [...nodeFlags, ...(clockMs === undefined ? [] : [`--import=${shiftedClock}`])]
    const kas = [process.execPath, ...node, mainOf('kas'), `--configuration-file=${join(folder, 'kas.yaml')}`]
    const child = await shared.processes.spawn({
      command: 'ip',
      args: ['netns', 'exec', host.name, ...mounted, ...kas],
      folder,
      environment: {
        ...(pod ? { KUBERNETES_SERVICE_HOST: pod.server.host, KUBERNETES_SERVICE_PORT: String(pod.server.port) } : {}),
        ...(clockMs === undefined ? {} : { KAS_TEST_CLOCK_MS: String(clockMs) }),
      },
    })
    return new NetworkReplica(host, socket, child)
  }

  get name(): string {
    return this.host.name
  }

  /** Lines of its log, only those with this message if one is given. */
  lines(message?: string): Record<string, unknown>[] {
    const whole = this.#process.stderr.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'))
    const lines = whole.map((line) => JSON.parse(line) as Record<string, unknown>)
    return message === undefined ? lines : lines.filter(({ msg }) => msg === message)
  }

  /** Resolves once it has logged the message `count` times. */
  async said(message: string, options: { count?: number; timeoutMs?: number } = {}): Promise<void> {
    const { count = 1 } = options
    await eventually(() => {
      const found = this.lines(message).length
      if (found < count) throw new Error(`${this.name} said ${found} times: ${message}`)
    }, options)
  }

  /** @throws Error while it does not answer */
  async status(agentId?: number): Promise<StatusReport> {
    const query = agentId === undefined ? '' : `?agent=${agentId}`
    return (await askSocket(this.#socket, `/status${query}`)) as StatusReport
  }

  async metrics(): Promise<string> {
    const answer = await fetch(`http://${this.host.ipv4}:8151/metrics`)
    return await answer.text()
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal)
  }

  /** Its exit and output. */
  get exited(): TestProcess['exited'] {
    return this.#process.exited
  }
}

function configuration(
  { secretFile, directoryFile }: Shared,
  { name, socket }: { name: string; socket: string },
  options: NetworkReplicaOptions,
): object {
  const secret = { authentication_secret_file: secretFile, listen_grace_period: '0s' }
  return {
    directory: { file: directoryFile },
    agent: { listen: { address: ':8150', listen_grace_period: '0s' } },
    api: { listen: { address: ':8153', ...secret } },
    private_api: { listen: { address: ':8155', ...secret } },
    observability: { listen: { address: ':8151' }, logging: { level: 'debug' } },
    ops: { socket },
    cluster: { name, discovery: options.discovery },
    ...options.configuration,
  }
}
