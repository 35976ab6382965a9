import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { builtInKind } from '../../../../kubernetes/kind-words.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Row } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { textTable } from '../../../command/text-table.ts'
import { culpritText } from './cause-text.ts'
import { cut } from './lines.ts'
import { type ShownView, verdictOf } from './shown-view.ts'
import { kindText, type Layout, reasonOf, shapeOf, sinceAge } from './verdict-text.ts'

export interface ListColumns {
  /** more than one namespace may be shown */
  readonly namespace: boolean
  /** more than one kind may be shown */
  readonly kind: boolean
  readonly wide: boolean
}

/** As kubectl has it, with what is wrong. */
export function listText(model: ShownView, { paint, now, columns: width }: Layout, columns: ListColumns): string {
  const rows = model.children('')
  if (rows.length === 0) return ''
  const heads = [
    ...(columns.namespace ? ['NAMESPACE'] : []),
    'NAME',
    'VERDICT',
    'REASON',
    'CULPRIT',
    'SINCE',
    'FACTS',
    'AGE',
    ...(columns.wide ? ['ARGO', 'KSTATUS', 'WHY'] : []),
  ]
  const table = textTable([heads, ...rows.map((row) => fitting(heads, cells(row, now, columns), width))])
  const [head = '', ...lines] = table.trimEnd().split('\n')
  const shown = lines.map((line, index) => `${shapeOf(rows[index] as Row, paint)} ${line}\n`)
  const { more = 0 } = model.pages.get('') ?? {}
  return `  ${paint.faint(head)}\n${shown.join('')}${more > 0 ? `${paint.faint(`… ${more} more`)}\n` : ''}`
}

/** Names may be long: of a terminal they take so much at most, so that what is wrong stands beside them. */
const shares: Readonly<Record<string, number>> = { NAMESPACE: 0.2, NAME: 0.35, CULPRIT: 0.3 }
const leastColumns = 20

function fitting(heads: readonly string[], cells: readonly string[], columns: number): string[] {
  return cells.map((cell, i) => {
    const share = shares[heads[i] ?? '']
    return share === undefined ? cell : cut(cell, Math.max(leastColumns, Math.floor(columns * share)))
  })
}

function cells(row: Row, now: number, { namespace, kind, wide }: ListColumns): string[] {
  const { ns = '', k, n, f = [], t, h, z } = row
  return [
    ...(namespace ? [ns === '' ? '-' : ns] : []),
    kind ? `${kindText(k)}/${n}` : n,
    verdictOf(row) || '-',
    z ? z.reason : reasonOf(row),
    culpritText(row),
    sinceAge(row, now),
    f.map(printable).join(', '),
    ageText(t, now),
    ...(wide ? [h?.[0] || '-', h?.[1] ?? '-', z ? z.text : reasonOf(row)] : []),
  ]
}

/** `pod/web-1`, `deployment.apps/web`: as kubectl takes them. */
export function namesText(model: ShownView): string {
  const name = ({ k, n }: Row) => {
    const { group, kind } = parseKindKey(k)
    return `${builtInKind(k)?.names.singular ?? kind.toLowerCase()}${group && `.${group}`}/${n}\n`
  }
  return model
    .children('')
    .map((row) => name(row))
    .map((line) => `${printable(line.trimEnd())}\n`)
    .join('')
}
