import { execFile } from 'node:child_process'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import { promisify } from 'node:util'
import t from 'tap'
import { collectAll, flags, youngCollector } from '../../../src/lib/v8.ts'

const run = promisify(execFile)

t.test('V8 knows each flag: one that it does not is only told on stderr', async (t) => {
  const set = async (flag: string) => {
    const { stderr } = await run(process.execPath, ['-e', `v8.setFlagsFromString(${JSON.stringify(flag)})`])
    return stderr
  }
  for (const flag of Object.values(flags).flat()) t.equal(await set(flag), '', flag)
  t.match(await set('--no-such-flag'), /unrecognized/)
})

t.test('the young generation is collected, and only that', async (t) => {
  const collect = youngCollector()
  const seen = new Promise<number[]>((resolve) => {
    const observer = new PerformanceObserver((list) => {
      observer.disconnect()
      resolve(list.getEntries().map((entry) => (entry as unknown as { detail: { kind: number } }).detail.kind))
    })
    observer.observe({ entryTypes: ['gc'] })
  })
  const alive = setInterval(() => undefined, 1000) // the observer does not keep the process alive
  collect()
  const kinds = await seen.finally(() => clearInterval(alive))
  t.ok(kinds.includes(constants.NODE_PERFORMANCE_GC_MINOR))
  t.notOk(kinds.includes(constants.NODE_PERFORMANCE_GC_MAJOR), 'V8 may mark a little beside it, by itself')
})

t.test('what nothing holds is collected, once the turn that made it is over', async (t) => {
  const kept = { held: true }
  const refs = [new WeakRef(kept), new WeakRef({ held: false })]
  await new Promise(setImmediate)
  collectAll()
  t.strictSame(
    refs.map((ref) => ref.deref()),
    [kept, undefined],
  )
  t.notOk('gc' in globalThis)
})
