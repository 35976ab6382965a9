import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { GroupTurns, type GroupTurnsOptions } from '../../../src/lib/group-turns.ts'

const { signal } = new AbortController()

function start(options: Partial<GroupTurnsOptions> = {}) {
  const turns = new GroupTurns<string, string>({
    maxRunning: 2,
    maxWaitingOfGroup: 100,
    tooMany: () => new Error('too many'),
    ...options,
  })
  /** running turns, in the order in which they began */
  const running: { readonly name: string; readonly end: () => void }[] = []
  const ask = async (group: string, source: string, until = signal) => {
    const end = await turns.take(group, source, until)
    running.push({ name: `${group}/${source}`, end })
  }
  /** Ends the oldest turn. @returns names of the turns that run then */
  const next = async () => {
    running.shift()?.end()
    await setImmediate()
    return running.map(({ name }) => name)
  }
  return { turns, ask, next, running }
}

t.test('a group of many waits behind one of few, whenever they came', async (t) => {
  const { ask, next, turns } = start()
  for (let i = 0; i < 60; i++) void ask('crowd', `${i}`)
  await setImmediate()
  t.ok(turns.isContended)
  void ask('other', 'a')
  await setImmediate()
  t.strictSame(await next(), ['crowd/1', 'crowd/2'], 'had its turn before the other came')
  t.strictSame(await next(), ['crowd/2', 'other/a'])
})

t.test('in a group its sources take turns', async (t) => {
  const { ask, next } = start({ maxRunning: 1 })
  for (let i = 0; i < 10; i++) void ask('crowd', 'many')
  void ask('crowd', 'few')
  await setImmediate()
  const began = [await next(), await next(), await next()].flat()
  t.ok(began.includes('crowd/few'), `${began}`)
})

t.test('bounds of a group, of a source, and of what waits', async (t) => {
  const group = start({ maxRunning: 4, maxRunningOfGroup: 2 })
  for (let i = 0; i < 4; i++) void group.ask('a', `${i}`)
  void group.ask('b', 'x')
  await setImmediate()
  t.strictSame(
    group.running.map(({ name }) => name),
    ['a/0', 'a/1', 'b/x'],
  )
  const source = start({ maxRunning: 4, maxRunningOfSource: 1 })
  for (let i = 0; i < 4; i++) void source.ask('a', 'x')
  await setImmediate()
  t.equal(source.running.length, 1)
  const full = start({ maxRunning: 1, maxWaitingOfGroup: 1 })
  const refused: unknown[] = []
  for (let i = 0; i < 5; i++) full.ask('a', 'x').catch((error: unknown) => refused.push(error))
  void full.ask('b', 'x')
  await setImmediate()
  t.match(refused, [{ message: 'too many' }, { message: 'too many' }])
})

t.test('a wait that ends gives its place back; a turn that ends twice ends once', async (t) => {
  const { ask, next, running } = start({ maxRunning: 1 })
  const gone = new AbortController()
  void ask('a', 'x')
  const waits = [ask('a', 'y', gone.signal), ask('a', 'z', gone.signal)]
  await setImmediate()
  gone.abort(new Error('gone'))
  for (const wait of waits) await t.rejects(wait, { message: 'gone' })
  void ask('b', 'x')
  void ask('c', 'x')
  await setImmediate()
  running[0]?.end()
  t.strictSame(await next(), ['b/x'])
  t.strictSame(await next(), ['c/x'])
})
