import t from 'tap'
import { namespaceCame } from '../../../../../../src/agentk/modules/gitops/live/missing-namespaces.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** An API server that answers as the test says; undefined: not at all. */
function start(names: readonly string[], statuses: Readonly<Record<string, () => number | undefined>>) {
  const clock = new ManualClock()
  const asked: string[] = []
  const json = async (_: string, path: string) => {
    const name = path.split('/').at(-1) as string
    asked.push(name)
    const status = statuses[name]?.()
    if (status === undefined) throw new Error('not reached')
    return { status, headers: {}, body: {} }
  }
  const ended = new AbortController()
  const came = namespaceCame({ lane: { json } as never, clock }, new Set(names), ended.signal)
  return { clock, asked, came, ended }
}

t.test('what is there is not waited for: something else is wrong', async (t) => {
  const { asked, came, clock } = start(['a', 'b'], { a: () => 200, b: () => 200 })
  t.equal(await came, false)
  t.strictSame(asked, ['a', 'b'])
  t.equal(clock.pending, 0)
})

t.test('one that was missing has come', async (t) => {
  let status: number | undefined = 404
  const { asked, came, clock } = start(['there', 'late'], { there: () => 200, late: () => status })
  await eventually(() => clock.pending === 1)
  clock.advance(2000)
  status = undefined
  await eventually(() => asked.length === 3 && clock.pending === 1)
  status = 200
  clock.advance(2000)
  t.equal(await came, true)
  t.strictSame(asked, ['there', 'late', 'late', 'late'])
})

t.test('agentk may not see them, or it is over', async (t) => {
  t.equal(await start(['a'], { a: () => 403 }).came, false)
  const { came, clock, ended } = start(['a'], { a: () => 404 })
  await eventually(() => clock.pending === 1)
  ended.abort(new Error('over'))
  t.equal(await came.catch(() => false), false)
})
