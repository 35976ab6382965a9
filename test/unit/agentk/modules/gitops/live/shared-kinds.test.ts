import t from 'tap'
import { SharedKinds } from '../../../../../../src/agentk/modules/gitops/live/shared-kinds.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

t.test('who stops waiting for what all wait for stops alone', async (t) => {
  const term = new AbortController()
  const answered = Promise.withResolvers<{ status: number; body: unknown }>()
  let asked = 0
  const lane = {
    json: async (...[, , , signal]: [string, string, unknown?, AbortSignal?]) => {
      asked += 1
      const aborted = new Promise<never>((_, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      })
      return await Promise.race([answered.promise, aborted])
    },
  }
  const kinds = new SharedKinds({ lane: lane as never, clock: new ManualClock(), signal: term.signal })
  const first = new AbortController()
  const one = kinds.read(first.signal)
  const two = kinds.read(new AbortController().signal)
  const askedByThen = asked
  first.abort(new KasError({ code: 'CANCELLED', detail: 'gone' }))
  await t.rejects(one, { message: /gone/ })
  const three = kinds.read(new AbortController().signal)
  t.equal(asked, askedByThen, 'one reading for all')
  term.abort(new KasError({ code: 'CANCELLED', detail: 'the term has ended' }))
  await t.rejects(two, { message: /the term has ended/ })
  await t.rejects(three, { message: /the term has ended/ })
})

t.test('kinds are read again after a minute, also by a clock that was set back', async (t) => {
  const clock = new ManualClock()
  const { signal } = new AbortController()
  let asked = 0
  const json = async () => {
    asked += 1
    return { status: 200, body: { kind: 'APIGroupDiscoveryList', items: [] } }
  }
  const kinds = new SharedKinds({ lane: { json } as never, clock, signal })
  await kinds.current(signal)
  clock.advance(59_999)
  const before = asked
  await kinds.current(signal)
  t.equal(asked, before)
  for (const change of ['advance', 'putBack'] as const) {
    const before = asked
    clock[change](3600_000)
    await kinds.current(signal)
    t.ok(asked > before, change)
  }
})
