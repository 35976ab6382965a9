import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { eventually } from './eventually.ts'
import type { Processes } from './processes.ts'
import { mainOf } from './programs.ts'

/** The text of `/metrics` of programs that have just started. */
export interface FreshMetrics {
  /** kas with a directory file, and a secret of replicas */
  readonly kas: string
  /** kas with a GitLab */
  readonly kasOfGitlab: string
  /** agentk with a cluster that does not exist, and no kas */
  readonly agentk: string
}

export interface FreshOptions {
  /** address of a GitLab; default: one that does not exist */
  readonly gitlab?: string
  /** calls of users to the kas with GitLab before its metrics are read, each with a token of its own; default: none */
  readonly questions?: number
}

/** Starts one of each. @returns their metrics */
export async function freshMetrics(
  processes: Processes,
  { gitlab, questions = 0 }: FreshOptions = {},
): Promise<FreshMetrics> {
  const folder = join(processes.folder, 'fresh')
  await mkdir(folder)
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const secret = { authentication_secret_file: await file('secret', Buffer.alloc(32, 7).toString('base64')) }
  const [closed = 0] = await freePorts(1)
  const listen = { address: '127.0.0.1:0' }
  const common = {
    agent: { listen, kubernetes_api: { listen } },
    observability: { listen },
    api: { listen: { ...listen, ...secret } },
    private_api: { listen: { ...listen, ...secret } },
    cluster: { listen },
  }
  const kas = async (name: string, more: object, asked = 0) => {
    const configuration = await file(`${name}.yaml`, JSON.stringify({ ...common, ...more }))
    const args = [mainOf('kas'), `--configuration-file=${configuration}`]
    const program = await processes.spawn({ command: process.execPath, args })
    const addressOf = async (endpoint: string) => {
      const [line] = await program.says(new RegExp(`^.*"${endpoint} endpoint is up".*$`, 'm'))
      return (JSON.parse(line) as { net_address: string }).net_address
    }
    const kubernetes = await addressOf('Kubernetes API')
    for (let question = 1; question <= asked; question++) {
      const headers = { authorization: `Bearer pat:1:token-${question}` }
      await fetch(`http://${kubernetes}/version`, { headers }).then((answer) => answer.arrayBuffer())
    }
    const address = await addressOf('Observability')
    return await metricsAt(`http://${address}/metrics`)
  }
  const agentk = async () => {
    const { certificate: authority } = await Authority.create('fresh')
    const server = `https://127.0.0.1:${closed}`
    const kubeconfig = kubeconfigText({ server, authority, user: { token: 'none' } })
    const [port] = await freePorts(1)
    const args = [
      mainOf('agentk'),
      `--kas-address=ws://127.0.0.1:${closed}`,
      `--token-file=${await file('token', 'glagent-none')}`,
      `--kubeconfig=${await file('kubeconfig', kubeconfig)}`,
      `--observability-listen-address=127.0.0.1:${port}`,
    ]
    const environment = { POD_NAME: 'agentk-0', POD_NAMESPACE: 'default' }
    await processes.spawn({ command: process.execPath, args, environment })
    return await metricsAt(`http://127.0.0.1:${port}/metrics`)
  }
  const directory = await file('directory.yaml', '{}')
  const [withDirectory, withGitlab, ofAgentk] = await Promise.all([
    kas('directory-kas', { directory: { file: directory } }),
    kas('gitlab-kas', { gitlab: { address: gitlab ?? `http://127.0.0.1:${closed}`, ...secret } }, questions),
    agentk(),
  ])
  return { kas: withDirectory, kasOfGitlab: withGitlab, agentk: ofAgentk }
}

const metricsAt = (url: string) =>
  eventually(
    async () => {
      const answer = await fetch(url)
      if (answer.status !== 200) throw new Error(`${url}: ${answer.status}`)
      return await answer.text()
    },
    { timeoutMs: 30_000 },
  )
