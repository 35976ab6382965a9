/**
 * What does it cost that GitLab knows the agents? Three replicas of kas run as whole processes, with stock agents at
 * all of them. The bench measures a replica's memory, its CPU time at rest, and the return of agents after kill -9 of
 * one. These variants come in turn:
 * - `file`: a directory file
 * - `gitlab`: doubles of GitLab and its Gitaly
 * - `slow`: a GitLab that takes 2 s for each answer after the kill
 * - `away`: a GitLab that is away for the minute after the kill
 *
 * Options: `--rounds N`, `--agents N` of all replicas, `--projects N` of the agents. `--settle N` and `--rest N` are
 * seconds, `--only N` the first N of the rows.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Balancer } from '../dev/balancer.ts'
import { nodeFlags } from '../dev/node-flags.ts'
import { eventually } from '../test/support/eventually.ts'
import type {
  CpuAnswer,
  CrowdSettings,
  GitlabAsked,
  GitlabOrder,
  GitlabSettings,
  GitlabThere,
  MemoryAnswer,
  ReplicaQuestion,
  ReturnAnswer,
} from './agents/questions.ts'
import { connectedAgents, type Replica, readyTimeoutMs, startReplicas } from './agents/replicas.ts'
import { askProgram, hear } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { machineTime } from './support/machine-time.ts'
import { readCounts } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { Programs } from './support/programs.ts'

const counts = readCounts({ rounds: 1, agents: 10_000, projects: 1, settle: 20, rest: 30, only: 4 })
const { rounds, agents, projects, settle, rest, only } = counts
const replicaCount = 3
const share = Math.ceil(agents / replicaCount)
const kib = 1024
const slowMs = 2000
const awayMs = 60_000

type Child = ReturnType<Programs['spawn']>
type Name = 'file' | 'gitlab' | 'slow' | 'away'

const names = (['file', 'gitlab', 'slow', 'away'] satisfies Name[]).slice(0, only)
const rows = Object.fromEntries(names.map((name): [string, Row] => [name, {}]))
for (let round = 0; round < rounds; round++) {
  for (const name of round % 2 ? names.toReversed() : names) {
    const figures = await played(name)
    addTo(rows[name] as Row, figures)
    process.stderr.write(`round ${round + 1} of ${rounds}, ${name}: ${JSON.stringify(figures)}\n`)
  }
}
report('gitlab', rows)

async function played(name: Name): Promise<Record<string, number>> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-gitlab-'))
  const programs = new Programs()
  const balancers: Balancer[] = []
  try {
    const gitlab = name === 'file' ? undefined : await startGitlab(programs, join(folder, 'gitaly'))
    const options = { folder: join(folder, 'kas'), replicas: replicaCount, agents, gitlab: gitlab?.there }
    const replicas = await startReplicas(programs, options)
    for (const { balanced } of replicas) {
      const balancer = new Balancer({ fronts: [0], replicas: [balanced] })
      balancers.push(balancer)
      await balancer.start()
    }
    await sleep(settle * 1000)
    const before = await all<MemoryAnswer>(replicas, 'live')
    const crowds = await startCrowds(programs, balancers)
    await sleep(settle * 1000)
    await gitlab?.tell({ kind: 'asked' })
    const idle = await idleShare(replicas)
    const asked = await gitlab?.asked()
    const grown = await all<MemoryAnswer>(replicas, 'memory')
    const live = await all<MemoryAnswer>(replicas, 'live')
    const each = (field: keyof MemoryAnswer, after: readonly MemoryAnswer[]) =>
      after.reduce((sum, at, i) => sum + at[field] - (before[i] as MemoryAnswer)[field], 0) / agents / kib
    return {
      'RSS an agent, KiB': each('rss', grown),
      'RSS an agent after full GC, KiB': each('rss', live),
      'heap an agent after full GC, KiB': each('heap', live),
      'external an agent after full GC, KiB': each('external', live),
      'idle, % of a core a replica': idle,
      ...(asked ? callsOf(asked) : {}),
      ...(await kill(name, { replicas, balancers, crowds, gitlab })),
    }
  } finally {
    for (const balancer of balancers) await balancer.stop()
    programs.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Gitlab {
  readonly there: GitlabThere
  tell(order: GitlabOrder): Promise<void>
  asked(): Promise<GitlabAsked>
}

async function startGitlab(programs: Programs, folder: string): Promise<Gitlab> {
  const settings: GitlabSettings = { folder, agents, projects }
  const child = programs.spawn(join(import.meta.dirname, 'agents/gitlab-program.ts'), [JSON.stringify(settings)])
  return {
    there: await hear<GitlabThere>(child),
    tell: async (order) => void (await askProgram(child, order)),
    asked: () => askProgram<GitlabAsked>(child, { kind: 'asked' } satisfies GitlabOrder),
  }
}

/** Starts the agents of each replica, through a balancer of its own. */
async function startCrowds(programs: Programs, balancers: readonly Balancer[]): Promise<Child[]> {
  const file = join(import.meta.dirname, 'agents/crowd.ts')
  const crowds = balancers.map(({ ports }, i) => {
    const range = { from: i * share, to: Math.min(agents, (i + 1) * share) }
    const settings: CrowdSettings = { port: ports[0] as number, transport: 'grpc', ...range }
    return programs.spawn(file, [JSON.stringify(settings)], { flags: nodeFlags })
  })
  await Promise.all(crowds.map((crowd) => hear(crowd)))
  return crowds
}

function all<Answer>(replicas: readonly Replica[], kind: ReplicaQuestion['kind']): Promise<Answer[]> {
  return Promise.all(replicas.map(({ child }) => askProgram<Answer>(child, { kind } satisfies ReplicaQuestion)))
}

async function idleShare(replicas: readonly Replica[]): Promise<number> {
  const cpuMs = async () => (await all<CpuAnswer>(replicas, 'cpu')).reduce((sum, { cpuMs }) => sum + cpuMs, 0)
  const [began, before] = [machineTime(), await cpuMs()]
  await sleep(rest * 1000)
  const after = await cpuMs()
  return (100 * (after - before)) / (machineTime() - began) / replicas.length
}

function callsOf({ gitlab, gitaly, mostGitlab, mostGitaly }: GitlabAsked): Record<string, number> {
  return {
    'calls of GitLab a second': gitlab / rest,
    'calls of Gitaly a second': gitaly / rest,
    'most calls of GitLab in a second': mostGitlab,
    'most calls of Gitaly in a second': mostGitaly,
  }
}

interface Ground {
  readonly replicas: readonly Replica[]
  readonly balancers: readonly Balancer[]
  readonly crowds: readonly Child[]
  readonly gitlab: Gitlab | undefined
}

/** Ends the first replica with kill -9; its agents may connect to the others. */
async function kill(name: Name, { replicas, balancers, crowds, gitlab }: Ground): Promise<Record<string, number>> {
  const [first, ...others] = replicas as [Replica, ...Replica[]]
  const [balancer] = balancers as [Balancer]
  const [crowd] = crowds as [Child]
  for (const { balanced } of others) balancer.add(balanced)
  await eventually(() => balancer.ready.length === replicas.length, { timeoutMs: readyTimeoutMs })
  await askProgram(crowd, { kind: 'return' })
  const back = hear<ReturnAnswer>(crowd)
  if (name === 'slow') await gitlab?.tell({ kind: 'slow', ms: slowMs })
  if (name === 'away') await gitlab?.tell({ kind: 'leave' })
  const killedAt = machineTime()
  first.child.kill('SIGKILL')
  const comes = name === 'away' ? sleep(awayMs).then(() => gitlab?.tell({ kind: 'come' })) : undefined
  const { tunnelsAt, configurationAt } = await back
  await comes
  await eventually(async () => {
    const held = await Promise.all(others.map((other) => connectedAgents(other)))
    if (held.reduce((sum, count) => sum + count) !== agents) throw new Error(`${held.join(' and ')} are back`)
  })
  const took = (times: readonly number[]) => times.map((at) => at - killedAt)
  return {
    'killed to tunnels back, p50 ms': percentile(took(tunnelsAt), 0.5),
    'killed to tunnels of all back, ms': percentile(took(tunnelsAt), 1),
    'killed to configuration streams, p50 ms': percentile(took(configurationAt), 0.5),
    'killed to configuration streams of all, ms': percentile(took(configurationAt), 1),
  }
}
