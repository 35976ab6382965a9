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

/** interval of checks of another process. ms */
const askAgainMs = 500
/** longest time for which a status may wrongly be green. ms */
const maxLieMs = 15_000
/** duration of the observation after a fault. ms */
const watchedMs = 25_000
/** limit until all is repaired: retries come after 5 minutes at the latest. ms */
const healedMs = 400_000
/** limit of the request of a round at which an occasion comes */
const maxRequest = 12

/**
 * Plays each fault on each occasion. No replica's `kas gitops status` ends with 0 for more than 15 s while the cluster
 * differs from the last commit and the configuration. Once all is repaired, each ends with 0.
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

/** Compares the status of each replica with the cluster, again and again. */
class Judge {
  questions = 0
  longestMs = 0
  readonly #ground: GitopsGround
  readonly #signal: AbortSignal
  readonly #maps: WrittenMaps
  readonly #clients: ReadonlyMap<LocalReplica, Kube>
  readonly #stopped = new AbortController()
  readonly #watching: Promise<unknown>
  /** the content of Git or the configuration cannot be applied at all */
  #isTold = false
  #isWatched = false
  /** time since which the cluster is not as it should be. ms since 1970 */
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

  /** @param isTold - a green status is wrong from now on, although all earlier pushes are applied */
  begin(isTold: boolean): void {
    this.#isTold = isTold
    this.#isWatched = true
    this.#longest = 0
    this.#wrongSince = isTold ? Date.now() : undefined
  }

  /** @returns longest time for which a status was wrongly green. ms */
  end(): number {
    this.#isWatched = false
    this.#isTold = false
    return this.#longest
  }

  /** Waits until every replica reports that all is applied, and it is. */
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

  /** @returns undefined: it does not answer, since it was killed */
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
