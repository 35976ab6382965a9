import type { Caller } from '../caller.ts'
import { Load } from '../load.ts'
import type { Stage } from '../stage.ts'

export interface UnderLoad {
  /** a word that only this scene has */
  readonly scene: string
  readonly callers: readonly Caller[]
  /** The holder is lost: an unsafe call there may end with delivery `maybe`, and an answer that had begun is cut. */
  readonly mayLoseUnsafe?: boolean
}

/** Far longer than all intended times, on a busy machine too, and shorter than any freeze. ms */
const answerMs = 6000

/** calls at once of each caller */
const inFlight = { safe: 8, unsafe: 2 }
/** calls before the fault, so that connections are open, and after it */
const calmCalls = 50

/**
 * Plays `act` while calls run, and checks the result of each. No call that could be repeated has failed, and none is
 * lost, doubled or wrong.
 *
 * @param act - resolves with the time of the fault when all is calm again
 */
export async function underLoad(stage: Stage, options: UnderLoad, act: () => Promise<number>): Promise<void> {
  const load = new Load({ ...options, ...inFlight })
  load.start()
  let at: number
  try {
    await load.more(calmCalls, stage.signal)
    at = await act()
    await load.more(calmCalls, stage.signal)
  } finally {
    await load.stop()
  }
  const reports = { safe: load.report(at, 'safe'), unsafe: load.report(at, 'unsafe') }
  for (const [kind, { calls, firstMs, slowest, failures }] of Object.entries(reports)) {
    stage.say(`${calls} ${kind} calls: first success ${Math.round(firstMs)} ms after it; the slowest ${slowest}`)
    for (const line of failures) stage.say(`failed: ${line}`)
  }
  const { uncut } = reports.safe
  const failedSafe = options.mayLoseUnsafe ? uncut : reports.safe.failures.length
  stage.check(failedSafe === 0, 'no safe call fails or gets another answer than its own')
  const slowestMs = Math.max(reports.safe.slowestMs, reports.unsafe.slowestMs)
  stage.check(slowestMs < answerMs, 'no call that could go another way waits for the replica that is gone')
  const { failures, repeatable } = reports.unsafe
  if (options.mayLoseUnsafe) stage.check(repeatable === 0, 'no unsafe call fails that did not reach the cluster')
  else stage.check(failures.length === 0, 'no unsafe call fails')
  await stage.settle()
  for (const line of await load.audit(stage.balancer)) stage.check(false, line)
}
