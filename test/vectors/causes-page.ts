/** `npm run causes`: writes into doc/causes.md what `kas tree` says of the situations that it plays (KAS_VECTORS). */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { treeOf } from '../support/views/situation-tree.ts'
import type { Situation } from './situations.ts'

/** of the terminal that the page is of */
const columns = 124

export const causesPage = join(import.meta.dirname, '../../doc/causes.md')

/** A comment with the situation's name, then what is typed and what is said. */
const block = /<!-- (?<name>[\w-]+) -->\n```\n\$ kas tree (?<argv>.*)\n[^`]*```\n/g

/** Situations that a page plays, in its order. */
export const namesOn = (page: string) => [...page.matchAll(block)].map(({ groups }) => groups?.name ?? '')

/** The page, with what is said now. @throws Error: it names a situation that there is not */
export async function withTrees(page: string, situations: readonly Situation[]): Promise<string> {
  const blocks: string[] = []
  for (const { groups: { name = '', argv = '' } = {} } of page.matchAll(block)) {
    const situation = situations.find((one) => one.name === name)
    if (!situation) throw new Error(`there is no situation ${name}`)
    const text = await treeOf(situation, argv.split(' '), columns)
    blocks.push(`<!-- ${name} -->\n\`\`\`\n$ kas tree ${argv}\n${text}\`\`\`\n`)
  }
  return page.replaceAll(block, () => blocks.shift() ?? '')
}

export function readSituations(): readonly Situation[] {
  return JSON.parse(readFileSync(join(process.env.KAS_VECTORS ?? '', 'causes.json'), 'utf8'))
}

if (import.meta.main) {
  process.env.TZ = 'UTC'
  writeFileSync(causesPage, await withTrees(readFileSync(causesPage, 'utf8'), readSituations()))
}
