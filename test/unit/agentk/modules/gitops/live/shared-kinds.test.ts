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
