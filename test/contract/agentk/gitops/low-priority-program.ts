import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { ManifestsThread } from '../../../../src/agentk/modules/gitops/build/manifests-thread.ts'
import { commitTurns } from '../../../../src/agentk/modules/gitops/render/renderer.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { capturedLog } from '../../../support/captured-log.ts'

/** Reads a commit. Prints the result, the niceness of the process and of its lowest thread, and the log. */

export interface Told {
  readonly names: readonly string[]
  readonly niceness: number
  readonly lowest: number
  readonly logged: readonly unknown[]
}

/** Reads the 19th field of proc_pid_stat(5). Only the name in parentheses, before it, can contain blanks. */
const nicenessOf = (task: string) => {
  const fields = readFileSync(`/proc/self/task/${task}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return Number(fields[16])
}

const { log, lines } = capturedLog()
const thread = new ManifestsThread({ clock: systemClock, turns: commitTurns(1), log }, { memoryLimitMb: 256 })
const data = Buffer.from('apiVersion: v1\nkind: ConfigMap\nmetadata: { name: read }\n')
const job = {
  files: [{ path: 'map.yaml', data }],
  scopes: new Map([['ConfigMap', true]]),
  options: { resourceExclusions: [], defaultNamespace: 'shop' },
}
const { manifests } = await thread.read('shop', job, new AbortController().signal)
const told: Told = {
  names: manifests.map(({ key }) => key.name),
  niceness: getPriority(),
  lowest: Math.max(...readdirSync('/proc/self/task').map(nicenessOf)),
  logged: lines,
}
process.stdout.write(JSON.stringify(told))
await thread.stop()
