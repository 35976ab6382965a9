import { kindWord, namesKey } from '../../../../kubernetes/kind-words.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Row } from '../../../../proto/views-json.ts'
import type { Asked } from './asked.ts'
import { folded } from './lines.ts'
import { kindText, type Layout } from './verdict-text.ts'

/** Objects of one relation that a line names. */
const maxNamed = 5

/** True if the command line names the row. For a word that only the agent knows, the name alone counts. */
export function isNamed({ names }: Pick<Asked, 'names'>, { k, n }: Row): boolean {
  return names.some(({ kind, name }) => name === n && (namesKey(kind, k) || kindWord(kind).builtIn.length === 0))
}

/**
 * Returns lines with an object's links beside its owners: `mounts Secret/sink (absent or hidden); runs on
 * Node/worker-3`.
 *
 * @returns lines, none of which is wider than the terminal
 */
export function linkLines({ l = [], ns = '' }: Row, { columns, paint }: Layout, indent: string): string[] {
  const byRelation = new Map<string, string[]>()
  for (const [relation, id, kind, namespace, name] of l) {
    const place = namespace === '' || namespace === ns ? '' : `${namespace}/`
    const text = `${place}${kindText(kind)}/${name}${id === '' ? ' (absent or hidden)' : ''}`
    byRelation.set(relation, [...(byRelation.get(relation) ?? []), text])
  }
  const parts = [...byRelation].map(([relation, all]) => {
    const more = all.length - maxNamed
    return `${relation} ${all.slice(0, maxNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  })
  return folded(printable(parts.join('; ')), columns, indent).map((line) => paint.faint(line))
}
