import { Deadline } from '../../lib/deadline.ts'
import { printable } from '../../lib/printable.ts'
import { BadAnswer } from './bad-answer.ts'
import type { Endpoint } from './endpoint.ts'
import { answerFault, statusMessage } from './reach/answer-fault.ts'
import { callerText } from './reach/caller-text.ts'
import { connectionFault } from './reach/connection-fault.ts'
import { exchange, type KasAnswer, type KasRequest } from './reach/exchange.ts'
import { noticeMs, placeText, Unreached } from './reach/unreached.ts'
import { unansweredText, waitReason } from './reach/wait-reason.ts'

export type { KasRequest } from './reach/exchange.ts'

/** bound of a refusal's text from a proxy in front of kas, in characters */
const maxForeignText = 300
/** Bound of the wait for an answer, unless the request has its own. ms */
export const usualTimeoutMs = 15_000
/** paths that kas answers itself; others are of the cluster */
const ownPath = /^\/(?:views|gitops\/|agents\b|log\b)/
/** paths that kas answers without the agent */
const agentlessPath = /^\/(?:gitops\/state|agents|log)\b/

/**
 * Asks kas, or the API server behind it. After a second without an answer it warns, with the reason, which the error
 * then omits.
 *
 * @returns the body
 * @throws Unreached, BadAnswer, KasRefused
 */
export async function askKas(endpoint: Endpoint, request: KasRequest): Promise<string> {
  const answer = await answerOf(endpoint, request)
  if (answer.status === 200 || isResult(answer, request)) return answer.body
  const fault = ownPath.test(request.path) ? answerFault(answer, endpoint) : undefined
  if (!fault) throw new KasRefused(answer.status, answer.body)
  throw await callerText(endpoint, fault)
}

function isResult({ headers }: KasAnswer, { resultType }: KasRequest): boolean {
  return resultType !== undefined && headers['content-type']?.split(';')[0] === resultType
}

async function answerOf(endpoint: Endpoint, request: KasRequest): Promise<KasAnswer> {
  const { clock, warn } = endpoint
  const { timeoutMs: ms = usualTimeoutMs, path } = request
  const progress = { isConnected: false }
  let isWaiting = true
  let isReported = false
  const cancel = clock.after(noticeMs, () => {
    const text =
      progress.isConnected && !agentlessPath.test(path)
        ? waitReason(endpoint)
        : Promise.resolve(unansweredText(endpoint, progress.isConnected))
    void text.then((reason) => {
      if (!isWaiting) return
      isReported = true
      warn(reason)
    })
  })
  const deadline = new Deadline({ ms, clock })
  try {
    return await exchange(endpoint, request, { signal: deadline.signal, progress })
  } catch (error) {
    if (error instanceof BadAnswer) throw error
    if (!deadline.isPast) throw await connectionFault(error as Error, endpoint)
    const seconds = Math.round(ms / 100) / 10
    const text = isReported
      ? `kas did not answer within ${seconds} s`
      : timeoutText(endpoint, seconds, progress.isConnected)
    throw new Unreached('silent', text, { cause: error, isReported })
  } finally {
    isWaiting = false
    cancel()
    deadline.end()
  }
}

function timeoutText(endpoint: Endpoint, seconds: number, isConnected: boolean): string {
  const where = placeText(endpoint)
  return isConnected
    ? `no answer from ${where} within ${seconds} s, though it takes connections: is kas there, and is it overloaded?`
    : `no connection to ${where} within ${seconds} s: check the address, and firewalls on the way`
}

/** kas, or the cluster, has answered with another status than 200. */
export class KasRefused extends Error {
  override readonly name = 'KasRefused'
  readonly status: number

  constructor(status: number, body: string) {
    const message = statusMessage(body) ?? body.slice(0, maxForeignText)
    super(printable(`kas answered ${status}${message === '' ? '' : `: ${message}`}`))
    this.status = status
  }
}
