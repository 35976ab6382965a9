import t, { type Test } from 'tap'
import { maxReviewsPerRound, Refusals } from '../../../../../../src/agentk/modules/views/watch/refusals.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { kindOf, kinds } from '../../../../../support/views/records.ts'
import { ReviewDouble } from '../../../../../support/views/review-double.ts'

const mostMs = 300_000
const lookMs = 40_000

function start(t: Test) {
  const api = new ReviewDouble()
  const clock = new ManualClock()
  const refusals = new Refusals({ api, clock, random: () => 0.5 })
  const stopping = new AbortController()
  t.teardown(() => stopping.abort())
  const ended: string[] = []
  const wait = (kind: (typeof kinds)['pod'], namespace?: string) =>
    refusals
      .wait({ kind, namespace }, mostMs, stopping.signal)
      .then(() => ended.push(`${kind.key} ${namespace ?? ''}`.trim()))
  return { api, clock, ended, wait, stopping }
}

t.test('tried again within a minute once the right is there; one review of rules until then', async (t) => {
  const { api, clock, ended, wait } = start(t)
  void wait(kinds.pod)
  void wait(kinds.deployment)
  await clock.pass(lookMs)
  t.equal(api.asked.length, 1)
  api.rights.set('', [['/pods', '*']])
  await clock.pass(lookMs)
  t.strictSame(ended, ['Pod'])
  t.strictSame(
    api.asked.slice(1).map(({ review }) => review.spec),
    [{ namespace: 'default' }, { resourceAttributes: { verb: 'watch', group: '', resource: 'pods', namespace: '' } }],
  )
})

t.test('a right in one namespace is not one in the whole cluster', async (t) => {
  const { api, clock, ended, wait } = start(t)
  api.rights.set('', [
    ['/pods', 'default'],
    ['/pods', 'shop'],
  ])
  void wait(kinds.pod)
  void wait(kinds.pod, 'shop')
  void wait(kinds.pod, 'bank')
  await clock.pass(lookMs)
  t.strictSame(ended, ['Pod shop'])
})

t.test('where not all rules are known each right is asked for', async (t) => {
  const { api, clock, ended, wait } = start(t)
  api.knowsRules = false
  api.rights.set('', [['/pods', '*']])
  void wait(kinds.deployment)
  void wait(kinds.pod)
  await clock.pass(lookMs)
  t.strictSame(ended, ['Pod'])
  t.equal(api.asked.length, 3)
})

t.test('so many reviews in a look, in turns', async (t) => {
  const { api, clock, ended, wait } = start(t)
  api.knowsRules = false
  const many = Array.from({ length: 2 * maxReviewsPerRound }, (_, i) => kindOf(`Kind${i}`, `kinds${i}`))
  for (const kind of many) void wait(kind)
  await clock.pass(lookMs)
  t.ok(api.asked.length <= maxReviewsPerRound)
  await clock.pass(2 * lookMs)
  t.ok(api.asked.length <= 3 * maxReviewsPerRound)
  const asked = api.asked.flatMap(({ review }) => review.spec.resourceAttributes?.resource ?? [])
  t.strictSame([...new Set(asked)].sort(), many.map(({ plural }) => plural).sort())
  t.strictSame(ended, [])
})

t.test('reviews that fail or that nobody answers: tried again after the longest wait', async (t) => {
  const { api, clock, ended, wait } = start(t)
  let isSilent = false
  api.answer = () => (isSilent ? new Promise(() => undefined) : Promise.reject(new Error('away')))
  void wait(kinds.pod)
  await clock.pass(lookMs)
  isSilent = true
  await clock.pass(mostMs - lookMs - 1)
  t.strictSame(ended, [])
  await clock.pass(1)
  t.strictSame(ended, ['Pod'])
  t.strictSame(clock.waits, [])
})

t.test('nothing is asked while nothing waits', async (t) => {
  const { api, clock, ended, wait, stopping } = start(t)
  void wait(kinds.pod)
  stopping.abort()
  await clock.pass(0)
  t.strictSame([ended, clock.waits, api.asked.length], [['Pod'], [], 0])
})
