import t from 'tap'
import type { Explanation } from '../../../../../../src/agentk/modules/gitops/drift/explanation.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import {
  applied,
  begin,
  by,
  changed,
  drifted,
  editor,
  entry,
  key,
  kinds,
  liveOf,
  manifest,
  metadata,
  ofLive,
  own,
  running,
  text,
} from './drifting-source.ts'

t.test('an object as it was applied is not explained, nor one of which nothing was applied', async (t) => {
  const { seen, asked, rounded } = begin(t)
  seen(changed)
  rounded(entry({ digest: '' }))
  seen(changed)
  rounded()
  seen({ version: '2' })
  seen(changed, { ...key, name: 'unknown' })
  t.strictSame(asked, [])
})

t.test('a change is known at once, and a round corrects it when it is due', async (t) => {
  const { drift, seen, clock, asked, given, rounded, rounds } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock))
  seen(changed)
  await clock.pass(0)
  const decision = { kind: 'later', at: clock.now() + 300_000 }
  t.match(drift.known.get(text), { finding: { kind: 'drifted' }, decision })
  seen(changed)
  seen({ ...changed, version: '3' })
  await clock.pass(299_999)
  t.equal(asked.length, 1, 'metadata that are the same are not explained again')
  t.equal(rounds(), 0, 'managedFields keep the time, so that nothing has to be recorded')
  await clock.pass(1)
  t.equal(rounds(), 1)
  const verdict = await drift.judge(manifest, { live: liveOf(changed), entry: entry(), kinds }, running())
  t.match(verdict, { kind: 'write', finding: { differences: [{ path: '.spec.replicas' }] } })
  t.equal(asked.length, 1, 'a round takes what is known')
  given.explanation = { kind: 'same', of: ofLive({ version: '4' }), hasLostFields: false }
  drift.roundBegins()
  seen({ version: '4' })
  rounded()
  t.equal(drift.known.size, 0, 'it is as applied again')
  t.equal(asked.length, 1, 'what a round has written is not explained')
})

t.test('what others change during a round is explained after it', async (t) => {
  const { drift, seen, clock, asked, given, rounded } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock))
  drift.roundBegins()
  seen(changed)
  await clock.pass(0)
  t.equal(asked.length, 0)
  rounded()
  await clock.pass(0)
  t.equal(drift.known.size, 1)
  drift.roundBegins()
  drift.left(key)
  given.explanation = { kind: 'deleted' }
  drift.roundEnds(undefined)
  await clock.pass(0)
  t.match(drift.known.get(text), { finding: { isDeleted: true } }, 'also after a round that has failed')
})

t.test('an explanation that comes while a round writes is asked for again after it', async (t) => {
  const { drift, seen, clock, asked, given, rounded, answer } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock))
  const release = answer.hold()
  seen(changed)
  drift.roundBegins()
  release()
  await clock.pass(0)
  t.equal(drift.known.size, 0, 'the round may write the object')
  drift.roundEnds(undefined)
  await clock.pass(0)
  t.equal(asked.length, 2)
  t.match(drift.known.get(text), { finding: { kind: 'drifted' } })
})

t.test('a round that leaves an object as it was does not hide what an apply would change', async (t) => {
  const { drift, seen, clock, asked, given, rounded } = begin(t)
  rounded()
  given.wouldChange = true
  given.explanation = { ...drifted({ version: '2' }, undefined), kind: 'wouldChange' } as Explanation
  await drift.check(text)
  await clock.pass(0)
  drift.roundBegins()
  seen({ version: '3' })
  rounded()
  await clock.pass(0)
  t.equal(asked.length, 2, 'it is compared again')
  t.match(drift.known.get(text), { finding: { kind: 'wouldChange' } })
})

t.test('a time that managedFields do not have is recorded by a round, once', async (t) => {
  const { drift, clock, given, rounded, rounds } = begin(t)
  rounded()
  drift.left(key)
  await clock.pass(500)
  t.match(drift.known.get(text), {
    finding: { isDeleted: true },
    decision: { kind: 'later', at: clock.now() + 10_000 },
  })
  t.equal(rounds(), 1, 'to record since when')
  const judged = { live: undefined, entry: entry(), kinds }
  t.match(await drift.judge(manifest, judged, running()), { kind: 'left', finding: { isDeleted: true } })
  const since = drift.known.get(text)?.finding.since as number
  rounded(entry({ drift: { since, isDeleted: true } }))
  await clock.pass(9_999)
  t.equal(rounds(), 1)
  await clock.pass(1)
  t.equal(rounds(), 2)
  given.explanation = { kind: 'same', of: ofLive({ version: '9', uid: 'v' }), hasLostFields: false }
  const again = { live: liveOf({ version: '9', uid: 'v' }), entry: entry(), kinds }
  t.match(await drift.judge(manifest, again, running()), { kind: 'same', live: { uid: 'v' } })
})

t.test('a new pod goes on from the recorded time', async (t) => {
  const { drift, clock, rounded } = begin(t)
  const since = clock.now() - 9_000
  rounded(entry({ drift: { since, isDeleted: true } }))
  drift.settled()
  drift.left(key)
  await clock.pass(500)
  t.match(drift.known.get(text), { decision: { kind: 'later', at: since + 10_000 } })
})

t.test('a deletion that stays is recorded by a round, at most every ten seconds', async (t) => {
  const { drift, clock, rounded, rounds } = begin(t, { drift: { mode: 'report' } })
  rounded()
  drift.left(key)
  await clock.pass(500)
  t.match(drift.known.get(text), { decision: { kind: 'left', because: { kind: 'mode' } } })
  t.equal(rounds(), 1)
  drift.roundBegins()
  rounded()
  await clock.pass(9_999)
  t.equal(rounds(), 1)
  await clock.pass(1)
  t.equal(rounds(), 2, 'that round has not recorded it')
  const since = drift.known.get(text)?.finding.since as number
  drift.roundBegins()
  rounded(entry({ drift: { since, isDeleted: true } }))
  await clock.pass(1e6)
  t.equal(rounds(), 2)
})

t.test('a round ends the drift of what it has applied, but not the fields that people have added', async (t) => {
  const { drift, seen, clock, asked, given, rounded } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock))
  drift.left(key)
  await clock.pass(500)
  t.equal(drift.known.size, 1)
  drift.roundBegins()
  drift.roundEnds({ entries: new Map([[text, entry()]]), kinds, isPaused: false, applied: [text] })
  t.equal(drift.known.size, 0, 'also without an event')
  drift.roundBegins()
  const added = { 'f:spec': { 'f:nodeSelector': { '.': {}, 'f:disk': {} } } }
  given.explanation = drifted({ version: '5' }, by(clock))
  seen({ version: '5', others: [{ ...editor('2026-06-01T00:00:00Z'), fieldsV1: added }], own: applied })
  drift.roundEnds({
    entries: new Map([[text, entry({ fields: liveOf({ own: applied }).fields })]]),
    kinds,
    isPaused: false,
  })
  await clock.pass(0)
  t.equal(asked.length, 2)
  t.equal(drift.known.size, 1)
})

t.test('a second write within the second of the first is seen', async (t) => {
  const { drift, seen, clock, asked, given, rounded } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock), clock.now() + 1000)
  seen(changed)
  await clock.pass(0)
  given.explanation = {
    ...drifted({ ...changed, version: '3' }, by(clock)),
    differences: [{ path: '.spec.paused', kind: 'changed' }],
  } as Explanation
  for (let i = 3; i < 50; i++) seen({ ...changed, version: String(i) })
  await clock.pass(1000)
  t.equal(asked.length, 2, 'once more after the second, whatever is written')
  t.match(drift.known.get(text)?.finding.differences, [{ path: '.spec.paused' }])
  for (let i = 50; i < 99; i++) seen({ ...changed, version: String(i) })
  await clock.pass(60_000)
  t.equal(asked.length, 2, 'its status is not explained')
})

t.test('changes within one second are compared once more together', async (t) => {
  const { seen, clock, asked, given, rounded } = begin(t)
  rounded()
  const until = clock.now() + 1000
  for (const generation of [2, 3, 4]) {
    given.explanation = drifted({ ...changed, generation }, by(clock), until)
    seen({ ...changed, generation })
    await clock.pass(100)
  }
  given.explanation = drifted({ ...changed, generation: 4 }, by(clock))
  await clock.pass(60_000)
  t.equal(asked.length, 4)
})

t.test('an object that is made again at once was not deleted', async (t) => {
  const { drift, seen, clock, asked, given, rounded } = begin(t)
  rounded()
  drift.left(key)
  await clock.pass(499)
  t.equal(asked.length, 0)
  given.explanation = drifted({ version: '9', uid: 'v' }, undefined)
  seen({ version: '9', uid: 'v' })
  await clock.pass(60_000)
  t.equal(asked.length, 1)
  t.match(drift.known.get(text), { finding: { isDeleted: false } })
})

t.test('an object that is made again without the label is found, though no watch shows it', async (t) => {
  const { drift, clock, asked, given, rounded } = begin(t)
  rounded()
  drift.left(key)
  await clock.pass(500)
  t.match(drift.known.get(text), { finding: { isDeleted: true } })
  given.explanation = drifted({ version: '9', uid: 'v' }, undefined)
  await clock.pass(1500)
  t.match(drift.known.get(text), { finding: { isDeleted: false, resourceVersion: '9' } })
  await clock.pass(60_000)
  t.equal(asked.length, 2)
})

t.test('an object that stays deleted is compared twice', async (t) => {
  const { drift, clock, asked, rounded } = begin(t, { drift: { mode: 'report' } })
  rounded()
  drift.left(key)
  await clock.pass(60_000)
  t.equal(asked.length, 2)
})

t.test('so is a write within the second in which the object came to be in order', async (t) => {
  const { drift, seen, clock, asked, given, rounded } = begin(t, { drift: { mode: 'report' } })
  rounded()
  given.explanation = { kind: 'same', of: ofLive(changed), hasLostFields: true, again: clock.now() + 1000 }
  seen(changed)
  await clock.pass(0)
  t.equal(drift.known.size, 0)
  given.explanation = drifted({ ...changed, version: '3' }, by(clock))
  seen({ ...changed, version: '3' }) // its metadata are those of the first write
  await clock.pass(999)
  t.equal(asked.length, 1)
  await clock.pass(1)
  t.equal(asked.length, 2)
  t.match(drift.known.get(text)?.finding, { kind: 'drifted' })
})

t.test('a pause is shown, and ends', async (t) => {
  const { drift, seen, clock, given, rounded, rounds } = begin(t)
  rounded(entry(), true)
  given.explanation = drifted(changed, by(clock, 1e6))
  seen(changed)
  await clock.pass(1e6)
  t.match(drift.known.get(text)?.decision, { kind: 'left', because: { kind: 'paused' } })
  t.equal(rounds(), 0)
  rounded()
  await clock.pass(0)
  t.equal(rounds(), 1)
})

t.test('an explanation that fails is tried again', async (t) => {
  const { drift, clock, asked, given, rounded } = begin(t)
  rounded()
  given.explanation = new KasError({ code: 'UNREACHABLE', detail: 'the API server is away' })
  drift.left(key)
  await clock.pass(500)
  t.equal(drift.known.size, 0, 'nothing is claimed')
  given.explanation = { kind: 'deleted' }
  await clock.pass(30_000)
  t.equal(asked.length, 2)
  t.equal(drift.known.size, 1)
})

t.test('what cannot be compared is no drift, unless its marks prove a change', async (t) => {
  const { drift, seen, clock, given, rounded, rounds } = begin(t)
  rounded()
  const refused = { kind: 'notCompared' as const, of: ofLive(changed), reason: 'the webhook is down' }
  given.explanation = { ...refused, isProven: false }
  seen(changed)
  await clock.pass(1e9)
  t.match(drift.known.get(text)?.finding, { kind: 'notCompared', reason: 'the webhook is down' })
  t.equal(rounds(), 0)
  const later = { ...changed, version: '3', own: { ...own, fieldsV1: { 'f:x': {} } } }
  given.explanation = { ...refused, isProven: true, of: ofLive(later) }
  seen(later)
  await clock.pass(0)
  t.match(drift.known.get(text), { finding: { kind: 'drifted' }, decision: { kind: 'later' } })
})

t.test('fields that lost their owner are taken back where drift is corrected', async (t) => {
  for (const mode of ['correct', 'report'] as const) {
    const { drift, seen, clock, given, rounded, rounds } = begin(t, { drift: { mode } })
    rounded()
    given.explanation = { kind: 'same', of: ofLive(changed), hasLostFields: true }
    seen(changed)
    await clock.pass(0)
    t.equal(drift.known.size, 0, 'no value differs')
    t.equal(rounds(), mode === 'correct' ? 1 : 0)
    const verdict = await drift.judge(manifest, { live: liveOf(changed), entry: entry(), kinds }, running())
    t.strictSame(
      verdict,
      mode === 'correct' ? { kind: 'write' } : { kind: 'same', live: undefined },
      'no new reference',
    )
  }
})

t.test('a correction that is refused is tried again by the queue of rounds, and not at once', async (t) => {
  const { drift, seen, clock, given, rounded, rounds } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock, 1e6))
  seen(changed)
  await clock.pass(0)
  t.equal(rounds(), 1)
  for (let i = 0; i < 5; i++) {
    drift.roundBegins()
    t.match(await drift.judge(manifest, { live: liveOf(changed), entry: entry(), kinds }, running()), { kind: 'write' })
    rounded()
    await clock.pass(60_000)
  }
  t.equal(rounds(), 1)
  given.explanation = drifted({ ...changed, version: '3', others: [editor('2026-06-01T00:00:09Z')] }, by(clock, 1e6))
  seen({ ...changed, version: '3', others: [editor('2026-06-01T00:00:09Z')] })
  await clock.pass(0)
  t.equal(rounds(), 2, 'once it is changed again')
})

t.test('a hold that comes after the change is noticed', async (t) => {
  const { drift, clock, asked, given, rounded } = begin(t)
  rounded()
  given.explanation = drifted(changed, by(clock))
  drift.seen(key, metadata(changed), () => liveOf(changed))
  await clock.pass(0)
  const until = clock.now() + 3600_000
  const kept = metadata({ ...changed, version: '3' })
  const annotations = { 'agent.gitlab.com/correct-after': new Date(until).toISOString() }
  Object.assign((kept.metadata as { annotations: object }).annotations, annotations)
  const of = { ...ofLive({ ...changed, version: '3' }), holdUntil: until }
  given.explanation = { ...drifted(changed, by(clock)), of } as Explanation
  drift.seen(key, kept, () => liveOf({ ...changed, version: '3' }))
  await clock.pass(0)
  t.equal(asked.length, 2)
  t.match(drift.known.get(text)?.finding, { holdUntil: until })
})

t.test('an object whose generation has moved before it is first seen is explained', async (t) => {
  const { seen, clock, asked, given, rounded } = begin(t)
  rounded()
  const others = [editor('2026-06-01T00:00:09Z')]
  given.explanation = { kind: 'same', of: ofLive({ version: '2', generation: 2, others }), hasLostFields: false }
  seen({ version: '2', generation: 2, others })
  await clock.pass(0)
  t.equal(asked.length, 1, 'items may be in another order')
  seen({ version: '3', generation: 2, others })
  await clock.pass(0)
  t.equal(asked.length, 1)
})

t.test(
  'a moved generation alone may be of a scaler, which is asked about first; anything else is compared',
  async (t) => {
    const { drift, seen, clock, asked, given, rounded } = begin(t)
    rounded()
    given.explanation = { kind: 'same', of: undefined, hasLostFields: false }
    seen({})
    seen({ version: '2', generation: 2 })
    await clock.pass(0)
    t.strictSame(asked, ['scaled'])
    seen(changed)
    await clock.pass(0)
    t.strictSame(asked.at(-1), text)
    drift.left(key)
    seen({ ...changed, version: '4', generation: 5 })
    await clock.pass(500)
    t.strictSame(asked.slice(2), [text], 'what came meanwhile is no scaling')
  },
)

t.test('values are those of the commit in the cluster, or none', async (t) => {
  const { drift, rounded } = begin(t)
  const signal = AbortSignal.any([])
  t.match(await drift.values(text, signal), { kind: 'notCompared', reason: /the next round compares it/ })
  rounded()
  t.match(await drift.values(text, signal), { kind: 'notCompared', reason: 'busy' })
  rounded(entry({ digest: 'of another commit' }))
  t.match(await drift.values(text, signal), { reason: /the next round compares it/ })
})

t.test('a source that has ended asks for nothing', async (t) => {
  const { drift, clock, asked, rounded, rounds, stop } = begin(t)
  rounded()
  stop()
  drift.left(key)
  await clock.pass(1e9)
  t.strictSame([asked.length, rounds()], [0, 0])
})
