import * as z from 'zod'
import { argoWords, type Update, type ViewsMessage, viewsBounds } from '../../../../proto/views-json.ts'
import { readAnswer } from '../../../command/bad-answer.ts'

/**
 * Checks messages from an agent before anything is kept: the agent may send anything. Unknown keys are dropped. Lengths
 * are those of agentk with a margin, and bound the length of a line.
 */

/** characters of a name, a kind or a namespace, and of a fact */
const maxName = 1024
/** characters of an id, which contains other ids */
const maxId = 4096
/** characters of any other text */
const maxText = 8192
/** facts of an object */
const maxFacts = 16
/** links of an object */
const maxLinks = 100
/** groups of the caller, and names of a query that match nothing */
const maxNamed = 100
/** ids of the children of one node */
const maxOrder = 2 * viewsBounds.maxLimit

const name = z.string().max(maxName)
const id = z.string().max(maxId)
const text = z.string().max(maxText)
const count = z.int().min(0)
const word = z.enum(argoWords)
const kstatus = z.enum(['Current', 'InProgress', 'Terminating', 'Failed', 'Unknown'])

/** A word that needs no quotes, and is no option. */
const bare = '[A-Za-z0-9][A-Za-z0-9./:_-]*'
/** Commands that only read, made of words that are safe in any shell: an agent may send any text. */
const reading = new RegExp(
  `^kubectl(?: -n ${bare})? (?:${[
    `describe ${bare}(?: ${bare})?`,
    `get (?:secret|configmap|serviceaccount) ${bare}`,
    `get (?:${bare}|pods --show-labels|validatingwebhookconfigurations,mutatingwebhookconfigurations)`,
    `get --raw /apis/(?:custom|external)\\.metrics\\.k8s\\.io/v1beta1`,
    'top pods',
    `get ${bare} ${bare} -o jsonpath=\\{\\.(?:metadata\\.finalizers|metadata\\.managedFields(?:\\[\\*\\]\\.manager)?|spec\\.imagePullSecrets)\\}`,
    `logs ${bare}(?: -c ${bare})?(?: --previous| --since=5m)?`,
  ].join('|')})$`,
)
const bareWord = new RegExp(`^${bare}$`)

/** True if the word needs no quotes in a shell, and is no option. */
export const isBare = (text: string) => bareWord.test(text)

const cause = z.object({
  kind: name,
  namespace: name,
  name,
  id,
  reason: name,
  text,
  since: z.number().optional(),
  atLeast: z.boolean().optional(),
  last: z.number().optional(),
  count: count.optional(),
  others: count.optional(),
  next: text.transform((next) => (reading.test(next) ? next : '')),
  undo: z.literal(true).optional(),
})

const row = z.object({
  u: id,
  k: name,
  ns: name.optional(),
  n: name,
  p: id.optional(),
  t: z.number().optional(),
  h: z.tuple([word, kstatus, word]).readonly().optional(),
  why: z.tuple([text, text, text]).readonly().optional(),
  f: z.array(name).max(maxFacts).optional(),
  c: count.optional(),
  w: word.optional(),
  l: z
    .array(z.tuple([name, id, name, name, name]).readonly())
    .max(maxLinks)
    .optional(),
  z: cause.optional(),
  g: count.optional(),
  a: z.array(name).max(maxNamed).optional(),
})

const event = z.object({
  u: id,
  ns: name,
  about: z.tuple([name, name, name]).readonly(),
  type: z.enum(['Normal', 'Warning']),
  reason: name,
  text,
  count,
  at: z.number(),
})

const page = z.object({
  // a child counts once, even if it is listed twice
  order: z
    .array(id)
    .max(maxOrder)
    .transform((order) => [...new Set(order)]),
  counts: z.partialRecord(word, count),
  more: count,
  from: count.optional(),
})

const state = z.object({
  is: z.enum(['live', 'syncing', 'stale']),
  since: z.number(),
  why: text.optional(),
  notFollowed: z.array(name).optional(),
  aside: z
    .array(z.tuple([name, text, z.number()]).readonly())
    .max(maxNamed)
    .optional(),
  problems: z.array(text).optional(),
  you: z.object({ username: name, groups: z.array(name).max(maxNamed) }).optional(),
  refused: z
    .array(z.tuple([name, name]).readonly())
    .max(maxNamed)
    .optional(),
  unknown: z
    .array(z.tuple([name, name]).readonly())
    .max(maxNamed)
    .optional(),
})

const update = z.object({
  seq: count,
  at: z.number(),
  rows: z.array(row).optional(),
  gone: z.array(id).optional(),
  events: z.array(event).optional(),
  pages: z.record(id, page.nullable()).optional(),
  kinds: z.record(name, z.tuple([name, name]).readonly()).optional(),
  state: state.optional(),
})

const message = z.discriminatedUnion('type', [
  z.object({ type: z.literal('update'), id: z.number(), update }),
  z.object({ type: z.literal('error'), id: z.number(), code: name, text }),
])

/** Parses one view of `GET <prefix>views`. @throws BadAnswer */
export function readUpdate(json: string): Update {
  return readAnswer(update, json) as Update
}

/** @throws BadAnswer that names the wrong key, and no value */
export function readMessage(json: string): ViewsMessage {
  return readAnswer(message, json) as ViewsMessage & { readonly update: Update }
}
