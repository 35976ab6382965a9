import * as z from 'zod'
import { askedNames } from '../../kubernetes/request/asked-identity.ts'
import { printableJson } from '../../lib/printable.ts'
import { lineClasses } from '../config/access-log.ts'

/** Events of the access log: doc/reference/access-log.md has a row for each field. */

export const lineEvents = [
  /** of a long call: its answer has begun */
  'begin',
  /** of a call; the only line of a short one */
  'end',
  /** a page got a token by which it opens WebSockets */
  'sign_in',
  /** of a connection of agentk: the first agent was let in on it */
  'agent_connected',
  'agent_disconnected',
  /** of an address from which no agent was let in, on 8150 */
  'agent_refused',
  /** the same on 8154 */
  'refused',
  /** lines of a class were lost before they were written */
  'lost',
] as const

/** Credentials that let a caller in, in GitLab's words. */
export const callerKinds = ['ci_job', 'session_cookie', 'personal_access_token'] as const

const text = z.string()
const count = z.int().min(0)
const ids = z.string().regex(/^\d+$/)

export const accessLineSchema = z.strictObject({
  time: z.iso.datetime({ precision: 3 }),
  event: z.enum(lineEvents),
  class: z.enum(lineClasses),
  id: z.uuid().optional(),
  trace_id: text.optional(),
  caller: z
    .strictObject({
      kind: z.enum(callerKinds),
      id: ids,
      name: text,
      project: ids.optional(),
      job: ids.optional(),
      pipeline: ids.optional(),
    })
    .optional(),
  as: text.optional(),
  asked_as: z.array(text).max(askedNames.count).optional(),
  agent_id: ids.optional(),
  agent: text.optional(),
  project: text.optional(),
  verb: text.optional(),
  group: text.optional(),
  resource: text.optional(),
  subresource: text.optional(),
  namespace: text.optional(),
  name: text.optional(),
  path: text.optional(),
  view: text.optional(),
  label_selector: text.optional(),
  field_selector: text.optional(),
  program: text.optional(),
  arguments: count.optional(),
  command: z.array(text).optional(),
  status: z.int().optional(),
  outcome: text.optional(),
  delivery: z.enum(['none', 'maybe']).optional(),
  reason: text.optional(),
  received: count.optional(),
  sent: count.optional(),
  ms: z.number().min(0).optional(),
  address: text.optional(),
  user_agent: text.optional(),
  entry: text,
  holder: text.optional(),
  count: count.optional(),
  since: z.iso.datetime({ precision: 3 }).optional(),
})
export type AccessLine = z.infer<typeof accessLineSchema>

/** Returns the line with its end, in which text of others cannot steer a terminal. */
export function accessLineText(line: AccessLine): string {
  return `${printableJson(line)}\n`
}

/** bounds of texts that a caller may make as long as it likes, in characters */
export const bounds = {
  name: 253,
  userAgent: 256,
  selector: 512,
  path: 256,
  program: 256,
  command: 4096,
  /** views that a line names */
  views: 5,
  view: 1024,
} as const

/** Cuts a longer text, with a mark. */
export function cut(text: string, maxCharacters: number): string {
  return text.length > maxCharacters ? `${text.slice(0, maxCharacters)}…` : text
}
