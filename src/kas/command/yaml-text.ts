import { stringify } from 'yaml'
import { escapedJson } from '../../lib/printable.ts'

/** Returns a YAML document in which characters that would steer a terminal are escaped. */
export function yamlText(value: unknown): string {
  const options = { lineWidth: 0, defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'PLAIN' } as const
  return escapedJson(stringify(JSON.parse(JSON.stringify(value)), options))
}
