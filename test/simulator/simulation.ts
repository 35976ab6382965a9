import { Ring } from '../../src/ring/ring.ts'
import { Callers } from './callers.ts'
import { type FaultKind, faultKinds, faults } from './faults.ts'
import { type CallRecord, describe, type Violation } from './ledger.ts'
import type { PlantedBug } from './planted-bugs.ts'
import { contentOf } from './row-content.ts'
import { replaceTime } from './virtual-time.ts'
import { World } from './world.ts'

export interface SimulationOptions {
  readonly replicas: number
  readonly agents: number
  readonly faults: number
  readonly callsPerSecond: number
  readonly bug?: PlantedBug
  /** errors have stack traces, which take time */
  readonly stacks?: boolean
}

export const fullSize: SimulationOptions = { replicas: 5, agents: 200, faults: 25, callsPerSecond: 3 }

export interface SimulationResult {
  readonly seed: number
  readonly violation: Violation | undefined
  /** faults that were made, in order */
  readonly faults: readonly { readonly atMs: number; readonly kind: FaultKind; readonly forMs: number }[]
  readonly events: number
  /** CPU time of this process for this world. ms */
  readonly cpu: { readonly userMs: number; readonly systemMs: number }
  /** time that passed in the world */
  readonly virtualMs: number
  /** number of calls by outcome */
  readonly outcomes: Readonly<Record<string, number>>
  /** hash of all events; the same for the same seed, size and code */
  readonly trace: string
}

const buildRing = Ring.of.bind(Ring)
/** rings by their names: as many as there are sets of living replicas */
const rings = new Map<string, Ring>()

/** Virtual times. ms */
const calmMs = 6000
const trouble = { fromMs: calmMs, toMs: 60_000 }
const longestFaultMs = 15_000
/** time after which all faults have ended, and calls to connected agents must succeed. ms */
const probeAtMs = 76_000
const endMs = 95_000
/** Time after the last change until all replicas know it, though messages and heartbeats may be lost. ms */
const settleMs = 8000
/** latest end: the loss of an agent's power is noticed late, and the end waits for that. ms */
const lastEndMs = 150_000
const probesPerReplica = 8

/** Runs one world of 60 seconds of trouble, then quiet. @returns its figures and its violation, if there is one */
export async function simulate(seed: number, options: SimulationOptions): Promise<SimulationResult> {
  const world = new World({ ...options, seed, bug: options.bug })
  const { time, ledger, operator } = world
  const cpu = process.cpuUsage()
  const onUnhandled = (error: unknown) => {
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
    ledger.violated('no failure that nobody handles', detail)
  }
  shareRings()
  const restoreTime = replaceTime()
  const { stackTraceLimit } = Error
  if (!options.stacks) Error.stackTraceLimit = 0
  process.on('unhandledRejection', onUnhandled)
  try {
    const callers = new Callers(world)
    const done: { atMs: number; kind: FaultKind; forMs: number }[] = []
    const probes: CallRecord[] = []
    time.post(operator, 0, () => {
      world.start()
      planFaults(world, options.faults, done)
      planCalls(world, callers, options.callsPerSecond)
      time.post(operator, probeAtMs, () => void probes.push(...probe(world, callers)))
    })
    const isBroken = () => ledger.violation !== undefined
    await time.run(endMs, isBroken)
    for (let at = endMs; !isSettled(world) && at < lastEndMs && !isBroken(); at += settleMs) {
      await time.run(at + settleMs, isBroken)
    }
    if (!ledger.violation) checkSettled(world, probes)
    return { seed, violation: ledger.violation, faults: done, ...used(cpu), ...summary(world) }
  } catch (error) {
    onUnhandled(error)
    return { seed, violation: ledger.violation, faults: [], ...used(cpu), ...summary(world) }
  } finally {
    process.off('unhandledRejection', onUnhandled)
    restoreTime()
    Error.stackTraceLimit = stackTraceLimit
  }
}

/**
 * Shares rings between the replicas of one process that know the same names: rings never change, and take long to
 * build.
 */
function shareRings(): void {
  Ring.of = (names) => {
    const sorted = [...new Set(names)].sort()
    const ring = rings.get(sorted.join()) ?? buildRing(sorted)
    rings.set(sorted.join(), ring)
    return ring
  }
}

function planFaults(world: World, count: number, done: { atMs: number; kind: FaultKind; forMs: number }[]): void {
  const { chance, time, operator } = world
  for (let i = 0; i < count; i++) {
    const kind = chance.pick(faultKinds)
    const atMs = trouble.fromMs + chance.fraction() * (trouble.toMs - trouble.fromMs) * 0.95
    const forMs = Math.min(chance.fraction() ** 2 * longestFaultMs, trouble.toMs - atMs)
    time.post(operator, atMs, () => {
      let at = faultKinds.indexOf(kind)
      let undo: (() => void) | undefined
      // a fault that finds nothing to harm now is replaced by the next kind
      for (; !undo; at = (at + 1) % faultKinds.length) undo = faults[faultKinds[at] as FaultKind](world)
      done.push({ atMs, kind: faultKinds[(at || faultKinds.length) - 1] as FaultKind, forMs })
      time.post(operator, forMs, undo)
    })
  }
}

function planCalls({ chance, time, operator }: World, callers: Callers, perSecond: number): void {
  const count = (perSecond * trouble.toMs) / 1000
  for (let i = 0; i < count; i++) time.post(operator, chance.fraction() * trouble.toMs, () => callers.call())
}

function probe({ chance, replicas, agentIds }: World, callers: Callers): CallRecord[] {
  return replicas.flatMap((replica) =>
    chance
      .shuffled(agentIds)
      .slice(0, probesPerReplica)
      .map((agentId) => callers.probe(replica, agentId)),
  )
}

/** Returns true if all changes of owners were published long enough ago. */
function isSettled({ ledger, replicas, time }: World): boolean {
  const isWritten = replicas.every(({ membership }) =>
    membership
      .rows()
      .slice(0, 1)
      .every((own) => ledger.isWritten(own)),
  )
  return isWritten && ledger.lastWriteAtMs <= time.now - settleMs
}

/** Checks that after a quiet time all replicas know the same, and all calls have their answers. */
function checkSettled({ ledger, replicas, replicaNames }: World, probes: readonly CallRecord[]): void {
  const truth = new Map(
    replicas.map(({ membership }) => {
      const [own] = membership.rows()
      return [membership.instance, own && contentOf(own)] as const
    }),
  )
  if (replicas.length !== replicaNames.length) ledger.violated('equal tables after quiet', 'not all replicas are back')
  for (const { name, membership } of replicas) {
    const known = membership.rows()
    if (known.length !== truth.size) {
      const instances = known.map(({ instance }) => instance).join()
      ledger.violated('equal tables after quiet', `${name} knows ${instances}`)
    }
    for (const row of known) {
      const { instance, version } = row
      const content = contentOf(row)
      if (truth.get(instance) === content) continue
      const detail = `${name} has ${instance} ${version} as ${content}, it is ${truth.get(instance)}`
      ledger.violated('equal tables after quiet', detail)
    }
    const rank = membership.rank('42').join()
    const firstRank = replicas[0].membership.rank('42').join()
    if (rank !== firstRank) ledger.violated('equal tables after quiet', `${name} ranks ${rank}, not ${firstRank}`)
  }
  for (const call of probes) {
    if (call.outcome === 'OK') continue
    const known = replicas.flatMap(({ name, tunnels, membership }) => {
      const holders = membership.holders(call.agentId).map(({ row }) => row.instance)
      return `${name} ${tunnels.holds(call.agentId) ? 'holds it' : 'holds it not'}, knows ${holders.join(', ')}`
    })
    ledger.violated('calls succeed after quiet', `${describe(call)}; ${known.join('; ')}`)
  }
  ledger.checkAnswers()
}

function used(since: NodeJS.CpuUsage): Pick<SimulationResult, 'cpu'> {
  const { user, system } = process.cpuUsage(since)
  return { cpu: { userMs: user / 1000, systemMs: system / 1000 } }
}

function summary({ ledger, time }: World): Pick<SimulationResult, 'events' | 'virtualMs' | 'outcomes' | 'trace'> {
  const outcomes: Record<string, number> = {}
  let trace = `${time.events}`
  for (const { id, outcome = 'none', deliveredTo } of ledger.calls.values()) {
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    trace += ` ${id}:${outcome}:${deliveredTo.join('+')}`
  }
  return { events: time.events, virtualMs: time.now, outcomes, trace }
}
