import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Returns the shell commands of one section of a page: its blocks of `sh`, one after the other.
 *
 * @param page - path below doc/
 * @param from - heading at which it begins, `## Images`
 * @param to - heading before which it ends; default: the end of the page
 * @throws Error if there are no commands
 */
export function typedLines(page: string, from: string, to?: string): string {
  const text = readFileSync(join(import.meta.dirname, '../../doc', page), 'utf8')
  const begin = text.indexOf(`\n${from}\n`)
  const end = to === undefined ? text.length : text.indexOf(`\n${to}\n`, begin)
  if (begin === -1 || end === -1) throw new Error(`doc/${page} has not ${from} and ${to}`)
  const blocks = text.slice(begin, end).matchAll(/^( *)```sh\n([\s\S]*?)^ *```/gm)
  const lines = [...blocks].map(([, indent = '', block = '']) => block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))
  if (lines.length === 0) throw new Error(`doc/${page} has nothing to type below ${from}`)
  return lines.join('')
}
