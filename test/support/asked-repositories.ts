import { createHash } from 'node:crypto'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { createProjectRepository } from '../../dev/start/project-repository.ts'
import { getConfigurationMethod } from '../../src/kas/modules/configuration/configuration.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { ConfigurationRequestSchema, ConfigurationResponseSchema } from '../../src/proto/gen/agent_configuration_pb.ts'
import { askSocket } from './ask-socket.ts'
import { eventually } from './eventually.ts'
import { FakeAgent } from './fake-agent.ts'
import { startGitHttpsServer } from './git-https-server.ts'
import { GitPushes } from './git-pushes.ts'
import { Processes, type TestProcess } from './processes.ts'
import { mainOf } from './programs.ts'

export interface AskedRepositoriesOptions {
  readonly replicas: number
  readonly projects: number
  /** agents of each project; those of one project are at two replicas */
  readonly agentsOfProject: number
  readonly pollPeriod: string
}

export const hookSecret = 'the secret of all hooks'
/** Number of the project with hooks: the last one. It is polled every 5 minutes. */
export const hookedProject = ({ projects }: Pick<AskedRepositoriesOptions, 'projects'>) => projects + 1

export interface AskedReplica {
  readonly name: string
  /** port 8154 */
  readonly kubernetesPort: number
  readonly process: TestProcess
}

const ports = ['agents', 'kubernetes', 'replicas', 'gossip'] as const
type Ports = Readonly<Record<(typeof ports)[number], number>>

interface Place {
  readonly folder: string
  readonly processes: Processes
  readonly all: readonly Ports[]
}

/**
 * Starts replicas of kas as processes, with agents of many projects, and the Git server of these, which records its
 * callers.
 */
export async function startAskedRepositories(t: Test, options: AskedRepositoriesOptions) {
  const { replicas: count, projects, agentsOfProject } = options
  const processes = await Processes.start(t)
  const folder = join(processes.folder, 's')
  const numbers = Array.from({ length: projects + 1 }, (_, i) => i + 1)
  await createRepositories(folder, numbers)
  // each replica has its own user, in a file of the same name in its own folder
  const isKnown = (header: string | undefined) => userOf(header).startsWith('kas-')
  const { origin, ca, seen } = await startGitHttpsServer(t, folder, isKnown)
  await writeFile(join(folder, 'ca.pem'), ca)
  await writeFile(join(folder, 'hook'), `${hookSecret}\n`)
  await writeFile(join(folder, 'secret'), Buffer.alloc(32, 7).toString('base64'))
  await writeFile(join(folder, 'directory.yaml'), JSON.stringify(directoryOf(numbers, { ...options, origin, folder })))
  const free = await freePorts(count * ports.length)
  const all = Array.from({ length: count }, (_, i) => portsOf(free.slice(i * ports.length)))
  const place: Place = { folder, processes, all }
  const replicas = await Promise.all(all.map((_, i) => startReplica(place, i)))
  await Promise.all(replicas.map(({ name }) => eventually(() => knowsAll(join(folder, `${name}.sock`), count))))
  /** commits of each project, by agent */
  const commits = new Map<number, readonly Set<string>[]>()
  for (const number of numbers) {
    const ofAgents = Array.from({ length: agentsOfProject }, () => new Set<string>())
    commits.set(number, ofAgents)
    for (const [j, seen] of ofAgents.entries()) {
      const { agents } = all[(number + (j % 2)) % count] as Ports
      await follow(t, { port: agents, token: tokenOf(number, j) }, (commit) => seen.add(commit))
    }
  }
  const pushes = numbers.map((id) => {
    return new GitPushes({ repository: repositoryOf(folder, id), secretFile: '', project: { id, path: `p/${id}` } })
  })
  return {
    replicas,
    /** Reads of the refs, by polls and by fetches: the replica, the project, and the time by `performance`. */
    asked: () =>
      seen.flatMap(({ url, authorization, at }) => {
        const [, project] = /^\/(\d+)\.git\/info\/refs$/.exec(url) ?? []
        return project === undefined ? [] : [{ project: Number(project), by: userOf(authorization), at }]
      }),
    /** @returns id of the commit */
    push: (project: number, text: string) => (pushes[project - 1] as GitPushes).commit({ 'README.md': text }),
    /** number of the project's agents that have got the commit */
    having: (project: number, commit: string) => commits.get(project)?.filter((seen) => seen.has(commit)).length ?? 0,
  }
}

function userOf(header: string | undefined): string {
  return Buffer.from(header?.replace('Basic ', '') ?? '', 'base64')
    .toString()
    .split(':')[0] as string
}

const repositoryOf = (folder: string, number: number) => join(folder, `${number}.git`)
const tokenOf = (number: number, j: number) => `glagent-${number}-${j}`

async function createRepositories(folder: string, [first = 1, ...others]: readonly number[]): Promise<void> {
  await mkdir(folder)
  await createProjectRepository(repositoryOf(folder, first), { 'README.md': 'Nothing\n' })
  for (const number of others) await cp(repositoryOf(folder, first), repositoryOf(folder, number), { recursive: true })
}

function directoryOf(
  numbers: readonly number[],
  {
    agentsOfProject,
    origin,
    folder,
    pollPeriod,
    projects,
  }: AskedRepositoriesOptions & { origin: string; folder: string },
) {
  const gitOf = (number: number) => ({
    url: `${origin}/${number}.git`,
    credentials_file: 'git-user', // in the working folder of each replica
    ...(number === hookedProject({ projects })
      ? { hook_secret_file: join(folder, 'hook') }
      : { poll_period: pollPeriod }),
  })
  return {
    projects: numbers.map((id) => ({ id, path: `p/${id}`, git: gitOf(id) })),
    agents: numbers.flatMap((project) =>
      Array.from({ length: agentsOfProject }, (_, j) => ({
        id: project * 100 + j,
        name: `agent-${j}`,
        project,
        tokens: [{ sha256: createHash('sha256').update(tokenOf(project, j)).digest('hex') }],
      })),
    ),
  }
}

function portsOf(free: readonly number[]): Ports {
  return Object.fromEntries(ports.map((name, i) => [name, free[i] as number])) as Ports
}

async function startReplica({ folder, processes, all }: Place, i: number): Promise<AskedReplica> {
  const own = all[i] as Ports
  const name = `kas-${i}`
  const at = (port: number) => ({ address: `127.0.0.1:${port}`, listen_grace_period: '0s' })
  const configuration = {
    directory: { file: join(folder, 'directory.yaml') },
    agent: { listen: at(own.agents), kubernetes_api: { listen: at(own.kubernetes), url_path_prefix: '/k8s-proxy/' } },
    private_api: { listen: { ...at(own.replicas), authentication_secret_file: join(folder, 'secret') } },
    observability: { listen: { address: '127.0.0.1:0' } },
    ops: { socket: join(folder, `${name}.sock`) },
    cluster: {
      name,
      listen: { address: `127.0.0.1:${own.gossip}` },
      discovery: { static: all.map(({ gossip }) => `127.0.0.1:${gossip}`) },
    },
  }
  const home = join(folder, name)
  await mkdir(home)
  await writeFile(join(home, 'git-user'), `${name}:s3cret\n`)
  const file = join(folder, `${name}.yaml`)
  await writeFile(file, JSON.stringify(configuration))
  const args = [mainOf('kas'), `--configuration-file=${file}`]
  const environment = { SSL_CERT_FILE: join(folder, 'ca.pem') }
  const process = await processes.spawn({ command: globalThis.process.execPath, args, environment, folder: home })
  await process.says(/"msg":"Kubernetes API endpoint is up"/)
  return { name, kubernetesPort: own.kubernetes, process }
}

async function knowsAll(socket: string, count: number): Promise<void> {
  const { members = [] } = (await askSocket(socket, '/status')) as StatusReport
  const reached = members.filter(({ reach, state }) => state === 'serving' && /^(self|reachable)$/.test(reach))
  if (reached.length < count) throw new Error(`it reaches ${reached.length} of ${count}`)
}

/** Calls `onCommit` with the commit of each configuration that the agent gets; resolves after the first. */
async function follow(
  t: Test,
  { port, token }: { port: number; token: string },
  onCommit: (commit: string) => void,
): Promise<void> {
  const agent = await FakeAgent.dial(port, token)
  t.teardown(() => agent.close())
  const stream = agent.session.open({
    method: getConfigurationMethod,
    metadata: { authorization: [`Bearer ${token}`] },
  })
  stream.done.catch(() => undefined) // its replica was killed
  void stream.send(toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, { skipRegister: true })))
  const { promise, resolve } = Promise.withResolvers<void>()
  const read = async () => {
    for await (const message of stream.messages) {
      onCommit(fromBinary(ConfigurationResponseSchema, message).commitId)
      resolve()
    }
  }
  read().catch(() => undefined)
  await promise
}
