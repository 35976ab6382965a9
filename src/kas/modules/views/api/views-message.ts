import { KasError } from '../../../../lib/errors.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'

/** Messages of clients of views, JSON in text frames (doc/guide/views.md): a `ViewsRequest` of proto/views-json.ts. */
export type ViewsMessage =
  | {
      readonly type: 'open'
      readonly id: number
      readonly agent: string
      readonly query: Uint8Array
      readonly fresh: boolean
    }
  | {
      readonly type: 'page'
      readonly id: number
      readonly node: string
      readonly limit: number
      readonly offset: number
    }
  | { readonly type: 'close'; readonly id: number }

/** characters of a uid, or of the name of a group, which may be longer than an object's */
const maxNodeCharacters = 1024

type Fields = Readonly<Record<string, unknown>>

const readers: Readonly<Record<string, (fields: Fields, id: number) => ViewsMessage>> = {
  open({ agent, view, fresh = false, ...query }, id) {
    if (typeof agent !== 'string') throw bad('agent: a text is needed')
    if (typeof view !== 'string') throw bad('view: a text is needed')
    if (typeof fresh !== 'boolean') throw bad('fresh: true or false is needed')
    // the agent checks all other keys: its version knows which views it supports
    return { type: 'open', id, agent, query: Buffer.from(JSON.stringify({ view, ...query })), fresh }
  },
  page({ node, limit, offset = 0, ...others }, id) {
    refuseOthers(others)
    const { maxLimit, maxOffset } = viewsBounds
    if (typeof node !== 'string' || node.length > maxNodeCharacters) {
      throw bad(`node: a text of at most ${maxNodeCharacters} characters is needed`)
    }
    if (!isWhole(limit, maxLimit)) throw bad(`limit: a whole number from 0 to ${maxLimit} is needed`)
    if (!isWhole(offset, maxOffset)) throw bad(`offset: a whole number from 0 to ${maxOffset} is needed`)
    return { type: 'page', id, node, limit, offset }
  },
  close(others, id) {
    refuseOthers(others)
    return { type: 'close', id }
  },
}

/** A message that cannot be used, and the view that it is about. */
export interface Refused {
  readonly type: 'refused'
  readonly id: number
  readonly error: KasError
}

/**
 * Parses a client's message.
 *
 * @param text - at most `viewsBounds.maxQueryBytes`
 * @throws KasError INVALID_MESSAGE: the message names no view to answer about
 */
export function readViewsMessage(text: string): ViewsMessage | Refused {
  const { type, id, ...fields } = parse(text)
  if (!isWhole(id, Number.MAX_SAFE_INTEGER)) throw invalid('id: a whole number is needed')
  const read = typeof type === 'string' && Object.hasOwn(readers, type) ? readers[type] : undefined
  if (!read) throw invalid(`type: one of ${Object.keys(readers).join(', ')} is needed`)
  try {
    return read(fields, id)
  } catch (error) {
    return { type: 'refused', id, error: KasError.from(error) }
  }
}

/** @param update - one JSON value */
export function updateMessage(id: number, update: Uint8Array): string {
  return `{"type":"update","id":${id},"update":${Buffer.from(update.buffer, update.byteOffset, update.length).toString('utf8')}}`
}

export function errorMessage(id: number, error: KasError): string {
  const { spec } = error
  const code = spec.code === 'VIEW_ENDED' ? spec.agentCode : spec.code
  return JSON.stringify({ type: 'error', id, code, text: error.message })
}

function parse(text: string): Fields {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalid('JSON is needed')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('an object is needed')
  return value as Fields
}

function refuseOthers(others: Fields): void {
  const [first] = Object.keys(others)
  if (first !== undefined) throw bad(`the key ${JSON.stringify(first.slice(0, 64))} is not known`)
}

function isWhole(value: unknown, max: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
