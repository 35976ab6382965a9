import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { Programs } from '../../dev/start/local-programs.ts'
import type { LocalReplica } from '../../dev/start/local-replica.ts'
import { createProjectRepository } from '../../dev/start/project-repository.ts'
import { statusOf, viewReplicas } from '../../dev/start/replica-table.ts'
import { agent, files, replicaFiles } from '../../dev/start/settings.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { tokenHash } from '../../src/lib/token-hash.ts'
import { agentkProgram } from '../soak/agentk-program.ts'
import type { KubeOptions } from '../soak/kube.ts'
import { type AgentPlace, RollingGround } from '../soak/rolling/rolling-ground.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { evilWorkload, workloadPath } from './evil-workload.ts'
import type { SlowGitlab, ToldWorld } from './slow-gitlab.ts'
import type { Stage, Tenant } from './stage.ts'

/** a program whose event loop and memory are watched */
export interface Watched {
  readonly name: string
  readonly opsPort: number
  readonly pid: () => number | undefined
}

export interface HostileReplica extends Watched {
  readonly local: LocalReplica
  readonly access: KubeOptions
}

const graces = { listen: '0s', shutdown: '1s' }
const readyMs = 60_000
const evilId = 43
/** an agent of a good tenant that is not connected yet */
export const newcomerId = 44

/** Three replicas, a cluster, one agentk of a good tenant, and what an evil tenant has by right. */
export class HostileGround {
  readonly entry: HostileReplica
  readonly holder: HostileReplica
  readonly stage: Stage
  readonly newcomer: Tenant
  readonly watched: readonly Watched[]
  readonly #ground: RollingGround

  private constructor(
    init: Pick<HostileGround, 'entry' | 'holder' | 'stage' | 'newcomer' | 'watched'>,
    ground: RollingGround,
  ) {
    this.entry = init.entry
    this.holder = init.holder
    this.stage = init.stage
    this.newcomer = init.newcomer
    this.watched = init.watched
    this.#ground = ground
  }

  /**
   * @param gitlab - in place of the directory file
   * @param programs - default: those of this source tree
   */
  static async start(signal: AbortSignal, gitlab?: SlowGitlab, programs?: Programs): Promise<HostileGround> {
    const tenants = new Tenants()
    let agentk: Watched | undefined
    const ground = await RollingGround.start(
      {
        assets: undefined,
        graces,
        programs,
        doubleOptions: { workload: evilWorkload },
        prepare: async (folder) => {
          await (gitlab ? tenants.tell(gitlab, folder) : tenants.write(folder))
          return undefined
        },
        startAgents: async (place) => {
          const started = await startAgentk(place, programs)
          agentk = started.watched
          return started
        },
      },
      signal,
    )
    try {
      const [holder, standby, entry] = await roles(ground)
      const watch = (local: LocalReplica) => ({ name: local.name, opsPort: local.ports.ops, pid: () => local.pid })
      const of = (local: LocalReplica) => ({ ...watch(local), local, access: ground.accessOf(local) })
      const { credential, ca } = ground.access
      const newcomer = {
        agentToken: tenants.newcomerToken,
        userCredential: credential.replace(/:\d+:/, `:${newcomerId}:`),
      }
      const stage: Stage = {
        ca,
        entry: entry.ports,
        holder: holder.ports,
        standby: standby.ports,
        evil: tenants.evil,
        workload: { path: workloadPath, userCredential: credential },
      }
      const watched = [...ground.replicas.map(watch), agentk as Watched]
      return new HostileGround({ entry: of(entry), holder: of(holder), stage, newcomer, watched }, ground)
    } catch (error) {
      await ground.stop()
      throw error
    }
  }

  /** Bytes of the methods that the entry, where he is not, knows of the evil tenant's agent. */
  async toldOfEvil(): Promise<number> {
    const { agents } = (await askSocket(this.entry.local.socket, `/status?agent=${evilId}`)) as StatusReport
    const methods = agents.flatMap(({ entries = [] }) => entries.flatMap((entry) => entry.methods))
    return methods.reduce((sum, method) => sum + method.length, 0)
  }

  /** Of each replica to each other: `kas-0 to kas-1: down`, where calls cannot be handed over. */
  async brokenLinks(): Promise<string[]> {
    const reports = await Promise.all(
      this.#ground.replicas.map(async ({ name, socket }) => ({ name, status: await statusOf(socket) })),
    )
    return reports.flatMap(({ name, status }) => {
      if (!status?.members) return [`${name} does not answer`]
      const others = status.members.filter(({ reach }) => reach !== 'self')
      const broken = others.filter(({ reach }) => reach === 'unreachable' || reach === 'down')
      const lines = broken.map(({ name: other, reach }) => `${name} to ${other}: ${reach}`)
      return others.length === 2 ? lines : [...lines, `${name} knows ${others.length} others`]
    })
  }

  stop(): Promise<void> {
    return this.#ground.stop()
  }
}

async function startAgentk({ warden, ...place }: AgentPlace, programs: Programs | undefined) {
  const [opsPort] = (await freePorts(1)) as [number]
  const options = {
    ...place,
    scheme: 'grpcs',
    opsPort,
    podName: 'agentk-0',
    logFile: 'agentk-0.log',
    programs,
  } as const
  const program = agentkProgram({ warden }, options)
  await program.start()
  return { watched: { name: 'agentk', opsPort, pid: () => program.pid }, stop: () => program.stop() }
}

/** Once the good agent has a home and a standby. @returns home, standby, and the replica that has neither */
async function roles({ replicas }: RollingGround): Promise<[LocalReplica, LocalReplica, LocalReplica]> {
  return await eventually(
    async () => {
      const views = await viewReplicas(replicas)
      const at = (role: string) => views.findIndex(({ roles }) => roles.join() === role)
      const found = ['home', 'standby', ''].map((role) => replicas[at(role)])
      if (found.includes(undefined))
        throw new Error(`the agent is at ${views.map(({ roles }) => roles.join('+') || 'none')}`)
      return found as [LocalReplica, LocalReplica, LocalReplica]
    },
    { timeoutMs: readyMs },
  )
}

/** Who is there beside the good tenant of `npm start`: rights, tokens, a project each with its repository. */
class Tenants {
  readonly newcomerToken = newToken()
  readonly #evilToken = newToken()
  readonly #evilUserToken = newToken()

  get evil(): Tenant {
    return { agentToken: this.#evilToken, userCredential: `pat:${evilId}:${this.#evilUserToken}` }
  }

  /** Into the directory file of npm start. */
  async write(folder: string): Promise<void> {
    const path = join(folder, files.directory)
    const directory = parse(await readFile(path, 'utf8')) as Record<'projects' | 'agents' | 'users', object[]>
    const [evilGit, newcomerGit] = [join(folder, 'evil.git'), join(folder, 'newcomer.git')]
    const access = (id: string) => stringify({ user_access: { access_as: { agent: {} }, projects: [{ id }] } })
    await createProjectRepository(evilGit, { '.gitlab/agents/evil/config.yaml': access('evil/clusters') })
    await createProjectRepository(newcomerGit, { '.gitlab/agents/newcomer/config.yaml': access(agent.project.path) })
    const [evilGroups, goodGroups] = [[{ id: 8, path: 'evil' }], [{ id: 7, path: 'demo' }]]
    directory.projects.push(
      { id: 2, path: 'evil/clusters', groups: evilGroups, git: { url: evilGit } },
      { id: 3, path: 'demo/newcomer', groups: goodGroups, git: { url: newcomerGit } },
    )
    directory.agents.push(
      { id: evilId, name: 'evil', project: 2, tokens: [{ sha256: tokenHash(this.#evilToken) }] },
      { id: newcomerId, name: 'newcomer', project: 3, tokens: [{ sha256: tokenHash(this.newcomerToken) }] },
    )
    const tokens = [{ sha256: tokenHash(this.#evilUserToken) }]
    directory.users.push({ id: 6, username: 'eve', tokens, roles: { projects: { 2: ['maintainer'] } } })
    await writeFile(path, stringify(directory), { mode: 0o600 })
  }

  /** To a GitLab, with all that npm start has written. */
  async tell(gitlab: SlowGitlab, folder: string): Promise<void> {
    const read = async (name: string) => (await readFile(join(folder, name), 'utf8')).trim()
    const [goodToken, goodUser] = [await read(files.agentToken), (await read(files.userHeader)).replace(/^.*:/, '')]
    const access = (id: string) => stringify({ user_access: { access_as: { agent: {} }, projects: [{ id }] } })
    const projects: ToldWorld['projects'] = [
      { ...agent.project, groups: [{ id: 7, path: 'demo' }] },
      { id: 2, path: 'evil/clusters', groups: [{ id: 8, path: 'evil' }] },
    ]
    const good = { project: agent.project.id, configuration: access(agent.project.path) }
    const agents: ToldWorld['agents'] = [
      { id: agent.id, name: agent.name, tokens: [goodToken], ...good },
      { id: newcomerId, name: 'newcomer', tokens: [this.newcomerToken], ...good },
      { id: evilId, name: 'evil', project: 2, tokens: [this.#evilToken], configuration: access('evil/clusters') },
    ]
    const user = { sessions: [], roles: {} }
    const users: ToldWorld['users'] = [
      {
        ...user,
        id: 5,
        username: 'ada',
        personalAccessTokens: [goodUser],
        roles: { [agent.project.id]: 'maintainer' },
      },
      { ...user, id: 6, username: 'eve', personalAccessTokens: [this.#evilUserToken], roles: { 2: 'maintainer' } },
    ]
    await gitlab.tell({ projects, agents, users })
    for (const name of ['kas-0', 'kas-1', 'kas-2']) await askGitlab(gitlab, folder, name)
  }
}

/** Who is told by GitLab has no directory file. */
async function askGitlab(gitlab: SlowGitlab, folder: string, name: string): Promise<void> {
  const path = join(folder, replicaFiles(name).configuration)
  const { directory: _, ...configuration } = parse(await readFile(path, 'utf8')) as Record<string, object>
  const secret = join(folder, 'gitlab.secret')
  await writeFile(secret, gitlab.secret, { mode: 0o600 })
  const known = { ...configuration, gitlab: { address: gitlab.address, authentication_secret_file: secret } }
  await writeFile(path, stringify(known), { mode: 0o600 })
}

const newToken = () => randomBytes(24).toString('base64url')
