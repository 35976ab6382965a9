import { readFile } from 'node:fs/promises'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { Kube } from '../kube.ts'
import type { Leave } from './ends.ts'
import type { RollingGround } from './rolling-ground.ts'

export interface RollingGraces {
  readonly listenMs: number
  readonly shutdownMs: number
}

export interface RollingStage {
  readonly ground: RollingGround
  readonly say: (text: string) => void
  readonly signal: AbortSignal
}

/** kas' time beyond its graces (src/kas/config/stop-patience.ts), and more for a busy machine. ms */
const stopMarginMs = 15_000
const backMs = 60_000
/** interval of calls straight to a replica that leaves. ms */
const askEveryMs = 200

export interface Restart {
  readonly leave: Leave
  readonly text: string
  readonly failures: readonly string[]
}

/** Sends SIGTERM, waits for the end, starts the replica under the same name, and waits for calm. */
export async function restart(stage: RollingStage, replica: LocalReplica, graces: RollingGraces): Promise<Restart> {
  const { ground, signal } = stage
  const graceMs = graces.listenMs + graces.shutdownMs
  const at = performance.now()
  replica.signal('SIGTERM')
  const asked = callsStraightTo(stage, replica, graces.listenMs)
  await abortable(replica.exited, AbortSignal.any([signal, AbortSignal.timeout(graceMs + stopMarginMs)]))
  const exitedAt = performance.now()
  const lastLine = (await readFile(replica.log, 'utf8')).trimEnd().split('\n').at(-1) ?? ''
  await replica.start()
  const back = AbortSignal.any([signal, AbortSignal.timeout(backMs)])
  await replica.ready(back)
  const readyAt = performance.now()
  await ground.settled(back)
  const { count, failures } = await asked
  const text =
    `${replica.name}: SIGTERM, ended after ${seconds(at, exitedAt)} (graces ${graceMs / 1000} s; ` +
    `${count} calls straight to it in its listen grace), ready again after ${seconds(exitedAt, readyAt)}, ` +
    `all know one another after ${seconds(exitedAt, performance.now())}`
  if (!lastLine.includes('"msg":"Stopped"')) failures.push(`${replica.name} did not end in order: ${lastLine}`)
  return {
    leave: { replica: replica.name, listenEndsAt: at + graces.listenMs, graceEndsAt: at + graceMs, exitedAt },
    text,
    failures,
  }
}

/**
 * Makes calls straight to a replica that leaves: a balancer may do so for the listen grace, and the calls must succeed.
 */
async function callsStraightTo({ ground }: RollingStage, replica: LocalReplica, listenMs: number) {
  const kube = new Kube(ground.accessOf(replica))
  const failures: string[] = []
  let count = 0
  const end = performance.now() + listenMs - 2 * askEveryMs
  while (performance.now() < end) {
    count++
    try {
      const { status, body } = await kube.ask('/version')
      if (status !== 200) failures.push(`a call to ${replica.name}, which leaves: ${status} ${body}`)
    } catch (error) {
      failures.push(`a call to ${replica.name}, which leaves: ${(error as Error).message}`)
    }
    await delay(askEveryMs)
  }
  kube.close()
  return { count, failures }
}

export function seconds(from: number, to: number): string {
  return `${((to - from) / 1000).toFixed(1)} s`
}
