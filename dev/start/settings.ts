import { createHash, randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { stringify } from 'yaml'
import type { Authority } from '../certificates.ts'
import { kubeconfigText } from '../control-plane/kubeconfig.ts'
import type { Ports, ReplicaPorts } from './ports.ts'
import { cloneRepository, createProjectRepository, type RepositoryFiles } from './project-repository.ts'

/** Names of the files of one `npm start`, below its state folder; those of a replica: `replicaFiles`. */
export const files = {
  authority: 'ca.pem',
  certificate: 'tls.crt',
  key: 'tls.key',
  secret: 'secret',
  webSocketSecret: 'websocket.secret',
  directory: 'directory.yaml',
  repository: 'clusters.git',
  clone: 'clusters',
  agentToken: 'agent.token',
  userHeader: 'user.header',
  jobHeader: 'ci.header',
  kubeconfig: 'kubeconfig',
  kubectlCache: 'kubectl-cache',
  agentkLog: 'agentk.log',
} as const

export const replicaName = (index: number) => `kas-${index}`

export const replicaFiles = (name: string) => ({
  configuration: `${name}.yaml`,
  log: `${name}.log`,
  socket: `${name}.sock`,
})

export const agent = { id: 42, name: 'demo', project: { id: 1, path: 'demo/clusters' } } as const
const group = { id: 7, path: 'demo' }

export interface Settings {
  /** credential of a user's requests after `Bearer ` */
  readonly userCredential: string
}

/** Graces of a replica that leaves; a user waits for them after Ctrl-C. */
export interface Graces {
  /** time for new connections and calls */
  readonly listen: string
  /** time for running calls */
  readonly shutdown: string
  /** part of `shutdown` over which watches end one after another; default: kas' own */
  readonly watch?: string
}

const shortGraces: Graces = { listen: '0s', shutdown: '1s' }

interface Inputs {
  readonly folder: string
  readonly ports: Ports
  readonly authority: Authority
  readonly graces?: Graces
  /** turns on views of the agent's cluster; default: yes */
  readonly views?: boolean
  /** files of the agent's project, beside its configuration; adds a clone to push from. Default: none */
  readonly example?: RepositoryFiles | undefined
}

/**
 * Writes the settings of kas and agentk into the state folder: certificate, secrets, a configuration for each replica,
 * and a directory file. The directory file has one agent, one user and one CI job. A Git repository gets the agent's
 * configuration.
 */
export async function writeSettings(inputs: Inputs): Promise<Settings> {
  const { folder, ports, authority, graces = shortGraces, views = true, example } = inputs
  const write = (name: string, content: string) => writeFile(join(folder, name), content, { mode: 0o600 })
  const [agentToken, userToken, jobToken] = [newToken('glagent-'), newToken('glpat-'), newToken('glcbt-')]
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  await write(files.authority, authority.certificate)
  await write(files.certificate, serving.certificate)
  await write(files.key, serving.key)
  await write(files.secret, `${randomBytes(32).toString('base64')}\n`)
  await write(files.webSocketSecret, `${randomBytes(64).toString('base64')}\n`)
  await write(files.agentToken, `${agentToken}\n`)
  for (const [i, own] of ports.replicas.entries()) {
    const name = replicaName(i)
    const content = kasConfiguration({ folder: resolve(folder), name, own, all: ports.replicas, graces })
    await write(replicaFiles(name).configuration, stringify(content))
  }
  await write(files.directory, stringify(directory(resolve(folder), { agentToken, userToken, jobToken })))
  await createProjectRepository(resolve(folder, files.repository), {
    [`.gitlab/agents/${agent.name}/config.yaml`]: stringify(agentConfiguration),
    ...(views ? { [`.gitlab/agents/${agent.name}/views.yaml`]: viewsFile } : {}),
    ...example,
  })
  if (example) await cloneRepository(resolve(folder, files.repository), resolve(folder, files.clone))
  const userCredential = `pat:${agent.id}:${userToken}`
  await write(files.userHeader, `Authorization: Bearer ${userCredential}\n`)
  await write(files.jobHeader, `Authorization: Bearer ci:${agent.id}:${jobToken}\n`)
  await mkdir(join(folder, files.kubectlCache), { mode: 0o700 })
  return { userCredential }
}

/** Writes the kubeconfig, last of all: its presence shows that everything runs. */
export async function writeKubeconfig({ folder, ports, authority }: Inputs, settings: Settings): Promise<void> {
  const server = `https://127.0.0.1:${ports.kubernetes}`
  const token = settings.userCredential
  const content = kubeconfigText({ server, authority: authority.certificate, user: { token } })
  await writeFile(join(folder, files.kubeconfig), content, { mode: 0o600 })
}

/** Access to the agent: for the project's own CI jobs and members, with the agent's own rights. */
const agentConfiguration = {
  ci_access: { projects: [{ id: agent.project.path }] },
  user_access: { access_as: { agent: {} }, projects: [{ id: agent.project.path }] },
}

const viewsFile = '# Views are on while this file is there: doc/guide/views.md says what may stand here.\n{}\n'

/** Limit of a Unix socket's path: in a deeper folder there is no socket for `kas status`. */
const maxSocketPathBytes = 107

interface ReplicaInputs {
  readonly folder: string
  readonly name: string
  readonly own: ReplicaPorts
  readonly all: readonly ReplicaPorts[]
  readonly graces: Graces
}

function kasConfiguration({ folder, name, own, all, graces }: ReplicaInputs) {
  const tls = { certificate_file: join(folder, files.certificate), key_file: join(folder, files.key) }
  const at = (port: number) => `127.0.0.1:${port}`
  const secret = { authentication_secret_file: join(folder, files.secret) }
  const socket = join(folder, replicaFiles(name).socket)
  const grace = { listen_grace_period: graces.listen }
  return {
    directory: { file: join(folder, files.directory) },
    agent: {
      listen: { address: at(own.agents), websocket: true, ...grace, ...tls },
      configuration: { poll_period: '2s' },
      kubernetes_api: {
        listen: {
          address: at(own.kubernetes),
          ...grace,
          shutdown_grace_period: graces.shutdown,
          ...(graces.watch === undefined ? {} : { watch_grace_period: graces.watch }),
          ...tls,
        },
        websocket_token_secret_file: join(folder, files.webSocketSecret),
      },
    },
    observability: { listen: { address: at(own.ops) } },
    ...(Buffer.byteLength(socket) <= maxSocketPathBytes ? { ops: { socket } } : {}),
    api: { listen: { address: at(own.rails), ...grace, ...secret } },
    private_api: { listen: { address: at(own.replicas), ...grace, ...secret } },
    cluster: {
      name,
      listen: { address: at(own.gossip) },
      agent_address: `wss://${at(own.agents)}`,
      discovery: { static: all.map(({ gossip }) => at(gossip)) },
    },
  }
}

function directory(folder: string, tokens: { agentToken: string; userToken: string; jobToken: string }) {
  const { id, name, project } = agent
  return {
    projects: [{ ...project, groups: [group], git: { url: join(folder, files.repository) } }],
    agents: [{ id, name, project: project.id, tokens: [{ sha256: sha256(tokens.agentToken) }] }],
    users: [
      {
        id: 5,
        username: 'ada',
        tokens: [{ sha256: sha256(tokens.userToken) }],
        roles: { projects: { [project.id]: ['maintainer'] }, groups: { [group.id]: ['developer'] } },
      },
    ],
    ci_tokens: [{ sha256: sha256(tokens.jobToken), user: 5, project: project.id, job: 900, pipeline: 90 }],
  }
}

function newToken(prefix: string): string {
  return prefix + randomBytes(24).toString('base64url')
}

function sha256(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
