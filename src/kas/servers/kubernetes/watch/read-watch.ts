import type { Reply } from '../../../../call/call.ts'
import type { ByteBudget } from '../../../../lib/byte-budget.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type JsonScanPlan, maxJsonDepth, scanInTurns } from '../../../../lib/json-scanner.ts'
import { decodeHttpResponse, httpMessageOrder } from '../../../../proto/http/http-over-grpc.ts'
import { MessageOrder } from '../../../../proto/wire/message-order.ts'
import { EventLines } from './event-lines.ts'

/** Bound of a Status, which has a few lines: JSON.parse takes seconds for some megabytes. */
const maxStatusBytes = 64 * 1024

const eventType: JsonScanPlan = {
  places: { type: 'type' },
  maxDepth: maxJsonDepth,
  maxTextBytes: 64, // types of Kubernetes have at most eight
  refusesEscapes: true, // Kubernetes writes none there
}

/** A part of an API server's answer to a watch: an event, or the failure that ends it. JSON, unchanged. */
export type WatchPart =
  | { readonly kind: 'event'; readonly json: string }
  | { readonly kind: 'failure'; readonly message: string; readonly status: string }

/**
 * Reads the answer to a watch. A failure comes last. Each part is one JSON value, so a workload behind an aggregated
 * API cannot forge events of another watch.
 *
 * @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE, WATCH_ENDED, WATCH_REFUSED, or the call's error
 */
export async function* readWatch(
  reply: Reply,
  kept: ByteBudget,
  onStatus: (status: number) => void = () => undefined,
): AsyncGenerator<WatchPart, void, void> {
  const order = new MessageOrder(httpMessageOrder)
  const lines = new EventLines(kept)
  let status = 0
  try {
    for await (const bytes of reply.messages) {
      const message = decodeHttpResponse(bytes)
      order.accept(message.kind)
      if (message.kind === 'header') {
        status = message.header.statusCode
        onStatus(status)
      } else if (message.kind === 'data' && status !== 200) lines.keep(message.data)
      else if (message.kind === 'data') {
        for (const line of lines.push(message.data)) {
          const part = await readEvent(line)
          yield part
          if (part.kind === 'failure') return
        }
      }
    }
    const { error } = await reply.done
    if (error) throw error
    order.end()
    if (status === 200) throw new KasError({ code: 'WATCH_ENDED' })
    yield readRefusal(status, lines.rest())
  } finally {
    lines.clear()
  }
}

async function readEvent(line: Buffer): Promise<WatchPart> {
  const { isDone, texts } = await scanInTurns(eventType, line)
  if (!isDone || texts.type === undefined) throw invalid('an event of the watch is not one')
  return (texts.type === 'ERROR' && failure(parse(line)?.object)) || { kind: 'event', json: line.toString('utf8') }
}

function readRefusal(status: number, body: Buffer): WatchPart {
  const refusal = failure(parse(body))
  if (refusal) return refusal
  throw new KasError({ code: 'WATCH_REFUSED', status })
}

/** Returns the failure in a Kubernetes Status; undefined: it is none. */
function failure(status: unknown): WatchPart | undefined {
  const message = (status as { message?: unknown } | null | undefined)?.message
  return typeof message === 'string' ? { kind: 'failure', message, status: JSON.stringify(status) } : undefined
}

/** Parses a JSON object; undefined: it is none, or too long for a Status. */
function parse(text: Buffer): Record<string, unknown> | undefined {
  if (text.length > maxStatusBytes) return undefined
  try {
    const value: unknown = JSON.parse(text.toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
