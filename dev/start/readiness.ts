import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { delay } from '../../src/lib/signals.ts'

/** Interval of requests to another process, which cannot be subscribed to. */
const askAgainMs = 100
/** Limit of an answer, longer than the 20 s that kas itself waits for an agent. */
const answerTimeoutMs = 25_000

interface Question {
  readonly url: string
  readonly ca?: string
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Resolves once `question` is answered by 200.
 *
 * @throws the signal's reason, with the last answer in its message if it is a timeout
 */
export async function untilOk(question: Question, signal: AbortSignal): Promise<void> {
  let last = 'no answer'
  while (!signal.aborted) {
    const status = await ask(question, signal).catch((error: NodeJS.ErrnoException) => error.code ?? error.message)
    if (status === 200) return
    last = String(status)
    await delay(askAgainMs, signal).catch(() => undefined)
  }
  if (signal.reason instanceof Error && signal.reason.name === 'TimeoutError') {
    throw new Error(`${question.url} did not answer 200 in time (last: ${last})`, { cause: signal.reason })
  }
  throw signal.reason
}

function ask({ url, ca, headers }: Question, signal: AbortSignal): Promise<number | undefined> {
  const request = url.startsWith('https:') ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const options = {
      agent: false as const,
      timeout: answerTimeoutMs,
      signal,
      ...(ca ? { ca } : {}),
      headers: headers ?? {},
    }
    const asked = request(url, options, (response) => {
      response.on('error', reject)
      response.on('end', () => resolve(response.statusCode))
      response.resume()
    })
    asked.on('error', reject)
    asked.on('timeout', () => asked.destroy(new Error('time-out')))
    asked.end()
  })
}
