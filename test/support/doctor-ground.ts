import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { doctor } from '../../src/agentk/doctor/doctor.ts'
import { runCli } from '../../src/kas/cli/cli.ts'
import type { Finding } from '../../src/lib/doctor/findings.ts'
import { readVersion } from '../../src/lib/version.ts'
import { CuttingFront } from './cutting-front.ts'
import { eventually } from './eventually.ts'
import { GitalyDouble } from './gitaly/gitaly-double.ts'
import { ServedRepository } from './gitaly/served-repository.ts'
import { GitlabDouble } from './gitlab/gitlab-double.ts'
import { suiteWorld } from './gitlab/gitlab-world.ts'
import { Processes } from './processes.ts'
import { mainOf } from './programs.ts'

export interface DoctorAnswer {
  readonly code: number
  readonly stdout: string
  readonly findings: readonly Finding[]
  readonly ms: number
}

export type Settings = Record<string, Record<string, unknown>>

export interface Installation {
  readonly processes: Processes
  readonly gitlab: GitlabDouble
  /** ports for WebSocket and kubectl, and for gRPC; the latter cuts a stream that was idle for 30 s */
  readonly front: { readonly port: number; readonly grpcPort: number }
  /** front before `front.port` that cuts connections after 60 s */
  readonly cutting: CuttingFront
  /** settings of kas-0, which may be written again with changes */
  readonly settings: () => Settings
  /** texts that no output may contain */
  readonly secrets: readonly string[]
  write(name: string, text: string): Promise<string>
  /** starts one more replica, which joins kas-0 unless its settings name another */
  startReplica(name: string, options: ReplicaOptions): Promise<AnotherReplica>
  kasDoctor(change?: (settings: Settings) => void, more?: DoctorOptions): Promise<DoctorAnswer>
  agentkDoctor(change?: (flags: Record<string, string>) => void, more?: DoctorOptions): Promise<DoctorAnswer>
}

interface ReplicaOptions {
  readonly change?: (settings: Settings) => void
  readonly env?: Record<string, string>
}

interface AnotherReplica {
  doctor(): Promise<DoctorAnswer>
  stop(): Promise<unknown>
}

interface DoctorOptions {
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** runs as a process of its own; absent: within the test's process */
  readonly isProgram?: boolean
}

/** The doctors as `main` runs them. */
const commands = {
  kas: (args: readonly string[], { env, stdout }: CommandIo) =>
    runCli(['doctor', ...args], { env, stdout, stderr: stdout, stdin: Readable.from([]) }),
  agentk: (args: readonly string[], { env, stdout }: CommandIo) =>
    doctor(args, { env, stdout, version: readVersion() }),
}

interface CommandIo {
  readonly env: Record<string, string | undefined>
  readonly stdout: { write(text: string): void }
}

const token = 'glagent-prod'

/**
 * Starts two replicas behind nginx, GitLab and Gitaly over TLS of a private authority, and an API server. Each is a
 * process, but the doubles of GitLab and Gitaly are not.
 */
export async function startInstallation(t: Test, assets: string): Promise<Installation> {
  const processes = await Processes.start(t)
  const { folder } = processes
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  const authority = await Authority.create('root of the test')
  const pair = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const gitaly = await GitalyDouble.start(t, { folder, tls: pair })
  const [repository] = await Promise.all([ServedRepository.create(folder), controlPlane.start()])
  await repository.push({ '.gitlab/agents/prod/config.yaml': 'user_access: {}\n' })
  const world = { ...suiteWorld(), gitaly: { address: gitaly.address, token: gitaly.token } }
  const gitlab = await GitlabDouble.start(t, { tls: pair, world })
  const account = await createServiceAccount(controlPlane.admin, { namespace: 'default', name: 'agentk' })
  const accountToken = controlPlane.signToken({ account, lifeMs: 3_600_000 })

  const replicasSecret = randomBytes(32).toString('base64')
  const files = {
    ca: await write('ca.crt', authority.certificate),
    certificate: await write('serving.crt', pair.certificate),
    key: await write('serving.key', pair.key),
    api: await write('gitlab-secret', gitlab.secret.toString('base64')),
    replicas: await write('replicas-secret', replicasSecret),
    token: await write('token', token),
  }
  const ports = await freePorts(14)
  const [gossip0 = 0, gossip1 = 0, agents0 = 0, agents1 = 0, front = 0, grpcPort = 0, ...others] = ports
  const settingsOf = (name: string, own: Record<'gossip' | 'agents', number>, seeds: readonly number[]): Settings => {
    const [privateApi, api, ops, kubernetes] = name === 'kas-0' ? others : [0, 0, 0, 0]
    const at = (port = 0) => ({ address: `127.0.0.1:${port}` })
    const tls = { certificate_file: files.certificate, key_file: files.key }
    return {
      gitlab: {
        address: gitlab.address,
        authentication_secret_file: files.api,
        ca_certificate_file: files.ca,
      },
      agent: {
        listen: { ...at(own.agents), websocket: true },
        kubernetes_api: {
          url_path_prefix: '/k8s-proxy/',
          listen: { ...at(kubernetes), ...tls, trusted_proxies: ['127.0.0.1'] },
        },
      },
      api: { listen: { ...at(api), authentication_secret_file: files.api } },
      observability: { listen: at(ops) },
      private_api: { listen: { ...at(privateApi), authentication_secret_file: files.replicas } },
      cluster: { name, listen: at(own.gossip), discovery: { static: seeds.map((port) => `127.0.0.1:${port}`) } },
      ops: { socket: join(folder, `${name}.sock`) },
    }
  }
  const spawnKas = async (settings: Settings, env: Record<string, string> = {}) => {
    const file = await write(`${(settings.cluster as { name: string }).name}.yaml`, JSON.stringify(settings))
    return await processes.spawn({
      command: process.execPath,
      args: [mainOf('kas'), `--configuration-file=${file}`],
      environment: env,
    })
  }
  const sound = () => settingsOf('kas-0', { gossip: gossip0, agents: agents0 }, [gossip1])
  await spawnKas(sound())
  await spawnKas(settingsOf('kas-1', { gossip: gossip1, agents: agents1 }, [gossip0]))
  const [, , , kubernetesPort = 0] = others
  await startNginx(processes, { port: front, grpcPort, agentsPort: agents0, kubernetesPort, files })

  const cutting = await CuttingFront.start(t, { targets: [front], ageMs: 60_000 })
  let asked = 0
  const ask = async (
    program: 'kas' | 'agentk',
    args: readonly string[],
    { env = {}, isProgram = false }: DoctorOptions = {},
  ) => {
    const begin = performance.now()
    const asProgram = async (all: readonly string[]) => {
      const started = await processes.spawn({
        command: process.execPath,
        args: [mainOf(program), 'doctor', ...all],
        environment: env,
      })
      const { code, stdout, stderr } = await started.exited
      if (stdout.length === 0) throw new Error(stderr)
      return { code, stdout: stdout.toString() }
    }
    const here = async (all: readonly string[]) => {
      let stdout = ''
      const write = (text: string) => {
        stdout += text
      }
      const own = { PATH: process.env.PATH, HOME: folder, TMPDIR: folder, ...env }
      return { code: await commands[program](all, { env: own, stdout: { write } }), stdout }
    }
    const run = isProgram ? asProgram : here
    const [json, { code, stdout }] = await Promise.all([run([...args, '--output', 'json']), run(args)])
    return { code, stdout, findings: JSON.parse(json.stdout).findings, ms: performance.now() - begin }
  }
  const installation: Installation = {
    processes,
    gitlab,
    front: { port: front, grpcPort },
    cutting,
    settings: sound,
    secrets: [
      token,
      gitlab.secret.toString('base64'),
      gitlab.secret.toString('hex'),
      replicasSecret,
      gitaly.token,
      accountToken,
    ],
    write,
    startReplica: async (name, { change, env }) => {
      const [gossip = 0] = await freePorts(1)
      const settings = settingsOf(name, { gossip, agents: 0 }, [gossip0])
      change?.(settings)
      const replica = await spawnKas(settings, env)
      const stop = () => {
        replica.signal('SIGKILL')
        return replica.exited
      }
      return { doctor: () => ask('kas', [`--configuration-file=${join(folder, `${name}.yaml`)}`]), stop }
    },
    kasDoctor: async (change, { args = [], ...more } = {}) => {
      const settings = sound()
      change?.(settings)
      const file = await write(`asked-${asked++}.yaml`, JSON.stringify(settings, null, 2))
      const url = args.some((arg) => arg.startsWith('--kubernetes-api-url'))
        ? []
        : [`--kubernetes-api-url=https://127.0.0.1:${front}/k8s-proxy`]
      const given = [`--configuration-file=${file}`, `--agent-token-file=${files.token}`, ...url]
      return await ask('kas', [...given, `--kubernetes-api-ca-file=${files.ca}`, ...args], more)
    },
    agentkDoctor: async (change, { args = [], env = {}, ...more } = {}) => {
      const flags: Record<string, string> = {
        'kas-address': `wss://127.0.0.1:${front}/-/kubernetes-agent/`,
        'kas-ca-cert-file': files.ca,
        'token-file': files.token,
        server: controlPlane.server,
        'certificate-authority': join(controlPlane.folder, 'ca.crt'),
        token: accountToken,
      }
      change?.(flags)
      const given = Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
      const pod = { POD_NAME: 'agentk-0', POD_NAMESPACE: 'default' }
      return await ask('agentk', [...given, ...args], { ...more, env: { ...pod, ...env } })
    },
  }
  await eventually(
    async () => {
      const { findings } = await installation.kasDoctor()
      const wrong = findings.filter(({ state }) => state === 'failed' || state === 'note')
      if (wrong.length > 0) throw new Error(JSON.stringify(wrong))
    },
    { timeoutMs: 60_000 },
  )
  return installation
}

interface NginxNeeds {
  /** port for WebSocket */
  readonly port: number
  /** port for gRPC */
  readonly grpcPort: number
  readonly agentsPort: number
  readonly kubernetesPort: number
  readonly files: { readonly certificate: string; readonly key: string }
}

async function startNginx(processes: Processes, needs: NginxNeeds): Promise<void> {
  const { port, grpcPort, agentsPort, kubernetesPort, files } = needs
  const { folder } = processes
  const upgrade =
    'proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;'
  const toKubernetes = (path: string, more: string) => `location ${path} {
      proxy_pass https://127.0.0.1:${kubernetesPort}/k8s-proxy/;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      ${more}
    }`
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path temp-${kind};`)
  const file = join(folder, 'nginx.conf')
  await writeFile(
    file,
    `${user} pid nginx.pid; daemon off; worker_processes 1;
events { worker_connections 128; }
http {
  access_log off; ${temp.join(' ')}
  map $http_upgrade $connection_upgrade { default upgrade; '' close; }
  ssl_certificate ${files.certificate};
  ssl_certificate_key ${files.key};
  server {
    listen 127.0.0.1:${port} ssl;
    location /-/kubernetes-agent/ {
      proxy_pass http://127.0.0.1:${agentsPort}/;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection upgrade;
    }
    ${toKubernetes('/k8s-proxy/', `${upgrade} client_max_body_size 4m;`)}
    ${toKubernetes('/by-default/', '')}
    ${toKubernetes('/brief/', `${upgrade} client_max_body_size 4m; proxy_read_timeout 2s;`)}
  }
  server {
    listen 127.0.0.1:${grpcPort} ssl http2;
    location / { grpc_pass grpc://127.0.0.1:${agentsPort}; grpc_read_timeout 30s; }
  }
}
`,
  )
  const args = ['-p', folder, '-c', file, '-e', 'stderr']
  await processes.spawn({ command: 'nginx', args, folder })
}
