import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { RateLimit } from '../../../../lib/rate-limit.ts'
import { detached } from '../../../../lib/tracing/tracer.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { Directory } from '../../../directory/directory.ts'
import type { LocalDirectory } from '../../../directory/local-directory.ts'
import { type Authorized, authorize } from './authorize.ts'
import type { Credentials } from './credentials.ts'

export interface AuthorizationRechecksComponents {
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  /** undefined: changes of grants are not reported */
  readonly localDirectory: Pick<LocalDirectory, 'onGrantsChange'> | undefined
  /** a monotonic clock: setting the time delays no check */
  readonly clock: Clock
  readonly log: Logger
}

export interface AuthorizationRechecksOptions {
  /** pause between two questions about one credential. ms */
  readonly periodMs?: number
  /** bound of questions to the directory per second; absent: unbounded. With more credentials the period grows */
  readonly perSecond?: number | undefined
}

/** A caller that was let in, while its request runs. */
export interface CheckedCaller {
  readonly credentials: Credentials
  readonly letInAs: Authorized
  /** Called when the caller would be refused now, or let in as somebody else. */
  withdraw(reason: KasError): void
  /** Called when the caller has another identity in the cluster now, and goes on with it; absent: it is withdrawn. */
  readonly changed?: ((now: Impersonation | undefined) => void) | undefined
}

/**
 * Period between checks. With `maxAgeMs`, the accepted age of cached answers, a refusal takes effect within 60 s,
 * however long the directory caches answers. ms
 */
const usualPeriodMs = 50_000
/** Age of a cached answer that a check accepts. ms */
const maxAgeMs = 5000
/** Delay of the first check: shorter requests need none, and a cached answer may have let the caller in. ms */
const firstMs = 4000
/** Questions at once, and in one turn of the event loop. */
const maxAsking = 32

const refusals: ReadonlySet<string> = new Set([
  'JOB_TOKEN_UNAUTHORIZED',
  'JOB_TOKEN_FORBIDDEN',
  'JOB_TOKEN_NOT_FOUND',
  'AGENT_NOT_ALLOWED',
  'USER_UNAUTHORIZED',
  'IMPERSONATION_UNKNOWN',
])

/** All requests that run with one credential at one agent: one question is enough for all. */
interface Group {
  readonly key: string
  readonly credentials: Credentials
  readonly callers: Map<CheckedCaller, Authorized>
  /** time by `clock`. ms */
  dueAt: number
  asking: AbortController | undefined
}

/**
 * Checks regularly that callers of running requests still have access, and at once when the directory reports a change.
 * A directory that is unavailable withdraws nothing.
 */
export class AuthorizationRechecks {
  readonly #components: AuthorizationRechecksComponents
  readonly #periodMs: number
  readonly #perSecond: number | undefined
  readonly #rateLimit: RateLimit | undefined
  readonly #groups = new Map<string, Group>()
  /** groups that were never checked, and groups that wait for the next check; each the earliest due first */
  readonly #fresh = new Set<Group>()
  readonly #waiting = new Set<Group>()
  /** groups that a change may concern */
  readonly #changed = new Set<Group>()
  #changes = 0
  #asking = 0
  #cancel: (() => void) | undefined
  #pumpsSoon = false
  #unsubscribe: (() => void) | undefined
  #stopped = false

  constructor(
    components: AuthorizationRechecksComponents,
    { periodMs = usualPeriodMs, perSecond }: AuthorizationRechecksOptions = {},
  ) {
    this.#components = components
    this.#periodMs = periodMs
    this.#perSecond = perSecond
    this.#rateLimit =
      perSecond === undefined
        ? undefined
        : new RateLimit(components.clock, { perSecond, burst: Math.max(1, perSecond) })
  }

  /** Period between checks of each group: longer than usual if there are too many groups. ms */
  get periodMs(): number {
    const { size } = this.#groups
    return this.#perSecond === undefined ? this.#periodMs : Math.max(this.#periodMs, (size * 1000) / this.#perSecond)
  }

  /** Changes of the directory so far: if one came while a caller was let in, the caller is checked at once. */
  get changes(): number {
    return this.#changes
  }

  start(): void {
    this.#unsubscribe = this.#components.localDirectory?.onGrantsChange((agentIds) => {
      this.#changes++
      for (const group of this.#groups.values()) {
        if (!agentIds || agentIds.has(group.credentials.agentId)) this.#changed.add(group)
      }
      this.#pumpSoon()
    })
  }

  stop(): void {
    this.#stopped = true
    this.#unsubscribe?.()
    this.#cancel?.()
    for (const { asking } of this.#groups.values()) asking?.abort(new KasError({ code: 'CANCELLED' }))
    this.#groups.clear()
    this.#fresh.clear()
    this.#waiting.clear()
    this.#changed.clear()
  }

  /**
   * Adds a caller to the checks.
   *
   * @param since - `changes` before the directory was asked about the caller
   * @returns ends the checks
   */
  add(caller: CheckedCaller, since: number): () => void {
    if (this.#stopped) return () => undefined
    const key = keyOf(caller.credentials)
    const group = this.#groups.get(key) ?? this.#begin(key, caller.credentials)
    group.callers.set(caller, caller.letInAs)
    if (since !== this.#changes) {
      this.#changed.add(group)
      this.#pumpSoon()
    }
    return () => {
      if (group.callers.delete(caller) && group.callers.size === 0) this.#end(group)
    }
  }

  #begin(key: string, credentials: Credentials): Group {
    const dueAt = this.#components.clock.now() + Math.min(firstMs, this.#periodMs)
    const group: Group = { key, credentials, callers: new Map(), dueAt, asking: undefined }
    this.#groups.set(key, group)
    this.#fresh.add(group)
    if (this.#fresh.size === 1) this.#pump()
    return group
  }

  #end(group: Group): void {
    group.asking?.abort(new KasError({ code: 'CANCELLED' }))
    this.#leaveQueues(group)
    if (this.#groups.get(group.key) === group) this.#groups.delete(group.key)
    if (this.#groups.size > 0) return
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** Starts checks in the next turn, so that other requests are served in between. */
  #pumpSoon(): void {
    if (this.#pumpsSoon) return
    this.#pumpsSoon = true
    setImmediate(() => {
      this.#pumpsSoon = false
      this.#pump()
    })
  }

  #pump(): void {
    this.#cancel?.()
    this.#cancel = undefined
    while (!this.#stopped && this.#asking < maxAsking) {
      const group = this.#next()
      if (!group) return
      const dueMs = this.#changed.has(group) ? 0 : group.dueAt - this.#components.clock.now()
      const waitMs = Math.max(dueMs, this.#rateLimit?.msUntil(1) ?? 0)
      if (waitMs > 0) {
        this.#cancel = this.#components.clock.after(Math.ceil(waitMs), () => this.#pump())
        return
      }
      this.#rateLimit?.take(1)
      this.#leaveQueues(group)
      void detached(() => this.#check(group))
    }
  }

  /** Returns the next group to check, among those without a running check. */
  #next(): Group | undefined {
    for (const group of this.#changed) if (!group.asking) return group
    const [fresh] = this.#fresh
    const [waiting] = this.#waiting
    return fresh && waiting && waiting.dueAt < fresh.dueAt ? waiting : (fresh ?? waiting)
  }

  #leaveQueues(group: Group): void {
    for (const queue of [this.#fresh, this.#waiting, this.#changed]) queue.delete(group)
  }

  /** Checks a group. Never rejects. */
  async #check(group: Group): Promise<void> {
    const asking = new AbortController()
    group.asking = asking
    this.#asking++
    const { directory, clock, log } = this.#components
    const answer = await authorize(directory, group.credentials, asking.signal, { maxAgeMs }).catch(KasError.from)
    this.#asking--
    group.asking = undefined
    if (answer instanceof KasError && answer.code === 'INTERNAL')
      log.error({ error: answer, agent_id: String(group.credentials.agentId) }, 'A caller could not be asked about')
    if (!asking.signal.aborted) {
      for (const [caller, before] of [...group.callers]) judge(caller, { before, answer, group })
      if (group.callers.size > 0) {
        group.dueAt = clock.now() + this.#periodMs
        this.#waiting.add(group)
      }
    }
    this.#pumpSoon()
  }
}

interface Judged {
  readonly before: Authorized
  readonly answer: Authorized | KasError
  readonly group: Group
}

function judge(caller: CheckedCaller, { before, answer, group }: Judged): void {
  const isRefusal = answer instanceof KasError
  const reason = isRefusal ? refusalOf(answer) : differenceOf(before, answer)
  if (!reason) return
  const goesOn = !isRefusal && caller.changed && isSameCaller(before, answer)
  if (!goesOn) {
    caller.withdraw(reason)
    return
  }
  group.callers.set(caller, answer)
  caller.changed?.(answer.impersonation)
}

/**
 * Asks once.
 *
 * @returns why the caller, who was let in as `before`, must end; undefined: it may go on
 */
export function accessLost(before: Authorized, ask: () => Promise<Authorized>): Promise<KasError | undefined> {
  return ask().then((now) => differenceOf(before, now), refusalOf)
}

function refusalOf(error: unknown): KasError | undefined {
  const failure = KasError.from(error)
  return refusals.has(failure.code) ? failure : undefined
}

/** Compares the two identities: running requests would go on with the one of before. */
function differenceOf(before: Authorized, now: Authorized): KasError | undefined {
  if (!isSameCaller(before, now))
    return new KasError({ code: 'FORBIDDEN', reason: 'the credential is now of another user' })
  if (JSON.stringify(before.impersonation) === JSON.stringify(now.impersonation)) return undefined
  return new KasError({ code: 'FORBIDDEN', reason: 'the roles of the caller have changed' })
}

/** Compares by number: a user who was deleted and created again has another one; a renamed user keeps it. */
function isSameCaller({ access: one }: Authorized, { access: other }: Authorized): boolean {
  return one.userId === other.userId && one.job?.id === other.job?.id
}

function keyOf(credentials: Credentials): string {
  const { kind, agentId } = credentials
  const secret = kind === 'job' ? credentials.token : JSON.stringify(credentials.candidates)
  return `${kind} ${agentId} ${secret}`
}
