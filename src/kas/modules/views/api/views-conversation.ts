import { closeCodes } from '../../../../lib/close-codes.ts'
import { KasError } from '../../../../lib/errors.ts'
import { isOneObject } from '../../../../lib/json-scanner.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import type { OpenedSocket, OwnConversation } from '../../../own-endpoint.ts'
import type { Feeds } from '../feed/feeds.ts'
import type { OpenView, Viewer } from '../feed/view.ts'
import { queryText } from './query-text.ts'
import { errorMessage, type Refused, readViewsMessage, updateMessage, type ViewsMessage } from './views-message.ts'

/**
 * Messages that wait for a client before its own are no longer read: an update for each of its views, and as many more.
 */
const maxUnsent = 2 * viewsBounds.maxViewsPerSocket

/** Several views of one agent over one WebSocket, each under the id that the client chose (doc/guide/views.md). */
export class ViewsConversation implements OwnConversation {
  readonly #feeds: Pick<Feeds, 'open'>
  readonly #opened: OpenedSocket
  #as: Impersonation | undefined
  readonly #views = new Map<number, OpenView>()
  /** updates and errors that wait for the client, also of closed views */
  #unsent = 0
  /** resolves when the previous update is sent: views take turns, so that a slow client has time for each */
  #turn: Promise<void> | undefined

  constructor(feeds: Pick<Feeds, 'open'>, opened: OpenedSocket) {
    this.#feeds = feeds
    this.#opened = opened
    this.#as = opened.impersonation
  }

  /** Reopens the views for the caller's new identity in the cluster. */
  changed(as: Impersonation | undefined): void {
    this.#as = as
    for (const view of this.#views.values()) view.reopen(as)
  }

  /** Ends the views, each with the reason; the WebSocket is closed afterwards. */
  withdraw(reason: KasError): void {
    const ids = [...this.#views.keys()]
    this.#closeAll()
    for (const id of ids) this.#fail(id, reason)
  }

  closed(): void {
    this.#closeAll()
  }

  message(data: Buffer, isBinary: boolean): void {
    const { socket } = this.#opened
    if (isBinary) return void socket.close(closeCodes.unsupportedData, 'messages are JSON in text frames')
    let message: ViewsMessage | Refused
    try {
      message = readViewsMessage(String(data))
    } catch (error) {
      return void socket.close(closeCodes.policyViolation, KasError.from(error).message)
    }
    try {
      this.#take(message)
    } catch (error) {
      this.#close(message.id)
      this.#fail(message.id, KasError.from(error))
    }
  }

  /** @throws KasError with which the view fails */
  #take(message: ViewsMessage | Refused): void {
    if (message.type === 'refused') throw message.error
    if (message.type === 'page') this.#views.get(message.id)?.page(message.node, message.limit, message.offset)
    else this.#close(message.id)
    if (message.type === 'open') this.#open(message)
  }

  #open({ id, agent, query, fresh }: Extract<ViewsMessage, { type: 'open' }>): void {
    const { agentId, caller, shows } = this.#opened
    shows?.(queryText(query))
    if (agent !== String(agentId)) {
      throw new KasError({ code: 'BAD_REQUEST', detail: `agent: this WebSocket is for agent ${agentId}` })
    }
    const { maxViewsPerSocket: limit } = viewsBounds
    if (this.#views.size >= limit) {
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'views_of_socket',
        limit,
        what: 'views over this WebSocket',
      })
    }
    const isOpen = () => this.#views.get(id) === view
    const viewer: Viewer = {
      memory: this.#opened.socket.memory,
      update: (json) => this.#update(id, json, isOpen),
      ended: (error) => {
        if (!isOpen()) return
        this.#views.delete(id)
        this.#fail(id, error)
      },
    }
    const view = this.#feeds.open(agentId, { caller, as: this.#as, query, fresh }, viewer)
    this.#views.set(id, view)
  }

  /** @throws KasError INVALID_MESSAGE: the agent's text could pass for another view, or another agent */
  async #update(id: number, json: Uint8Array, isOpen: () => boolean): Promise<void> {
    const { memory } = this.#opened.socket
    memory.take(json.length) // the check has pauses, in which more updates come
    try {
      if (!(await isOneObject(json)))
        throw new KasError({ code: 'INVALID_MESSAGE', detail: 'an update of a view is not one JSON object' })
      const before = this.#turn
      const send = async () => {
        await before
        if (isOpen()) await this.#opened.socket.sent(updateMessage(id, json))
      }
      const own = send()
      this.#turn = own
      await this.#paced(own)
      if (this.#turn === own) this.#turn = undefined
    } finally {
      memory.give(json.length)
    }
  }

  /** Stops reading from a client that does not read its own messages. */
  async #paced(sending: Promise<void>): Promise<void> {
    const { socket } = this.#opened
    if (++this.#unsent === maxUnsent) socket.pause()
    await sending
    if (this.#unsent-- === maxUnsent) socket.resume()
  }

  #close(id: number): void {
    this.#views.get(id)?.close()
    this.#views.delete(id)
  }

  #closeAll(): void {
    for (const view of this.#views.values()) view.close()
    this.#views.clear()
  }

  /** Sends the client the error that ended its view. */
  #fail(id: number, error: KasError): void {
    const { failed, socket } = this.#opened
    failed(error, 'A view failed')
    const full = socket.send(errorMessage(id, error))
    if (full) void this.#paced(full)
  }
}
