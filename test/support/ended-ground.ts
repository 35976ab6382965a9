import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { EntryReplica } from './entry-replica.ts'
import { eventually } from './eventually.ts'
import { GitlabDouble } from './gitlab/gitlab-double.ts'
import { type GitlabWorld, suiteWorld } from './gitlab/gitlab-world.ts'
import { httpsGet } from './https-get.ts'
import { Kubectl } from './kubectl.ts'
import { deployment } from './kubectl-operations.ts'
import { assets } from './kubectl-stack.ts'
import type { LastingSide } from './lasting-streams.ts'
import { Processes, type TestProcess, type TornDown } from './processes.ts'
import { mainOf } from './programs.ts'
import { Stack } from './stack.ts'
import { agentConfiguration, agentId, agentToken, bearerOf, directoryFile } from './stack-directory.ts'

/** Ways in which a caller loses access. */
export const ways = ['token', 'user', 'role', 'user_access', 'job'] as const
export type Way = (typeof ways)[number]
/** Ways by GitLab's answer: the user's token is revoked, or the job is over. */
export const gitlabWays = ['gitlab', 'gitlab_job'] as const
export type GitlabWay = (typeof gitlabWays)[number]

/** `ada`, or a job, loses access; `bob` does not. */
export type Person = 'ada' | 'bob' | 'job'

/** The replica that holds the agent, and the other one. */
export const entries = ['holder', 'elsewhere'] as const
export type Entry = (typeof entries)[number]

const namespace = 'ended'
const configurationFile = '.gitlab/agents/prod/config.yaml'
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const tokenOf = (person: Person) => `ended-token-of-${person}`
const bearers: Readonly<Record<Person, string>> = {
  ada: `pat:${agentId}:${tokenOf('ada')}`,
  bob: `pat:${agentId}:${tokenOf('bob')}`,
  job: `ci:${agentId}:${tokenOf('job')}`,
}
const operator = 7

/** @param lost - absent: all have access */
function directory(repository: string, lost?: Way) {
  const base = directoryFile(repository)
  const user = (id: number, username: 'ada' | 'bob', project: number, role: string) => ({
    id,
    username,
    tokens: lost === 'token' && username === 'ada' ? [] : [{ sha256: sha256(tokenOf(username)) }],
    roles: { projects: { [project]: [role] } },
  })
  const ada = user(5, 'ada', 2, lost === 'role' ? 'reporter' : 'developer')
  const job = { sha256: sha256(tokenOf('job')), user: operator, project: 2, job: 950, pipeline: 95 }
  return {
    ...base,
    users: [
      ...(lost === 'user' ? [] : [ada]),
      user(6, 'bob', 1, 'developer'),
      { id: operator, username: 'operator', tokens: [], roles: {} },
    ],
    ci_tokens: [...base.ci_tokens.map((each) => ({ ...each, user: operator })), ...(lost === 'job' ? [] : [job])],
  }
}

/** Configuration of the agent. ada has access by a project that it may leave out. */
function configuration(lost?: Way) {
  const projects = [{ id: 'platform/clusters' }, ...(lost === 'user_access' ? [] : [{ id: 'apps/web' }])]
  return JSON.stringify({ ...agentConfiguration, user_access: { access_as: { user: {} }, projects } })
}

/** Changes of rights, as the test orders them. */
interface Rights {
  lose(way: Way | GitlabWay): Promise<void>
  /** Restores the rights of all. */
  restore(): Promise<void>
}

/** Rights by a directory file, and by the agent's own file. */
class FileRights implements Rights {
  readonly #stack: Stack
  #configuration = ''

  constructor(stack: Stack) {
    this.#stack = stack
  }

  async lose(way: Way): Promise<void> {
    if (way === 'user_access') await this.#configure(way)
    else await this.#stack.writeDirectory(directory(this.#stack.repository.path, way))
  }

  async restore(): Promise<void> {
    await this.#configure()
    await this.#stack.writeDirectory(directory(this.#stack.repository.path))
  }

  async #configure(lost?: Way): Promise<void> {
    const text = configuration(lost)
    if (text !== this.#configuration) await this.#stack.repository.push(configurationFile, text)
    this.#configuration = text
  }
}

function gitlabWorld(): GitlabWorld {
  const { projects } = suiteWorld()
  const user = (id: number, username: 'ada' | 'bob', roles: GitlabWorld['users'][number]['roles']) => ({
    id,
    username,
    personalAccessTokens: [tokenOf(username)],
    sessions: [],
    roles,
  })
  const [, , admin = ''] = bearerOf('agent').split(':')
  return {
    projects,
    agents: [{ id: agentId, name: 'prod', project: 1, tokens: [agentToken], configuration: configuration() }],
    users: [
      user(5, 'ada', { 2: 'developer' }),
      user(6, 'bob', { 1: 'developer' }),
      { id: operator, username: 'operator', personalAccessTokens: [], sessions: [], roles: { 1: 'maintainer' } },
    ],
    jobs: [
      { token: admin, id: 900, pipeline: 90, project: 1, user: operator },
      { token: tokenOf('job'), id: 950, pipeline: 95, project: 2, user: operator },
    ],
  }
}

class GitlabRights implements Rights {
  readonly #gitlab: GitlabDouble

  constructor(gitlab: GitlabDouble) {
    this.#gitlab = gitlab
  }

  async lose(way: GitlabWay): Promise<void> {
    const { users, jobs } = this.#gitlab.world
    if (way === 'gitlab')
      for (const user of users.filter(({ username }) => username === 'ada')) user.personalAccessTokens = []
    else for (const job of jobs.filter(({ token }) => token === tokenOf('job'))) job.isFinished = true
  }

  async restore(): Promise<void> {
    this.#gitlab.world = gitlabWorld()
  }
}

interface EndedGroundParts {
  readonly processes: Processes
  readonly stack: Stack
  readonly entry: EntryReplica
  readonly rights: Rights
  /** PEM */
  readonly ca: string
}

/** A cluster with a Deployment `web`, two replicas of kas, and users who have all rights there. */
export class EndedGround {
  readonly processes: Processes
  readonly kas: Readonly<Record<Entry, TestProcess>>
  readonly #rights: Rights
  readonly #caFile: string
  /** PEM */
  readonly #ca: string
  readonly #urls: Readonly<Record<Entry, string>>
  readonly #socket: string

  private constructor({ processes, stack, entry, rights, ca }: EndedGroundParts) {
    this.processes = processes
    this.#ca = ca
    this.#rights = rights
    this.#caFile = stack.caFile
    this.#socket = entry.socket
    this.kas = { holder: stack.kas, elsewhere: entry.kas }
    this.#urls = { holder: stack.kubernetesUrl, elsewhere: entry.kubernetesUrl }
  }

  /** Starts it with a directory file, and views. */
  static async start(t: TornDown): Promise<EndedGround> {
    const processes = await Processes.start(t)
    const { kubeconfig: agentKubeconfig } = await startedControlPlane(t)
    const stack = await Stack.start(processes, { agentKubeconfig })
    await stack.repository.push('.gitlab/agents/prod/views.yaml', '{}\n')
    return await EndedGround.#on(stack, processes, new FileRights(stack))
  }

  /** Starts it with GitLab, and without views, whose file would be in Gitaly. */
  static async startWithGitlab(t: TornDown): Promise<EndedGround> {
    const processes = await Processes.start(t)
    const { kubeconfig: agentKubeconfig } = await startedControlPlane(t)
    const gitlab = await GitlabDouble.start(t, { world: gitlabWorld() })
    const secretFile = join(processes.folder, 'gitlab-secret')
    await writeFile(secretFile, gitlab.secret.toString('base64'), { mode: 0o600 })
    const configuration = {
      directory: {},
      gitlab: { address: gitlab.address, authentication_secret_file: secretFile },
    }
    const stack = await Stack.start(processes, { agentKubeconfig, configuration })
    return await EndedGround.#on(stack, processes, new GitlabRights(gitlab))
  }

  static async #on(stack: Stack, processes: Processes, rights: Rights): Promise<EndedGround> {
    await stack.startAgentk()
    const entry = await EntryReplica.start(processes, stack)
    await stack.connected()
    const admin = new Kubectl({ processes, assets }, { kubeconfig: stack.kubeconfig('agent'), namespace })
    await admin.ok(['create', 'namespace', namespace])
    const groups = ['--group=gitlab:user', '--group=gitlab:ci_job']
    await admin.ok(['create', 'clusterrolebinding', 'people', '--clusterrole=cluster-admin', ...groups])
    await admin.ok(['apply', '-f', '-'], { stdin: deployment(1) })
    await admin.ok(['rollout', 'status', 'deployment/web', '--timeout=60s'])
    const ca = await readFile(stack.caFile, 'utf8')
    const ground = new EndedGround({ processes, stack, entry, rights, ca })
    await ground.restore()
    return ground
  }

  async side(entry: Entry, person: Person): Promise<LastingSide> {
    const { processes } = this
    const kubeconfig = join(processes.folder, `${entry}-${person}.kubeconfig`)
    const options = { server: this.#urls[entry], caFile: this.#caFile, user: { token: bearers[person] } }
    await writeFile(kubeconfig, kubeconfigText(options), { mode: 0o600 })
    const kubectl = new Kubectl({ processes, assets }, { kubeconfig, namespace })
    return { name: `${entry}, ${person}`, kubectl, kubeconfig, processes }
  }

  /**
   * Runs an operator's command at the replica elsewhere. @returns its output. @throws Error unless its exit status is 0
   */
  async operator(...args: string[]): Promise<string> {
    const command = await this.processes.spawn({
      command: process.execPath,
      args: [mainOf('kas'), ...args, '--socket', this.#socket],
    })
    const { code, stdout, stderr } = await command.ends()
    if (code !== 0) throw new Error(`kas ${args.join(' ')}: ${code}: ${stderr}`)
    return stdout.toString()
  }

  async lose(way: Way | GitlabWay): Promise<void> {
    await this.#rights.lose(way)
  }

  /** Resolves once both replicas accept all callers again. */
  async restore(): Promise<void> {
    await this.#rights.restore()
    for (const entry of entries) {
      for (const person of ['ada', 'bob', 'job'] as const) {
        const call = () => httpsGet(`${this.#urls[entry]}/version`, { ca: this.#ca, token: bearers[person] })
        await eventually(async () => (await call()).status === 200, { timeoutMs: 30_000 })
      }
    }
  }
}

async function startedControlPlane(t: TornDown): Promise<ControlPlane> {
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  return controlPlane
}
