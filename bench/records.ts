/**
 * What do the records of 100,000 Pods cost? A process parses two lists of them page by page. It keeps nothing, records
 * (of Pods that share their labels by tens, and of Pods that share none), or a tenth of the objects themselves.
 * Options: `--rounds N`, `--objects N`.
 */
import { join } from 'node:path'
import { nodeFlags } from '../dev/node-flags.ts'
import type { KeepSettings } from './records/keep.ts'
import { podsJson } from './records/pods.ts'
import { hear } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readCounts } from './support/options.ts'
import { Programs } from './support/programs.ts'

const { rounds, objects } = readCounts({ rounds: 3, objects: 100_000 })
const turns: Readonly<Record<string, KeepSettings>> = {
  nothing: { what: 'nothing', of: 'deployments', objects },
  'records, deployments': { what: 'records', of: 'deployments', objects },
  'records, sets': { what: 'records', of: 'sets', objects },
  'objects, a tenth': { what: 'objects', of: 'deployments', objects: Math.ceil(objects / 10) },
}

process.stderr.write(`a Pod has ${Math.round(podsJson(0, 100, 'deployments').length / 100)} bytes\n`)
const rows = new Map(Object.keys(turns).map((name) => [name, {} as Row]))
for (let round = 0; round < rounds; round++) {
  const order = Object.entries(turns)
  for (const [name, settings] of round % 2 ? order.toReversed() : order) {
    const programs = new Programs()
    try {
      const flags = [...nodeFlags, '--expose-gc']
      const child = programs.spawn(join(import.meta.dirname, 'records/keep.ts'), [JSON.stringify(settings)], { flags })
      addTo(rows.get(name) as Row, await hear<Record<string, number>>(child))
    } finally {
      programs.stop()
    }
  }
  process.stderr.write(`round ${round + 1} of ${rounds}\n`)
}
report('records', Object.fromEntries(rows))
