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
  /** undefined: nobody says that grants may have changed */
  readonly localDirectory: Pick<LocalDirectory, 'onGrantsChange'> | undefined
  /** a monotonic one: a clock that is set delays no check */
  readonly clock: Clock
  readonly log: Logger
}

export interface AuthorizationRechecksOptions {
  /** from one question to the next about whoever has anything that runs. ms */
  readonly periodMs?: number
  /** questions that the directory may be asked; absent: as many as there are. With more to ask the period grows */
  readonly perSecond?: number | undefined
}

/** Somebody who was let in, as long as what he has asked for runs. */
export interface CheckedCaller {
  readonly credentials: Credentials
  readonly letInAs: Authorized
  /** He would be refused now, or let in as somebody else. */
  withdraw(reason: KasError): void
  /** He would be let in as somebody else in the cluster, and goes on as that; absent: he is withdrawn. */
  readonly changed?: ((now: Impersonation | undefined) => void) | undefined
}

/**
 * With `maxAgeMs`, for which what the directory has kept is good enough: a refusal takes effect within 60 s, however long it
 * keeps answers. ms
 */
const usualPeriodMs = 50_000
const maxAgeMs = 5000
/** Of who was let in by an answer that was kept: the first question, once it is seen that what he has opened lasts. ms */
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

/** All that runs with one credential at one agent: one question is about all of it. */
interface Group {
  readonly key: string
  readonly credentials: Credentials
  readonly callers: Map<CheckedCaller, Authorized>
  /** by the clock */
  dueAt: number
  asking: AbortController | undefined
}

/**
 * Asks again whether those who have something that runs still may, from time to time, and at once where the directory says that
 * it may have changed. A directory that is away withdraws nothing.
 */
export class AuthorizationRechecks {
  readonly #components: AuthorizationRechecksComponents
  readonly #periodMs: number
  readonly #perSecond: number | undefined
  readonly #rateLimit: RateLimit | undefined
  readonly #groups = new Map<string, Group>()
  /** those that are not being asked about, and have not been; and all others: the first that is due first */
  readonly #fresh = new Set<Group>()
  readonly #waiting = new Set<Group>()
  /** whom a change may concern */
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

  /** From one question to the next about each: longer than usual where there are too many to ask about. ms */
  get periodMs(): number {
    const { size } = this.#groups
    return this.#perSecond === undefined ? this.#periodMs : Math.max(this.#periodMs, (size * 1000) / this.#perSecond)
  }

  /** Of the directory, so far: who was let in while one came is asked about at once. */
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
   * @param since - `changes` before he was asked about
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

  /** Not in the same turn: what others send is served in between. */
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

  /** Of those that are not being asked about. */
  #next(): Group | undefined {
    for (const group of this.#changed) if (!group.asking) return group
    const [fresh] = this.#fresh
    const [waiting] = this.#waiting
    return fresh && waiting && waiting.dueAt < fresh.dueAt ? waiting : (fresh ?? waiting)
  }

  #leaveQueues(group: Group): void {
    for (const queue of [this.#fresh, this.#waiting, this.#changed]) queue.delete(group)
  }

  /** Never rejects. */
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
 * @returns why the caller, who was let in as `before`, may not go on
 */
export function accessLost(before: Authorized, ask: () => Promise<Authorized>): Promise<KasError | undefined> {
  return ask().then((now) => differenceOf(before, now), refusalOf)
}

function refusalOf(error: unknown): KasError | undefined {
  const failure = KasError.from(error)
  return refusals.has(failure.code) ? failure : undefined
}

/** What runs would go on as who he was. */
function differenceOf(before: Authorized, now: Authorized): KasError | undefined {
  if (!isSameCaller(before, now))
    return new KasError({ code: 'FORBIDDEN', reason: 'the credential is now of another user' })
  if (JSON.stringify(before.impersonation) === JSON.stringify(now.impersonation)) return undefined
  return new KasError({ code: 'FORBIDDEN', reason: 'the roles of the caller have changed' })
}

/** By number: one who was deleted and made again has another, though he may have the same name; one who was renamed keeps it. */
function isSameCaller({ access: one }: Authorized, { access: other }: Authorized): boolean {
  return one.userId === other.userId && one.job?.id === other.job?.id
}

function keyOf(credentials: Credentials): string {
  const { kind, agentId } = credentials
  const secret = kind === 'job' ? credentials.token : JSON.stringify(credentials.candidates)
  return `${kind} ${agentId} ${secret}`
}
