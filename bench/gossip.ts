/**
 * How soon do all replicas know of a change, and what does it cost? Groups of 3, 5 and 9 processes run the membership
 * of a replica (libp2p, table, anti-entropy) and no other part of kas. They are measured at rest, with changes one by
 * one, and with many at once.
 *
 * Options: `--rounds N`, `--changes N` one by one, `--crowd N` at once, `--rest N` seconds.
 */
import { join } from 'node:path'
import { freePorts } from '../dev/control-plane/free-ports.ts'
import { nodeFlags } from '../dev/node-flags.ts'
import type { Change, ChangesAnswer, MemberSettings, Question, RestAnswer } from './gossip/questions.ts'
import { askProgram, hear } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readCounts } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { Programs } from './support/programs.ts'

const { rounds, changes, crowd, rest } = readCounts({ rounds: 3, changes: 120, crowd: 1000, rest: 10 })
const sizes = [3, 5, 9] as const
/** interval of changes: longer than the others need to learn of one */
const everyMs = 150
const warmUp = 40

type Members = Awaited<ReturnType<typeof start>>

const rows = new Map(sizes.map((size) => [size, {} as Row]))
for (let round = 0; round < rounds; round++) {
  for (const size of round % 2 ? sizes.toReversed() : sizes) {
    const programs = new Programs()
    try {
      addTo(rows.get(size) as Row, await measure(await start(programs, size)))
    } finally {
      programs.stop()
    }
  }
  process.stderr.write(`round ${round + 1} of ${rounds}\n`)
}
report('gossip', Object.fromEntries([...rows].map(([size, row]) => [`${size} replicas`, row])))

async function start(programs: Programs, size: number) {
  const ports = await freePorts(size)
  const members = ports.map((port) => `127.0.0.1:${port}`)
  const file = join(import.meta.dirname, 'gossip/member.ts')
  const children = ports.map((port, i) => {
    const settings: MemberSettings = { name: `kas-${i}`, port, members }
    return programs.spawn(file, [JSON.stringify(settings)], { flags: nodeFlags })
  })
  await Promise.all(children.map((child) => hear(child)))
  return children
}

async function measure(members: Members): Promise<Record<string, number>> {
  let agents = 0
  const next = (count: number) => Array.from({ length: count }, () => String(++agents))
  await change(members, spread(members, next(warmUp)))
  const idle = await ask<RestAnswer>(members, () => ({ kind: 'rest', ms: rest * 1000 }))
  const idleShare = sum(idle.map(({ cpuMs, tookMs }) => cpuMs / tookMs))
  const single = await change(members, spread(members, next(changes)))
  // all at one replica, as after the death of another
  const many = await change(members, [
    next(crowd).map((agentId) => ({ agentId, afterMs: 0 })),
    ...members.slice(1).map(() => []),
  ])
  return {
    'last knows, p50 ms': percentile(single.lastMs, 0.5),
    'last knows, p99 ms': percentile(single.lastMs, 0.99),
    'CPU ms a change, all': (single.cpuMs - idleShare * single.tookMs) / changes,
    [`${crowd} at once: last knows all, ms`]: Math.max(...many.lastMs),
    [`${crowd} at once: CPU ms a change, all`]: (many.cpuMs - idleShare * many.tookMs) / crowd,
    'at rest, % of a core a replica': (100 * idleShare) / members.length,
  }
}

/** Plans changes one by one, each at the next replica, and out of step with the heartbeats. */
function spread(members: Members, agentIds: readonly string[]): Change[][] {
  const plan: Change[][] = members.map(() => [])
  for (const [i, agentId] of agentIds.entries()) {
    plan[i % members.length]?.push({ agentId, afterMs: everyMs * (i + Math.random() / 2) })
  }
  return plan
}

/** @param plan - for each member, its own changes */
async function change(members: Members, plan: readonly (readonly Change[])[]) {
  const all = plan.flat().map(({ agentId }) => agentId)
  const answers = await ask<ChangesAnswer>(members, (i) => {
    const own = plan[i] ?? []
    const mine = new Set(own.map(({ agentId }) => agentId))
    return { kind: 'changes', own, others: all.filter((agentId) => !mine.has(agentId)) }
  })
  const madeAt = Object.assign({}, ...answers.map((answer) => answer.madeAt)) as Record<string, number>
  const lastMs = all.map((agentId) => {
    const heard = answers.flatMap(({ heardAt }) => heardAt[agentId] ?? [])
    return Math.max(...heard) - (madeAt[agentId] as number)
  })
  const cpuMs = sum(answers.map((answer) => answer.cpuMs))
  return { lastMs, cpuMs, tookMs: Math.max(...answers.map(({ tookMs }) => tookMs)) }
}

function ask<Answer>(members: Members, question: (i: number) => Question): Promise<Answer[]> {
  return Promise.all(members.map((child, i) => askProgram<Answer>(child, question(i))))
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
