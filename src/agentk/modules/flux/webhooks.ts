import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import { Turns } from '../../../lib/turns.ts'

/** Receiver to trigger for a project. */
export interface Target {
  /** key of the Receiver, or of the GitRepository that has none yet; waiting pushes of one key share a call */
  readonly key: string
  /** full path, for the log */
  readonly project: string
  /** The webhook's current path. '': no Receiver can be called yet; undefined: nothing is left to trigger */
  readonly path: () => string | undefined
}

export interface WebhooksComponents {
  /** rejects with the reason, without the path */
  readonly call: (webhookPath: string, signal: AbortSignal) => Promise<void>
  /** true if this pod may act, asked before each call; while false, pushes wait until `stop` */
  readonly holds: () => boolean
  /** called with pushes that were not handled */
  readonly onAbandoned: (ids: readonly bigint[]) => void
  /** called after a webhook was called or given up */
  readonly onOutcome: (outcome: 'called' | 'failed') => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface WebhooksOptions {
  /** limit of concurrent calls */
  readonly maxParallel: number
  /** attempts until a call is given up, with a warning */
  readonly maxAttempts: number
  /** pause after the first failure, doubled up to the last; a random part of it is added. ms */
  readonly retryMs: readonly [first: number, last: number]
}

/** All attempts take at least a minute and a half: Flux's controller restarts in less. */
const defaultWebhooks: WebhooksOptions = { maxParallel: 10, maxAttempts: 8, retryMs: [1000, 30_000] }

/** Limit of ids for one call; only abandoned pushes need theirs. */
const maxIds = 1000

/** Pushes to one target; `ids` belong to the current or next call. */
interface Line {
  target: Target
  ids: bigint[]
  attempts: number
  /** pushes that came during the call: they cause one more call */
  next: { target: Target; ids: bigint[] } | undefined
  isCalling: boolean
}

/** Calls webhooks. Waiting pushes to one webhook share a call, and a failed call is tried again. */
export class Webhooks {
  readonly #components: WebhooksComponents
  readonly #options: WebhooksOptions
  /** at most one for each Receiver and GitRepository */
  readonly #lines = new Map<string, Line>()
  readonly #stopping = new AbortController()
  readonly #turns: Turns<undefined>
  /** one for each line, and lines whose last call is being cancelled */
  readonly #runs = new Set<Promise<void>>()

  constructor(components: WebhooksComponents, options: Partial<WebhooksOptions> = {}) {
    this.#components = components
    this.#options = { ...defaultWebhooks, ...options }
    this.#turns = new Turns({ maxRunning: this.#options.maxParallel })
  }

  push(target: Target, id: bigint): void {
    const line = this.#lines.get(target.key)
    if (this.#stopping.signal.aborted) this.#components.onAbandoned([id])
    else if (!line) {
      const begun: Line = { target, ids: [id], attempts: 0, next: undefined, isCalling: false }
      this.#lines.set(target.key, begun)
      const run = this.#run(begun).finally(() => this.#runs.delete(run))
      this.#runs.add(run)
    } else if (line.isCalling) line.next = { target, ids: [...(line.next?.ids ?? []), id].slice(-maxIds) }
    else {
      line.target = target
      line.ids = [...line.ids, id].slice(-maxIds)
      line.attempts = 0
    }
  }

  /** Stops all calls at once; resolves when no call runs. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const line of this.#lines.values()) this.#abandon(line)
    this.#lines.clear()
    await Promise.all(this.#runs)
  }

  async #run(line: Line): Promise<void> {
    const { signal } = this.#stopping
    for (;;) {
      const endTurn = await this.#turns.take(undefined, signal).catch(() => undefined)
      if (!endTurn) return // stopping
      let hasEnded = true
      try {
        hasEnded = signal.aborted || (await this.#attempt(line))
      } finally {
        line.isCalling = false // no await until `#again`, so that no push comes in between
        endTurn()
      }
      if (signal.aborted) return
      if (hasEnded && !this.#again(line)) return
      if (!hasEnded) await pause(this.#pauseMs(line), this.#components.clock, signal)
    }
  }

  /** @returns true if the call has ended: it was made, given up, or has no target */
  async #attempt(line: Line): Promise<boolean> {
    const { call, holds, log } = this.#components
    if (!holds()) return false // not an attempt; asked again, since a pod that was frozen gets no notice
    line.isCalling = true
    const { project } = line.target
    const path = line.target.path()
    if (path === undefined) {
      log.debug({ project_id: project }, 'Nothing of Flux is left for a push')
      return true
    }
    line.attempts += 1
    try {
      if (path === '') throw new KasError({ code: 'UNREACHABLE', detail: 'no Receiver can be called yet' })
      await call(path, this.#stopping.signal)
      this.#components.onOutcome('called')
      log.debug({ project_id: project, receiver: line.target.key }, 'Flux was notified of a push')
      return true
    } catch (error) {
      return this.#failedOnce(line, error)
    }
  }

  /** @returns true if the call is given up */
  #failedOnce(line: Line, error: unknown): boolean {
    if (this.#stopping.signal.aborted) return true
    const { attempts } = line
    const isLast = attempts >= this.#options.maxAttempts && !line.next
    const fields = { error, project_id: line.target.project, receiver: line.target.key, count: attempts }
    if (isLast) {
      this.#components.onOutcome('failed')
      this.#components.log.warn(fields, 'Flux could not be notified of a push, it finds it by its own interval')
    } else this.#components.log.debug(fields, 'Flux could not be notified of a push, trying again')
    if (isLast || !line.next) return isLast
    // later pushes have to wait as long, and share the call with these
    line.target = line.next.target
    line.ids = [...line.ids, ...line.next.ids].slice(-maxIds)
    line.attempts = 0
    line.next = undefined
    return false
  }

  /** Continues with the pushes that came during the call. @returns false: there are none */
  #again(line: Line): boolean {
    const { next } = line
    if (!next) {
      if (this.#lines.get(line.target.key) === line) this.#lines.delete(line.target.key)
      return false
    }
    Object.assign(line, { target: next.target, ids: next.ids, attempts: 0, next: undefined })
    return true
  }

  #abandon(line: Line): void {
    const ids = [...line.ids, ...(line.next?.ids ?? [])]
    line.next = undefined
    this.#components.onAbandoned(ids)
    const fields = { project_id: line.target.project, count: ids.length }
    this.#components.log.warn(
      fields,
      'Flux is not notified of a push: this pod does not lead any more, or Flux is gone',
    )
  }

  #pauseMs({ attempts }: Line): number {
    const [first, last] = this.#options.retryMs
    return Math.min(first * 2 ** Math.max(0, attempts - 1), last) * (1 + this.#components.random())
  }
}
