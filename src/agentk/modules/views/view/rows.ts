import { createHash } from 'node:crypto'
import { argoWords, type KstatusWord, type Row, type Cause as WireCause } from '../../../../proto/views-json.ts'
import { bounded } from '../../../health/kas/text.ts'
import type { ObjectRecord } from '../store/record.ts'
import type { ShownCause } from '../tree/causes.ts'
import { type Entry, Family, type Node } from '../tree/forest-node.ts'
import { kasSeverityOf, severityOf, type VerdictSide, wordsOf, worstKstatus } from '../tree/severity.ts'
import type { VisibleRecords } from '../tree/visible-records.ts'
import type { Link } from './relations.ts'

/** characters of a text of a cause in a row */
const maxRowText = 256
/** characters of JSON about a row's surroundings; a longer one is kept as a digest */
const maxKept = 200

/** Parts from which a row is made: equal parts make equal rows. */
export interface RowParts {
  readonly content: unknown
  /** JSON of what depends on other objects, and on the caller */
  readonly around: string
}

/** Parts of a row that was sent. */
export interface SentRow {
  readonly content: unknown
  /** `around`, or its digest */
  readonly kept: string
}

export interface RowSources {
  readonly visible: VisibleRecords
  readonly side: VerdictSide
  readonly links: readonly Link[]
  readonly cause: ShownCause | undefined
  /** kinds that are set aside, and from which the verdict is made */
  readonly aside: readonly string[]
}

export function rowParts(entry: Entry, sources: RowSources): RowParts {
  return {
    content: entry instanceof Family ? entry.kind : entry.content,
    around: JSON.stringify(around(entry, sources)),
  }
}

export const sentRow = ({ content, around }: RowParts): SentRow => ({ content, kept: keptOf(around) })

const keptOf = (around: string) =>
  around.length <= maxKept ? around : createHash('sha256').update(around).digest('base64')

export function isSameRow(sent: SentRow, parts: RowParts): boolean {
  if (sent.kept !== keptOf(parts.around)) return false
  return sent.content === parts.content || JSON.stringify(own(sent.content)) === JSON.stringify(own(parts.content))
}

/** @returns JSON */
export function rowJson(entry: Entry, { content, around }: RowParts): string {
  const { id, kind, name, namespace } = entry
  const row = { u: id, k: kind, ns: namespace || undefined, n: name, ...(own(content) as object) }
  return joined(JSON.stringify(row), around)
}

/** Joins two JSON objects into one. */
function joined(one: string, other: string): string {
  return other === '{}' ? one : `${one.slice(0, -1)},${other.slice(1)}`
}

/** Fields that the object alone decides. */
function own(content: unknown): Partial<Row> | undefined {
  if (typeof content !== 'object' || content === null || !('uid' in content)) return undefined
  const { created, facts, generation } = content as ObjectRecord
  return {
    t: created,
    ...(facts.length > 0 ? { f: facts } : {}),
    ...(generation > 0 ? { g: generation } : {}),
  }
}

function around(entry: Entry, sources: RowSources): Partial<Row> {
  const { side, links, cause } = sources
  const aside = sources.aside.length > 0 ? { a: sources.aside } : {}
  if (entry instanceof Family) {
    return { ...parentOf(entry.parent), c: entry.members.length, ...worst(entry.total, side), ...aside }
  }
  const children = entry.childCount
  return {
    ...(entry.record ? verdicts(entry.record, sources.visible) : {}),
    ...(entry.family?.isBundle ? { p: entry.family.id } : parentOf(entry.parent)),
    ...(entry.what === 'group' ? groupVerdict(entry, sources) : {}),
    ...(children > 0 ? { c: children, ...worst(entry.worstBelow(), side) } : {}),
    ...(links.length > 0 ? { l: links } : {}),
    ...(cause ? { z: shown(cause) } : {}),
    ...aside,
  }
}

function verdicts(record: ObjectRecord, visible: VisibleRecords): Partial<Row> {
  const { health } = record
  const word = visible.wordOf(record)
  if (!health && word === '') return {}
  const text = visible.opinions.ofOne(record).finding?.text ?? ''
  const why = [health?.argoText ?? '', health?.kstatusText ?? '', bounded(text, maxRowText)] as const
  return { h: [health?.argo ?? '', health?.kstatus ?? 'Current', word], ...(why.some(Boolean) ? { why } : {}) }
}

function shown(cause: ShownCause): WireCause {
  const { kind, namespace, name, id, reason, text, next, since, isAtLeast, last, count, others, isUndoable } = cause
  return {
    kind,
    namespace,
    name,
    id,
    reason: bounded(reason, maxRowText),
    text: bounded(text, maxRowText),
    next,
    ...(since === undefined ? {} : { since }),
    ...(since !== undefined && isAtLeast ? { atLeast: true } : {}),
    ...(last === undefined ? {} : { last }),
    ...(count === 1 ? {} : { count }),
    ...(others === 0 ? {} : { others }),
    ...(isUndoable ? { undo: true as const } : {}),
  }
}

const parentOf = (parent: Node | undefined) => (parent?.id ? { p: parent.id } : {})
const worst = (severity: number, side: VerdictSide) =>
  severity > 0 ? { w: wordsOf(side)[severity] as Row['w'] & string } : {}

/** Verdicts of a group: the worst of its roots, by each system. The side that sorts has already computed its own. */
function groupVerdict(group: Node, { visible, side }: RowSources): Partial<Row> {
  let [argo, kas] = [0, side === 'kas' ? group.own : 0]
  const ofKstatus = new Set<KstatusWord>()
  for (const { record } of group.children()) {
    if (!record) continue
    argo = Math.max(argo, severityOf(record.health, 'argo'))
    if (record.health) ofKstatus.add(record.health.kstatus)
    if (side !== 'kas') kas = Math.max(kas, kasSeverityOf(visible.wordOf(record)))
  }
  return { h: [argoWords[argo] ?? '', worstKstatus(ofKstatus), wordsOf('kas')[kas] ?? ''] }
}
