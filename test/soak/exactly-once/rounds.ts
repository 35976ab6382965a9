/** One round: a fault, its victim and its time. */
export interface Round {
  /** number from 1 */
  readonly number: number
  readonly fault: 'kill' | 'freeze'
  readonly victim: 'entry' | 'holder'
  /** calls enter at a replica that holds the agent itself */
  readonly entryHolds: boolean
  /**
   * - `inside`: once all requests are in the cluster, which keeps them
   * - `early`: once the calls have begun; the cluster keeps the requests that have arrived by then
   * - `late`: once the cluster acts and answers
   */
  readonly moment: 'inside' | 'early' | 'late'
  /** time from that moment to the fault. ms */
  readonly afterMs: number
  /** time from the fault until the cluster acts and answers, where it keeps requests. ms */
  readonly holdMs: number
  /** time from SIGSTOP to SIGCONT. ms */
  readonly frozenMs: number
}

const targets = [
  { fault: 'kill', victim: 'holder' },
  { fault: 'freeze', victim: 'holder' },
  { fault: 'kill', victim: 'entry' },
  { fault: 'freeze', victim: 'entry' },
] as const
const moments = ['inside', 'early', 'late'] as const
/** longest time from the moment to the fault: until kubectl has sent its request, or until answers have arrived. ms */
const maxAfterMs: Record<Round['moment'], number> = { early: 1000, inside: 50, late: 50 }
/** around the time in which other replicas notice a frozen one. ms */
const holdsMs = [0, 400, 1500]
const freezesMs = [700, 1500, 2500]
/** longer than agentk keeps a connection to a kas that does not answer. ms */
const longFreezeMs = 12_000
/** odd, so that entry and holder take turns */
const longFreezeEvery = 9
const entryHoldsEvery = 4

/** Plans each fault at each moment in turn; durations follow from `seed`. */
export function planRounds(times: number, seed: number): Round[] {
  const random = randomOf(seed)
  const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T
  let freezes = 0
  return Array.from({ length: times }, (_, i) => {
    const target = targets[i % targets.length] as (typeof targets)[number]
    const moment = moments[Math.floor(i / targets.length) % moments.length] as Round['moment']
    if (target.fault === 'freeze') freezes += 1
    const isLong = target.fault === 'freeze' && freezes % longFreezeEvery === 0
    return {
      number: i + 1,
      ...target,
      entryHolds: Math.floor(i / targets.length) % entryHoldsEvery === entryHoldsEvery - 1,
      moment,
      afterMs: Math.floor(random() * maxAfterMs[moment]),
      holdMs: moment === 'late' ? 0 : pick(holdsMs),
      frozenMs: isLong ? longFreezeMs : pick(freezesMs),
    }
  })
}

export function textOf(round: Round): string {
  const { number, fault, victim, entryHolds, moment, afterMs, holdMs, frozenMs } = round
  const lasting = fault === 'freeze' ? ` for ${frozenMs} ms` : ''
  const kept = moment === 'late' ? '' : `, requests kept ${holdMs} ms longer`
  const where = entryHolds ? ', entered where the agent is' : ''
  return `round ${number}: ${fault} of the ${victim}${lasting}, ${moment} + ${afterMs} ms${kept}${where}`
}

/** Equal seeds give equal numbers, from 0 up to 1 (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
