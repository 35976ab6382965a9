import { once } from 'node:events'
import type { Programs } from '../../dev/start/local-programs.ts'
import { delay } from '../../src/lib/signals.ts'
import { type Attack, commonBounds } from './attack.ts'
import { Attacker } from './attacker.ts'
import { forkProgram } from './fork-program.ts'
import { GoodLoad } from './good-load.ts'
import { hookServed } from './hook-served.ts'
import { HostileGround } from './hostile-ground.ts'
import { newcomerServed } from './newcomer.ts'
import { SlowGitlab } from './slow-gitlab.ts'
import { residentBytes, viewsThreadEnds, vitalSigns } from './vital-signs.ts'

/** State of good tenants and of the programs, over some time. */
export interface Seen {
  /** results of each kind of call of good tenants: `call` and, where they exist, `row`, `health`, `push` */
  readonly done: readonly Done[]
  readonly stallMs: number
  /** program of the longest stall */
  readonly stalled: string
  /** links that were broken at some time */
  readonly broken: readonly string[]
}

export interface Done {
  readonly name: string
  readonly count: number
  /** one line each */
  readonly failures: readonly string[]
  readonly p99Ms: number
}

export interface FullSize {
  readonly quiet: Seen
  readonly during: Seen
  /**
   * measured beside a process that takes as much CPU as the attacker; only if something was slower beside the attack
   */
  readonly control?: Seen
  /** watches, execs and views that were cut, in words */
  readonly cut: readonly string[]
  /** newcomers and hooks that were not served, in words */
  readonly newcomers: readonly string[]
  /** slowest answer to a hook of a good tenant's Git server; 0: no project has a secret. ms */
  readonly slowestHookMs: number
  /** the most memory of each program during the attack, above that before. bytes */
  readonly more: readonly { readonly name: string; readonly bytes: number }[]
  /** programs that have ended by themselves */
  readonly died: readonly string[]
  /** number of times that agentk's thread of views ended by itself during the attack */
  readonly viewsThreadEnds: number
  readonly rounds: number
  /** refusal that the evil tenant got */
  readonly refusal: string
  /** rounds that were cut short, in words */
  readonly unplayed: readonly string[]
  /** share of one core */
  readonly attackerShare: number
}

/** durations below this count as equally fast, since such calls take next to no time. ms */
export const floorMs = 5
const load = { callsPerSecond: 15, watches: 5, patienceMs: 10_000 }
const execs = 2
const startMs = 60_000
const roundMs = 60_000
const prepareMs = 300_000
/** time for code that runs for the first time, which is not measured. ms */
const warmUpMs = 10_000
const quietMs = 20_000
const sampleMs = 1000
/** The attacker's limit of one core: above it the test would measure a busy machine, and not the attack. */
const maxAttackerShare = 0.5

export interface FullSizeOptions {
  readonly seconds: number
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
  /** value of KUBEBUILDER_ASSETS: needed for attacks of `cluster` */
  readonly assets: string
}

/** Plays one attack on a stack of its own, again and again for `seconds`, after a quiet time. */
export async function playFullSize(
  attack: Attack<unknown>,
  { seconds, programs, assets }: FullSizeOptions,
): Promise<FullSize> {
  const gitlab = attack.gitlab ? await SlowGitlab.start() : undefined
  const cluster = attack.cluster ? { assets } : {}
  const ground = await HostileGround.start(AbortSignal.timeout(startMs), { gitlab, programs, ...cluster })
  const attacker = await Attacker.start()
  const accesses = [ground.entry.access, ground.holder.access]
  const { users, place } = ground
  const good = new GoodLoad({ ...load, execs: attack.cluster ? 0 : execs, accesses, users, place })
  const threadEnds = async () => (await vitalSigns(ground.agentk)).counter(viewsThreadEnds)
  try {
    await good.start(AbortSignal.timeout(startMs))
    await observe(ground, good, () => delay(warmUpMs))
    const quiet = await observe(ground, good, () => delay(quietMs))
    const before = await Promise.all(ground.watched.map(residentBytes))
    const [cutBefore, endsBefore] = [good.cut.length, await threadEnds()]
    const pids = ground.watched.map(({ pid }) => pid())
    const most = [...before]
    const sample = async () => {
      const now = await Promise.all(ground.watched.map(residentBytes))
      for (const [i, bytes] of now.entries()) most[i] = Math.max(most[i] as number, bytes)
    }
    const order = { name: attack.name, size: 'full', stage: ground.stage, timeoutMs: prepareMs } as const
    await attacker.prepare(order)
    let played: Played = { rounds: 0, refusal: '', share: 0, newcomers: [], unplayed: [], slowestHookMs: 0 }
    const during = await observe(
      ground,
      good,
      async () => {
        played = await playFor(attack, { ground, attacker, endsAt: performance.now() + seconds * 1000 })
      },
      sample,
    )
    const cut = good.cut.slice(cutBefore)
    const died = ground.watched.filter(({ pid }, i) => pid() !== pids[i]).map(({ name }) => name)
    const threadsEnded = died.includes(ground.agentk.name) ? 0 : (await threadEnds()) - endsBefore
    const { slowdown } = { ...commonBounds, ...attack.bounds }
    const control =
      slower({ quiet, during }, slowdown).length > 0 ? await besideSpinner(ground, good, played.share) : undefined
    const more = ground.watched.map(({ name }, i) => ({ name, bytes: (most[i] as number) - (before[i] as number) }))
    const { rounds, refusal, share: attackerShare, newcomers, unplayed, slowestHookMs } = played
    const around = { quiet, during, ...(control ? { control } : {}) }
    return {
      ...around,
      cut,
      newcomers,
      slowestHookMs,
      more,
      died,
      viewsThreadEnds: threadsEnded,
      rounds,
      refusal,
      unplayed,
      attackerShare,
    }
  } finally {
    await attacker.stop()
    await good.stop()
    await ground.stop()
    await gitlab?.stop()
  }
}

/**
 * Compares with the machine without the attack, or with one as busy as the attacker makes it, if that was slower. A
 * time with failures does not count, since effects of an attack do not excuse it.
 */
export function slower(
  { quiet, during, control }: Pick<FullSize, 'quiet' | 'during' | 'control'>,
  slowdown: number,
): readonly Done[] {
  const p99Of = (seen: Seen | undefined, name: string) =>
    seen?.done.find((one) => one.name === name && one.failures.length === 0)?.p99Ms ?? 0
  return during.done.filter(({ name, p99Ms }) => {
    return p99Ms > slowdown * Math.max(floorMs, p99Of(quiet, name), p99Of(control, name))
  })
}

interface Played {
  readonly rounds: number
  readonly refusal: string
  readonly share: number
  readonly newcomers: readonly string[]
  readonly unplayed: readonly string[]
  readonly slowestHookMs: number
}

async function playFor(
  { name }: Attack<unknown>,
  { ground, attacker, endsAt }: { ground: HostileGround; attacker: Attacker; endsAt: number },
): Promise<Played> {
  const began = performance.now()
  const newcomers: string[] = []
  const unplayed: string[] = []
  let refusal = ''
  let slowestHookMs = 0
  let rounds = 0
  let usedMs = 0
  while (performance.now() < endsAt) {
    const answer = await attacker.play({ name, size: 'full', stage: ground.stage, timeoutMs: roundMs })
    refusal = answer.refusal ?? `nothing: ${answer.failure}`
    if (answer.failure !== undefined) unplayed.push(answer.failure)
    const newcomer = await newcomerServed(ground)
    if (newcomer !== undefined) newcomers.push(newcomer)
    const hook = await hookServed(ground)
    if (hook?.problem !== undefined) newcomers.push(hook.problem)
    slowestHookMs = Math.max(slowestHookMs, hook?.tookMs ?? 0)
    const { cpuMs = usedMs } = await attacker.end()
    usedMs = cpuMs
    rounds++
    await delay(Math.max(0, usedMs / maxAttackerShare - (performance.now() - began)))
  }
  return { rounds, refusal, share: usedMs / (performance.now() - began), newcomers, unplayed, slowestHookMs }
}

/** Observes good tenants and programs while `run` goes on. */
async function observe(
  ground: HostileGround,
  good: GoodLoad,
  run: () => Promise<void>,
  sample: () => Promise<void> = async () => undefined,
): Promise<Seen> {
  const broken = new Set<string>()
  let worst = { name: '', stallMs: 0 }
  const look = async (): Promise<void> => {
    for (const { name, stallMs } of await Promise.all(ground.watched.map(vitalSigns))) {
      if (stallMs > worst.stallMs) worst = { name, stallMs }
    }
  }
  await Promise.all(ground.watched.map(vitalSigns)) // resets the values from before
  const period = good.period()
  const over = new AbortController()
  const looking = (async () => {
    while (!over.signal.aborted) {
      for (const link of await ground.brokenLinks()) broken.add(link)
      await sample()
      await look()
      await delay(sampleMs, over.signal).catch(() => undefined) // it is over
    }
  })()
  try {
    await run()
  } finally {
    over.abort()
    await Promise.all([looking, period.stop()])
  }
  await look()
  const done = period.series.map(({ name, tookMs, failures }) => {
    const p99Ms = tookMs[Math.floor(tookMs.length * 0.99)] ?? 0
    return { name, count: tookMs.length, failures, p99Ms }
  })
  const { name: stalled, stallMs } = worst
  return { done, stallMs, stalled, broken: [...broken] }
}

async function besideSpinner(ground: HostileGround, good: GoodLoad, share: number): Promise<Seen> {
  const spinner = forkProgram('spinner-program.ts', [String(Math.min(1, share))])
  const exited = once(spinner, 'exit')
  try {
    return await observe(ground, good, () => delay(quietMs))
  } finally {
    spinner.kill('SIGKILL')
    await exited
  }
}
