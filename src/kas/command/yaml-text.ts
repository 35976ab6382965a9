import { stringify } from 'yaml'
import { escapedJson } from '../../lib/printable.ts'

/** A YAML document in which what would steer a terminal is escaped. */
export function yamlText(value: unknown): string {
  const options = { lineWidth: 0, defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'PLAIN' } as const
  return escapedJson(stringify(JSON.parse(JSON.stringify(value)), options))
}
