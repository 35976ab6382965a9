import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { builtInKind } from '../../../../kubernetes/kind-words.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Row } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { textTable } from '../../../command/text-table.ts'
import { culpritText } from './cause-text.ts'
import { fitted } from './fitted-columns.ts'
import { type ShownView, verdictOf } from './shown-view.ts'
import { kindText, type Layout, reasonOf, shapeOf, sinceAge } from './verdict-text.ts'

export interface ListColumns {
  /** more than one namespace may be shown */
  readonly namespace: boolean
  /** more than one kind may be shown */
  readonly kind: boolean
  readonly wide: boolean
}

/** A column: its head, and its cell for each row. */
interface Column {
  readonly head: string
  readonly of: (row: Row) => string
  /** left out if no row has a cell */
  readonly isOptional?: true
}

const readyFact = /^\d+\/\d+ ready$/
const restartsFact = /^\d+ restarts?$/

/**
 * Returns a table like kubectl's, with problems. The most important columns come first, since a terminal cuts the last
 * ones. The sign before a row shows the verdict; `-o wide` has it as a word, too.
 */
export function listText(
  model: ShownView,
  { paint, now, columns: width, hasHeaders = true }: Layout,
  shown: ListColumns,
): string {
  const rows = model.children('')
  if (rows.length === 0) return ''
  const columns = columnsOf(now, shown).filter(({ of, isOptional }) => !isOptional || rows.some((row) => of(row)))
  const cells = [columns.map(({ head }) => head), ...rows.map((row) => columns.map(({ of }) => of(row)))]
  const [head = '', ...lines] = textTable(fitted(cells, width - signWidth))
    .trimEnd()
    .split('\n')
  const signed = lines.map((line, index) => `${shapeOf(rows[index] as Row, paint)} ${line}\n`)
  const { more = 0 } = model.pages.get('') ?? {}
  const first = hasHeaders ? `  ${paint.faint(head)}\n` : ''
  return `${first}${signed.join('')}${more > 0 ? `${paint.faint(`… ${more} more`)}\n` : ''}`
}

function columnsOf(now: number, { namespace, kind, wide }: ListColumns): readonly Column[] {
  const fact = (fits: RegExp) => (row: Row) => (row.f ?? []).find((one) => fits.test(one))?.split(' ')[0] ?? ''
  const isOther = (one: string) => !readyFact.test(one) && !restartsFact.test(one)
  const columns: readonly Column[] = [
    { head: 'NAME', of: ({ k, n }) => (kind ? `${kindText(k)}/${n}` : n) },
    { head: 'READY', of: fact(readyFact), isOptional: true },
    { head: 'REASON', of: (row) => (row.z ? row.z.reason : reasonOf(row)) },
    { head: 'RESTARTS', of: fact(restartsFact), isOptional: true },
    { head: 'SINCE', of: (row) => sinceAge(row, now) },
    { head: 'AGE', of: ({ t }) => ageText(t, now) },
    { head: 'CULPRIT', of: culpritText },
    { head: 'FACTS', of: ({ f = [] }) => f.filter(isOther).map(printable).join(', ') },
  ]
  const namespaced: readonly Column[] = namespace ? [{ head: 'NAMESPACE', of: ({ ns = '' }) => ns || '-' }] : []
  const all = [...namespaced, ...columns]
  if (!wide) return all
  return [
    ...all,
    { head: 'VERDICT', of: (row) => verdictOf(row) || '-' },
    { head: 'ARGO', of: ({ h }) => h?.[0] || '-' },
    { head: 'KSTATUS', of: ({ h }) => h?.[1] ?? '-' },
    { head: 'WHY', of: (row) => (row.z ? row.z.text : reasonOf(row)) },
  ]
}

/** Width of the sign before each row. */
const signWidth = 2

/** Returns names as kubectl accepts them: `pod/web-1`, `deployment.apps/web`. */
export function namesOf(model: ShownView): string[] {
  const name = ({ k, n }: Row) => {
    const { group, kind } = parseKindKey(k)
    return printable(`${builtInKind(k)?.names.singular ?? kind.toLowerCase()}${group && `.${group}`}/${n}`)
  }
  return model.children('').map(name)
}
