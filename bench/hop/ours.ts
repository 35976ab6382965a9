import { type ChildProcess, execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { type Programs as Run, sourcePrograms } from '../../dev/start/local-programs.ts'
import type { Programs, SpawnOptions } from '../support/programs.ts'
import type { Target } from './load.ts'

const replicas = 2
const agentToken = 'bench-agent-token'
/** token of a job of each user */
const jobTokens = ['bench-job-token', 'bench-job-token-of-another-user'] as const
const ownProject = { id: 1, path: 'platform/clusters' } as const
/** namespace of agentk's own objects */
export const agentkNamespace = 'bench'
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** Scheme of agentk's connection to kas; with TLS it needs the files. */
export interface AgentTransport {
  readonly scheme: 'grpc' | 'grpcs' | 'ws' | 'wss'
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string }
}

interface OursOptions {
  /** files of the agent's configuration project, by path; default: none */
  readonly files?: Readonly<Record<string, string>>
  /** default: those of this source tree */
  readonly run?: Pick<Run, 'kas' | 'agentk'>
  /** returns the port for agentk before that port of kas; default: the same */
  readonly farFrom?: (port: number) => Promise<number>
  /** returns the port for other replicas before that port of a replica; default: the same */
  readonly farBetween?: (port: number) => Promise<number>
  /** more flags of Node, for agentk */
  readonly agentkFlags?: readonly string[]
  /** value of `observability.access_log` of kas; default: its default */
  readonly accessLog?: object
  /** the reader of kas' stdout has stopped; default: the output is dropped */
  readonly hasStoppedReader?: boolean
  /** starts an agent in Go in place of agentk; default: none */
  readonly otherAgent?: (kasAddress: string, token: string) => ChildProcess
}

/** Starts two replicas of kas and one agentk as in production: agentk at the first one, and plain HTTP on 8154. */
export async function startOurs(
  programs: Programs,
  folder: string,
  kubeconfig: string,
  { scheme, tls }: AgentTransport = { scheme: 'grpc' },
  {
    files = {},
    run = sourcePrograms,
    farFrom = near,
    farBetween = near,
    agentkFlags = [],
    accessLog,
    hasStoppedReader = false,
    otherAgent,
  }: OursOptions = {},
) {
  mkdirSync(folder)
  const file = (name: string) => join(folder, name)
  createRepository(file('clusters.git'), files)
  writeFileSync(file('directory.yaml'), JSON.stringify(directory(file('clusters.git'))), { mode: 0o600 })
  writeFileSync(file('token'), agentToken, { mode: 0o600 })
  writeFileSync(file('secret'), randomBytes(32).toString('base64'), { mode: 0o600 })
  const ports = await freePorts(replicas * 6)
  const certificate = tls && { certificate_file: tls.cert, key_file: tls.key }
  const members = Array.from({ length: replicas }, (_, i) => `127.0.0.1:${ports[i * 6]}`)
  const start = async (gossip: string, i: number) => {
    const [, agents, ops, kubernetes, links, rails] = ports.slice(i * 6) as [
      number,
      number,
      number,
      number,
      number,
      number,
    ]
    const secret = { authentication_secret_file: file('secret') }
    const at = (port: number) => ({ address: `127.0.0.1:${port}` })
    const configuration = {
      directory: { file: file('directory.yaml') },
      agent: { listen: { ...at(agents), websocket: true, ...certificate }, kubernetes_api: { listen: at(kubernetes) } },
      observability: { listen: at(ops), logging: { level: 'error' }, ...(accessLog && { access_log: accessLog }) },
      api: { listen: { ...at(rails), ...secret } },
      private_api: { listen: { ...at(links), ...secret } },
      cluster: { name: `kas-${i}`, listen: { address: gossip }, discovery: { static: members } },
    }
    writeFileSync(file(`kas-${i}.yaml`), JSON.stringify(configuration))
    const args = [`--configuration-file=${file(`kas-${i}.yaml`)}`]
    const env = { OWN_PRIVATE_API_URL: `grpcs://127.0.0.1:${await farBetween(links)}` }
    const { pid } = programs.spawn(...programOf(run.kas, args, { env, hasStoppedReader }))
    const target = (path: string, user: 0 | 1 = 0): Target => ({
      origin: `http://127.0.0.1:${kubernetes}`,
      path,
      headers: { authorization: `Bearer ci:42:${jobTokens[user]}` },
    })
    return { pid: pid as number, agents, rails, ops, target }
  }
  const all = await Promise.all(members.map(start))
  const [holder, other] = all as [(typeof all)[0], (typeof all)[0]]
  const kasAddress = `${scheme}://127.0.0.1:${await farFrom(holder.agents)}`
  const args = [
    `--kas-address=${kasAddress}`,
    `--token-file=${file('token')}`,
    `--kubeconfig=${kubeconfig}`,
    '--observability-listen-address=127.0.0.1:0',
    ...(tls ? [`--kas-ca-cert-file=${tls.ca}`] : []),
  ]
  const env = { POD_NAMESPACE: agentkNamespace, POD_NAME: 'agentk-0' }
  const startAgentk = () =>
    otherAgent?.(kasAddress, agentToken) ?? programs.spawn(...programOf(run.agentk, args, { flags: agentkFlags, env }))
  const agentk = startAgentk()
  for (const { target } of all) await connected(target('/version'))
  const project = { ...ownProject, repository: file('clusters.git'), secretFile: file('secret') }
  return { holder, other, agentk, agentkPid: agentk.pid as number, startAgentk, project }
}

async function near(port: number): Promise<number> {
  return port
}

/** @param words - Node, its flags, the program */
function programOf(words: readonly string[], args: string[], { flags = [], ...more }: SpawnOptions = {}) {
  const [file = ''] = words.slice(-1)
  return [file, args, { flags: [...words.slice(1, -1), ...flags], ...more }] as const
}

/** Makes a repository with one commit. */
function createRepository(folder: string, files: Readonly<Record<string, string>>): void {
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', folder])
  const data = (text: string) => `data ${Buffer.byteLength(text)}\n${text}\n`
  const author = `committer bench <bench@kas.test> 0 +0000\n`
  const changes = Object.entries(files).map(([path, text]) => `M 100644 inline ${path}\n${data(text)}`)
  const input = `commit refs/heads/main\n${author}${data('Begin')}${changes.join('')}`
  execFileSync('git', ['-C', folder, 'fast-import', '--quiet'], { input })
}

function directory(repository: string) {
  return {
    projects: [{ ...ownProject, groups: [], git: { url: repository } }],
    agents: [{ id: 42, name: 'prod', project: ownProject.id, tokens: [{ sha256: sha256(agentToken) }] }],
    users: ['ada', 'grace'].map((username, i) => ({ id: 5 + i, username, tokens: [], roles: {} })),
    ci_tokens: jobTokens.map((token, i) => ({
      sha256: sha256(token),
      user: 5 + i,
      project: 1,
      job: 900 + i,
      pipeline: 90,
    })),
  }
}

const retryMs = 100
const patienceMs = 90_000

async function connected({ origin, path, headers }: Target): Promise<void> {
  const end = Date.now() + patienceMs
  for (;;) {
    const status = await fetch(origin + path, { headers }).then(
      (response) => response.status,
      (error: unknown) => String(error),
    )
    if (status === 200) return
    if (Date.now() > end) throw new Error(`no way through kas: ${status}`)
    await sleep(retryMs)
  }
}
