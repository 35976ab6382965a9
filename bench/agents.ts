/**
 * What does an agent cost a replica, and how soon are all back when the replica dies? Three replicas of kas run as
 * whole processes. Stock agents, each with one connection, two idle tunnels and a configuration stream, are all at the
 * first replica through a balancer. Then that replica gets kill -9. By gRPC and by WebSocket; beside them `bare`, the
 * same connections and streams on node:http2 alone, by gRPC.
 *
 * Options: `--rounds N`, `--agents N`, `--settle N` and `--rest N` seconds, `--replicas N` (1: leaves out all that
 * needs another replica, which takes a minute less).
 */
import type { ChildProcess } from 'node:child_process'
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
import { connectedAgents, type Replica, readyTimeoutMs, replicaFlags, startReplicas } from './agents/replicas.ts'
import { askProgram, hear } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { machineTime } from './support/machine-time.ts'
import { readCounts } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { Programs } from './support/programs.ts'

const counts = readCounts({ rounds: 3, agents: 1000, settle: 20, rest: 15, replicas: 3 })
const { rounds, agents, settle, rest, replicas: replicaCount } = counts
const crowdCount = 2
const kib = 1024

type Crowd = ReturnType<Programs['spawn']>

const rows = { grpc: {}, ws: {}, bare: {} } satisfies Record<string, Row>
const names = Object.keys(rows) as (keyof typeof rows)[]
for (let round = 0; round < rounds; round++) {
  for (const name of round % 2 ? names.toReversed() : names) {
    addTo(
      rows[name],
      await inFolder(name === 'bare' ? bareRound : (programs, folder) => kasRound(programs, folder, name)),
    )
  }
  process.stderr.write(`round ${round + 1} of ${rounds}\n`)
}
report('agents', rows)

async function inFolder<T>(work: (programs: Programs, folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-agents-'))
  const programs = new Programs()
  try {
    return await work(programs, folder)
  } finally {
    programs.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function kasRound(programs: Programs, folder: string, transport: Transport): Promise<Record<string, number>> {
  const replicas = await startReplicas(programs, { folder: join(folder, 'kas'), replicas: replicaCount, agents })
  const [first, ...others] = replicas as [Replica, ...Replica[]]
  const balancer = new Balancer({ fronts: [0], replicas: [first.balanced] })
  try {
    await balancer.start()
    const to = { port: balancer.ports[0] as number, transport }
    const { figures, crowds } = await measure(programs, first.child, others[0]?.child, to)
    if (others.length === 0) return figures
    for (const other of others) balancer.add(other.balanced)
    await eventually(() => balancer.ready.length === replicas.length, { timeoutMs: readyTimeoutMs })
    return { ...figures, ...(await kill(first, others, crowds)) }
  } finally {
    await balancer.stop()
  }
}

async function bareRound(programs: Programs): Promise<Record<string, number>> {
  const file = join(import.meta.dirname, 'agents/bare-server.ts')
  const both = [0, 1].map(() => programs.spawn(file, [], { flags: replicaFlags }))
  const [first, other] = both as [ChildProcess, ChildProcess]
  const [port] = (await Promise.all(both.map((bare) => hear<number>(bare)))) as [number, number]
  return (await measure(programs, first, other, { port, transport: 'grpc' })).figures
}

/** Measures the cost of the agents at `first`, compared with `other`, which has none. */
async function measure(
  programs: Programs,
  first: ChildProcess,
  other: ChildProcess | undefined,
  to: Pick<CrowdSettings, 'port' | 'transport'>,
): Promise<{ figures: Record<string, number>; crowds: readonly Crowd[] }> {
  await sleep(settle * 1000)
  const before = await ask<MemoryAnswer>(first, 'memory')
  // at another replica, since a full collection would change this one's later memory
  const alone = other && (await ask<MemoryAnswer>(other, 'live'))
  const crowds = await startCrowds(programs, to)
  await sleep(settle * 1000)
  const idle = await idleShares(first, other)
  const after = await ask<MemoryAnswer>(first, 'memory')
  const figures = { 'RSS before, MiB': before.rss / kib / kib, 'RSS an agent, KiB': each(after.rss - before.rss) }
  if (!alone) return { figures: { ...figures, ...idle }, crowds }
  const live = await ask<MemoryAnswer>(first, 'live')
  return { figures: { ...figures, ...costs(live, alone), ...idle }, crowds }
}

async function startCrowds(programs: Programs, to: Pick<CrowdSettings, 'port' | 'transport'>): Promise<Crowd[]> {
  const share = Math.ceil(agents / crowdCount)
  const all = Array.from({ length: crowdCount }, (_, i) => {
    const settings: CrowdSettings = { ...to, from: i * share, to: Math.min(agents, (i + 1) * share) }
    const file = join(import.meta.dirname, 'agents/crowd.ts')
    return programs.spawn(file, [JSON.stringify(settings)], { flags: nodeFlags })
  })
  await Promise.all(all.map((crowd) => hear(crowd)))
  return all
}

function ask<Answer>(child: ChildProcess, kind: ReplicaQuestion['kind']): Promise<Answer> {
  return askProgram<Answer>(child, { kind } satisfies ReplicaQuestion)
}

function each(bytes: number): number {
  return bytes / agents / kib
}

/** Memory in use for each agent. */
function costs(live: MemoryAnswer, alone: MemoryAnswer) {
  return {
    'RSS an agent after full GC, KiB': each(live.rss - alone.rss),
    'heap an agent after full GC, KiB': each(live.heap - alone.heap),
    'external an agent after full GC, KiB': each(live.external - alone.external),
  }
}

async function idleShares(first: ChildProcess, other: ChildProcess | undefined): Promise<Record<string, number>> {
  const all = other ? [first, other] : [first]
  const cpuMs = () => Promise.all(all.map((child) => ask<CpuAnswer>(child, 'cpu')))
  const began = machineTime()
  const before = await cpuMs()
  await sleep(rest * 1000)
  const after = await cpuMs()
  const shares = after.map((at, i) => (100 * (at.cpuMs - (before[i] as CpuAnswer).cpuMs)) / (machineTime() - began))
  const [own, alone] = shares as [number, number | undefined]
  return { 'idle, % of a core': own, ...(alone === undefined ? {} : { 'idle without agents, % of a core': alone }) }
}

/** Ends the replica of all agents with kill -9, and measures their return. */
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
  // a PING is answered at once, a token is checked in its turn
  const held = await eventually(async () => {
    const counts = await Promise.all(others.map((other) => connectedAgents(other)))
    if (counts.reduce((sum, count) => sum + count) !== agents)
      throw new Error(`${counts.join(' and ')} of ${agents} are back`)
    return counts
  })
  return {
    'killed to tunnels back, p50 ms': percentile(tunnels, 0.5),
    'killed to tunnels back, p99 ms': percentile(tunnels, 0.99),
    'killed to tunnels of all back, ms': percentile(tunnels, 1),
    'killed to configuration streams of all, ms': percentile(configurations, 1),
    'agents at the busier survivor': Math.max(...held),
  }
}
