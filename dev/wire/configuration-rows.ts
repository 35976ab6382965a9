import { parse } from 'yaml'
import { unusedKeys } from '../../src/kas/config/unused-keys.ts'
import type { WireRow, WireSection } from './row.ts'

/**
 * Returns a row for each key of stock kas' configuration.
 *
 * @param upstream - content of a file with all keys
 */
export function configurationKeyRows(upstream: string): WireSection {
  const keys = leafKeys(parse(upstream))
  return { title: 'Configuration of kas: keys', rows: keys.map(rowOf) }
}

function leafKeys(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [path]
  return Object.entries(value).flatMap(([key, child]) => leafKeys(child, path === '' ? key : `${path}.${key}`))
}

function rowOf(key: string): WireRow {
  const unused = Object.keys(unusedKeys).find((one) => key === one || key.startsWith(`${one}.`))
  const what = unused === undefined ? 'used' : `not used: ${unusedKeys[unused]}`
  return { id: `config.${key}`, source: 'W 7.1', confirmed: 'defined', what: `\`${key}\`: ${what}` }
}
