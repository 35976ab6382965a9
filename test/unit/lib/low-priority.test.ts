import t from 'tap'
import { lowerPriority, type PrioritySystem, priorityNotice } from '../../../src/lib/low-priority.ts'
import { capturedLog } from '../../support/captured-log.ts'

/** A system that records the priority set on it. */
function systemAt(niceness: number, refuses: Partial<PrioritySystem> = {}) {
  const set: number[] = []
  const setPriority = (priority: number) => void set.push(priority)
  return { set, platform: () => 'linux', getPriority: () => niceness, setPriority, ...refuses }
}

const refusal = (name: string) => (): never => {
  throw new Error(`A system error occurred: ${name} returned EACCES (permission denied)`)
}

t.test('the priority falls, whatever it is, and never rises', async (t) => {
  for (const [from, to] of [
    [-20, -15],
    [0, 5],
    [6, 11],
    [14, 19],
    [19, 19],
  ] as const) {
    const system = systemAt(from)
    t.equal(lowerPriority(system), undefined)
    t.same(system.set, [to], `from ${from}`)
  }
})

t.test('elsewhere than on Linux the process keeps its priority', async (t) => {
  const system = systemAt(0, { platform: () => 'darwin' })
  t.equal(lowerPriority(system), undefined)
  t.same(system.set, [])
})

t.test('a system that refuses is told, and nothing is thrown', async (t) => {
  const [set, get] = ['uv_os_setpriority', 'uv_os_getpriority'].map((name) => refusal(name))
  t.match(lowerPriority(systemAt(6, { setPriority: set as never })), /uv_os_setpriority returned EACCES/)
  t.match(lowerPriority(systemAt(6, { getPriority: get as never })), /uv_os_getpriority returned EACCES/)
})

t.test('the first refusal is logged, and no other', async (t) => {
  const { log, lines } = capturedLog()
  const notice = priorityNotice()
  for (const part of ['views', 'gitops', 'views']) notice(log.child({ mod_name: part }), `EACCES in ${part}`)
  t.match(lines, [{ level: 'warn', mod_name: 'views', reason: 'EACCES in views', msg: /allow setpriority/ }])
  t.equal(lines.length, 1)
})
