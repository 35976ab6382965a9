import * as z from 'zod'
import { jsonDepth } from '../../../../lib/json-depth.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { BadAnswer, readAnswer } from '../../../command/bad-answer.ts'
import type { Endpoint } from '../../../command/endpoint.ts'

/** what a JSON of kas is nested */
const maxDepth = 32
/** characters of what stands in a column */
const maxCell = 2048
const maxSources = 10_000

const cell = z.string().max(maxCell)
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
})
const trouble = z.looseObject({ key: key.optional(), text: z.string(), file: z.string(), line: z.int() })
const leaving = z.looseObject({ key: key.optional(), code: cell.optional(), text: z.string() })
/** of an int64, as JSON of protobuf has it */
const ms = z.string().regex(/^\d{1,16}$/)

/** what the newest poll of a ref has found */
const polled = z.looseObject({ commit: cell, age_ms: z.number().min(0), contains: z.boolean().optional() })

/** of `GET <prefix>gitops/state` (doc/gitops.md), with what else stands there */
const source = z.looseObject({
  source: cell,
  commit: cell,
  wanted: cell,
  phase: cell,
  problem: z.string(),
  counts: counts.optional(),
  trouble: z.array(trouble),
  stale: z.boolean(),
  // those that kas has had from the beginning end here
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
})
/** of the agent's file */
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
  // whether heads contain this one was asked
  commit: cell.optional(),
})

export type ShownSource = z.output<typeof source>
export type ShownState = z.output<typeof state>

export interface FreshQuestion {
  /** the repositories are asked whether their heads contain it */
  readonly commit: string | undefined
  /** how long the answer is waited for */
  readonly timeoutMs: number
}

/**
 * @param fresh - the repositories are polled, which is not waited for
 * @throws Unreached, BadAnswer, KasRefused
 */
export async function askState(endpoint: Endpoint, fresh?: FreshQuestion): Promise<ShownState> {
  if (!fresh) return readState(await askKas(endpoint, { method: 'GET', path: '/gitops/state' }))
  const { commit, timeoutMs } = fresh
  const path = `/gitops/state?fresh=true${commit === undefined ? '' : `&commit=${commit}`}`
  return readState(await askKas(endpoint, { method: 'GET', path, timeoutMs }))
}

/** @throws BadAnswer that says which key is wrong, and no value */
export function readState(body: string): ShownState {
  if (jsonDepth(body) > maxDepth) throw new BadAnswer(`it is nested more than ${maxDepth} deep`)
  return readAnswer(state, body)
}
