import { parse } from 'yaml'
import { unusedKeys } from '../../src/kas/config/unused-keys.ts'
import { type WireRow, type WireSection, wireSection } from './row.ts'

/** What the configuration of kas may hold. */

export const configurationRows = wireSection('Configuration of kas: values', [
  ['configuration.defaults', 'W 7.1', 'defined', 'defaults are upstream’s'],
  ['configuration.durations', 'W 7.1', 'defined', 'durations are written `300s`'],
  ['configuration.network', 'W 7.1', 'defined', '`network` is one of tcp, tcp4, tcp6, unix'],
  ['configuration.required', 'W 7.1', 'defined', 'what is required with GitLab is named when it is not there'],
  ['configuration.kubernetes_api', 'W 7.1', 'defined', '8154 is off unless its block is there'],
  [
    'configuration.unknown',
    'G 9.3 no. 24',
    'defined',
    'an unknown key warns and stops nothing; a wrong value stops the start',
  ],
  [
    'configuration.redis.server',
    'W 7.1',
    'defined',
    '`redis.server.address` in the place of `redis.sentinel`: not used either',
  ],
  ['configuration.packages', 'G 6.2', 'defined', 'the files that Omnibus and the chart write start it unchanged'],
  ['configuration.flag', 'W 7.1, G 6.3', 'defined', '`--configuration-file=<path>`, `--configuration-file <path>`'],
  ['configuration.version', 'G 6.3', 'defined', '`--version`'],
  ['secret.api', 'G 9.3 no. 27', 'defined', 'API secret: exactly 32 bytes in base64, white space aside'],
  ['secret.private', 'G 9.3 no. 26', 'defined', 'private API secret: any length, a warning below 32 bytes'],
  [
    'secret.websocket',
    'G 9.3 no. 25',
    'defined',
    'WebSocket token secret: 64 to 72 bytes; a file that is absent stops nothing',
  ],
  ['environment.OWN_PRIVATE_API_URL', 'W 4.3', 'defined', '`OWN_PRIVATE_API_URL`'],
  [
    'environment.OWN_PRIVATE_API_CIDR',
    'W 4.3, G 9.3 no. 29',
    'defined',
    '`OWN_PRIVATE_API_CIDR`, a list too; beside the URL it warns',
  ],
  ['environment.OWN_PRIVATE_API_PORT', 'W 4.3', 'defined', '`OWN_PRIVATE_API_PORT`'],
  ['environment.OWN_PRIVATE_API_SCHEME', 'W 4.3', 'defined', '`OWN_PRIVATE_API_SCHEME`: not needed'],
  ['environment.OWN_PRIVATE_API_HOST', 'W 4.3', 'defined', '`OWN_PRIVATE_API_HOST`: not needed'],
  [
    'environment.SSL_CERT_DIR',
    'G 6.3, 10.3 no. 25',
    'unsure',
    '`SSL_CERT_DIR` names authorities that GitLab is trusted by',
  ],
])

/**
 * Each key of upstream's configuration has a row.
 *
 * @param upstream - a file that has them all
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
