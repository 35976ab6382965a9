import t from 'tap'
import { type AbsentObject, absentCame } from '../../../../../../src/agentk/modules/gitops/live/absent-objects.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

interface Answer {
  readonly status: number
  readonly body?: object
}

/** Starts two API servers; the second one serves the account. `undefined` as the answer: the server is not reached. */
function start(
  absent: readonly AbsentObject[],
  answers: Readonly<Record<string, () => Answer | undefined>>,
  known = new Set<string>(),
) {
  const clock = new ManualClock()
  const asked: string[] = []
  const lane = (prefix: string) => ({
    json: async (_: string, path: string) => {
      asked.push(prefix + path)
      const answer = answers[prefix + path]?.()
      if (answer === undefined) throw new Error('not reached')
      return { headers: {}, body: {}, ...answer }
    },
  })
  const ended = new AbortController()
  const lanes = [lane(''), lane('account ')] as never[]
  const came = absentCame({ lanes, clock }, absent, known, ended.signal)
  return { clock, asked, came, ended, known }
}

t.test('what is there at the first look counts once: it may have come just now', async (t) => {
  const first = start([{ path: '/a' }, { path: '/b' }], {
    '/a': () => ({ status: 200 }),
    '/b': () => ({ status: 200 }),
  })
  t.equal(await first.came, true)
  t.strictSame([...first.known], ['/a'])
  const answers = { '/a': () => ({ status: 200 }) }
  const again = start([{ path: '/a' }], answers, first.known)
  t.equal(await again.came, false, 'something else is wrong')
  t.equal(again.clock.pending, 0)
})

t.test('one that was missing has come', async (t) => {
  let late: Answer | undefined = { status: 404 }
  const known = new Set(['/there'])
  const { asked, came, clock } = start(
    [{ path: '/there' }, { path: '/late' }],
    { '/there': () => ({ status: 200 }), '/late': () => late },
    known,
  )
  await eventually(() => clock.pending === 1)
  clock.advance(2000)
  late = undefined
  await eventually(() => asked.length === 3 && clock.pending === 1)
  late = { status: 200 }
  clock.advance(2000)
  t.equal(await came, true)
  t.strictSame(asked, ['/there', '/late', '/late', '/late'])
})

t.test('a kind comes with the resources of its version, endpoints with a slice that has some', async (t) => {
  const cases: readonly [AbsentObject, object, object][] = [
    [{ path: '/v1', holds: { kind: 'Tool' } }, { resources: [{ kind: 'Other' }] }, { resources: [{ kind: 'Tool' }] }],
    [{ path: '/s', holds: 'endpoints' }, { items: [{ endpoints: null }] }, { items: [{ endpoints: [{}] }] }],
  ]
  for (const [absent, before, after] of cases) {
    let body = before
    const { came, clock } = start([absent], { [absent.path]: () => ({ status: 200, body }) })
    await eventually(() => clock.pending === 1)
    body = after
    clock.advance(2000)
    t.equal(await came, true)
  }
})

t.test('the account is asked where agentk may not read; nobody may, or it is over', async (t) => {
  let status = 404
  const asAccount = { '/a': () => ({ status: 403 }), 'account /a': () => ({ status }) }
  const { came, clock } = start([{ path: '/a' }], asAccount)
  await eventually(() => clock.pending === 1)
  status = 200
  clock.advance(2000)
  t.equal(await came, true)
  status = 401
  t.equal(await start([{ path: '/a' }], asAccount).came, false)
  const over = start([{ path: '/a' }], { '/a': () => ({ status: 404 }) })
  await eventually(() => over.clock.pending === 1)
  over.ended.abort(new Error('over'))
  t.equal(await over.came.catch(() => false), false)
})
