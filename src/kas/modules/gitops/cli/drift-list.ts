import * as z from 'zod'
import { jsonDepth } from '../../../../lib/json-depth.ts'
import { printable } from '../../../../lib/printable.ts'
import { BadAnswer, readAnswer } from '../../../command/bad-answer.ts'
import type { Data } from '../../../command/output.ts'
import { type DriftReport, driftLine } from './drift-text.ts'
import type { DifferingObject, DriftList, FieldDifference } from './output-kinds.ts'
import { driftedObject, timeText } from './source-list.ts'
import { cell, drifted, maxDepth, ms } from './state.ts'

/** Objects, or fields of one, in an answer: kas sends fewer. */
const maxItems = 1000

const field = z.looseObject({
  path: cell,
  kind: cell,
  before: z.string().optional(),
  after: z.string().optional(),
  manager: cell,
  operation: cell,
  time: cell,
  secret_key: cell,
  rule: cell,
})
const differing = z.looseObject({
  object: drifted,
  field: z.array(field).max(maxItems),
  more: z.int(),
  ignored: z.array(field).max(maxItems),
  more_ignored: z.int(),
})
/** answer of `GET <prefix>gitops/diff` (doc/guide/drift.md) */
const answer = z.object({
  source: cell,
  scan: z.boolean(),
  differing: z.array(differing).max(maxItems),
  objects: z.int(),
  compared: z.int(),
  withheld: z.int(),
  cut: z.int(),
  problem: z.string(),
  at_ms: ms,
  mode: cell,
})

export type ShownDrift = z.output<typeof answer>
type Differing = ShownDrift['differing'][number]
type Field = Differing['field'][number]

/** @throws BadAnswer that names the wrong key, and no value */
export function readDrift(body: string): ShownDrift {
  if (jsonDepth(body) > maxDepth) throw new BadAnswer(`it is nested more than ${maxDepth} deep`)
  return readAnswer(answer, body)
}

/** Exit code where it is not known if an object differs: also if the command fails. */
export const unknownCode = 5

/** Returns 0 if nothing differs, 1 if an object does, 5 if it is not known. */
export function exitCodeOf({ scan, differing, objects, compared, withheld, cut, problem }: ShownDrift): number {
  if (differing.some(({ object }) => object.kind !== 'not_compared') || withheld + cut > 0) return 1
  return problem === '' && differing.length === 0 && (!scan || compared === objects) ? 0 : unknownCode
}

/** Returns the data of the command. @param now - ms since 1970 */
export function driftListData(found: ShownDrift, now: number): Data<DriftList> {
  const { source, scan, differing, objects, compared, withheld, cut, problem, at_ms: at, mode } = found
  /** Converts a time of the agent's clock, which may differ. */
  const timeOf = (text: string) =>
    text === '0' || at === '0' ? undefined : timeText(now - (Number(at) - Number(text)))
  return {
    kind: 'DriftList',
    fields: {
      source,
      exitCode: exitCodeOf(found),
      driftMode: filled(mode),
      objects,
      compared: scan ? compared : undefined,
      withheld,
      more: cut,
      message: filled(problem),
      items: differing.map((one) => differingObject(one, timeOf)),
    },
    names: differing.flatMap(({ object: { key } }) => {
      return key ? [printable([key.kind.toLowerCase(), key.namespace, key.name].filter(Boolean).join('/'))] : []
    }),
    table: () => driftText(found),
  }
}

function differingObject(
  { object, field, more, ignored, more_ignored: moreIgnored }: Differing,
  timeOf: (ms: string) => string | undefined,
): DifferingObject {
  const paths = field.flatMap(({ path }) => filled(path) ?? [])
  return {
    ...driftedObject({ ...object, path: paths, more_paths: more }, timeOf),
    fields: field.map(fieldDifference),
    ignored: ignored.map(fieldDifference),
    moreIgnored,
  }
}

function fieldDifference(one: Field): FieldDifference {
  const { path, kind, before, after, manager, operation, time, secret_key: secretKey, rule } = one
  return {
    path: filled(path),
    kind,
    git: before,
    cluster: after,
    manager: filled(manager),
    operation: filled(operation),
    changed: filled(time),
    secretKey: filled(secretKey),
    rule: filled(rule),
  }
}

function filled(text: string): string | undefined {
  return text === '' ? undefined : text
}

/** Returns the text for people: each object with its fields, then how far it was compared. */
export function driftText(found: ShownDrift): string {
  const report = { at_ms: found.at_ms, age_ms: 0, drift_mode: found.mode }
  const lines = [...found.differing.flatMap((one) => objectLines(one, report)), ...endLines(found)]
  return lines.map((line) => `${printable(line)}\n`).join('')
}

function objectLines(one: Differing, report: DriftReport): readonly string[] {
  const { object, field, more, ignored, more_ignored: moreIgnored } = one
  const { file, line } = object
  const paths = field.flatMap(({ path }) => filled(path) ?? [])
  const place = file === '' ? '' : ` (${file}${line === 0 ? '' : `:${line}`})`
  return [
    `${driftLine({ ...object, path: paths, more_paths: more }, report)}${place}`,
    ...field.filter(({ path }) => path !== '').flatMap(fieldLines),
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...ignored.flatMap(fieldLines),
    ...(moreIgnored > 0 ? [`  and ${moreIgnored} more that a rule leaves to others`] : []),
  ]
}

function fieldLines({
  path,
  kind,
  before,
  after,
  manager,
  operation,
  secret_key: key,
  rule,
}: Field): readonly string[] {
  const name = key === '' ? path : `${path} ${key}`
  const order = kind === 'reordered' ? ', in another order' : ''
  const by = manager === '' ? '' : `, by ${manager} (${operation})`
  const left = rule === '' ? '' : `; left to others: ${rule}`
  return [`  ${name}${order}${by}${left}`, `    Git:     ${before ?? 'none'}`, `    cluster: ${after ?? 'none'}`]
}

function endLines({ scan, differing, objects, compared, withheld, cut, problem, mode }: ShownDrift): readonly string[] {
  const hidden = [
    ...(withheld > 0 ? [`${countText(withheld)} differ from Git that you may not get`] : []),
    ...(cut > 0 ? [`${countText(cut)} more differ from Git, for which there was no room`] : []),
  ]
  const isNothing = differing.length + withheld + cut === 0 && problem === ''
  if (scan) return [...hidden, scanLine({ objects, compared }, isNothing)]
  if (!isNothing) return hidden
  const followed = mode === 'none' ? 'changes are not followed' : 'changes in the cluster are followed'
  return [`nothing is known to differ: ${followed}; --scan compares each object now`]
}

function scanLine({ objects, compared }: Pick<ShownDrift, 'objects' | 'compared'>, isNothing: boolean): string {
  const missed = objects - compared
  const result = isNothing && missed === 0 ? ': nothing differs from Git' : ''
  const rest = missed > 0 ? `; ${countText(missed)} could not be compared now: try again` : ''
  return `compared ${compared} of ${countText(objects)}${result}${rest}`
}

function countText(count: number): string {
  return `${count} object${count === 1 ? '' : 's'}`
}
