import { pause } from '../../../../lib/pause.ts'
import { usualTimeoutMs } from '../../../command/ask-kas.ts'
import { BadAnswer } from '../../../command/bad-answer.ts'
import type { Endpoint } from '../../../command/endpoint.ts'
import { lastingReason, noticeMs, Unreached } from '../../../command/reach/unreached.ts'
import { Gate, type GateQuestion, type GateVerdict, gateCodes } from './gate.ts'
import { askState, type FreshQuestion, type ShownState } from './state.ts'

/** From one question to the next, in ms. kas polls for callers once in 5 s. */
const againMs = 1000
/** Time to wait for a poll that begins after the question, if no time was given, in ms. */
const pollWaitMs = 20_000
/** Time by which the given wait may be exceeded, so that the last question gets its answer, in ms. */
const reserveMs = 2000
/** Time after which a failing source ends the wait, as in `kas health`, in ms. */
const failingMs = 5000

export interface GateRun {
  readonly verdict: GateVerdict
  /** the last answer; undefined: kas was not reached */
  readonly state: ShownState | undefined
  /** the verdict is unknown, and its reason was printed during the wait */
  readonly isReported: boolean
  /** duration of the run */
  readonly ms: number
}

/**
 * Asks until the verdict is final or the time is over, and at most 2 s longer.
 *
 * @param waitMs - undefined: until the repositories were polled
 * @throws Unreached: kas rejects the caller; KasRefused
 */
export async function runGate(
  endpoint: Endpoint,
  question: GateQuestion,
  { waitMs, signal }: { readonly waitMs: number | undefined; readonly signal: AbortSignal },
): Promise<GateRun> {
  const { clock, warn } = endpoint
  const gate = new Gate(question)
  const beganAt = clock.now()
  const maxMs = waitMs ?? pollWaitMs
  const said = new Set<string>()
  let failingSince: number | undefined
  let state: ShownState | undefined
  for (;;) {
    const askedAt = clock.now()
    const timeoutMs = Math.min(usualTimeoutMs, Math.max(reserveMs, beganAt + maxMs - askedAt))
    const found = await askOnce(endpoint, { wasReached: state !== undefined, commit: gate.searched, timeoutMs })
    if ('state' in found) {
      state = found.state
      for (const text of gate.pauseTexts(state)) warn(text) // once each; the wait goes on, since somebody may end that
    }
    const verdict = 'state' in found ? gate.judge(found.state, askedAt - beganAt) : found.verdict
    const isReported =
      'state' in found ? found.state.agent === 'absent' && said.has(lastingReason(verdict.reason)) : found.isReported
    failingSince = verdict.code === gateCodes.failing ? (failingSince ?? askedAt) : undefined
    const isFailing = failingSince !== undefined && clock.now() - failingSince >= failingMs
    const isEnough = verdict.isFinal || isFailing || (waitMs === undefined && verdict.isPolled)
    const ms = clock.now() - beganAt
    if (isEnough || ms >= maxMs || signal.aborted) return { verdict, state, isReported, ms }
    if (!isReported && (verdict.isPolled || ms >= noticeMs)) {
      said.add(lastingReason(verdict.reason))
      warn(verdict.reason)
    }
    await pause(Math.min(againMs, Math.max(0, beganAt + maxMs - clock.now())), clock, signal)
  }
}

type Found = { readonly state: ShownState } | { readonly verdict: GateVerdict; readonly isReported: boolean }

interface Asked extends FreshQuestion {
  /** kas has answered before: it may be restarting */
  readonly wasReached: boolean
}

/** @throws Unreached, KasRefused */
async function askOnce(endpoint: Endpoint, { wasReached, ...fresh }: Asked): Promise<Found> {
  const unknown = (reason: string, isFinal: boolean, isReported = false): Found => ({
    verdict: { code: gateCodes.unknown, reason, isFinal, isPolled: false },
    isReported,
  })
  try {
    return { state: await askState(endpoint, fresh) }
  } catch (error) {
    if (error instanceof BadAnswer) return unknown(error.message, true)
    if (!(error instanceof Unreached) || error.kind === 'caller') throw error
    return unknown(error.message, !error.isPassing && !wasReached, error.isReported)
  }
}
