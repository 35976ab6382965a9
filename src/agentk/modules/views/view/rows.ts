import { argoWords, type Row } from '../../../../proto/views-json.ts'
import type { ObjectRecord } from '../store/record.ts'
import type { Link } from '../store/relations.ts'
import { type Entry, Family, type Node } from '../tree/forest-node.ts'
import { worstKstatus } from '../tree/severity.ts'

/** What a row was made of: two of the same say the same. */
export interface RowParts {
  readonly said: unknown
  /** JSON of what depends on others */
  readonly around: string
}

export function rowParts(entry: Entry, links: readonly Link[]): RowParts {
  return {
    said: entry instanceof Family ? entry.kind : (entry as Node).said,
    around: JSON.stringify(around(entry, links)),
  }
}

export function isSameRow(one: RowParts, other: RowParts): boolean {
  if (one.around !== other.around) return false
  return one.said === other.said || JSON.stringify(own(one.said)) === JSON.stringify(own(other.said))
}

/** @returns JSON */
export function rowJson(entry: Entry, { said, around }: RowParts): string {
  const { id, kind, name, namespace } = entry
  const row = { u: id, k: kind, ns: namespace || undefined, n: name, ...(own(said) as object) }
  return joined(JSON.stringify(row), around)
}

/** Two objects in one. */
function joined(one: string, other: string): string {
  return other === '{}' ? one : `${one.slice(0, -1)},${other.slice(1)}`
}

/** What an object says by itself. */
function own(said: unknown): Partial<Row> | undefined {
  if (typeof said !== 'object' || said === null || !('uid' in said)) return undefined
  const { created, health, facts } = said as ObjectRecord
  const texts = health && ([health.argoText, health.kstatusText] as const)
  return {
    t: created,
    ...(health ? { h: [health.argo, health.kstatus] } : {}),
    ...(texts?.some(Boolean) ? { why: texts } : {}),
    ...(facts.length > 0 ? { f: facts } : {}),
  }
}

function around(entry: Entry, links: readonly Link[]): Partial<Row> {
  if (entry instanceof Family) {
    return { ...parentOf(entry.parent), c: entry.members.length, ...worst(entry.total) }
  }
  const node = entry as Node
  const children = node.childCount
  return {
    ...(node.family?.isBundle ? { p: node.family.id } : parentOf(node.parent)),
    ...(node.what === 'group' ? { h: groupVerdict(node) } : {}),
    ...(children > 0 ? { c: children, ...worst(node.worstBelow()) } : {}),
    ...(links.length > 0 ? { l: links } : {}),
  }
}

const parentOf = (parent: Node | undefined) => (parent?.id ? { p: parent.id } : {})
const worst = (severity: number) => (severity > 0 ? { w: argoWords[severity] as Row['w'] & string } : {})

/** The worst of its roots, as both systems have it. */
function groupVerdict(group: Node): NonNullable<Row['h']> {
  const kstatus = worstKstatus([...group.children()].flatMap(({ record }) => record?.health?.kstatus ?? []))
  return [argoWords[group.own] ?? '', kstatus]
}
