import type { Dispatcher } from 'undici'
import type * as z from 'zod'
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { clockDelay } from '../../../lib/pause.ts'
import type { Service } from '../../../lib/service.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { readApiSecret } from '../../config/secret-file.ts'
import { exchange, type HttpAnswer, isClosedUnder } from './exchange.ts'
import { GitlabCallLimit, maxCalls, type Turn } from './gitlab-call-limit.ts'
import { createGitlabDispatcher, type GitlabTimeouts } from './gitlab-dispatcher.ts'
import type { GitlabMetrics } from './gitlab-metrics.ts'
import { GitlabReach } from './gitlab-reach.ts'
import { traceRequest } from './gitlab-span.ts'
import { openPassage, type PassedAnswer } from './passage.ts'
import { readAnswer, statusError } from './read-answer.ts'
import { RequestSigner } from './request-signer.ts'

/** A call of GitLab's REST API. */
export interface GitlabCall extends Turn {
  readonly method: 'GET' | 'POST'
  /** below `/api/v4` */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** sent as JSON */
  readonly body?: unknown
  /** false: sent without kas' JWT; a job's token is enough */
  readonly signed?: false
  /** repeated a few times when GitLab fails; only for calls that do no harm twice */
  readonly repeatable: boolean
}

/** A call whose body and answer are passed on as streams. */
export interface GitlabPassage extends Turn {
  readonly method: string
  /** below `/api/v4`, one of a few: for metrics and the log */
  readonly path: string
  /** below `path`, encoded, with its query */
  readonly target: string
  /** name, value, name, value; kas adds its own */
  readonly headers: readonly string[]
  readonly body?: AsyncIterable<Uint8Array> | undefined
}

export interface GitlabClientOptions {
  /** upstream's gitlab.address, with GitLab's relative root if it has one */
  readonly address: string
  readonly secretFile: string
  readonly caCertificateFile?: string | undefined
  readonly refillPerSecond: number
  readonly bucketSize: number
  /** `gitlab-kas/<version>/<commit>` */
  readonly userAgent: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly timeouts?: Partial<GitlabTimeouts>
  /** the longest that one exchange may take, in ms */
  readonly exchangeTimeoutMs?: number
  /** the longest pause of GitLab within a streamed answer, in ms */
  readonly passageSilenceMs?: number
  /** bytes of an answer that is read as a whole */
  readonly maxAnswerBytes?: number
  /** repeats of a call that failed for a reason that may pass */
  readonly maxRepeats?: number
  /** time after the call within which a repeat may begin, in ms: a caller waits for it */
  readonly repeatWithinMs?: number
  /** pauses before the first and before any repeat at most, in ms; doubled with each repeat */
  readonly repeatMs?: readonly [first: number, last: number]
}

const defaultTimeouts: GitlabTimeouts = { connectMs: 30_000, headMs: 20_000, bodySilenceMs: 10_000 }
const defaults = {
  exchangeTimeoutMs: 45_000,
  passageSilenceMs: 60_000,
  maxAnswerBytes: 4 << 20,
  maxRepeats: 4,
  repeatWithinMs: 20_000,
  repeatMs: [100, 30_000] as readonly [number, number],
}

/** Calls GitLab, within GitLab's limits and those of kas (doc/reference/tunnel-protocol.md 5.2). */
export class GitlabClient implements Service {
  readonly #options: GitlabClientOptions & typeof defaults
  readonly #clock: Clock
  readonly #random: () => number
  readonly #metrics: GitlabMetrics
  readonly #callLimit: GitlabCallLimit
  readonly #reach: GitlabReach
  readonly #base: string
  readonly #tracer: Tracer
  #ready: { readonly dispatcher: Dispatcher; readonly signer: RequestSigner } | undefined

  constructor(
    components: {
      readonly log: Logger
      readonly metrics: GitlabMetrics
      readonly clock?: Clock
      readonly random?: () => number
      readonly tracer: Tracer
    },
    options: GitlabClientOptions,
  ) {
    this.#options = { ...defaults, ...options }
    this.#clock = components.clock ?? systemClock
    this.#random = components.random ?? Math.random
    this.#metrics = components.metrics
    this.#tracer = components.tracer
    this.#reach = new GitlabReach({ log: components.log.child({ mod_name: 'gitlab' }) })
    this.#callLimit = new GitlabCallLimit({ clock: this.#clock, events: this.#metrics }, options)
    const { origin, pathname } = new URL(options.address)
    this.#base = origin + pathname.replace(/\/+$/, '')
  }

  /** @throws KasError SETTINGS_INVALID if the secret or the certificates cannot be used */
  async start(): Promise<void> {
    const { address, secretFile, caCertificateFile, env, timeouts } = this.#options
    const secret = await readApiSecret(secretFile, 'gitlab.authentication_secret_file')
    const dispatcher = await createGitlabDispatcher({
      address,
      caCertificateFile,
      env,
      timeouts: { ...defaultTimeouts, ...timeouts },
      maxConnections: maxCalls,
    })
    this.#ready = { dispatcher, signer: new RequestSigner({ clock: this.#clock }, { secret }) }
  }

  async stop(): Promise<void> {
    await this.#ready?.dispatcher.destroy()
  }

  /**
   * Returns the answer, which must be JSON that fits `schema`.
   *
   * @throws KasError GITLAB_STATUS, GITLAB_UNREACHABLE, GITLAB_ANSWER_INVALID, GITLAB_BUSY, CREDENTIAL_NOT_CHECKED, or
   * the signal's reason
   */
  async ask<S extends z.ZodType>(call: GitlabCall, schema: S, signal: AbortSignal): Promise<z.output<S>> {
    const answer = await this.#repeated(call, { Accept: 'application/json' }, signal)
    try {
      const value = readAnswer(schema, answer, this.#url(call).pathname)
      this.#reach.answered(call.path)
      return value
    } catch (error) {
      this.#reach.failed(call.path, KasError.from(error))
      throw error
    }
  }

  /** Resolves once GitLab has accepted the call with any 2xx. @throws as `ask` */
  async send(call: GitlabCall, signal: AbortSignal): Promise<void> {
    await this.#repeated(call, {}, signal)
    this.#reach.answered(call.path)
  }

  /**
   * Makes the call. Resolves after `take` has taken the answer, whatever its status.
   *
   * @throws KasError GITLAB_UNREACHABLE, GITLAB_BUSY, what `take` or the body threw, or the signal's reason
   */
  async pass(call: GitlabPassage, take: (answer: PassedAnswer) => Promise<void>, signal: AbortSignal): Promise<void> {
    const leave = await this.#callLimit.enter(call, signal)
    try {
      const answer = await this.#openPassage(call, signal)
      try {
        await take(answer)
      } finally {
        answer.discard()
      }
    } finally {
      leave()
    }
  }

  async #openPassage(call: GitlabPassage, signal: AbortSignal): Promise<PassedAnswer> {
    const begin = performance.now()
    const answered = (status: number) => this.#metrics.answered(call.path, status, (performance.now() - begin) / 1000)
    const isFree = call.body === undefined && (call.method === 'GET' || call.method === 'HEAD')
    for (let free = isFree ? 1 : 0; ; free -= 1) {
      try {
        const answer = await this.#openOnce(call, signal)
        answered(answer.statusCode)
        this.#reach.answered(call.path)
        return answer
      } catch (error) {
        const failure = KasError.from(error)
        if (signal.aborted || failure.code !== 'GITLAB_UNREACHABLE') throw error
        if (free > 0 && isClosedUnder(failure)) continue
        answered(0)
        this.#reach.failed(call.path, failure)
        throw error
      }
    }
  }

  async #openOnce({ method, path, target, headers, body }: GitlabPassage, signal: AbortSignal): Promise<PassedAnswer> {
    if (!this.#ready) throw new KasError({ code: 'SHUTTING_DOWN' })
    const { dispatcher, signer } = this.#ready
    const { origin, pathname } = new URL(this.#base)
    const own = ['User-Agent', this.#options.userAgent, 'Gitlab-Kas-Api-Request', await signer.sign()]
    const name = `/api/v4${path}`
    return await traceRequest(this.#tracer, { method, base: this.#base, path: name }, async (span) => {
      const request = {
        origin,
        path: `${pathname.replace(/\/$/, '')}${name}${target}`,
        method,
        headers: [...span.lines(headers), ...own],
        body,
      }
      const options = { name, maxSilenceMs: this.#options.passageSilenceMs }
      const answer = await openPassage(dispatcher, request, options, signal)
      span.answered(answer.statusCode)
      return answer
    })
  }

  async #repeated(call: GitlabCall, headers: Record<string, string>, signal: AbortSignal): Promise<HttpAnswer> {
    const giveUpAt = this.#clock.now() + this.#options.repeatWithinMs
    let free = call.method === 'GET' ? 1 : 0
    for (let repeats = 0; ; ) {
      try {
        return await this.#once(call, headers, signal)
      } catch (failure) {
        signal.throwIfAborted()
        const error = KasError.from(failure)
        if (free > 0 && isClosedUnder(error)) {
          free -= 1
          continue
        }
        const waitMs = this.#backoffMs(repeats, error)
        const isInTime = this.#clock.now() + waitMs <= giveUpAt && repeats < this.#options.maxRepeats
        if (!call.repeatable || !isPassing(error) || !isInTime || !this.#callLimit.isCalm) {
          this.#reach.failed(call.path, error)
          throw error
        }
        await clockDelay(this.#clock, waitMs, signal)
        repeats += 1
      }
    }
  }

  async #once(call: GitlabCall, headers: Record<string, string>, signal: AbortSignal): Promise<HttpAnswer> {
    const leave = await this.#callLimit.enter(call, signal)
    const begin = performance.now()
    let status = 0
    try {
      const answer = await this.#exchange(call, headers, signal)
      status = answer.status
      if (status < 200 || status > 299) throw statusError(answer, this.#url(call).pathname)
      return answer
    } finally {
      leave()
      if (!signal.aborted) this.#metrics.answered(call.path, status, (performance.now() - begin) / 1000)
    }
  }

  async #exchange(call: GitlabCall, more: Record<string, string>, signal: AbortSignal): Promise<HttpAnswer> {
    if (!this.#ready) throw new KasError({ code: 'SHUTTING_DOWN' })
    const { dispatcher, signer } = this.#ready
    const { maxAnswerBytes: maxBytes, exchangeTimeoutMs: timeoutMs, userAgent } = this.#options
    const headers: Record<string, string> = {
      'User-Agent': userAgent,
      'Accept-Encoding': 'gzip',
      ...more,
      ...(call.signed === false ? {} : { 'Gitlab-Kas-Api-Request': await signer.sign() }),
      ...(call.body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...call.headers,
    }
    const body = call.body === undefined ? undefined : JSON.stringify(call.body)
    const { method } = call
    return await traceRequest(this.#tracer, { method, base: this.#base, path: `/api/v4${call.path}` }, async (span) => {
      const request = { method, url: this.#url(call), headers: { ...headers, ...span.fields }, body }
      const answer = await exchange(dispatcher, request, { maxBytes, timeoutMs }, signal)
      span.answered(answer.status)
      return answer
    })
  }

  #url({ path, query }: GitlabCall): URL {
    const url = new URL(`${this.#base}/api/v4${path}`)
    for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value)
    return url
  }

  #backoffMs(repeats: number, { spec }: KasError): number {
    const [first, last] = this.#options.repeatMs
    const asked = spec.code === 'GITLAB_STATUS' ? (spec.retryAfterMs ?? 0) : 0
    const ms = Math.min(last, first * 2 ** repeats) * (0.8 + 0.4 * this.#random())
    return Math.min(last, Math.max(asked, ms))
  }
}

/** True if a repeat may help: after a lost connection, too many calls, or a fault of GitLab. */
function isPassing({ spec }: KasError): boolean {
  if (spec.code === 'GITLAB_UNREACHABLE') return !spec.headArrived
  if (spec.code !== 'GITLAB_STATUS') return false
  return spec.status === 429 || (spec.status >= 500 && spec.status !== 501)
}
