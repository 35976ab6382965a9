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

/** What is made for each request. */
export interface RequestLifeParts {
  readonly exchange: Exchange
  readonly span: RequestSpan
  readonly record: CallRecord
}

export interface RequestLifeComponents {
  readonly metrics: Pick<KubernetesMetrics, 'ended'>
  readonly clock: Clock
}

/** A caller, or whoever has signed the request. */
export interface LetInEvent {
  readonly agentId: AgentId
  /** as in `Connection.letIn` */
  readonly callerKey: string
  readonly enterShare?: () => Share
  /** undefined: nobody knows who signed the request */
  readonly access: RecordedCaller | undefined
  /** as whom the caller acts in the cluster; undefined: as the agent itself */
  readonly as?: string | undefined
  /** a value of the header `Warning` of each answer from now on */
  readonly warning?: string | undefined
}

/** Of its caller. */
type AskedSession = Pick<NewSession, 'credentials' | 'letInAs' | 'since'>

/** What a connection has become: it ends by this, and not as a request does. */
export interface Conversation {
  withdraw(reason: KasError): void
  /** as in `SessionEnds` */
  readonly changed?: SessionEnds['changed']
}

/** For a stream that is ended to come to where its client can read the reason. ms */
const lastMessageMs = 1000

/**
 * The events of one request on 8154, in their order. Whatever handles the request reports each event here, and nowhere else.
 * Listeners are its progress, span, record, session and connection, and the metrics at its end.
 */
export class RequestLife {
  /** how far it has come: how it can be ended depends on that */
  readonly progress: Progress
  readonly #exchange: Exchange
  readonly #span: RequestSpan
  readonly #record: CallRecord
  readonly #components: RequestLifeComponents
  /** undefined: its caller is not let in yet, or it has none */
  #session: OpenSession | undefined
  /** undefined: nothing ends it a little later */
  #cancelEnd: (() => void) | undefined

  constructor({ exchange, span, record }: RequestLifeParts, components: RequestLifeComponents) {
    this.#exchange = exchange
    this.progress = new Progress(span.traceId)
    this.#span = span
    this.#record = record
    this.#components = components
  }

  /** the request itself, and its answer */
  get exchange(): Exchange {
    return this.#exchange
  }

  /** by which logs name it, those of the cluster too */
  get auditId(): string {
    return this.#record.auditId
  }

  /** undefined: it is not traced */
  get traceId(): string | undefined {
    return this.#span.traceId
  }

  /** of the call that is made for it */
  get metadata(): Metadata {
    return this.#span.metadata
  }

  /**
   * Its head is read.
   *
   * @param origin - of the page that calls, which may read the answer
   */
  read(head: RequestHead, origin: string | undefined): void {
    this.#record.asksAs(head.askedAs)
    this.progress.read(head, origin)
  }

  /** Its target is read, or all of its query. @returns `target` */
  asks(target: Target): Target {
    const { exchange } = this
    const method = exchange.request.method as string
    const isUpgrade = exchange.upgrade !== undefined
    exchange.asked = askedStream(method, target)
    this.progress.asks(target)
    this.#record.asks(method, target, { lasts: isUpgrade || exchange.asked !== undefined, isUpgrade })
    return target
  }

  /** Its credentials name this agent. Nothing is checked yet. */
  calls(agentId: AgentId): void {
    this.#span.calls(agentId)
    this.#record.calls(agentId)
  }

  /** The directory knows whose credentials they are, before it lets the caller in or refuses. */
  knows(who: RecordedCaller): void {
    this.#record.knows(who)
  }

  /** @throws KasError REPLICA_MEMORY_FULL */
  letIn({ agentId, callerKey, enterShare, access, as, warning }: LetInEvent): void {
    if (access) this.#record.letIn(access, as)
    this.progress.warns(warning)
    this.exchange.connection.letIn(agentId, callerKey, enterShare)
  }

  /**
   * Opens its session, by which it may be ended until `settle`.
   *
   * @throws KasError TOO_MANY_STREAMS
   */
  opens(sessions: Pick<Sessions, 'open'>, { credentials, letInAs, since }: AskedSession): void {
    const end = (reason: KasError) => this.endEarly(reason)
    this.exchange.endWithReason = end
    const session = { record: this.#record, credentials, letInAs, since, traceId: this.traceId }
    this.#session = sessions.open(session, { end })
  }

  /** It has become a WebSocket of kas' own. */
  becomes(conversation: Conversation): void {
    const { changed } = conversation
    const end = (reason: KasError) => {
      this.withdraw(reason)
      conversation.withdraw(reason)
    }
    this.#session?.endsBy({ end, ...(changed ? { changed } : {}) })
  }

  /** Of a WebSocket of kas' own it is known what it is for. */
  opened(): void {
    this.#record.answered(this.exchange.statusCode)
  }

  /** @param text - what it shows, beside its path */
  shows(text: string): void {
    this.#record.shows(text)
  }

  /** A tunnel to the agent is sought. */
  forwarding(): void {
    this.progress.forwarding()
  }

  /** A tunnel of this replica takes it, or one of the peer of this name. */
  takenBy(peer: string | undefined): void {
    this.#record.takenBy(peer)
  }

  /** A tunnel has the call. */
  delivered(): void {
    this.progress.delivered()
  }

  /**
   * The head of the cluster's answer is passed on.
   *
   * @param lastMessage - undefined: it has no place for any
   */
  answers(status: number | undefined, lastMessage: LastMessage | undefined): void {
    this.progress.answerBegan(lastMessage)
    this.#record.answered(status)
  }

  /** Its session ends: the caller may no longer, or others need the room. */
  end(reason: KasError): void {
    if (this.#session) this.#session.end(reason)
    else this.endEarly(reason)
  }

  /** Ends it as soon as its client can read the reason, or a little later without. */
  endEarly(reason: KasError): void {
    const { exchange, progress } = this
    if (progress.withdrawal) return // it ends by itself
    if (progress.failure) {
      if (exchange.statusCode === 101) exchange.cut() // its client may have paused
      return
    }
    this.withdraw(reason)
    const leave = () => exchange.leave(reason)
    if (progress.mayEnd && !(progress.lastMessage && exchange.isHalfWritten)) leave()
    else this.#cancelEnd = this.#components.clock.after(lastMessageMs, leave)
  }

  /** The caller may no longer: this, not what breaks by it, is what the request fails with. */
  withdraw(reason: KasError): void {
    this.progress.withdraw(reason)
  }

  /** It has been served, or has failed: its session is over. */
  settle(): void {
    this.#session?.close()
    this.#cancelEnd?.()
  }

  /** What it fails with is known. */
  fail(error: KasError): void {
    this.progress.fail(error)
  }

  /** It has been handled, and nothing follows. */
  ended(outcome: RequestOutcome): void {
    const { exchange, progress } = this
    exchange.finish()
    this.#components.metrics.ended(outcome)
    this.#span.end(exchange, outcome, progress.failure)
    this.#record.ended(endOf(exchange, outcome, progress))
  }
}

/** What the access log says of how a request ended. */
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
