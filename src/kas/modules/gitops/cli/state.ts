import * as z from 'zod'
import { jsonDepth } from '../../../../lib/json-depth.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { BadAnswer, readAnswer } from '../../../command/bad-answer.ts'
import type { Endpoint } from '../../../command/endpoint.ts'

/** depth of a JSON document from kas */
export const maxDepth = 32
/** characters of a table's cell */
const maxCell = 2048
/** sources in one answer, of one agent or of all */
const maxSources = 10_000

export const cell = z.string().max(maxCell)
const key = z.looseObject({
  group: z.string().optional(),
  version: z.string().optional(),
  kind: z.string(),
  namespace: z.string(),
  name: z.string(),
})
const counts = z.looseObject({
  objects: z.int(),
  applied: z.int(),
  unchanged: z.int(),
  failed: z.int(),
  waiting: z.int().optional(),
  pruned: z.int().optional(),
  survivors: z.int().optional(),
  drifted: z.int().optional(),
  orphans: z.int().optional(),
  not_compared: z.int().optional(),
  would_change: z.int().optional(),
})
const trouble = z.looseObject({ key: key.optional(), text: z.string(), file: z.string(), line: z.int() })
const leaving = z.looseObject({ key: key.optional(), code: cell.optional(), text: z.string() })
/** Any int64 in protobuf's JSON: a time that no agent can mean must not hide all sources. */
export const ms = z.string().regex(/^-?\d{1,19}$/)

/** object that differs from Git since it was applied */
export const drifted = z.looseObject({
  key: key.optional(),
  kind: cell,
  deleted: z.boolean(),
  path: z.array(cell),
  more_paths: z.int(),
  manager: cell,
  operation: cell,
  changed_at_ms: ms,
  since_ms: ms,
  correct_at_ms: ms,
  left: cell,
  hold_until_ms: ms,
  text: z.string(),
  file: z.string(),
  line: z.int(),
})

const health = z.looseObject({
  healthy: z.int(),
  progressing: z.int(),
  degraded: z.int(),
  suspended: z.int(),
  missing: z.int(),
  unknown: z.int(),
  unread: z.int(),
})
/** object that is not healthy */
const unhealthy = z.looseObject({
  key: key.optional(),
  word: cell,
  culprit: key.optional(),
  reason: cell,
  text: cell,
  since_ms: ms,
})

/** result of the newest poll of a ref */
const polled = z.looseObject({ commit: cell, age_ms: z.number().min(0), contains: z.boolean().optional() })

/** a source in `GET <prefix>gitops/state` (doc/guide/gitops.md); unknown keys are kept */
const source = z.looseObject({
  source: cell,
  commit: cell,
  wanted: cell,
  phase: cell,
  problem: z.string(),
  counts: counts.optional(),
  trouble: z.array(trouble),
  stale: z.boolean(),
  // every kas sends the keys above; older ones lack those below
  project: cell.optional(),
  name: cell.optional(),
  ref: cell.optional(),
  next: z.string().optional(),
  plan: cell.optional(),
  leaving: z.array(leaving).optional(),
  kept: z.array(leaving).optional(),
  orphan: z.array(key).optional(),
  environment: z.array(cell).optional(),
  cut: z.boolean().optional(),
  age_ms: z.number().optional(),
  at_ms: ms.optional(),
  applied_at_ms: ms.optional(),
  compared_at_ms: ms.optional(),
  object: cell.optional(),
  reason: cell.optional(),
  polled: polled.optional(),
  is_current: z.boolean().optional(),
  drifted: z.array(drifted).optional(),
  drift_mode: cell.optional(),
  unwatched: z.array(cell).optional(),
  health: health.optional(),
  unhealthy: z.array(unhealthy).optional(),
  unlisted: z.array(cell).optional(),
  failed_rounds: z.int().optional(),
  left_to_others: z.array(z.looseObject({ key: key.optional(), path: cell, manager: cell, rule: cell })).optional(),
  // objects that its reader may not get
  withheld: z.int().optional(),
})
/** the agent's file */
const configuration = z.looseObject({
  commit: cell.optional(),
  phase: cell.optional(),
  problem: z.string().optional(),
  next: z.string().optional(),
  polled: polled.optional(),
})
const state = z.object({
  sources: z.array(source).max(maxSources),
  agent: z.enum(['connected', 'stock', 'absent']).optional(),
  away: z.looseObject({ text: cell.optional() }).optional(),
  configuration: configuration.optional(),
  cut: z.boolean().optional(),
  // why it is not known which objects the reader may get
  names: z.looseObject({ problem: z.string() }).optional(),
  // the commit that heads were searched for
  commit: cell.optional(),
})

export type ShownSource = z.output<typeof source>
export type ShownState = z.output<typeof state>

export interface FreshQuestion {
  /** commit that the repositories are searched for */
  readonly commit: string | undefined
  /** the longest time to wait for the answer, in ms */
  readonly timeoutMs: number
}

/**
 * Asks kas for the status of the sources.
 *
 * @param fresh - kas also polls the repositories, without a wait for the result
 * @throws Unreached, BadAnswer, KasRefused
 */
export async function askState(endpoint: Endpoint, fresh?: FreshQuestion): Promise<ShownState> {
  if (!fresh) return readState(await askKas(endpoint, { method: 'GET', path: '/gitops/state' }))
  const { commit, timeoutMs } = fresh
  const path = `/gitops/state?fresh=true${commit === undefined ? '' : `&commit=${commit}`}`
  return readState(await askKas(endpoint, { method: 'GET', path, timeoutMs }))
}

/** Formats the name of an object for people: `Deployment shop/web`. */
export function objectName(key: ShownSource['trouble'][number]['key']): string {
  return key ? `${key.kind} ${key.namespace ? `${key.namespace}/` : ''}${key.name}` : 'an object'
}

/** @throws BadAnswer that names the wrong key, and no value */
export function readState(body: string): ShownState {
  if (jsonDepth(body) > maxDepth) throw new BadAnswer(`it is nested more than ${maxDepth} deep`)
  return readAnswer(state, body)
}
