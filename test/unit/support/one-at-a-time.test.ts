import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { oneAtATime } from '../../support/one-at-a-time.ts'

const skip = process.platform !== 'linux' && 'needs Linux'
const nameOf = (what: string) => `kas-test-${process.pid}-${what}`

t.test('what has one name never overlaps, also after one that fails', { skip }, async (t) => {
  let running = 0
  const most: number[] = []
  const work = (i: number) =>
    oneAtATime(nameOf('one'), async () => {
      most.push(++running)
      await new Promise(setImmediate)
      running--
      if (i === 1) throw new Error('failed')
      return i
    })
  const ended = await Promise.allSettled([0, 1, 2, 3].map(work))
  t.strictSame(
    ended.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.message)),
    [0, 'failed', 2, 3],
  )
  t.strictSame(most, [1, 1, 1, 1])
})

t.test('who is killed has it no more', { skip }, async (t) => {
  const file = join(import.meta.dirname, '../../support/one-at-a-time.ts')
  const script = `
    import { oneAtATime } from ${JSON.stringify(file)}
    setInterval(() => {}, 1000)
    await oneAtATime('${nameOf('killed')}', () => new Promise(() => console.log('mine')))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  let isMine = false
  const waiting = oneAtATime(nameOf('killed'), async () => {
    isMine = true
  })
  await new Promise(setImmediate)
  t.notOk(isMine)
  child.kill('SIGKILL')
  await waiting
  t.ok(isMine)
})
