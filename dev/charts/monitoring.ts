import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Files of deploy/monitoring for the chart kas: helm reads no file outside of a chart. */

const folder = join(import.meta.dirname, '../../deploy/monitoring')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')

/** Returns the text of each file, by path below the chart. */
export function monitoringFiles(): ReadonlyMap<string, string> {
  return new Map([
    ['files/rules.yaml', read('rules.yaml')],
    ['files/dashboard.json', `${JSON.stringify(JSON.parse(read('dashboard.json')))}\n`],
  ])
}
