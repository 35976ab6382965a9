import { countedKinds } from '../../../../kubernetes/counted-kinds.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Row, ViewState } from '../../../../proto/views-json.ts'
import { clockText } from './verdict-text.ts'

/** Kinds that the API server fails to list. They do not delay commands about other kinds. */

/** True if a row, its culprit, or an object that its verdict depends on is of a kind that cannot be listed. */
export function isOfAside({ k, z, a = [] }: Row, { aside = [] }: ViewState): boolean {
  return aside.some(([kind]) => kind === k || kind === z?.kind || a.includes(kind) || countedKinds[k]?.includes(kind))
}

export function asideText([kind, reason, since]: NonNullable<ViewState['aside']>[number], now: number): string {
  return printable(`${kind} cannot be listed since ${clockText(since, now)}: ${reason}`)
}
