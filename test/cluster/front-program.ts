import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { eventually } from '../support/eventually.ts'
import type { TestProcess } from '../support/processes.ts'
import type { CountingRelay } from './counting-relay.ts'
import type { FrontedReplica, FrontedReplicas } from './fronted-replicas.ts'

/** Fronts with the files that are shipped; addresses, ports, paths and secrets are replaced by those of the test. */

const deploy = new URL('../../deploy/', import.meta.url).pathname

/** haproxy's limit of connections of one address */
export const haproxyConnections = 300

/** Ports of a replica that a front needs. */
export interface BehindFront extends Pick<FrontedReplica, 'agentsPort' | 'opsPort'> {
  /** relay before port 8154 */
  readonly relay: Pick<CountingRelay, 'port'>
}

/** Replicas and files that a front needs. */
export interface FrontNeeds extends Pick<FrontedReplicas, 'accelSecret'> {
  /** its folder contains `front.crt` and `front.key` */
  readonly processes: Pick<FrontedReplicas['processes'], 'folder' | 'spawn'>
  readonly all: readonly BehindFront[]
}

type Edits = readonly (readonly [from: string | RegExp, to: string])[]

export interface RunningFront {
  readonly program: TestProcess
  /** `https://127.0.0.1:<port>` */
  readonly url: string
  /** path of its configuration */
  readonly folder: string
}

/**
 * @param all - addresses of the replicas for the front, if they differ from the replicas' own
 * @param source - address from which it connects to them
 */
export async function startNginx(
  replicas: FrontNeeds,
  all: readonly BehindFront[] = replicas.all,
  source?: string,
): Promise<RunningFront> {
  const { processes, accelSecret } = replicas
  const folder = join(processes.folder, 'nginx')
  await cp(join(deploy, 'nginx'), folder, { recursive: true })
  await mkdir(join(folder, 'temp'))
  const [port] = (await freePorts(1)) as [number]
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path temp/${kind};`)
  const edits: Edits = [
    ...all.flatMap(
      ({ agentsPort, relay }, i): Edits => [
        [`10.0.0.1${i}:8150`, `127.0.0.1:${agentsPort}`],
        [`10.0.0.1${i}:8154`, `127.0.0.1:${relay.port}`],
      ],
    ),
    ['map "" $kas_accel {\n    default "";', `map "" $kas_accel {\n    default "${accelSecret}";`],
    ['/etc/nginx/kas/', `${folder}/`],
    ['/etc/nginx/ssl/gitlab.example.com.', join(processes.folder, 'front.')],
    ['/var/log/nginx/access.log', 'access.log'],
    ['/var/log/nginx/error.log', 'stderr'],
    ['/run/nginx.pid', 'nginx.pid'],
    ['user www-data;', user],
    ['listen 443', `listen 127.0.0.1:${port}`],
    [
      'http {',
      `http {\n${temp.join('\n')}${source === undefined ? '' : `\nproxy_bind ${source}; grpc_bind ${source};`}`,
    ],
    ['worker_rlimit_nofile 65536;', ''],
    ['worker_connections 32768', 'worker_connections 1024'],
  ]
  for (const file of await readdir(folder)) {
    if (!file.endsWith('.conf')) continue
    await writeFile(join(folder, file), edited(await readFile(join(folder, file), 'utf8'), edits))
  }
  const args = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr', '-g', 'daemon off;']
  const program = await processes.spawn({ command: 'nginx', args, folder })
  return { program, url: `https://127.0.0.1:${port}`, folder }
}

/** Starts haproxy; parameters as for `startNginx`. */
export async function startHaproxy(
  replicas: FrontNeeds,
  all: readonly BehindFront[] = replicas.all,
  source?: string,
): Promise<RunningFront> {
  const { processes } = replicas
  const folder = join(processes.folder, 'haproxy')
  await mkdir(folder)
  const [port] = (await freePorts(1)) as [number]
  const file = (name: string) => readFile(join(processes.folder, name), 'utf8')
  await writeFile(join(folder, 'front.pem'), `${await file('front.crt')}${await file('front.key')}`)
  const edits: Edits = [
    ...all.flatMap(
      ({ agentsPort, opsPort, relay }, i): Edits => [
        // the line with health checks
        [new RegExp(`(10\\.0\\.0\\.1${i}:8150 id \\d)(?! track)`, 'g'), `$1 port ${opsPort}`],
        [`10.0.0.1${i}:8150`, `127.0.0.1:${agentsPort}`],
        [`10.0.0.1${i}:8154`, `127.0.0.1:${relay.port}`],
      ],
    ),
    ['/etc/haproxy/gitlab.example.com.pem', join(folder, 'front.pem')],
    ['/run/haproxy/admin.sock', join(folder, 'admin.sock')],
    ['bind :443', `bind 127.0.0.1:${port}`],
    ['maxconn 65536', 'maxconn 1024'],
    ['sc0_conn_cur gt 2000', `sc0_conn_cur gt ${haproxyConnections}`],
    ...sourceEdits(source),
  ]
  const configuration = join(folder, 'haproxy.cfg')
  await writeFile(configuration, edited(await readFile(join(deploy, 'haproxy/haproxy.cfg'), 'utf8'), edits))
  const program = await processes.spawn({ command: 'haproxy', args: ['-W', '-f', configuration], folder })
  return { program, url: `https://127.0.0.1:${port}`, folder }
}

/** A front that passes connections on unchanged, with the PROXY protocol. */
export interface PassingFront {
  readonly program: TestProcess
  /** port of 127.0.0.1 */
  readonly agentsPort: number
  readonly kubernetesPort: number
}

/**
 * Starts haproxy with haproxy-tcp.cfg.
 *
 * @param processes - its folder gets the front's files
 * @param how.version - version of the PROXY protocol
 */
export async function startPassingHaproxy(
  { processes }: { processes: Pick<FrontNeeds['processes'], 'folder' | 'spawn'> },
  all: readonly BehindFront[],
  { source, version }: { source: string; version: 1 | 2 },
): Promise<PassingFront> {
  const folder = await mkdtemp(join(processes.folder, 'haproxy-tcp-'))
  const [agentsPort, kubernetesPort] = (await freePorts(2)) as [number, number]
  const edits: Edits = [
    ...all.flatMap(
      (replica, i): Edits => [
        [`10.0.0.1${i}:8150`, `127.0.0.1:${replica.agentsPort} port ${replica.opsPort}`],
        [`10.0.0.1${i}:8154`, `127.0.0.1:${replica.relay.port}`],
      ],
    ),
    ['bind :8150', `bind 127.0.0.1:${agentsPort}`],
    ['bind :8154', `bind 127.0.0.1:${kubernetesPort}`],
    ['maxconn 65536', 'maxconn 4096'],
    ...(version === 1 ? ([['send-proxy-v2', 'send-proxy']] as const) : []),
    ...sourceEdits(source),
  ]
  const configuration = join(folder, 'haproxy.cfg')
  await writeFile(configuration, edited(await readFile(join(deploy, 'haproxy/haproxy-tcp.cfg'), 'utf8'), edits))
  const program = await processes.spawn({ command: 'haproxy', args: ['-W', '-f', configuration], folder })
  await listen(agentsPort, kubernetesPort)
  return { program, agentsPort, kubernetesPort }
}

/** @param module - path of ngx_stream_module.so */
export async function startPassingNginx(
  { processes }: Pick<FrontNeeds, 'processes'>,
  { agentsPort: agents, relay }: Pick<BehindFront, 'agentsPort' | 'relay'>,
  { source, module }: { source: string; module: string },
): Promise<PassingFront> {
  const folder = join(processes.folder, 'nginx-stream')
  await mkdir(folder)
  const [agentsPort, kubernetesPort] = (await freePorts(2)) as [number, number]
  const server = (port: number, to: number) =>
    `server { listen 127.0.0.1:${port}; proxy_pass 127.0.0.1:${to}; proxy_protocol on; proxy_bind ${source}; }`
  const text = `load_module ${module};
pid nginx.pid;
events {}
stream {
  ${server(agentsPort, agents)}
  ${server(kubernetesPort, relay.port)}
}
`
  await writeFile(join(folder, 'nginx.conf'), text)
  const args = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr', '-g', 'daemon off;']
  const program = await processes.spawn({ command: 'nginx', args, folder })
  await listen(agentsPort, kubernetesPort)
  return { program, agentsPort, kubernetesPort }
}

/** Resolves once each port of 127.0.0.1 accepts connections. */
async function listen(...ports: readonly number[]): Promise<void> {
  for (const port of ports) {
    await eventually(async () => {
      const socket = connect({ host: '127.0.0.1', port })
      await once(socket, 'connect').finally(() => socket.destroy())
    })
  }
}

const sourceEdits = (source: string | undefined): Edits =>
  source === undefined ? [] : [[/^defaults$/gm, `defaults\n    source ${source}`]]

function edited(text: string, edits: Edits): string {
  return edits.reduce((changed, [from, to]) => changed.replaceAll(from, to), text)
}
