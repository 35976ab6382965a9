import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { patience } from '../support/slowness.ts'
import type { Attack } from './attack.ts'
import { Attacker } from './attacker.ts'
import { GoodLoad } from './good-load.ts'
import { hookServed } from './hook-served.ts'
import { HostileGround, type HostileGroundOptions } from './hostile-ground.ts'
import { newcomerServed } from './newcomer.ts'
import type { Stage } from './stage.ts'
import { residentBytes, viewsThreadEnds, vitalSigns } from './vital-signs.ts'

const startMs = patience(60_000)
const attackMs = patience(60_000)
/**
 * Limit of a good caller; the soak checks that callers wait no longer than usual. A push goes through some thirty turns
 * of three programs. It took 9.5 s under an attack on a machine with three times its load. ms
 */
const patienceMs = patience(20_000)
/** longer than `patienceMs`: the time for repairs after an attack, so that the next one is measured by itself. ms */
const recoveryMs = patience(30_000)
/** twice the limit of the soak, which gives collections of garbage their time */
const maxMoreBytes = 128 * 1024 * 1024
/** size of one replica's row, twice an agent's share. bytes */
const maxToldBytes = 512 * 1024

export interface Played {
  readonly attacks: readonly Attack<unknown>[]
  readonly ground?: HostileGroundOptions
  /** execs in pods */
  readonly execs: number
  /** gives the attacker another way to the replicas; default: the direct one */
  readonly wayTo?: (stage: Stage) => Promise<Stage>
}

/** Plays each attack in its small size, one after the other on one stack, since a stack takes time to start. */
export async function playAll(t: Test, { attacks, ground: options, execs, wayTo }: Played): Promise<void> {
  const ground = await HostileGround.start(AbortSignal.timeout(startMs), options)
  t.teardown(() => ground.stop())
  const stage = (await wayTo?.(ground.stage)) ?? ground.stage
  const attacker = await Attacker.start()
  t.teardown(() => attacker.stop())
  const { users, place } = ground
  const accesses = [ground.entry.access, ground.holder.access]
  const load = new GoodLoad({ accesses, users, callsPerSecond: 5, watches: 3, execs, patienceMs, place })
  t.teardown(() => load.stop())
  await load.start(AbortSignal.timeout(startMs))
  for (const attack of attacks) {
    await t.test(`${attack.name}: ${attack.what}`, (t) => harmless(t, { ground, stage, attacker, load }, attack))
  }
}

/** Limit for all attacks. ms */
export const timeoutOf = (attacks: readonly unknown[]) => startMs + attacks.length * (2 * attackMs + 2 * recoveryMs)

interface Scene {
  readonly ground: HostileGround
  readonly stage: Stage
  readonly attacker: Attacker
  readonly load: GoodLoad
}

async function harmless(
  t: Test,
  { ground, stage, attacker, load }: Scene,
  { name, refusal, counter, agentkMemory }: Attack<unknown>,
): Promise<void> {
  const signs = () => Promise.all(ground.watched.map(vitalSigns))
  const memory = () => Promise.all(ground.watched.map(residentBytes))
  const counted = async () => (await vitalSigns(ground.holder)).counter(counter ?? '')
  const threadEnds = async () => (await vitalSigns(ground.agentk)).counter(viewsThreadEnds)
  const pids = () => ground.watched.map(({ pid }) => pid())
  const [before, countedBefore, cutBefore] = [await memory(), await counted(), load.cut.length]
  const [pidsBefore, endsBefore] = [pids(), await threadEnds()]
  const isMore = async () => (await counted()) > countedBefore
  const order = { name, size: 'cheap', stage, timeoutMs: attackMs } as const
  await attacker.prepare(order)
  await signs()
  const period = load.period()
  const answer = await attacker.play(order)
  const most = await memory()
  const newcomer = await newcomerServed(ground, stage)
  const hook = await hookServed(ground, stage)
  const toldBytes = await ground.toldOfEvil()
  // the attack goes on meanwhile
  const isCounted = !counter || (await eventually(isMore, { timeoutMs: recoveryMs }).catch(() => false))
  // some attacks are over before the first good call is due
  const isCalled = () => period.series.every(({ tookMs }) => tookMs.length > 0)
  await eventually(isCalled, { timeoutMs: recoveryMs })
  const { cpuMs = 0 } = await attacker.end()
  await attacker.clean()
  await period.stop()
  const stallMs = Math.max(...(await signs()).map((each) => each.stallMs))
  const judged = ground.watched.map((each) => each !== ground.agentk || agentkMemory !== 'bounded')
  const more = Math.max(...most.map((bytes, i) => (judged[i] ? bytes - (before[i] as number) : 0)))
  t.comment(answer.refusal || answer.failure || 'nothing was refused')
  t.comment(`stalled for ${stallMs.toFixed(0)} ms, ${mebibytes(more)} MiB more, attacker ${cpuMs.toFixed(0)} ms of CPU`)
  t.comment(period.series.map(({ name, tookMs }) => `${name} ${tookMs.at(-1)?.toFixed(0) ?? 'none'} ms`).join(', '))
  if (hook) t.comment(`a good hook is answered after ${hook.tookMs.toFixed(0)} ms`)
  t.equal(answer.failure, undefined, 'the evil tenant is not kept waiting')
  if (refusal) t.match(answer.refusal, refusal, 'he is told what he may not')
  if (counter) t.ok(isCounted, `and counted in ${counter}`)
  t.equal(newcomer, undefined, 'a newcomer is served meanwhile')
  t.equal(hook?.problem, undefined, 'a good hook is accepted meanwhile')
  t.same(period.failures, [], 'nothing that is good fails')
  t.same(load.cut.slice(cutBefore), [], 'no watch, exec or view is cut')
  t.same(pids(), pidsBefore, 'each program lives')
  t.equal(await threadEnds(), endsBefore, 'no thread of views has ended')
  t.ok(more <= maxMoreBytes, `${mebibytes(more)} MiB more than before`)
  t.ok(toldBytes <= maxToldBytes, `other replicas are told ${toldBytes} bytes of him`)
  t.same(await ground.brokenLinks(), [], 'all links between replicas can be used')
  await eventually(() => load.live(), { timeoutMs: recoveryMs })
}

const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0)
