/**
 * What does an agent cost a replica, and how soon are all back when it dies? Three replicas of kas as whole processes;
 * stock agents, each with one connection, two idle tunnels and a configuration stream, all at the first replica through
 * a balancer; then kill -9. By gRPC and by WebSocket.
 * Options: `--rounds N`, `--agents N`, `--settle N` and `--rest N` seconds.
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
  MemoryAnswer,
  ReplicaQuestion,
  ReturnAnswer,
  Transport,
} from './agents/questions.ts'
import { connectedAgents, type Replica, readyTimeoutMs, startReplicas } from './agents/replicas.ts'
import { askProgram, hear } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { machineTime } from './support/machine-time.ts'
import { readCounts } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { Programs } from './support/programs.ts'

const { rounds, agents, settle, rest } = readCounts({ rounds: 3, agents: 1000, settle: 20, rest: 15 })
const transports: readonly Transport[] = ['grpc', 'ws']
const crowds = 2
const kib = 1024

type Crowd = ReturnType<Programs['spawn']>

const rows: Record<Transport, Row> = { grpc: {}, ws: {} }
for (let round = 0; round < rounds; round++) {
  for (const transport of round % 2 ? transports.toReversed() : transports) {
    addTo(rows[transport], await oneRound(transport))
  }
  process.stderr.write(`round ${round + 1} of ${rounds}\n`)
}
report('agents', rows)

async function oneRound(transport: Transport): Promise<Record<string, number>> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-agents-'))
  const programs = new Programs()
  let balancer: Balancer | undefined
  try {
    const replicas = await startReplicas(programs, { folder: join(folder, 'kas'), replicas: 3, agents })
    const [first, ...others] = replicas as [Replica, Replica, Replica]
    balancer = new Balancer({ fronts: [0], replicas: [first.balanced] })
    await balancer.start()
    await sleep(settle * 1000)
    const before = await ask<MemoryAnswer>(first, 'memory')
    // of another one: a full collection would change what this one has later
    const alone = await ask<MemoryAnswer>(others[0] as Replica, 'live')
    const all = await startCrowds(programs, { port: balancer.ports[0] as number, transport })
    await sleep(settle * 1000)
    const idle = await idleShares([first, others[0] as Replica])
    const after = await ask<MemoryAnswer>(first, 'memory')
    const live = await ask<MemoryAnswer>(first, 'live')
    for (const other of others) balancer.add(other.balanced)
    const ready = balancer
    await eventually(() => ready.ready.length === replicas.length, { timeoutMs: readyTimeoutMs })
    return { ...costs({ before, after, alone, live }), ...idle, ...(await kill(first, others, all)) }
  } finally {
    programs.stop()
    await balancer?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function startCrowds(programs: Programs, to: Pick<CrowdSettings, 'port' | 'transport'>): Promise<Crowd[]> {
  const share = Math.ceil(agents / crowds)
  const all = Array.from({ length: crowds }, (_, i) => {
    const settings: CrowdSettings = { ...to, from: i * share, to: Math.min(agents, (i + 1) * share) }
    const file = join(import.meta.dirname, 'agents/crowd.ts')
    return programs.spawn(file, [JSON.stringify(settings)], { flags: nodeFlags })
  })
  await Promise.all(all.map((crowd) => hear(crowd)))
  return all
}

function ask<Answer>({ child }: Replica, kind: ReplicaQuestion['kind']): Promise<Answer> {
  return askProgram<Answer>(child, { kind } satisfies ReplicaQuestion)
}

/** By agent: what it costs, and what of it is in use. */
function costs({ before, after, alone, live }: Record<'before' | 'after' | 'alone' | 'live', MemoryAnswer>) {
  const each = (bytes: number) => bytes / agents / kib
  return {
    'RSS before, MiB': before.rss / kib / kib,
    'RSS an agent, KiB': each(after.rss - before.rss),
    'RSS an agent after full GC, KiB': each(live.rss - alone.rss),
    'heap an agent after full GC, KiB': each(live.heap - alone.heap),
    'external an agent after full GC, KiB': each(live.external - alone.external),
  }
}

/** Of the replica with the agents, and of one without. */
async function idleShares(both: readonly [Replica, Replica]): Promise<Record<string, number>> {
  const cpuMs = () => Promise.all(both.map((replica) => ask<CpuAnswer>(replica, 'cpu')))
  const began = machineTime()
  const before = await cpuMs()
  await sleep(rest * 1000)
  const after = await cpuMs()
  const shares = after.map((at, i) => (100 * (at.cpuMs - (before[i] as CpuAnswer).cpuMs)) / (machineTime() - began))
  return { 'idle, % of a core': shares[0] as number, 'idle without agents, % of a core': shares[1] as number }
}

/** kill -9 of the replica that has all agents. */
async function kill(
  first: Replica,
  others: readonly Replica[],
  all: readonly Crowd[],
): Promise<Record<string, number>> {
  await Promise.all(all.map((crowd) => askProgram(crowd, { kind: 'return' })))
  const back = Promise.all(all.map((crowd) => hear<ReturnAnswer>(crowd)))
  const killedAt = machineTime()
  first.child.kill('SIGKILL')
  const answers = await back
  const tunnels = answers.flatMap(({ tunnelsAt }) => tunnelsAt.map((at) => at - killedAt))
  const configurations = answers.flatMap(({ configurationAt }) => configurationAt.map((at) => at - killedAt))
  const held = await Promise.all(others.map((other) => connectedAgents(other)))
  if (held.reduce((sum, count) => sum + count) !== agents)
    throw new Error(`${held.join(' and ')} of ${agents} are back`)
  return {
    'killed to tunnels back, p50 ms': percentile(tunnels, 0.5),
    'killed to tunnels back, p99 ms': percentile(tunnels, 0.99),
    'killed to tunnels of all back, ms': percentile(tunnels, 1),
    'killed to configuration streams of all, ms': percentile(configurations, 1),
    'agents at the busier survivor': Math.max(...held),
  }
}
