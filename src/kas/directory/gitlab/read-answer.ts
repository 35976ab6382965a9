import * as z from 'zod'
import { KasError } from '../../../lib/errors.ts'
import { jsonDepth } from '../../../lib/json-depth.ts'
import { maxJsonDepth } from '../../../lib/scan-json.ts'
import type { HttpAnswer } from './exchange.ts'

/** Reading what GitLab answers. Keys that no schema names are ignored, as upstream does. */

/** A number above zero, also as text, as proto JSON has 64-bit numbers. */
export const id = z.union([z.int().positive(), z.string().regex(/^[1-9]\d{0,18}$/)]).transform((value) => BigInt(value))

export const withId = z.object({ id })

/** Characters of one name or word of GitLab; its own names have at most 255. */
const maxTextLength = 1024

/** A name or word of GitLab, perhaps empty. */
export const text = z.string().max(maxTextLength)
/** A name or word of GitLab. */
export const name = text.min(1)

/**
 * A list that is read up to its first member that is wrong: zod takes some hundred bytes for each wrong one, and an answer
 * has room for two million.
 */
export function list<Member extends z.ZodType>(member: Member) {
  return z.array(z.unknown()).transform((values, context) => {
    const read: z.output<Member>[] = []
    for (const [i, value] of values.entries()) {
      const { success, data, error } = member.safeParse(value)
      if (!success) {
        for (const { path, message } of error.issues) context.addIssue({ code: 'custom', path: [i, ...path], message })
        return z.NEVER
      }
      read.push(data)
    }
    return read
  })
}

/** Wrong members of one list that are left out; a list with more is refused: each costs zod some microseconds. */
const maxLeftOut = 100

/** A list without its wrong members. */
export interface ReadableList<Member> {
  readonly members: readonly Member[]
  /** `undefined`: every member could be read */
  readonly leftOut?: { readonly count: number /** the keys of the first one that are wrong */; readonly first: string }
}

/** A list of what somebody is granted. Its wrong members are left out, so they grant nothing, and the others count. */
export function readableList<Member extends z.ZodType>(member: Member) {
  return z.array(z.unknown()).transform((values, context): ReadableList<z.output<Member>> => {
    const members: z.output<Member>[] = []
    let count = 0
    let first = ''
    for (const [i, value] of values.entries()) {
      const { success, data, error } = member.safeParse(value)
      if (success) members.push(data)
      else {
        count += 1
        first ||= wrongKeys(error, [i])
      }
      if (count <= maxLeftOut) continue
      context.addIssue({ code: 'custom', path: [i], message: `more than ${maxLeftOut} members are wrong` })
      return z.NEVER
    }
    return count === 0 ? { members } : { members, leftOut: { count, first } }
  })
}

/** Texts in one map. */
const maxTexts = 1000

/** Texts by name, read up to the first that is wrong, as with `list`. */
export const textMap = z.custom<Readonly<Record<string, string>>>((value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const texts = Object.entries(value)
  return texts.length <= maxTexts && texts.every((pair) => pair.every((one) => text.safeParse(one).success))
})

/** Keys that an error names. */
const maxNamed = 5

/**
 * Reads the answer of the call at `path`.
 *
 * @throws KasError GITLAB_ANSWER_INVALID, which names the keys that are wrong and no value
 */
export function readAnswer<S extends z.ZodType>(
  schema: S,
  { mediaType, body }: Pick<HttpAnswer, 'mediaType' | 'body'>,
  path: string,
): z.output<S> {
  const invalid = (detail: string) => new KasError({ code: 'GITLAB_ANSWER_INVALID', path, detail })
  if (mediaType !== 'application/json') throw invalid(`it is ${mediaType || 'of no type'}, no JSON`)
  const answer = parseJson(body)
  if (answer === undefined) throw invalid(`it is no JSON, or nested more than ${maxJsonDepth} deep`)
  const result = schema.safeParse(answer)
  if (result.success) return result.data
  throw invalid(`wrong or missing: ${wrongKeys(result.error)}`)
}

/** @param at - where the value is */
function wrongKeys({ issues }: z.ZodError, at: readonly number[] = []): string {
  const keys = new Set(issues.map(({ path }) => [...at, ...path].join('.') || 'the whole'))
  return [...keys].slice(0, maxNamed).join(', ')
}

const maxQuotedCharacters = 200
/** of a page, for its title */
const maxSearchedBytes = 2048

/** A status that is no success, with what GitLab says beside it. */
export function statusError({ status, mediaType, retryAfterMs, body }: HttpAnswer, path: string): KasError {
  const message = mediaType === 'application/json' ? messageOf(body) : wordsOf(mediaType, body)
  return new KasError({
    code: 'GITLAB_STATUS',
    status,
    path,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(message === undefined ? {} : { told: message.slice(0, maxQuotedCharacters) }),
  })
}

/** What is before GitLab says it in a page or in a line, such as that it wants TLS. */
function wordsOf(mediaType: string, body: Buffer): string | undefined {
  const begin = body.toString('latin1', 0, maxSearchedBytes)
  if (mediaType === 'text/html') return /<title>([^<\r\n]*)/i.exec(begin)?.[1]
  return mediaType === 'text/plain' ? /^[^\r\n]+/.exec(begin)?.[0] : undefined
}

/** GitLab's `{"message": "…"}` beside a status. */
function messageOf(body: Buffer): string | undefined {
  const { message } = (parseJson(body) ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : undefined
}

/** `undefined`: it is none, or nested too deeply. */
function parseJson(body: Buffer): unknown {
  try {
    const json = body.toString('utf8')
    return jsonDepth(json) > maxJsonDepth ? undefined : JSON.parse(json)
  } catch {
    return undefined
  }
}
