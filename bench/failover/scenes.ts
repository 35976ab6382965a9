import { setTimeout as sleep } from 'node:timers/promises'
import type { Caller } from '../../dev/demo/caller.ts'
import { configMaps } from '../../dev/demo/ledger.ts'
import type { LocalReplica } from '../../dev/start/local-replica.ts'
import { type FreshAgent, startStockTunnels } from './agents.ts'
import type { Ground } from './ground.ts'
import { type Called, firstSuccess, Load } from './load.ts'

/** Results of a round, a number for each figure. */
export type Figures = Record<string, number>

export interface SceneOptions {
  /** a word that only this round has */
  readonly name: string
  readonly kind: 'agentk' | 'stock'
  readonly start: (ground: Ground) => Promise<FreshAgent>
  /** many connections at one replica that does not hold the agent, without a pause, instead of some at each */
  readonly isBusy: boolean
}

/** time before the fault, in which connections open and a fresh agent's code becomes warm. ms */
const calmMs = 3000
/** time after the first success, in which other failures show. ms */
const afterMs = 1500
/** stock agents took up to 6.6 s. ms */
const limitMs = 30_000
/**
 * longer than kas keeps a silent connection, and than agentk stays (doc/internals/agentk-placement.md "When something goes"). ms
 */
const frozenMs = 12_000

const some = { safe: 4, unsafe: 2, safePauseMs: 10 }
const busy = { safe: 16, unsafe: 0, safePauseMs: 0 }

/** Ends the holder with kill -9. */
export function kill(ground: Ground, options: SceneOptions): Promise<Figures> {
  return underLoad(ground, { ...options, hasFront: !options.isBusy }, async ({ holder, loads }) => {
    const at = performance.now()
    holder.signal('SIGKILL')
    await Promise.all(loads.map((load) => load.succeeded(at, limitMs)))
    await sleep(afterMs)
    return at
  })
}

/** Freezes the holder with SIGSTOP, and thaws it with SIGCONT. */
export function freeze(ground: Ground, options: SceneOptions): Promise<Figures> {
  return underLoad(ground, { ...options, hasFront: false }, async ({ holder }) => {
    const at = performance.now()
    holder.signal('SIGSTOP')
    try {
      await sleep(frozenMs)
    } finally {
      holder.signal('SIGCONT')
    }
    return at
  })
}

interface UnderLoadOptions extends SceneOptions {
  /** makes calls through the balancer too; not where its connections to a frozen replica would hang */
  readonly hasFront: boolean
}

interface Act {
  readonly holder: LocalReplica
  readonly loads: readonly Load[]
}

type Play = (what: Act) => Promise<number>

/** @param act - plays the fault; resolves with its time, when all is seen */
async function underLoad(ground: Ground, options: UnderLoadOptions, act: Play): Promise<Figures> {
  const agent = await options.start(ground)
  const callers: Caller[] = []
  try {
    const holder = await ground.holder(options.kind)
    const others = ground.replicas.filter((replica) => replica !== holder)
    for (const replica of others) callers.push(ground.caller(replica))
    await Promise.all(callers.map(answers))
    const front = ground.caller('the balancer')
    const loads = loadsOf(options, callers, front)
    callers.push(front)
    const at = await played(loads, () => act({ holder, loads }))
    const [load, frontLoad] = loads
    const wrong = await load.audit(callers[0] as Caller)
    for (const line of [...wrong, ...shown(load.called, at)]) process.stderr.write(`${options.name}: ${line}\n`)
    return {
      ...figuresOf(load.called, at),
      ...frontFigures(frontLoad?.called ?? [], at),
      'lost or doubled': wrong.length,
    }
  } finally {
    await Promise.all(callers.map((caller) => caller.close()))
    await agent.stop()
    await again(ground)
  }
}

/** The measured load, and one through the balancer, where cut connections to the holder are no failure. */
function loadsOf(
  { name, isBusy, hasFront }: UnderLoadOptions,
  others: readonly Caller[],
  front: Caller,
): readonly [Load, ...Load[]] {
  const load = new Load(
    isBusy ? { name, callers: others.slice(0, 1), ...busy } : { name, callers: [...others], ...some },
  )
  if (!hasFront) return [load]
  return [
    load,
    new Load({ name: `${name}-front`, callers: [front], safe: 1, unsafe: 0, safePauseMs: some.safePauseMs }),
  ]
}

async function played(loads: readonly Load[], act: () => Promise<number>): Promise<number> {
  for (const load of loads) load.start()
  try {
    await sleep(calmMs)
    return await act()
  } finally {
    await Promise.all(loads.map((load) => load.stop()))
  }
}

/** Resolves when all replicas run, and none knows the agent. */
async function again(ground: Ground): Promise<void> {
  for (const replica of ground.replicas) if (replica.pid === undefined) await replica.start()
  await ground.settled()
  await ground.forgotten()
}

async function answers(caller: Caller): Promise<void> {
  const { status, body } = await caller.ask(`${configMaps}?limit=1`)
  if (status !== 200) throw new Error(`through ${caller.name}: ${status} ${body}`)
}

function figuresOf(called: readonly Called[], at: number): Figures {
  const of = (safety: Called['safety']) => called.filter((call) => call.safety === safety)
  const [safe, unsafe] = [of('safe'), of('unsafe')]
  const entries = [...new Set(called.map(({ entry }) => entry))]
  const firsts = entries.map((entry) => firstSuccess(safe, entry, at) ?? Number.POSITIVE_INFINITY)
  const failed = called.filter(({ isRight }) => !isRight)
  const cut = failed.filter(({ answer }) => answer.cut)
  const slowest = (calls: readonly Called[]) =>
    Math.max(0, ...calls.filter(({ endedAt }) => endedAt >= at).map(({ beganAt, endedAt }) => endedAt - beganAt))
  const calm = safe.filter(({ endedAt }) => endedAt < at).map(({ beganAt, endedAt }) => endedAt - beganAt)
  return {
    'noise: slowest safe call before it, ms': Math.max(...calm),
    'first success, ms': Math.max(...firsts),
    'slowest safe call, ms': slowest(safe.filter((call) => !cut.includes(call))),
    ...(unsafe.length > 0
      ? { 'slowest unsafe call that was not sent, ms': slowest(unsafe.filter(({ beganAt }) => beganAt >= at)) }
      : {}),
    calls: called.length,
    'failed, could be repeated': failed.filter(canBeRepeated).length,
    'failed, may have arrived': failed.filter((call) => call.answer.delivery === 'maybe' && call.safety === 'unsafe')
      .length,
    'answers cut': cut.length,
  }
}

/** Returns true for a failed call that kas should have repeated itself. */
function canBeRepeated({ safety, answer }: Called): boolean {
  return !answer.cut && (safety === 'safe' || answer.delivery !== 'maybe')
}

function frontFigures(called: readonly Called[], at: number): Figures {
  const first = firstSuccess(called, 'the balancer', at)
  return first === undefined ? {} : { 'first success through the balancer, ms': first }
}

const slowestShown = 3

/** Lines of the failed calls and of the slowest ones, with their times. */
function shown(called: readonly Called[], at: number): string[] {
  const after = called.filter(({ endedAt }) => endedAt >= at)
  const slowest = after.toSorted((a, b) => b.endedAt - b.beganAt - (a.endedAt - a.beganAt)).slice(0, slowestShown)
  return [...called.filter(({ isRight }) => !isRight), ...slowest].map((call) => {
    const { safety, entry, beganAt, endedAt, answer } = call
    const [began, took] = [beganAt - at, endedAt - beganAt].map(Math.round)
    const delivery = answer.delivery ? `, delivery ${answer.delivery}` : ''
    const what = call.isRight ? 'right' : `${answer.status || answer.body}${delivery}`
    return `${safety} through ${entry}, begun at ${began} ms, took ${took}: ${what}`
  })
}

/**
 * Freezes the replica that has the only tunnels of a stock-protocol agent. @returns times and answers of the callers
 */
export async function frozenStock(ground: Ground, round: number): Promise<Figures> {
  const holder = ground.replicas[round % ground.replicas.length] as LocalReplica
  const callers = ground.replicas.filter((replica) => replica !== holder).map((replica) => ground.caller(replica))
  const warmUp = { calls: callers.length, run: () => Promise.all(callers.map((caller) => caller.ask(configMaps))) }
  const agent = await startStockTunnels(ground, holder.ports.agents, warmUp)
  try {
    await sleep(calmMs) // the others have heard of all
    holder.signal('SIGSTOP')
    const body = { kind: 'ConfigMap', apiVersion: 'v1', metadata: { generateName: 'failover-' } }
    const told = await Promise.all(
      callers.flatMap((caller) => [caller.ask(configMaps), caller.ask(configMaps, { method: 'POST', body })]),
    )
    for (const { status, body: text } of told) {
      if (status !== 502 || !text.includes('does not answer')) throw new Error(`${status} ${text}`)
    }
    return { 'time to the error, ms': Math.max(...told.map(({ tookMs }) => tookMs)) }
  } finally {
    holder.signal('SIGCONT')
    await Promise.all(callers.map((caller) => caller.close()))
    await ground.settled()
    await agent.stop()
    await again(ground)
  }
}
