import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { FreezableFront } from '../support/freezable-front.ts'
import { Processes, type TestProcess } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'

/**
 * The program starts with the files of GitLab's packages (doc/reference/gitlab-contract.md 6.2), with `redis:`, and
 * becomes a cluster by environment alone. The test changes only the folders at the beginning of paths, and the ports,
 * since two replicas would need the same.
 */

t.setTimeout(60_000)
const fixtures = join(import.meta.dirname, '../support/stock-configuration')
const packageFolders = ['/var/opt/gitlab/', '/etc/gitlab/', '/etc/kas/']
const ownPort = /^( *address: \S*:)(81\d\d)$/gm

const certificateFolder = 'opt/gitlab/embedded/ssl/certs/'
const secretFiles = {
  'var/opt/gitlab/gitlab-kas/authentication_secret_file': 32,
  'var/opt/gitlab/gitlab-kas/private_api_authentication_secret_file': 32,
  'var/opt/gitlab/gitlab-kas/websocket_token_secret_file': 72,
  'etc/kas/.gitlab_kas_secret': 32,
  'etc/kas/.gitlab_kas_private_api_secret': 32,
  'etc/kas/.gitlab_kas_websocket_token_secret': 72,
}

/** Writes the files to which the packages' configuration points, below `folder`. */
async function placeFiles(folder: string): Promise<void> {
  const authority = await Authority.create('packages')
  const { certificate, key } = await authority.issueServing({ dns: ['localhost'], ip: [] })
  const secrets = Object.entries(secretFiles).map(([file, bytes]) => [file, Buffer.alloc(bytes, 7).toString('base64')])
  const files: Record<string, string> = {
    ...Object.fromEntries(secrets),
    'etc/gitlab/ssl/kas.crt': certificate,
    'etc/gitlab/ssl/kas.key': key,
  }
  for (const name of ['var/opt/gitlab/gitlab-kas/sockets', certificateFolder]) {
    await mkdir(join(folder, name), { recursive: true })
  }
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), text)
  }
}

interface Started {
  readonly name: string
  readonly running: TestProcess
  readonly socket: string
  readonly readinessPath: string
}

/** @param ports - replacements for ports of the file; all others become any free port */
async function start(
  processes: Processes,
  name: string,
  environment: Record<string, string>,
  ports: Record<string, number> = {},
): Promise<Started> {
  const { folder } = processes
  const stock = await readFile(join(fixtures, name), 'utf8')
  const inFolder = packageFolders.reduce((text, path) => text.replaceAll(path, `${folder}${path}`), stock)
  const file = join(folder, name)
  await writeFile(
    file,
    inFolder.replaceAll(ownPort, (_, before, port) => `${before}${ports[port] ?? 0}`),
  )
  const socket = join(folder, `${name}.sock`)
  const running = await processes.spawn({
    command: process.execPath,
    args: [mainOf('kas'), `--configuration-file=${file}`],
    environment: { KAS_CLUSTER_NAME: name, KAS_CLUSTER_LISTEN: '127.0.0.1:0', KAS_OPS_SOCKET: socket, ...environment },
  })
  return { name, running, socket, readinessPath: parse(stock).observability.readiness_probe?.url_path ?? '/readiness' }
}

const linesOf = ({ running }: Started) =>
  running.stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown> & { unused?: string[] })

async function isReady(t: Test, { name, running, readinessPath }: Started): Promise<void> {
  const [line] = await running.says(/^.*"Observability endpoint is up".*$/m)
  const port = String((JSON.parse(line) as { net_address: string }).net_address)
    .split(':')
    .at(-1)
  await eventually(async () => {
    const response = await fetch(`http://localhost:${port}${readinessPath}`)
    if (response.status !== 200) throw new Error(`${name}: ${response.status} ${await response.text()}`)
  })
  t.pass(`${name} is ready`)
}

/** unused keys that packages write, beside `redis` */
const alsoUnused: Record<string, string[]> = {
  'omnibus.yml': ['observability.logging.grpc_level'],
  'omnibus-nodes.yml': [
    'config',
    'private_api.listen.certificate_file',
    'private_api.listen.key_file',
    'observability.logging.grpc_level',
    'observability.sentry',
  ],
  'chart.yaml': ['OWN_PRIVATE_API_HOST'],
}

// wire: configuration.packages, environment.OWN_PRIVATE_API_URL, environment.OWN_PRIVATE_API_CIDR
// wire: environment.OWN_PRIVATE_API_HOST
t.test('files of the Omnibus package and of the chart start it unchanged, and make one cluster', async (t) => {
  const processes = await Processes.start(t)
  await placeFiles(processes.folder)
  const [gossipPort = 0, privatePort = 0] = await freePorts(2)
  const front = await FreezableFront.start(t, privatePort)
  const others = { KAS_CLUSTER_STATIC: `127.0.0.1:${gossipPort}` }
  const ofOmnibus = { SSL_CERT_DIR: join(processes.folder, certificateFolder), GODEBUG: 'x' }
  const ofChart = { OWN_PRIVATE_API_HOST: 'gitlab-kas.gitlab.svc', GODEBUG: 'x', TZ: 'UTC' }
  const started = await Promise.all([
    start(processes, 'omnibus.yml', { ...ofOmnibus, KAS_CLUSTER_LISTEN: `127.0.0.1:${gossipPort}` }),
    start(processes, 'omnibus-nodes.yml', { ...ofOmnibus, ...others, OWN_PRIVATE_API_CIDR: '127.0.0.0/8' }),
    start(
      processes,
      'chart.yaml',
      { ...ofChart, ...others, OWN_PRIVATE_API_URL: `grpc://127.0.0.1:${front.port}` },
      { 8155: privatePort },
    ),
  ])
  await Promise.all(started.map((one) => isReady(t, one)))

  for (const one of started) {
    const all = linesOf(one).filter(({ level }) => level !== 'info')
    const isClear = ({ msg }: Record<string, unknown>) => /^No TLS on an address/.test(String(msg))
    t.equal(all.filter(isClear).length, one.name === 'chart.yaml' ? 1 : 0, `${one.name}: the chart's front ends TLS`)
    const warnings = all.filter((line) => !isClear(line))
    t.equal(warnings.length, 1, `${one.name} has one warning`)
    const keys = warnings.flatMap(({ unused = [] }) => unused.map((text) => text.split(': ')[0]))
    t.strictSame(keys, ['redis', ...(alsoUnused[one.name] ?? [])], one.name)
  }

  const members = await eventually(async () => {
    const { members = [] } = (await askSocket(started[0].socket, '/status')) as StatusReport
    const inReach = members.filter(({ reach, state }) => state === 'serving' && /^(self|reachable)$/.test(reach))
    if (inReach.length < started.length) throw new Error(JSON.stringify(members))
    return members
  })
  const addressOf = (name: string) => members.find((member) => member.name === name)?.address
  t.match(addressOf('omnibus.yml'), /^localhost:\d+$/, 'as it listens')
  t.match(addressOf('omnibus-nodes.yml'), /^127\.0\.0\.1:\d+$/, 'by OWN_PRIVATE_API_CIDR')
  t.equal(addressOf('chart.yaml'), `127.0.0.1:${front.port}`, 'by OWN_PRIVATE_API_URL, which others use')
})
