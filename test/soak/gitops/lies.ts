import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { readState, type ShownState } from '../../../src/kas/modules/gitops/cli/state.ts'
import { statusCode } from '../../../src/kas/modules/gitops/cli/status.ts'
import { delay } from '../../../src/lib/signals.ts'
import { Seeded } from '../../support/seeded.ts'
import { Kube } from '../kube.ts'
import type { Findings, Stage } from '../scene.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { faults } from './lie-faults.ts'
import { occasions } from './lie-occasions.ts'
import { WrittenMaps } from './written-maps.ts'

/** another process cannot be subscribed to. ms */
const askAgainMs = 500
/** how long a status may be green while it is not so. ms */
const maxLieMs = 15_000
/** an attempt is watched for so long after its fault. ms */
const watchedMs = 25_000
/** retries come after 5 minutes at the latest. ms */
const healedMs = 400_000
/** of a round: where an occasion comes */
const maxRequest = 12

/**
 * Each fault on each occasion: no replica's `kas gitops status` ends with 0 for more than 15 s while the cluster is not
 * what the last commit and the configuration say; and once all is mended, each does.
 */
export async function statusUnderFaults(
  ground: GitopsGround,
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { seed }: { seed: number },
): Promise<Findings> {
  const seeded = new Seeded(seed)
  const judge = new Judge(ground, signal)
  const failures: string[] = []
  let attempts = 0
  try {
    await judge.healed('at the beginning', failures)
    for (const fault of faults) {
      for (const occasion of occasions) {
        const name = `${fault.name}, ${occasion.name}`
        const at = 1 + seeded.int(maxRequest)
        judge.begin(fault.isTold === true)
        const mend = await fault.inject(ground)
        const undo = await occasion.happen(ground, at, signal)
        await delay(watchedMs, signal)
        const longest = judge.end()
        if (longest > maxLieMs) failures.push(`${name}, at request ${at}: green for ${longest} ms while it was not so`)
        await mend()
        await undo()
        await judge.healed(name, failures)
        attempts += 1
        say(`${attempts} of ${faults.length * occasions.length}: ${name}; green for ${longest} ms at the most`)
      }
    }
  } finally {
    judge.stop()
  }
  const figure = `lies: ${attempts} attempts; ${judge.questions} answers; green while it was not so for ${judge.longestMs} ms at the most`
  return { figures: [figure], failures, data: { lies: { attempts, longestMs: judge.longestMs } } }
}

/** Compares what each replica says with what is there, again and again. */
class Judge {
  questions = 0
  longestMs = 0
  readonly #ground: GitopsGround
  readonly #signal: AbortSignal
  readonly #maps: WrittenMaps
  readonly #clients: ReadonlyMap<LocalReplica, Kube>
  readonly #stopped = new AbortController()
  readonly #watching: Promise<unknown>
  /** what Git or the configuration has cannot be brought at all */
  #isTold = false
  #isWatched = false
  /** since when the cluster is not as it should be */
  #wrongSince: number | undefined
  #longest = 0

  constructor(ground: GitopsGround, signal: AbortSignal) {
    this.#ground = ground
    this.#signal = AbortSignal.any([signal, this.#stopped.signal])
    this.#maps = new WrittenMaps(ground.admin)
    this.#clients = new Map(ground.replicas.map((replica) => [replica, new Kube(ground.accessOf(replica))]))
    this.#watching = this.#watch().catch((error: unknown) => {
      if (!this.#signal.aborted) throw error
    })
  }

  /** @param isTold - it is wrong from now on, though what was pushed before is all there */
  begin(isTold: boolean): void {
    this.#isTold = isTold
    this.#isWatched = true
    this.#longest = 0
    this.#wrongSince = isTold ? Date.now() : undefined
  }

  /** @returns how long a status has been green while it was not so. ms */
  end(): number {
    this.#isWatched = false
    this.#isTold = false
    return this.#longest
  }

  /** Every replica says that all is there, and it is. */
  async healed(when: string, failures: string[]): Promise<void> {
    const late = AbortSignal.timeout(healedMs)
    for (;;) {
      const wrong = await this.#maps.differences(this.#ground.sources, 0, this.#signal)
      const states = await Promise.all(this.#ground.replicas.map((replica) => this.#ask(replica)))
      const isGreen = states.every((state) => state && statusCode(state) === 0)
      if (wrong.length === 0 && isGreen) return
      if (late.aborted) {
        const said = states.map((state) => state?.sources.map(({ source, phase, problem }) => [source, phase, problem]))
        failures.push(`${when}: not mended in ${healedMs} ms: ${JSON.stringify({ wrong, said })}`)
        return
      }
      await delay(askAgainMs, this.#signal)
    }
  }

  stop(): void {
    this.#stopped.abort()
    void this.#watching
  }

  async #watch(): Promise<void> {
    for (;;) {
      if (this.#isWatched) await this.#look()
      await delay(askAgainMs, this.#signal)
    }
  }

  async #look(): Promise<void> {
    const isWrong = this.#isTold || (await this.#maps.differences(this.#ground.sources, 0, this.#signal)).length > 0
    if (!isWrong) {
      this.#wrongSince = undefined
      return
    }
    this.#wrongSince ??= Date.now()
    const since = this.#wrongSince
    for (const replica of this.#ground.replicas) {
      const asked = Date.now()
      const state = await this.#ask(replica)
      if (!this.#isWatched || !state || statusCode(state) !== 0) continue
      this.#longest = Math.max(this.#longest, asked - since)
      this.longestMs = Math.max(this.longestMs, this.#longest)
    }
  }

  /** @returns undefined: it does not answer, as one that was killed */
  async #ask(replica: LocalReplica): Promise<ShownState | undefined> {
    const client = this.#clients.get(replica) as Kube
    const answer = await client
      .ask('/gitops/state', { signal: AbortSignal.any([this.#signal, AbortSignal.timeout(5000)]) })
      .catch(() => undefined)
    if (answer?.status !== 200) return undefined
    this.questions += 1
    return readState(answer.body)
  }
}
