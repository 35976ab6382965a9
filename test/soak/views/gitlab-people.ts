import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { agent, files } from '../../../dev/start/settings.ts'
import { GitalyDouble } from '../../support/gitaly/gitaly-double.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import type { GitlabUser, GitlabWorld } from '../../support/gitlab/gitlab-world.ts'
import { type People, users } from './people.ts'

const jobToken = 'glcbt-64_job'
const tokenOf = (username: string) => `glpat-${username}`
const group = { id: 7, path: agent.project.path.split('/')[0] as string }

/** Users of a GitLab, whose answers kas caches for the default time; its Gitaly has the files. */
export async function gitlabPeople(
  folder: string,
  { configuration, replicas }: { configuration: string; replicas: readonly string[] },
): Promise<People> {
  const repositories = join(folder, 'gitaly')
  await mkdir(join(repositories, '@hashed'), { recursive: true })
  await rename(join(folder, files.repository), join(repositories, `@hashed/${agent.project.id}.git`))
  const gitaly = new GitalyDouble({ folder: repositories })
  await gitaly.come()
  const agentToken = (await readFile(join(folder, files.agentToken), 'utf8')).trim()
  const world: GitlabWorld = {
    gitaly: { address: gitaly.address, token: gitaly.token },
    projects: [{ ...agent.project, groups: [group] }],
    agents: [{ id: agent.id, name: agent.name, project: agent.project.id, tokens: [agentToken], configuration }],
    users: users.map((username, i) => ({
      id: 5 + i,
      username,
      personalAccessTokens: [tokenOf(username)],
      sessions: [],
      roles: { [agent.project.id]: 'maintainer' },
    })),
    jobs: [{ token: jobToken, id: 900, pipeline: 90, project: agent.project.id, user: 5 }],
  }
  const gitlab = new GitlabDouble({ world })
  await gitlab.come()
  const secret = join(folder, 'gitlab.secret')
  await writeFile(secret, `${gitlab.secret.toString('base64')}\n`, { mode: 0o600 })
  for (const file of replicas) {
    const path = join(folder, file)
    const { directory: _, ...others } = parse(await readFile(path, 'utf8'))
    const settings = { ...others, gitlab: { address: gitlab.address, authentication_secret_file: secret } }
    await writeFile(path, stringify(settings), { mode: 0o600 })
  }
  const before = structuredClone(world)
  const patOf = (username: string) => `pat:${agent.id}:${tokenOf(username)}`
  const without = (user: GitlabUser): GitlabUser => {
    if (user.username === 'ben') return { ...user, roles: {} }
    return user.username === 'cleo' ? { ...user, personalAccessTokens: [] } : user
  }
  return {
    name: 'GitLab',
    credentials: { job: `ci:${agent.id}:${jobToken}`, ada: patOf('ada'), ben: patOf('ben'), cleo: patOf('cleo') },
    async take() {
      world.jobs = world.jobs.map((job) => ({ ...job, isFinished: true }))
      world.users = world.users.map(without)
    },
    async give() {
      Object.assign(world, structuredClone(before))
    },
    async stop() {
      await gitlab.leave()
      await gitaly.leave()
    },
  }
}
