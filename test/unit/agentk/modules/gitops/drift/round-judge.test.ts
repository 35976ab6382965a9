import t from 'tap'
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
  running,
  text,
} from './drifting-source.ts'

t.test('a first round decides by what earlier pods have recorded', async (t) => {
  const { drift, clock, given } = begin(t, { drift: { after: '0s' } })
  const corrections = [clock.now(), clock.now(), clock.now()]
  const recorded = entry({ drift: { since: 0, by: 'kubectl-edit', corrections } })
  given.explanation = drifted(changed, by(clock))
  drift.roundBegins()
  const judged = { live: liveOf(changed), entry: recorded, kinds }
  t.match(await drift.judge(manifest, judged, running()), { kind: 'left' }, 'it is a fight')
  const deleted = begin(t, { drift: { mode: 'report' }, isSettling: true })
  deleted.drift.roundBegins()
  const gone = { live: undefined, entry: entry({ drift: { since: 1, isDeleted: true } }), kinds }
  t.match(await deleted.drift.judge(manifest, gone, running()), { kind: 'left' }, 'its deletion was shown before')
  t.match(await deleted.drift.judge(manifest, { ...gone, entry: entry() }, running()), { kind: 'write' })
})

t.test('an object that cannot be compared in a round does not end the round, and is tried again', async (t) => {
  const { drift, clock, asked, given, rounded } = begin(t)
  rounded()
  given.explanation = new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 5e6, maxBytes: 4e6 })
  const of = { live: liveOf(changed), entry: entry(), kinds }
  t.match(await drift.judge(manifest, of, running()), {
    kind: 'left',
    finding: { kind: 'notCompared', reason: /large/ },
  })
  given.explanation = { kind: 'same', of: ofLive(changed), hasLostFields: false }
  await clock.pass(30_000)
  t.equal(asked.length, 2)
  t.equal(drift.known.size, 0)
  given.explanation = new KasError({ code: 'UNREACHABLE', detail: 'the API server is away' })
  const ended = AbortSignal.abort(new Error('a newer commit'))
  await t.rejects(drift.judge(manifest, of, ended), /a newer commit/)
  t.equal(drift.known.size, 0)
})

t.test(
  'an object that a round has compared is compared again when the second of its newest change is over',
  async (t) => {
    const { drift, seen, clock, asked, given, rounded } = begin(t, { drift: { mode: 'report' } })
    rounded()
    const lost = { version: '7', own: applied, others: [editor('2026-06-01T00:00:00Z')] }
    drift.roundBegins()
    given.explanation = { kind: 'same', of: ofLive(lost), hasLostFields: true, again: clock.now() + 1000 }
    await drift.judge(manifest, { live: liveOf(lost), entry: entry(), kinds }, new AbortController().signal)
    drift.seenFirst(key, metadata(lost))
    rounded()
    asked.length = 0
    given.explanation = drifted({ ...lost, version: '8' }, by(clock))
    seen({ ...lost, version: '8' }) // within that second: no metadata show it
    await clock.pass(999)
    t.equal(drift.known.size, 0)
    await clock.pass(1)
    t.strictSame(asked, [text])
    t.equal(drift.known.size, 1)
  },
)
