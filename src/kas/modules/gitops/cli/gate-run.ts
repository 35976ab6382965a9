import { pause } from '../../../../lib/pause.ts'
import { BadAnswer } from '../../../command/bad-answer.ts'
import type { Endpoint } from '../../../command/endpoint.ts'
import { noticeMs, Unreached } from '../../../command/reach/unreached.ts'
import { Gate, type GateQuestion, type GateVerdict, gateCodes } from './gate.ts'
import { askState, type ShownState } from './state.ts'

/** From one question to the next. kas polls for callers once in 5 s. ms */
const againMs = 1000
/** Without a time to wait, a poll after the question is waited for so long. ms */
const pollWaitMs = 20_000
/** A source that fails for so long ends the wait, as it does for `kas health`. ms */
const failingMs = 5000

export interface GateRun {
  readonly verdict: GateVerdict
  /** the last one; undefined: kas was not reached */
  readonly state: ShownState | undefined
}

/**
 * Asks until the verdict is final, or the time is over.
 *
 * @param waitMs - undefined: until the repositories were polled
 * @throws Unreached: kas does not let the caller in; KasRefused
 */
export async function runGate(
  endpoint: Endpoint,
  question: GateQuestion,
  { waitMs, signal }: { readonly waitMs: number | undefined; readonly signal: AbortSignal },
): Promise<GateRun> {
  const { clock, warn } = endpoint
  const gate = new Gate(question)
  const beganAt = clock.now()
  let failingSince: number | undefined
  let state: ShownState | undefined
  for (;;) {
    const askedAt = clock.now()
    const found = await askOnce(endpoint, { wasReached: state !== undefined, commit: gate.searched })
    if ('state' in found) state = found.state
    const verdict = 'state' in found ? gate.judge(found.state, askedAt - beganAt) : found.verdict
    failingSince = verdict.code === gateCodes.failing ? (failingSince ?? askedAt) : undefined
    const isFailing = failingSince !== undefined && clock.now() - failingSince >= failingMs
    const isEnough = verdict.isFinal || isFailing || (waitMs === undefined && verdict.isPolled)
    if (isEnough || clock.now() - beganAt >= (waitMs ?? pollWaitMs) || signal.aborted) return { verdict, state }
    if (verdict.isPolled || clock.now() - beganAt >= noticeMs) warn(verdict.reason)
    await pause(againMs, clock, signal)
  }
}

type Found = { readonly state: ShownState } | { readonly verdict: GateVerdict }

interface Asked {
  /** kas has answered before: it may be restarting */
  readonly wasReached: boolean
  /** that heads may contain */
  readonly commit: string | undefined
}

/** @throws Unreached, KasRefused */
async function askOnce(endpoint: Endpoint, { wasReached, commit }: Asked): Promise<Found> {
  const unknown = (reason: string, isFinal: boolean): Found => ({
    verdict: { code: gateCodes.unknown, reason, isFinal, isPolled: false },
  })
  try {
    return { state: await askState(endpoint, { commit }) }
  } catch (error) {
    if (error instanceof BadAnswer) return unknown(error.message, true)
    if (!(error instanceof Unreached) || error.kind === 'caller') throw error
    return unknown(error.message, !error.isPassing && !wasReached)
  }
}
