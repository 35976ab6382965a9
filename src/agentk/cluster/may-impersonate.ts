import {
  entriesNeeded,
  extraEntry,
  groupEntry,
  type ImpersonatedNames,
  isImpersonationHeader,
  userEntry,
} from '../../lib/impersonated-names.ts'
import type { Headers } from '../../proto/http/http-message.ts'

/** Identities that agentk lets a request act as. Entries have the form that `userEntry` and its like write. */
export interface MayImpersonate {
  /** for `Impersonate-*` headers of callers that act as the agent: `any`, or exact users and groups */
  readonly callers: 'any' | ReadonlySet<string>
  /** for identities that kas or the agent's configuration names, besides those that kas may always name */
  readonly kas: ReadonlySet<string>
}

/** The default: callers name nobody, and kas names GitLab's users and jobs. */
export const mayImpersonateNobody: MayImpersonate = { callers: new Set<string>(), kas: new Set<string>() }

const callerKinds = 'user:NAME, group:NAME, serviceaccount:NAMESPACE:NAME or any'
const kasKinds = 'user:NAME, group:NAME, serviceaccount:NAMESPACE:NAME, extra:KEY or uid:UID'

/** @throws Error that says what is allowed */
export function parseCallersMayImpersonate(entries: readonly string[]): MayImpersonate['callers'] {
  const named = entries.filter((entry) => entry !== 'any')
  const read = named.map((text) => readName(text) ?? malformed(text, callerKinds))
  return named.length < entries.length ? 'any' : new Set(read)
}

/** @throws Error that says what is allowed */
export function parseMayImpersonate(entries: readonly string[]): ReadonlySet<string> {
  return new Set(entries.map((text) => readName(text) ?? readKey(text) ?? malformed(text, kasKinds)))
}

/** @returns entries that `--may-impersonate` lacks; empty: the identity is accepted */
export function refusedIdentity(identity: ImpersonatedNames, allowed: MayImpersonate['kas']): string[] {
  return entriesNeeded(identity).filter((entry) => !allowed.has(entry))
}

/**
 * @param request - headers of a caller, with names in any spelling; values have one byte per character
 * @returns entries that `--callers-may-impersonate` lacks: `any` if no entry can name it; empty: the headers pass
 */
export function refusedHeaders(request: Headers, allowed: MayImpersonate['callers']): string[] {
  if (allowed === 'any') return []
  const needed = request.flatMap(([name, values]) => {
    if (!isImpersonationHeader(name)) return []
    const entryOf = { 'impersonate-user': userEntry, 'impersonate-group': groupEntry }[name.toLowerCase()]
    if (!entryOf || values.length === 0) return ['any']
    return values.map((value) => {
      const text = textOf(value)
      return text === undefined ? 'any' : entryOf(text)
    })
  })
  return [...new Set(needed)].filter((entry) => !allowed.has(entry))
}

/** @returns undefined: the bytes are no UTF-8, and no entry can name them */
function textOf(bytes: string): string | undefined {
  const text = Buffer.from(bytes, 'latin1').toString()
  return Buffer.from(text).toString('latin1') === bytes ? text : undefined
}

function readName(text: string): string | undefined {
  const [, kind, name = ''] = /^(user|group|serviceaccount):(.+)$/s.exec(text) ?? []
  if (!isExact(name)) return undefined
  if (kind === 'user') return userEntry(name)
  if (kind === 'group') return groupEntry(name)
  return kind && /^[^:]+:[^:]+$/.test(name) ? userEntry(`system:serviceaccount:${name}`) : undefined
}

function readKey(text: string): string | undefined {
  const [, kind, name = ''] = /^(extra|uid):(.+)$/s.exec(text) ?? []
  if (!kind || !isExact(name)) return undefined
  return kind === 'extra' ? extraEntry(name) : `uid:${name}`
}

/** True if the API server reads this name from a header as it is, without white space around it. */
function isExact(name: string): boolean {
  return name.trim() === name && !/\p{Cc}/u.test(name)
}

function malformed(text: string, allowed: string): never {
  throw new Error(`"${text}", allowed: ${allowed}`)
}
