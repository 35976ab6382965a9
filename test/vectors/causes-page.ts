/**
 * `npm run causes`: writes the output of `kas tree` for the situations of doc/guide/causes.md (KAS_VECTORS) into that page.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { treeOf } from '../support/views/situation-tree.ts'
import type { Situation } from './situations.ts'

/** width of the page's terminal */
const columns = 124

export const causesPage = join(import.meta.dirname, '../../doc/guide/causes.md')

/** Matches a comment with the name of a situation, then the command and its output. */
const block = /<!-- (?<name>[\w-]+) -->\n```\n\$ kas tree (?<argv>.*)\n[^`]*```\n/g

/** Returns the names of the situations on a page, in order. */
export const namesOn = (page: string) => [...page.matchAll(block)].map(({ groups }) => groups?.name ?? '')

/** Returns the page with the current output. @throws Error if it names an unknown situation */
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
