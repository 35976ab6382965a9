import t, { type Test } from 'tap'
import { Reviews } from '../../../../../../src/agentk/modules/views/access/reviews.ts'
import { ViewHost } from '../../../../../../src/agentk/modules/views/view/view-host.ts'
import type { Clock } from '../../../../../../src/lib/clock.ts'
import { systemClock } from '../../../../../../src/lib/clock.ts'
import { viewsBounds } from '../../../../../../src/proto/views-json.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { anyIdentity } from '../../../../../support/identities.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'
import { ReviewDouble } from '../../../../../support/views/review-double.ts'
import { ViewClient } from '../../../../../support/views/view-client.ts'
import { agent, EventsDouble, StatesDouble } from '../../../../../support/views/view-stage.ts'

const count = 100_000
const clock: Clock = { ...systemClock, now: () => performance.timeOrigin + performance.now() }

/** Measures how long other work waits for its turn. */
function watchTurns(t: Test) {
  let last = performance.now()
  let worstMs = 0
  const timer = setInterval(() => {
    worstMs = Math.max(worstMs, performance.now() - last - 1)
    last = performance.now()
  }, 1)
  t.teardown(() => clearInterval(timer))
  return () => {
    const found = worstMs
    worstMs = 0
    return `longest turn ${found.toFixed(0)} ms`
  }
}

const ms = (from: number) => `${(performance.now() - from).toFixed(0)} ms`

t.test('100,000 children of one parent', { timeout: 120_000 }, async (t) => {
  const records = new RecordsDouble()
  const owner = recordOf({ uid: 'owner', kind: kinds.replicaSet, verdict: 'Healthy' })
  const pod = (i: number, verdict: 'Healthy' | 'Degraded') =>
    recordOf({ uid: `p${String((i * 7919) % count).padStart(6, '0')}`, owner, verdict })
  records.put(owner)
  for (let i = 0; i < count; i++) records.put(pod(i, 'Healthy'))
  const api = new ReviewDouble()
  api.rights.set('', [['*/*', '*']])
  const reviews = new Reviews({ api, clock, log: capturedLog().log, identities: anyIdentity })
  const host = new ViewHost({ records, states: new StatesDouble(), events: new EventsDouble(), reviews, clock })
  t.teardown(() => host.close())
  t.teardown(() => reviews.close())
  const turns = watchTurns(t)
  const client = new ViewClient()
  const before = process.memoryUsage().heapUsed
  let from = performance.now()
  const view = host.open({ caller: agent, viewer: { key: 'agent' }, query: Buffer.from('{"view":"tree"}') }, client)
  client.onTaken = (seq) => view.taken(seq)
  const shows = (holds: () => boolean) => eventually(() => holds() || Promise.reject(new Error('not yet')))
  await shows(() => client.order() !== undefined)
  t.match(client.rows.get('owner'), { c: count, w: 'Healthy' })
  const heap = (process.memoryUsage().heapUsed - before) / 1024 / 1024
  t.comment(
    `tree and first update: ${ms(from)}, ${turns()}, heap +${heap.toFixed(0)} MB, ${client.texts[0]?.length} bytes`,
  )

  from = performance.now()
  view.page('b:owner:Pod', 500)
  view.page('owner', 10)
  await shows(() => client.order('b:owner:Pod') !== undefined)
  t.equal(client.order('b:owner:Pod')?.[0], 'p000000')
  t.equal(client.pages.get('b:owner:Pod')?.more, count - 500)
  t.comment(`page of 500 of them: ${ms(from)}, ${turns()}`)

  from = performance.now()
  for (let i = 0; i < 1000; i++) records.put(pod(count - 1 - i, 'Degraded'))
  t.comment(`1,000 of them become worse: ${ms(from)} to note it`)
  await shows(() => client.pages.get('b:owner:Pod')?.counts.Degraded === 1000)
  await shows(() => client.rows.get('owner')?.w === 'Degraded')
  t.comment(`sent after ${ms(from)}, ${turns()}`)

  from = performance.now()
  for (let i = 0; i < 1000; i++) records.delete(pod(count - 1 - i, 'Degraded').uid)
  await shows(
    () => client.pages.get('b:owner:Pod')?.counts.Degraded === undefined && client.order('b:owner:Pod')?.length === 500,
  )
  t.comment(`all rows and all to spare are gone; looked through anew: ${ms(from)}, ${turns()}`)

  from = performance.now()
  records.delete('owner')
  await shows(() => client.order()?.[0] === 'o:shop:owner' && client.rows.get('o:shop:owner')?.c === records.size)
  t.comment(`the parent goes: ${ms(from)}, ${turns()}`)
  for (const text of client.texts) t.ok(Buffer.byteLength(text) <= viewsBounds.maxUpdateBytes)
})
