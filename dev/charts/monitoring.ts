import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What the chart kas has of deploy/monitoring: helm reads no file outside of a chart. */

const folder = join(import.meta.dirname, '../../deploy/monitoring')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')

/** By path below the chart: the text of each file. */
export function monitoringFiles(): ReadonlyMap<string, string> {
  return new Map([
    ['files/rules.yaml', read('rules.yaml')],
    ['files/dashboard.json', `${JSON.stringify(JSON.parse(read('dashboard.json')))}\n`],
  ])
}
