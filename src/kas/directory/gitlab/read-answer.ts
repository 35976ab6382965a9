import * as z from 'zod'
import { KasError } from '../../../lib/errors.ts'
import { jsonDepth } from '../../../lib/json-depth.ts'
import { maxJsonDepth } from '../../../lib/json-scanner.ts'
import type { HttpAnswer } from './exchange.ts'

/** Parses GitLab's answers. Keys that no schema names are ignored, as upstream does. */

/** A number above zero; also as text, as proto JSON writes 64-bit numbers. */
export const id = z.union([z.int().positive(), z.string().regex(/^[1-9]\d{0,18}$/)]).transform((value) => BigInt(value))

export const withId = z.object({ id })

/** Characters of a name or text of GitLab; its own names have at most 255. */
const maxTextLength = 1024

/** A text of GitLab, which may be empty. */
export const text = z.string().max(maxTextLength)
/** A text of GitLab that is not empty. */
export const name = text.min(1)

/**
 * Parses a list up to its first wrong member. For each wrong one, zod takes some hundred bytes, and an answer has room
 * for two million.
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

/** Wrong members of one list that are left out. A list with more is refused: each costs zod some microseconds. */
const maxLeftOut = 100

/** A list without its wrong members. */
export interface ReadableList<Member> {
  readonly members: readonly Member[]
  /** `undefined`: every member was read */
  readonly leftOut?: { readonly count: number /** wrong keys of the first one */; readonly first: string }
}

/** Parses a list of permissions. Wrong members are left out and grant nothing; the others count. */
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

/** Texts by name, parsed up to the first wrong one, as with `list`. */
export const textMap = z.custom<Readonly<Record<string, string>>>((value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const texts = Object.entries(value)
  return texts.length <= maxTexts && texts.every((pair) => pair.every((one) => text.safeParse(one).success))
})

/** Keys that an error names. */
const maxNamed = 5

/**
 * Parses the answer of the call at `path`.
 *
 * @throws KasError GITLAB_ANSWER_INVALID, which names the wrong keys and no value
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

/** @param at - path of the value */
function wrongKeys({ issues }: z.ZodError, at: readonly number[] = []): string {
  const keys = new Set(issues.map(({ path }) => [...at, ...path].join('.') || 'the whole'))
  return [...keys].slice(0, maxNamed).join(', ')
}

/** Characters of GitLab's message that an error quotes. */
const maxQuotedCharacters = 200
/** bytes of a page that are searched for its title */
const maxSearchedBytes = 2048

/** Returns the error of a status other than success, with GitLab's text about it. */
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

/** Returns the text of a page, or of a line, from a server in front of GitLab, such as one that requires TLS. */
function wordsOf(mediaType: string, body: Buffer): string | undefined {
  const begin = body.toString('latin1', 0, maxSearchedBytes)
  if (mediaType === 'text/html') return /<title>([^<\r\n]*)/i.exec(begin)?.[1]
  return mediaType === 'text/plain' ? /^[^\r\n]+/.exec(begin)?.[0] : undefined
}

/** Returns the text of GitLab's `{"message": "…"}` beside a status. */
function messageOf(body: Buffer): string | undefined {
  const { message } = (parseJson(body) ?? {}) as { message?: unknown }
  return typeof message === 'string' ? message : undefined
}

/** `undefined`: the body is not JSON, or nested too deeply. */
function parseJson(body: Buffer): unknown {
  try {
    const json = body.toString('utf8')
    return jsonDepth(json) > maxJsonDepth ? undefined : JSON.parse(json)
  } catch {
    return undefined
  }
}
