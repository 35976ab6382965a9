import t, { type Test } from 'tap'
import type { Explanation } from '../../../../../../src/agentk/modules/gitops/drift/explanation.ts'
import { SourceDrift } from '../../../../../../src/agentk/modules/gitops/drift/source-drift.ts'
import { baselineOf } from '../../../../../../src/agentk/modules/gitops/drift/suspect.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { liveObjectOf } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import type { SourceBlock } from '../../../../../../src/proto/gitops/schema.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const key = { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' }
const text = keyText(key)
const manifest = { key, version: 'v1', object: {}, digest: 'd', file: 'web.yaml', line: 3 }
const kinds = new ClusterKinds([])

const own = { manager: 'agentk-42-7', operation: 'Apply', time: '2026-06-01T00:00:00Z', fieldsV1: { 'f:spec': {} } }
const editor = (time: string) => ({ manager: 'kubectl-edit', operation: 'Update', time, fieldsV1: { 'f:spec': {} } })

interface Given {
  readonly version?: string
  readonly uid?: string
  readonly generation?: number
  /** entries beside the source's */
  readonly others?: readonly object[]
  /** the source's entry; undefined: as after its last apply */
  readonly own?: object
}

/** The source's entry, without fields of others. */
const applied = { ...own, fieldsV1: { 'f:spec': { 'f:replicas': {} } } }

const metadata = ({
  version = '1',
  uid = 'u',
  generation = 1,
  others = [],
  own: entry = own,
}: Given): KubernetesObject => ({
  metadata: {
    uid,
    resourceVersion: version,
    generation,
    labels: { 'agent.gitlab.com/inventory': '42-7' },
    annotations: { 'config.k8s.io/owning-inventory': '42-7', 'agent.gitlab.com/digest': 'd' },
    managedFields: [entry, ...others],
  },
})
const manager = 'agentk-42-7'
const liveOf = (given: Given) => liveObjectOf(metadata(given), manager)
const ofLive = (given: Given) => ({
  live: liveOf(given),
  baseline: baselineOf(metadata(given), manager),
  holdUntil: undefined,
})

const entry = (given: Partial<InventoryEntry> = {}): InventoryEntry => ({
  key,
  version: 'v1',
  wave: 0,
  uid: 'u',
  digest: 'd',
  fields: liveOf({}).fields,
  time: own.time,
  generation: 1,
  state: 'applied',
  reason: '',
  ...given,
})

function begin(t: Test, { isSettling = false, ...block }: { isSettling?: boolean; drift?: object } = {}) {
  const clock = new ManualClock()
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const asked: string[] = []
  let [rounds, changes] = [0, 0]
  let held: Promise<void> | undefined
  const answer = {
    /** Holds the answers that are asked for from now on. @returns releases them */
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return resolve
    },
  }
  const given: { explanation: Explanation | Error; wouldChange: boolean } = {
    explanation: { kind: 'deleted' },
    wouldChange: false,
  }
  const drift = new SourceDrift(
    {
      turns: { add: ({ run }) => void run(), leave: () => undefined },
      kept: { read: async () => manifest },
      explain: async (_, { isOnlyScaled }) => {
        asked.push(isOnlyScaled ? 'scaled' : keyText(key))
        await held
        if (given.explanation instanceof Error) throw given.explanation
        return given.explanation
      },
      wouldChange: async () => given.wouldChange,
      values: async () => ({ kind: 'notCompared', reason: 'busy' }),
      requestRound: () => rounds++,
      onChange: () => changes++,
      clock,
      log: capturedLog().log,
    },
    sourceOptions(block as SourceBlock, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ending.signal,
  )
  if (!isSettling) drift.settled()
  const rounded = (of: InventoryEntry = entry(), isPaused = false) =>
    drift.roundEnds({ entries: new Map([[text, of]]), kinds, isPaused })
  const seen = (given: Given, of = key) => drift.seen(of, metadata(given), () => liveOf(given))
  return {
    drift,
    seen,
    clock,
    asked,
    given,
    rounded,
    answer,
    rounds: () => rounds,
    changes: () => changes,
    stop: () => ending.abort(),
  }
}

const by = (clock: ManualClock, ago = 0) => ({ manager: 'kubectl-edit', operation: 'Update', time: clock.now() - ago })
const drifted = (given: Given, author: ReturnType<typeof by> | undefined, again?: number): Explanation => ({
  kind: 'drifted',
  of: ofLive(given),
  differences: [{ path: '.spec.replicas', kind: 'changed' }],
  more: 0,
  by: author,
  again,
})
const changed = { version: '2', own: { ...own, fieldsV1: { 'f:data': {} } }, others: [editor('2026-06-01T00:00:00Z')] }
const running = () => new AbortController().signal

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
