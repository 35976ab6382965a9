import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { exchangeError } from './exchange.ts'

/** One request to GitLab whose body and answer are passed on, chunk by chunk. */

export interface PassedRequest {
  readonly origin: string
  /** with the query */
  readonly path: string
  readonly method: string
  /** name, value, name, value */
  readonly headers: string[]
  readonly body: AsyncIterable<Uint8Array> | undefined
}

export interface PassedAnswer {
  readonly statusCode: number
  readonly statusText: string
  /** name, value, name, value */
  readonly rawHeaders: readonly string[]
  /** read once; throws KasError GITLAB_UNREACHABLE when the connection ends early */
  readonly body: AsyncIterable<Uint8Array>
  /** Drops the part of the answer that was not read. */
  discard(): void
}

export interface PassageOptions {
  /** name of the path, for errors */
  readonly name: string
  /** the longest pause of GitLab within its answer, in ms */
  readonly maxSilenceMs: number
}

/**
 * Resolves with the head of the answer; redirects are not followed.
 *
 * @throws KasError GITLAB_UNREACHABLE, what the request's body threw, or the reason of `signal`
 */
export async function openPassage(
  dispatcher: Dispatcher,
  request: PassedRequest,
  { name, maxSilenceMs }: PassageOptions,
  signal: AbortSignal,
): Promise<PassedAnswer> {
  try {
    const { statusCode, statusText, headers, body } = await dispatcher.request({
      ...request,
      body: (request.body ?? null) as Readable | null, // any iterable is accepted, though the types do not permit it
      bodyTimeout: maxSilenceMs,
      responseHeaders: 'raw',
      signal,
    })
    body.on('error', () => undefined) // its reader gets the error, if there is one
    return {
      statusCode,
      statusText,
      rawHeaders: headers as unknown as string[],
      body: readBody(body, name, signal),
      discard: () => body.destroy(),
    }
  } catch (error) {
    signal.throwIfAborted()
    throw exchangeError(error, { path: name, headArrived: false })
  }
}

async function* readBody(
  body: AsyncIterable<Uint8Array>,
  name: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    signal.throwIfAborted()
    throw exchangeError(error, { path: name, headArrived: true })
  }
}
