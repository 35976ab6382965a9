import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { nodeFlags } from '../../dev/node-flags.ts'
import type { Programs } from '../support/programs.ts'
import type { Target } from './load.ts'

const agentToken = 'bench-agent-token'
const jobToken = 'bench-job-token'
const main = (program: string) => join(import.meta.dirname, `../../src/${program}/main.ts`)
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** kas and agentk as they are run, with a directory file, plain gRPC on 8150 and plain HTTP on 8154. */
export async function startOurs(programs: Programs, folder: string, kubeconfig: string) {
  mkdirSync(folder)
  const repository = join(folder, 'clusters.git')
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', repository])
  const [agents, ops, kubernetes] = (await freePorts(3)) as [number, number, number]
  const directory = {
    projects: [{ id: 1, path: 'platform/clusters', groups: [], git: { url: repository } }],
    agents: [{ id: 42, name: 'prod', project: 1, tokens: [{ sha256: sha256(agentToken) }] }],
    users: [{ id: 5, username: 'ada', tokens: [], roles: {} }],
    ci_tokens: [{ sha256: sha256(jobToken), user: 5, project: 1, job: 900, pipeline: 90 }],
  }
  const at = (port: number) => ({ address: `127.0.0.1:${port}` })
  const configuration = {
    directory: { file: join(folder, 'directory.yaml') },
    agent: { listen: { ...at(agents), websocket: true }, kubernetes_api: { listen: at(kubernetes) } },
    observability: { listen: at(ops), logging: { level: 'error' } },
  }
  writeFileSync(configuration.directory.file, JSON.stringify(directory), { mode: 0o600 })
  writeFileSync(join(folder, 'kas.yaml'), JSON.stringify(configuration))
  writeFileSync(join(folder, 'token'), agentToken, { mode: 0o600 })
  const kas = programs.spawn(main('kas'), [`--configuration-file=${join(folder, 'kas.yaml')}`], { flags: nodeFlags })
  const args = [
    `--kas-address=grpc://127.0.0.1:${agents}`,
    `--token-file=${join(folder, 'token')}`,
    `--kubeconfig=${kubeconfig}`,
    '--observability-listen-address=127.0.0.1:0',
  ]
  const agentk = programs.spawn(main('agentk'), args, {
    flags: nodeFlags,
    env: { POD_NAMESPACE: 'bench', POD_NAME: 'agentk-0' },
  })
  const target = (path: string): Target => ({
    origin: `http://127.0.0.1:${kubernetes}`,
    path,
    headers: { authorization: `Bearer ci:42:${jobToken}` },
  })
  await connected(target('/version'))
  return { kasPid: kas.pid as number, agentkPid: agentk.pid as number, target }
}

const retryMs = 100
const patienceMs = 30_000

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
