import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { absent } from '../../../support/absent.ts'
import type { Told } from './low-priority-program.ts'

/** An agentk that was started at a low priority, without the right to raise it. */

const program = join(import.meta.dirname, 'low-priority-program.ts')
const isRoot = process.getuid?.() === 0
const lacking = ['nice', ...(isRoot ? ['setpriv'] : [])].filter(absent)
const skip = process.platform === 'linux' ? lacking.length > 0 && `needs ${lacking.join(', ')}` : 'needs Linux'
const withoutRight = isRoot ? ['setpriv', '--bounding-set=-sys_nice', '--inh-caps=-sys_nice'] : []

/** not lower: on a busy machine the test would wait */
const niceness = 6

t.test('a commit is read, behind what passes calls', { skip }, async (t) => {
  const [command = '', ...args] = [...withoutRight, 'nice', '-n', String(niceness), process.execPath, program]
  const { stdout } = await promisify(execFile)(command, args)
  const told: Told = JSON.parse(stdout)
  t.same(told.names, ['read'])
  t.equal(told.niceness, niceness)
  t.equal(told.lowest, niceness + 5)
  t.same(told.logged, [])
})
