import type { Reply } from '../../../call/call.ts'
import { dropped, KasError } from '../../../lib/errors.ts'
import type { HttpResponseHeader } from '../../../proto/http/http-message.ts'
import { decodeHttpResponse, httpMessageOrder } from '../../../proto/http/http-over-grpc.ts'
import { MessageOrder } from '../../../proto/wire/message-order.ts'
import type { Exchange } from './http/exchange.ts'
import type { RequestOutcome } from './http/metrics.ts'
import { type LastMessage, lastMessageOf } from './last-message.ts'
import type { Progress } from './progress.ts'
import type { RequestLife } from './request-life.ts'
import { type ResponseHead, type ResponseRules, readResponseHead } from './response/response-head.ts'
import type { Boundaries } from './watch/resume/watch-frames.ts'
import { WholeFrames } from './whole-frames.ts'

/** Head of a 101 that is not sent yet. */
type Switching = ResponseHead & { readonly lastMessage: LastMessage | undefined; readonly passed: Passed }

/** Passes on bytes of an upgraded connection. */
type Passed = Pick<WholeFrames, 'push' | 'flush'>

/** Passes a cluster's answer on to the caller (doc/reference/tunnel-protocol.md 6.4 and 6.5). */
export class Relay {
  readonly #rules: ResponseRules

  constructor(rules: ResponseRules) {
    this.#rules = rules
  }

  /**
   * Passes the answer on, message by message, as fast as the client takes it.
   *
   * @throws KasError INVALID_MESSAGE, or the call's error
   */
  async run(life: RequestLife, reply: Reply): Promise<RequestOutcome> {
    const { exchange, progress } = life
    const order = new MessageOrder(httpMessageOrder)
    let switching: Switching | undefined
    void reply.done.then(({ error }) => {
      if (error && dropped.has(error.code)) exchange.giveUp()
    })
    for await (const bytes of reply.messages) {
      const message = decodeHttpResponse(bytes)
      order.accept(message.kind)
      let full: Promise<void> | undefined
      if (message.kind === 'data') {
        if (switching) throw invalid('data in the answer to an upgrade')
        full = exchange.write(progress.writes(message.data))
      } else if (message.kind === 'header') {
        switching = this.#begin(life, message.header)
      } else if (message.kind === 'trailer') {
        if (switching) {
          exchange.switchProtocols(switching)
          life.answers(exchange.statusCode, switching.lastMessage)
        }
      } else if (switching && exchange.upgrade) {
        full = switching.passed.push(message.data)
      } else {
        throw invalid('upgradeData in an answer that is no upgrade')
      }
      if (full) await exchange.untilTaken(full, bytes.length)
      if (progress.withdrawal && progress.mayEnd) exchange.leave(progress.withdrawal)
      exchange.signal.throwIfAborted()
    }
    const { error } = await reply.done
    if (error) throw error
    order.end()
    if (switching) await this.#endUpgraded(exchange, switching)
    else exchange.end()
    return switching ? 'upgraded' : 'answered'
  }

  async #endUpgraded(exchange: Exchange, { passed }: Switching): Promise<void> {
    const full = passed.flush()
    if (full) await exchange.untilTaken(full, exchange.unsentBytes)
    exchange.signal.throwIfAborted()
    await exchange.endUpgraded()
  }

  /** @returns the head of a 101, which is only sent after its trailer */
  #begin(life: RequestLife, header: HttpResponseHeader): Switching | undefined {
    const { exchange, progress } = life
    const { statusCode } = header
    const upgrade = statusCode === 101 && exchange.upgrade !== undefined
    if (!upgrade && (statusCode < 200 || statusCode > 999)) throw invalid(`status code ${statusCode} of the answer`)
    const { via, skew, allowList } = this.#rules
    const { origin, asked } = progress
    const head = readResponseHead(header, { via, skew, allowList, origin, upgrade, asked })
    if (progress.warning !== undefined) head.headers.push('Warning', progress.warning)
    if (upgrade) {
      const lastMessage = lastMessageOf(undefined, header)
      return {
        ...head,
        lastMessage,
        passed: passedOn(exchange, progress, lastMessageOf(undefined, header)?.boundaries),
      }
    }
    exchange.upgrade?.refused()
    try {
      exchange.begin(statusCode, head)
    } catch (cause) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: 'the head of the answer is not valid HTTP' }, { cause })
    }
    life.answers(statusCode, lastMessageOf(exchange.asked, header))
    return undefined
  }
}

/** @param boundaries - undefined: no last message could follow anywhere */
function passedOn(exchange: Exchange, progress: Progress, boundaries: Boundaries | undefined): Passed {
  const write = (piece: Uint8Array) => {
    if (progress.failure || exchange.signal.aborted) return undefined // the rest came too late
    return exchange.upgrade?.write(progress.writes(piece))
  }
  if (!boundaries) return { push: write, flush: () => undefined }
  const count = (bytes: number) => {
    progress.keeps(bytes)
    exchange.countKept(bytes)
  }
  return new WholeFrames({ boundaries, write, count })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
