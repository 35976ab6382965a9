import type { ByteBudget } from '../../../../lib/byte-budget.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { closeCodes } from '../../../../lib/close-codes.ts'
import { KasError } from '../../../../lib/errors.ts'
import { isOneObject } from '../../../../lib/json-scanner.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { OpenedSocket, OwnConversation } from '../../../own-endpoint.ts'
import { queryText } from '../api/query-text.ts'
import type { Feeds } from '../feed/feeds.ts'
import type { OpenView } from '../feed/view.ts'
import { ClientGraph } from './client-graph.ts'
import { graphErrorMessage, readGraphUpdate } from './graph-message.ts'

export interface GraphConversationComponents {
  readonly feeds: Pick<Feeds, 'open'>
  /** bytes that are kept of its graph */
  readonly budget: ByteBudget
  readonly clock: Clock
  /** called once the WebSocket is closed and nothing is kept */
  readonly onClosed: () => void
}

/** Codes of failures that end without a change by anybody. */
const passing: ReadonlySet<string> = new Set([
  'AGENT_NOT_CONNECTED',
  'VIEWS_NOT_LED',
  'SHUTTING_DOWN',
  'TOO_MANY_STREAMS',
  'REPLICA_MEMORY_FULL',
  'MESSAGE_TOO_LARGE',
])
/** Codes of failures of an agent, or of kas itself. */
const internal: ReadonlySet<string> = new Set(['INTERNAL', 'INVALID_MESSAGE', 'VIEWS_NOT_SERVED'])

/**
 * One graph of one agent over one WebSocket, as GitLab's clients request it: one request, then answers (doc/reference/graph.md).
 */
export class GraphConversation implements OwnConversation {
  readonly #components: GraphConversationComponents
  readonly #opened: OpenedSocket
  readonly #graph: ClientGraph
  readonly #cancelWait: () => void
  #as: Impersonation | undefined
  /** a request has come */
  #isAsked = false
  #view: OpenView | undefined
  #hasEnded = false

  constructor(
    components: GraphConversationComponents,
    opened: OpenedSocket,
    options: {
      /** time for its request to come, in ms */
      readonly requestMs: number
    },
  ) {
    this.#components = components
    this.#opened = opened
    this.#as = opened.impersonation
    this.#graph = new ClientGraph(components.budget)
    this.#cancelWait = components.clock.after(options.requestMs, () => this.#fail(bad('no request has come')))
  }

  closed(): void {
    this.#end()
    this.#components.onClosed()
  }

  /** Reopens the view for the caller's new identity in the cluster. */
  changed(as: Impersonation | undefined): void {
    this.#as = as
    this.#view?.reopen(as)
  }

  /** Ends the conversation: the caller has lost access. */
  withdraw(reason: KasError): void {
    this.#fail(reason)
  }

  message(data: Buffer, isBinary: boolean): void {
    if (isBinary) this.#fail(bad('messages are JSON in text frames'), closeCodes.unsupportedData)
    else if (this.#isAsked) this.#fail(bad('one request is answered, and no more'))
    else {
      this.#isAsked = true
      this.#cancelWait()
      void this.#ask(data)
    }
  }

  /** Never rejects. */
  async #ask(request: Buffer): Promise<void> {
    try {
      if (!(await isOneObject(request))) throw bad('the request is not one JSON object')
      if (this.#hasEnded) return
      const query = Buffer.from(`{"view":"graph","graph":${request.toString('utf8')}}`)
      const { agentId, caller, shows, socket } = this.#opened
      const viewer = {
        memory: socket.memory,
        update: (json: Uint8Array) => this.#update(json),
        ended: (error: KasError) => this.#fail(error),
      }
      shows?.(queryText(query))
      this.#view = this.#components.feeds.open(agentId, { caller, as: this.#as, query }, viewer)
    } catch (error) {
      this.#fail(KasError.from(error))
    }
  }

  /** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE */
  async #update(json: Uint8Array): Promise<void> {
    if (!(await isOneObject(json))) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: 'an update of a graph is not one JSON object' })
    }
    if (this.#hasEnded) return
    for (const message of this.#graph.apply(readGraphUpdate(json))) {
      await this.#opened.socket.sent(message)
      if (this.#hasEnded) return // nothing more is kept that `end` has not freed
    }
  }

  /** Reports the error to the client and closes the WebSocket. */
  #fail(error: KasError, code = codeOf(error)): void {
    if (this.#hasEnded) return
    const { socket, failed } = this.#opened
    this.#end()
    failed(error, 'A graph failed')
    const reason = reasonOf(error)
    void socket.send(graphErrorMessage(code, reason)) // closing follows, and has its deadline
    socket.close(code, reason)
  }

  #end(): void {
    this.#hasEnded = true
    this.#cancelWait()
    this.#view?.close()
    this.#graph.end()
  }
}

function codeOf({ spec }: KasError): number {
  const code = spec.code === 'VIEW_ENDED' ? spec.agentCode : spec.code
  if (passing.has(code)) return closeCodes.tryAgainLater
  return internal.has(code) ? closeCodes.internalError : closeCodes.policyViolation
}

function reasonOf({ spec, message }: KasError): string {
  return spec.code === 'BAD_REQUEST' ? spec.detail : message
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
