import t from 'tap'
import type { Explanation } from '../../../../../../src/agentk/modules/gitops/drift/explanation.ts'
import { begin, drifted, ofLive, text } from './drifting-source.ts'

t.test('a scan finds what metadata do not show, and looks again at what is known', async (t) => {
  const { drift, clock, asked, given, rounded } = begin(t)
  rounded()
  await drift.check(text)
  await drift.check('unknown')
  t.equal(asked.length, 0, 'one dry run says that nothing would change')
  given.wouldChange = true
  given.explanation = { ...drifted({ version: '2' }, undefined), kind: 'wouldChange' } as Explanation
  await drift.check(text)
  await clock.pass(0)
  t.match(drift.known.get(text), { finding: { kind: 'wouldChange' }, decision: { kind: 'left' } })
  given.wouldChange = false
  given.explanation = { kind: 'same', of: ofLive({ version: '2' }), hasLostFields: false }
  await drift.check(text)
  await clock.pass(0)
  t.equal(drift.known.size, 0)
})

t.test('a check of all objects says how many of them were compared', async (t) => {
  const { drift, clock, answer, given, rounded } = begin(t)
  const signal = AbortSignal.any([])
  t.equal(await drift.checkAll(signal), 0, 'no round has ended')
  rounded()
  t.strictSame([drift.objects, await drift.checkAll(signal)], [1, 1])
  given.wouldChange = true
  given.explanation = { ...drifted({ version: '2' }, undefined), kind: 'wouldChange' } as Explanation
  const release = answer.hold()
  const checking = drift.checkAll(signal)
  await clock.pass(0)
  t.equal(drift.known.size, 0)
  release()
  t.equal(await checking, 1)
  t.equal(drift.known.size, 1, 'it waits for the comparison')
  given.explanation = new Error('away')
  t.equal(await drift.checkAll(signal), 0, 'without an answer an object was not compared')
  drift.roundBegins()
  t.equal(await drift.checkAll(signal), 0, 'a round is writing')
  const left = new AbortController()
  left.abort(new Error('the caller has left'))
  await t.rejects(drift.checkAll(left.signal), /the caller has left/)
})

t.test('who asks while a check runs shares the next one', async (t) => {
  const { drift, clock, asked, answer, given, rounded } = begin(t)
  const signal = AbortSignal.any([])
  rounded()
  given.wouldChange = true
  given.explanation = drifted({ version: '2' }, undefined)
  const release = answer.hold()
  const first = drift.checkAll(signal)
  const left = new AbortController()
  const later = [drift.checkAll(signal), drift.checkAll(signal), drift.checkAll(left.signal)]
  await clock.pass(0)
  t.equal(asked.length, 1)
  left.abort(new Error('left'))
  await t.rejects(later[2] as Promise<number>, /left/)
  release()
  t.strictSame(await Promise.all([first, later[0], later[1]]), [1, 1, 1])
  t.equal(asked.length, 2)
  t.equal(await drift.checkAll(signal), 1)
  t.equal(asked.length, 3)
})
