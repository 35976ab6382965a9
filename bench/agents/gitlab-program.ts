/** Doubles of a GitLab and its Gitaly, in a process of their own. Sends their addresses, then answers each order. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { GitalyDouble } from '../../test/support/gitaly/gitaly-double.ts'
import { GitlabDouble } from '../../test/support/gitlab/gitlab-double.ts'
import { emptyRepository } from './empty-repository.ts'
import {
  type GitlabAsked,
  type GitlabOrder,
  type GitlabSettings,
  type GitlabThere,
  projectOf,
  tokenOf,
} from './questions.ts'

const { folder, agents, projects } = JSON.parse(process.argv[2] as string) as GitlabSettings
/** interval at which the recorded calls are counted and dropped */
const countMs = 1000

mkdirSync(join(folder, '@hashed'), { recursive: true })
const repository = join(folder, '@hashed/1.git')
emptyRepository(repository)
for (let i = 2; i <= projects; i++) symlinkSync('1.git', join(folder, `@hashed/${i}.git`))

const gitaly = new GitalyDouble({ folder })
await gitaly.come()
const gitlab = new GitlabDouble({
  world: {
    gitaly: { address: gitaly.address, token: gitaly.token },
    projects: Array.from({ length: projects }, (_, i) => ({ id: i + 1, path: `platform/clusters-${i}`, groups: [] })),
    agents: Array.from({ length: agents }, (_, i) => {
      return { id: i + 1, name: `agent-${i}`, project: projectOf(i, projects), tokens: [tokenOf(i)], configuration: '' }
    }),
    users: [],
    jobs: [],
  },
})
await gitlab.come()

let asked = { gitlab: 0, gitaly: 0, mostGitlab: 0, mostGitaly: 0 }
const count = () => {
  const [toGitlab, toGitaly] = [gitlab.calls.splice(0).length, gitaly.calls.splice(0).length]
  asked = {
    gitlab: asked.gitlab + toGitlab,
    gitaly: asked.gitaly + toGitaly,
    mostGitlab: Math.max(asked.mostGitlab, toGitlab),
    mostGitaly: Math.max(asked.mostGitaly, toGitaly),
  }
}
setInterval(count, countMs)

process.on('disconnect', () => process.exit())
process.on('message', async (order: GitlabOrder) => {
  if (order.kind === 'slow') gitlab.fault = { kind: 'slow', ms: order.ms }
  if (order.kind === 'leave') await gitlab.leave()
  if (order.kind === 'come') await gitlab.come()
  if (order.kind === 'push') push()
  if (order.kind !== 'asked') return void process.send?.('done')
  count()
  process.send?.(asked satisfies GitlabAsked)
  asked = { gitlab: 0, gitaly: 0, mostGitlab: 0, mostGitaly: 0 }
})
process.send?.({ address: gitlab.address, secret: gitlab.secret.toString('base64') } satisfies GitlabThere)

/** Pushes another commit without files, to all projects, which share one repository. */
function push(): void {
  const git = (...args: string[]) => execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8' }).trim()
  const author = ['-c', 'user.name=bench', '-c', 'user.email=bench@example.com']
  const commit = git(...author, 'commit-tree', '-p', 'main', '-m', 'Go on', 'main^{tree}')
  git('update-ref', 'refs/heads/main', commit)
}
