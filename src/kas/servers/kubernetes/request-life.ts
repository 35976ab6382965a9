import type { AgentId, Metadata } from '../../../call/call.ts'
import { askedStream } from '../../../kubernetes/request/asked-stream.ts'
import type { Target } from '../../../kubernetes/request/target.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { KasError } from '../../../lib/errors.ts'
import type { Share } from '../../../lib/shared-total.ts'
import type { CallEnd, CallRecord, RecordedCaller } from '../../access-log/call-record.ts'
import type { NewSession, OpenSession, SessionEnds, Sessions } from './authorization/sessions.ts'
import type { Exchange } from './http/exchange.ts'
import type { KubernetesMetrics, RequestOutcome } from './http/metrics.ts'
import type { RequestSpan } from './http/request-span.ts'
import type { LastMessage } from './last-message.ts'
import { Progress } from './progress.ts'
import type { RequestHead } from './request/request-head.ts'
import { deliveryOf } from './response/error-answer.ts'

/** Objects that are created for each request. */
export interface RequestLifeParts {
  readonly exchange: Exchange
  readonly span: RequestSpan
  readonly record: CallRecord
}

export interface RequestLifeComponents {
  readonly metrics: Pick<KubernetesMetrics, 'ended'>
  readonly clock: Clock
}

/** A caller, or the sender of a signed request, was let in. */
export interface LetInEvent {
  readonly agentId: AgentId
  /** as in `Connection.letIn` */
  readonly callerKey: string
  readonly enterShare?: () => Share
  /** undefined: the sender of a signed request is unknown */
  readonly access: RecordedCaller | undefined
  /** identity of the caller in the cluster; undefined: the agent itself */
  readonly as?: string | undefined
  /** value of the header `Warning` of each answer from now on */
  readonly warning?: string | undefined
}

/** The caller's part of a new session. */
type AskedSession = Pick<NewSession, 'credentials' | 'letInAs' | 'since'>

/** A WebSocket that a request has become, which ends in its own way. */
export interface Conversation {
  withdraw(reason: KasError): void
  /** as in `SessionEnds` */
  readonly changed?: SessionEnds['changed']
}

/** Time for an ending stream to reach a place for its reason. ms */
const lastMessageMs = 1000

/**
 * Receives the events of one request on 8154, in their order. Code that handles the request reports each event only
 * here. Listeners are its progress, span, record, session and connection, and the metrics at its end.
 */
export class RequestLife {
  /** progress of the request, which determines how it can end */
  readonly progress: Progress
  readonly #exchange: Exchange
  readonly #span: RequestSpan
  readonly #record: CallRecord
  readonly #components: RequestLifeComponents
  /** undefined: the caller is not let in yet, or there is none */
  #session: OpenSession | undefined
  /** cancels a delayed end; undefined: none is scheduled */
  #cancelEnd: (() => void) | undefined

  constructor({ exchange, span, record }: RequestLifeParts, components: RequestLifeComponents) {
    this.#exchange = exchange
    this.progress = new Progress(span.traceId)
    this.#span = span
    this.#record = record
    this.#components = components
  }

  /** the request and its answer */
  get exchange(): Exchange {
    return this.#exchange
  }

  /** id of the request in logs, including the cluster's */
  get auditId(): string {
    return this.#record.auditId
  }

  /** undefined: the request is not traced */
  get traceId(): string | undefined {
    return this.#span.traceId
  }

  /** metadata for the call that is made for the request */
  get metadata(): Metadata {
    return this.#span.metadata
  }

  /**
   * Notes that the head was read.
   *
   * @param origin - origin of the calling page, which may read the answer; undefined: no page calls
   */
  read(head: RequestHead, origin: string | undefined): void {
    this.#record.asksAs(head.askedAs)
    this.progress.read(head, origin)
  }

  /** Notes that the target was read, or its complete query. @returns `target` */
  asks(target: Target): Target {
    const { exchange } = this
    const method = exchange.request.method as string
    const isUpgrade = exchange.upgrade !== undefined
    exchange.asked = askedStream(method, target)
    this.progress.asks(target)
    this.#record.asks(method, target, { lasts: isUpgrade || exchange.asked !== undefined, isUpgrade })
    return target
  }

  /** Notes the agent that the unchecked credentials name. */
  calls(agentId: AgentId): void {
    this.#span.calls(agentId)
    this.#record.calls(agentId)
  }

  /** Notes the user of the credentials, before the caller is let in or refused. */
  knows(who: RecordedCaller): void {
    this.#record.knows(who)
  }

  /** Notes that the caller was let in. @throws KasError REPLICA_MEMORY_FULL */
  letIn({ agentId, callerKey, enterShare, access, as, warning }: LetInEvent): void {
    if (access) this.#record.letIn(access, as)
    this.progress.warns(warning)
    this.exchange.connection.letIn(agentId, callerKey, enterShare)
  }

  /**
   * Opens the request's session, which may end the request until `settle`.
   *
   * @throws KasError TOO_MANY_STREAMS
   */
  opens(sessions: Pick<Sessions, 'open'>, { credentials, letInAs, since }: AskedSession): void {
    const end = (reason: KasError) => this.endEarly(reason)
    this.exchange.endWithReason = end
    const session = { record: this.#record, credentials, letInAs, since, traceId: this.traceId }
    this.#session = sessions.open(session, { end })
  }

  /** Notes that the request has become a WebSocket of kas itself. */
  becomes(conversation: Conversation): void {
    const { changed } = conversation
    const end = (reason: KasError) => {
      this.withdraw(reason)
      conversation.withdraw(reason)
    }
    this.#session?.endsBy({ end, ...(changed ? { changed } : {}) })
  }

  /** Notes that a WebSocket of kas itself is open, and what it shows is known. */
  opened(): void {
    this.#record.answered(this.exchange.statusCode)
  }

  /** @param text - text for the log about what is shown, beside the path */
  shows(text: string): void {
    this.#record.shows(text)
  }

  /** Notes that a search for a tunnel begins. */
  forwarding(): void {
    this.progress.forwarding()
  }

  /** Notes whose tunnel takes the call: this replica's, or that of the named peer. */
  takenBy(peer: string | undefined): void {
    this.#record.takenBy(peer)
  }

  /** Notes that a tunnel has the call. */
  delivered(): void {
    this.progress.delivered()
  }

  /**
   * Notes that the head of the cluster's answer was passed on.
   *
   * @param lastMessage - undefined: the answer has no place for one
   */
  answers(status: number | undefined, lastMessage: LastMessage | undefined): void {
    this.progress.answerBegan(lastMessage)
    this.#record.answered(status)
  }

  /** Ends the session: the caller lost access, or others need the room. */
  end(reason: KasError): void {
    if (this.#session) this.#session.end(reason)
    else this.endEarly(reason)
  }

  /** Ends the request as soon as its client can read the reason, or after `lastMessageMs` without it. */
  endEarly(reason: KasError): void {
    const { exchange, progress } = this
    if (progress.withdrawal) return // it is ending already
    if (progress.failure) {
      if (exchange.statusCode === 101) exchange.cut() // its client may have paused
      return
    }
    this.withdraw(reason)
    const leave = () => exchange.leave(reason)
    if (progress.mayEnd && !(progress.lastMessage && exchange.isHalfWritten)) leave()
    else this.#cancelEnd = this.#components.clock.after(lastMessageMs, leave)
  }

  /** Notes that the caller lost access: the request fails with this reason, not with a later error. */
  withdraw(reason: KasError): void {
    this.progress.withdraw(reason)
  }

  /** Closes the session: the request was served, or has failed. */
  settle(): void {
    this.#session?.close()
    this.#cancelEnd?.()
  }

  /** Notes the error with which the request fails. */
  fail(error: KasError): void {
    this.progress.fail(error)
  }

  /** Notes the end of the handling; no event follows. */
  ended(outcome: RequestOutcome): void {
    const { exchange, progress } = this
    exchange.finish()
    this.#components.metrics.ended(outcome)
    this.#span.end(exchange, outcome, progress.failure)
    this.#record.ended(endOf(exchange, outcome, progress))
  }
}

/** Returns the end of a request, as the access log records it. */
function endOf(exchange: Exchange, outcome: RequestOutcome, progress: Progress): CallEnd {
  const { failure = progress.withdrawal, delivery } = progress
  const { statusCode: status, bytes } = exchange
  const end = { status, outcome, ...bytes }
  if (!failure && outcome !== 'left') return end
  return {
    ...end,
    reason: failure?.code,
    delivery: failure ? deliveryOf(failure, delivery) : delivery,
  }
}
