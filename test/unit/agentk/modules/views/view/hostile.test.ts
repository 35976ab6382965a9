import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { finding } from '../../../../../../src/agentk/health/kas/finding.ts'
import { Reviews } from '../../../../../../src/agentk/modules/views/access/reviews.ts'
import type { LabelSelector } from '../../../../../../src/agentk/modules/views/projection/projector.ts'
import type { Judgement } from '../../../../../../src/agentk/modules/views/store/judgement.ts'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { ViewHost } from '../../../../../../src/agentk/modules/views/view/view-host.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { anyIdentity } from '../../../../../support/identities.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { RecordsDouble } from '../../../../../support/views/records-double.ts'
import { ReviewDouble } from '../../../../../support/views/review-double.ts'
import { ViewClient } from '../../../../../support/views/view-client.ts'
import { agent, EventsDouble, StatesDouble, user, viewerOf } from '../../../../../support/views/view-stage.ts'
import { WorkClock } from '../../../../../support/work-clock.ts'

/** One hostile user with one namespace, next to others. Reads of records and labels make the time pass. */

const readMs = 0.002

function start(t: Test) {
  const clock = new WorkClock()
  const count = { labels: 0, records: 0 }
  class Labels extends Map<string, string> {
    override get(name: string): string | undefined {
      count.labels++
      clock.work(readMs)
      return super.get(name)
    }
  }
  class Records extends RecordsDouble {
    override get(uid: string): ObjectRecord | undefined {
      count.records++
      clock.work(readMs)
      return super.get(uid)
    }
    override judged(uid: string): Judgement | undefined {
      clock.work(readMs)
      return super.judged(uid)
    }
    override objectOf(record: ObjectRecord): KubernetesObject {
      clock.work(readMs)
      return super.objectOf(record)
    }
  }
  const records = new Records()
  const api = new ReviewDouble()
  api.rights.set('', [['*/*', '*']])
  const resources = Object.values(kinds).map(({ group, plural }) => `${group}/${plural}`)
  for (const [name, namespace] of [['mallory', 'mallory'] as const, ['bob', 'shop'] as const]) {
    api.rights.set(
      name,
      resources.map((resource) => [resource, namespace]),
    )
  }
  const reviews = new Reviews({ api, clock, log: capturedLog().log, identities: anyIdentity })
  const host = new ViewHost({ records, states: new StatesDouble(), events: new EventsDouble(), reviews, clock })
  t.teardown(() => {
    host.close()
    reviews.close()
  })
  const open = (caller: typeof agent | ReturnType<typeof user>, query: object) => {
    const client = new ViewClient()
    const view = host.open({ caller, viewer: viewerOf(caller), query: Buffer.from(JSON.stringify(query)) }, client)
    client.onTaken = (seq) => view.taken(seq)
    return { client, view }
  }
  /** @returns ms until it holds; Infinity: it does not within `mostMs` */
  const until = async (holds: () => boolean, mostMs = 20_000, between: () => void = () => {}) => {
    const began = clock.now()
    while (!holds()) {
      if (clock.now() > began + mostMs) return Number.POSITIVE_INFINITY
      between()
      clock.turn()
      await setImmediate()
    }
    return clock.now() - began
  }
  /** Opens a view as `kas health` does. */
  const health = async (between: () => void) => {
    const { client, view } = open(user('bob'), { view: 'tree', scope: { namespaces: ['shop'] } })
    const took = await until(() => client.order() !== undefined, 20_000, between)
    view.close()
    return took
  }
  return { clock, records, open, until, health, count, Labels }
}

const app = (value: string): LabelSelector => ({ labels: [['app', value]], expressions: [] })

t.test('199 budgets that are open, 1,500 Pods', { timeout: 60_000 }, async (t) => {
  const { clock, records, open, until, health, count, Labels } = start(t)
  const budgets = Array.from({ length: 199 }, (_, i) => `budget-${100 + i}`)
  for (const [i, uid] of budgets.entries()) {
    records.put(
      recordOf({ uid, kind: kinds.service, namespace: 'mallory', selector: app(`a${i % 20}`), verdict: 'Degraded' }),
    )
  }
  const pod = (i: number, reason: string, more: Partial<ObjectRecord> = {}) =>
    records.put(recordOf({ uid: `pod-${1000 + i}`, namespace: 'mallory', facts: [reason], ...more }))
  const labelsOf = Array.from({ length: 1500 }, (_, i) => new Labels([['app', `a${i % 20}`]]))
  for (const [i, labels] of labelsOf.entries()) pod(i, '', { labels })
  records.put(recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Healthy' }))
  const { client, view } = open(user('mallory'), { view: 'list', limit: 500 })
  await until(() => client.rows.size === 500)
  for (const uid of budgets) view.page(uid, 1)
  clock.longestMs = 0
  let next = 0
  /** Changes a Pod's labels with each turn. */
  const churn = () => {
    const i = next++ % 1500
    pod(i, `${next}`, { labels: labelsOf[i] as Map<string, string> })
  }
  t.ok((await health(churn)) < 1000)
  const isLinked = () => budgets.every((uid) => client.rows.get(uid)?.l?.length === 50)
  t.ok((await until(isLinked, 20_000, churn)) < 20_000)
  t.ok(count.labels <= 20 * 1500, `${count.labels} comparisons of 1,500 Pods with 20 different selectors`)
  const before = count.labels
  await until(() => next > 2000, 20_000, churn)
  t.equal(count.labels, before, 'labels that stay are not compared again')
  pod(7, 'relabelled', { labels: new Labels([['app', 'a0']]) })
  await until(() => false, 200)
  t.equal(count.labels, before + 20)
  t.ok(clock.longestMs < 100, `${clock.longestMs} ms without a yield`)
})

t.test('owners of 6,000 in a chain, of which one closes and opens a cycle', { timeout: 60_000 }, async (t) => {
  const { clock, records, open, until, health } = start(t)
  const size = 6000
  const name = (i: number) => `c${10_000 + i}`
  const put = (i: number, above: number | undefined) => {
    const owner = above === undefined ? {} : { owner: { uid: name(above), kind: 'ConfigMap', name: name(above) } }
    records.put(recordOf({ uid: name(i), kind: kinds.configMap, namespace: 'mallory', ...owner }))
  }
  for (let i = 0; i < size; i++) put(i, i + 1 < size ? i + 1 : undefined)
  records.put(recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Healthy' }))
  let changes = 0
  const churn = () => {
    if (clock.now() < changes * 300) return
    changes++
    put(size - 1, changes % 2 ? 0 : undefined)
  }
  const mallory = open(user('mallory'), { view: 'tree' })
  const all = open(agent, { view: 'tree' })
  await until(() => clock.now() > 100, 20_000, churn)
  t.ok((await health(churn)) < 1000, 'another user')
  t.ok((await until(() => all.client.rows.has('web'), 20_000, churn)) < 20_000, 'who sees all')
  records.put(recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Degraded' }))
  t.ok((await until(() => all.client.rows.get('web')?.h?.[0] === 'Degraded', 20_000, churn)) < 1000)
  t.ok((await until(() => mallory.client.updates.length > 2, 20_000, churn)) < 20_000)
  t.ok(clock.longestMs < 100, `${clock.longestMs} ms without a yield`)
})

t.test('100 views of what changes faster than it can be placed in each', { timeout: 60_000 }, async (t) => {
  const { clock, records, open, until, health } = start(t)
  const owner = recordOf({ uid: 'owner', namespace: 'mallory', environment: '1/a' })
  records.put(owner)
  for (let i = 0; i < 300; i++) records.put(recordOf({ uid: `p${i}`, namespace: 'mallory', owner }))
  records.put(recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Healthy', environment: '2/b' }))
  let changes = 0
  const churn = () => records.put({ ...owner, environment: `1/e${changes++}` })
  const views = Array.from({ length: 100 }, (_, i) =>
    open(user('mallory'), { view: 'environments', filter: { text: i ? `p${i}` : '' } }),
  )
  const all = open(agent, { view: 'environments' })
  await until(() => all.client.rows.has('g:environment/2/b'), 20_000)
  clock.longestMs = 0
  for (let i = 0; i < 3; i++) t.ok((await health(churn)) < 1000)
  records.put(recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Degraded', environment: '2/b' }))
  const isSeen = () => all.client.rows.get('g:environment/2/b')?.h?.[0] === 'Degraded'
  t.ok((await until(isSeen, 20_000, churn)) < 1000)
  t.ok(clock.longestMs < 100, `${clock.longestMs} ms without a yield`)
  const had = views.map(({ client }) => client.updates.length)
  const goesOn = () => views.filter(({ client }, i) => client.updates.length > (had[i] as number)).length > 20
  t.ok((await until(goesOn, 20_000, churn)) < 20_000, 'her own views go on too')
})

t.test('owners of as many kinds as there are objects, in everybody’s tree', { timeout: 60_000 }, async (t) => {
  const { records, open, until } = start(t)
  const size = 5000
  const owner = (i: number) => ({ uid: `owner-${i}`, kind: `example.com/Kind${i}`, name: 'absent' })
  for (let i = 0; i < size; i++) {
    records.put(recordOf({ uid: `c${i}`, kind: kinds.configMap, namespace: 'mallory', owner: owner(i) }))
  }
  const { client } = open(agent, { view: 'tree', limit: 10 })
  let reads = 0
  for (const method of ['find', 'filter', 'some'] as const) {
    const counted = Array.prototype[method]
    const set = (value: unknown) =>
      Object.defineProperty(Array.prototype, method, { value, configurable: true, writable: true })
    set(function (this: unknown[], ...args: unknown[]) {
      reads += this.length
      return Reflect.apply(counted, this, args)
    })
    t.teardown(() => set(counted))
  }
  t.ok((await until(() => client.order() !== undefined, 60_000)) < 60_000)
  for (let i = 0; i < size; i += 2) records.delete(`c${i}`)
  await until(() => client.pages.get('')?.more === size / 2 - 10)
  t.equal(client.pages.get('')?.more, size / 2 - 10)
  t.ok(reads < 200 * size, `${reads} kinds of owners were read for ${size} objects`)
})

t.test(
  'Pods that fail by as many causes as there are, all of one owner or of many, and change all the time',
  { timeout: 60_000 },
  async (t) => {
    const { clock, records, open, until, health } = start(t)
    const owners = Array.from({ length: 40 }, (_, i) =>
      recordOf({ uid: `owner-${i}`, kind: kinds.replicaSet, namespace: 'mallory', traits: {} }),
    )
    for (const owner of owners) records.put(owner)
    const fails = (i: number, text: string) => {
      const owner = owners[i < 1500 ? 0 : i % owners.length] as ObjectRecord
      const found = finding('Degraded', { reason: `Reason${i}`, text, rank: 1, since: i })
      const judgement: Judgement = [{ word: 'Degraded', finding: found, by: 'rules', needs: [] }]
      const object = { spec: { nodeName: `node-${i}` } }
      records.put(recordOf({ uid: `p${i}`, namespace: 'mallory', owner, node: `node-${i}` }), judgement, object)
    }
    for (let i = 0; i < 3000; i++) fails(i, 'first')
    records.put(recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Healthy' }))
    const views = Array.from({ length: 4 }, () => open(user('mallory'), { view: 'tree', limit: 500 }))
    for (const { view } of views) for (const { uid } of owners) view.page(`b:${uid}:Pod`, 100)
    let next = 0
    const churn = () => fails(next++ % 3000, `text ${next}`)
    const isSaid = () => views.every(({ client }) => client.rows.get('owner-1')?.z !== undefined)
    t.ok((await until(isSaid, 5000, churn)) < 5000)
    t.ok((views[0]?.client.rows.get('owner-0')?.z?.others ?? 0) >= 255, 'of so many one is chosen')
    clock.longestMs = 0
    for (let i = 0; i < 3; i++) t.ok((await health(churn)) < 1000, 'another user')
    t.ok(clock.longestMs < 100, `${clock.longestMs} ms without a yield`)
  },
)
