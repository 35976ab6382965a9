import type { Call } from '../../../../call/call.ts'
import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { logPriorityRefused } from '../../../../lib/low-priority.ts'
import { programBeside, type WorkerEvents, WorkerHost } from '../../../../lib/worker-host.ts'
import type { CustomRuleSource } from '../../../health/custom/custom-rule-schema.ts'
import { JudgedNow, type JudgedRule } from '../../../health/custom/judged-now.ts'
import type { ServeReply } from '../../../tunnels/serve.ts'
import { FollowReply } from './follow-reply.ts'
import { placeOf, putAside } from './put-aside.ts'
import type { ThreadAnswer, ThreadRequest, ThreadSettings, ViewsFacts } from './thread-messages.ts'

export interface ViewsThreadComponents {
  readonly onFacts: (facts: ViewsFacts) => void
  /** called with users' rules that can be used */
  readonly onRules: (good: readonly CustomRuleSource[]) => void
  /** called when the thread has ended by itself: it was out of memory, or silent */
  readonly onEnded: () => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

export interface ViewsThreadOptions {
  /** module of the thread: .ts in the tree, .js where it is installed */
  readonly program?: URL
  readonly times?: Partial<typeof defaultTimes>
}

/** Milliseconds. */
const defaultTimes = {
  /** interval of pings */
  pingMs: 1000,
  /**
   * the thread ends after pings for so long without an answer. Pings count, not time: a frozen process reads no answers
   */
  unansweredMs: 5000,
}

interface Ended {
  readonly error: Error
  /** user's rule that the thread evaluated while it was silent */
  readonly culprit?: JudgedRule | undefined
}

/** Size of the young generation: garbage of a list of one page goes with its next collection. */
const youngGenerationMb = 16
/** Pauses before a thread that has ended is started again. ms */
const backoffOptions = { firstMs: 1000, maxMs: 60_000, factor: 2, jitter: 0.2, resetMs: 300_000 }
/** Bound of streams (`view_streams`), each of one kas; a stream without views takes little memory. */
const maxStreams = 100

/**
 * Runs the thread in which views are kept, so that they delay no call. The thread has its own connections to the API
 * server. When it is out of memory or silent, it alone ends, and starts again.
 */
export class ViewsThread {
  readonly #components: ViewsThreadComponents
  readonly #options: ViewsThreadOptions
  readonly #times: typeof defaultTimes
  readonly #streams = new Map<number, FollowReply>()
  #worker: WorkerHost<ThreadRequest, ThreadAnswer> | undefined
  #lastStream = 0
  /** reason why the current views.yaml cannot be used; empty: it can */
  #unusable = ''

  constructor(components: ViewsThreadComponents, options: ViewsThreadOptions = {}) {
    this.#components = components
    this.#options = options
    this.#times = { ...defaultTimes, ...options.times }
  }

  /** Runs with these settings until the signal aborts. Never rejects. */
  async run(settings: ThreadSettings, signal: AbortSignal): Promise<void> {
    const { log, onEnded } = this.#components
    const backoff = new Backoff(this.#components, backoffOptions)
    let current = settings
    while (!signal.aborted) {
      const judged = new JudgedNow()
      const ended = await this.#runOnce({ ...current, judged: judged.memory }, judged, signal)
      if (!ended) break
      onEnded()
      const { error, culprit } = ended
      log.error({ error }, 'The thread of views has ended, and starts again')
      if (culprit) {
        const { kind, object } = culprit
        log.error(
          { file: 'views.yaml', rule: placeOf(current.rules, culprit), kind, object },
          'A rule of health in views.yaml is put aside until that changes: it took too long',
        )
        const rules = putAside(current.rules, culprit, this.#times.unansweredMs / 1000)
        current = { ...current, rules }
      }
      await backoff.wait(signal)
    }
  }

  /**
   * Serves `Views/Follow`.
   *
   * @throws KasError UNREACHABLE: the thread does not run; TOO_MANY_STREAMS
   */
  follow({ messages, signal }: Pick<Call, 'messages' | 'signal'>): ServeReply {
    signal.throwIfAborted()
    if (!this.#worker) throw new KasError({ code: 'UNREACHABLE', detail: 'Views are about to start at this agent' })
    if (this.#streams.size >= maxStreams) {
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'view_streams',
        limit: maxStreams,
        what: 'streams of views',
      })
    }
    this.#lastStream += 1
    const stream = this.#lastStream
    const left = () => {
      signal.removeEventListener('abort', onAbort)
      if (this.#streams.delete(stream)) this.#post({ kind: 'left', stream })
    }
    const reply = new FollowReply({
      onSent: (bytes) => this.#post({ kind: 'sent', stream, bytes }),
      onLeft: left,
    })
    const onAbort = () => {
      left()
      reply.end(KasError.from(signal.reason))
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#streams.set(stream, reply)
    this.#post({ kind: 'opened', stream })
    void this.#pass(stream, messages).then(
      () => {
        left()
        reply.end()
      },
      (error: unknown) => {
        left()
        reply.end(KasError.from(error))
      },
    )
    return reply
  }

  /** Resolves at the caller's half-close. */
  async #pass(stream: number, messages: Call['messages']): Promise<void> {
    for await (const bytes of messages) {
      if (!this.#streams.has(stream)) return
      this.#post({ kind: 'request', stream, bytes })
    }
  }

  /** @param problem - reason why the current views.yaml cannot be used, which viewers see; empty: it can */
  unusable(problem: string): void {
    this.#unusable = problem
    this.#post({ kind: 'unusable', problem })
  }

  #post(request: ThreadRequest): void {
    this.#worker?.post(request)
  }

  /** @returns how the thread has ended; undefined: the signal has aborted */
  async #runOnce(settings: ThreadSettings, judged: JudgedNow, signal: AbortSignal): Promise<Ended | undefined> {
    const { promise, resolve } = Promise.withResolvers<Ended | undefined>()
    const onAbort = () => resolve(undefined)
    signal.addEventListener('abort', onAbort, { once: true })
    const onMessage = (answer: ThreadAnswer) => {
      silence.answered()
      this.#answered(answer)
    }
    const worker = this.#start(settings, { onMessage, onEnded: (error) => resolve({ error }) })
    const silence = this.#watch(worker, judged, (culprit) => {
      resolve({ error: new Error('it was silent for too long'), culprit })
    })
    this.#worker = worker
    if (this.#unusable) this.#post({ kind: 'unusable', problem: this.#unusable })
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
      silence.cancel()
      this.#worker = undefined
      this.#endStreams()
      await worker.end()
    }
  }

  #start(workerData: ThreadSettings, events: WorkerEvents<ThreadAnswer>): WorkerHost<ThreadRequest, ThreadAnswer> {
    const { program = programBeside(import.meta.url, 'views-worker') } = this.#options
    const memory = { memoryLimitMb: workerData.heapMb, youngGenerationMb }
    return new WorkerHost({ program, name: 'views', label: 'it', workerData, ...memory }, events)
  }

  /**
   * Pings the thread at intervals.
   *
   * @param onUnanswered - called with the rule that the thread has evaluated all the while
   */
  #watch(
    worker: WorkerHost<ThreadRequest, ThreadAnswer>,
    judged: JudgedNow,
    onUnanswered: (culprit: JudgedRule | undefined) => void,
  ): { answered: () => void; cancel: () => void } {
    const { clock } = this.#components
    const { pingMs, unansweredMs } = this.#times
    let unanswered = 0
    let first: JudgedRule | undefined
    let cancel = () => {}
    const check = () => {
      const now = judged.read()
      if (unanswered === 1) first = now
      if (unanswered * pingMs >= unansweredMs) return onUnanswered(now?.count === first?.count ? now : undefined)
      unanswered += 1
      worker.post({ kind: 'ping' })
      cancel = clock.after(pingMs, check)
    }
    cancel = clock.after(pingMs, check)
    const answered = () => {
      unanswered = 0
    }
    return { answered, cancel: () => cancel() }
  }

  #answered(answer: ThreadAnswer): void {
    if (answer.kind === 'facts') this.#components.onFacts(answer.facts)
    else if (answer.kind === 'priority') logPriorityRefused(this.#components.log, answer.refused)
    else if (answer.kind === 'rules') this.#components.onRules(answer.good)
    else if (answer.kind === 'response') this.#streams.get(answer.stream)?.push(answer.bytes)
    else if (answer.kind === 'failed') {
      this.#streams.get(answer.stream)?.end(new KasError(answer.error))
      this.#streams.delete(answer.stream)
    }
  }

  /** Ends all streams; kas opens them again. */
  #endStreams(): void {
    for (const reply of this.#streams.values()) {
      reply.end(new KasError({ code: 'UNREACHABLE', detail: 'Views start again at this agent' }))
    }
    this.#streams.clear()
  }
}
