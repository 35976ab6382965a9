import t from 'tap'
import { passGate } from '../../../../src/agentk/modules/gitops/apply/health-gate.ts'
import { Deleter, type DeleterOptions } from '../../../../src/agentk/modules/gitops/delete/deleter.ts'
import { ObjectWaits, openWatches } from '../../../../src/agentk/modules/gitops/live/object-waits.ts'
import { inventoryLabel, ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { InventoryEntry } from '../../../../src/agentk/modules/gitops/round.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { configMap, Ground, keyOf, skip } from './ground.ts'

/** Deletions and waits, on a real API server. */

const { signal } = new AbortController()
const id = '42-7'
const manager = `agentk-${id}`
const marks = { labels: { [inventoryLabel]: id }, annotations: { [ownerAnnotation]: id } }
const finalizers = ['example.com/held']

t.test('a deleter', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'shop', ''), { metadata: { name: 'shop' } })
  const waits = new ObjectWaits(
    { client: ground.client, clock: systemClock, random: Math.random, watches: openWatches() },
    { selector: `${inventoryLabel}=${id}` },
  )
  const lane = ground.lanes.lane('apply')

  const entryOf = (key: ObjectKey, wave = 0): InventoryEntry => {
    const [version, rest] = ['v1', { digest: '', fields: '', state: 'applied' as const, reason: '' }]
    return { key, version, uid: '', wave, ...rest }
  }
  const deletable = async (key: ObjectKey, wave = 0) => {
    const live = await ground.live(key, manager)
    if (!live) throw new Error(`${key.name} is not there`)
    return { entry: entryOf(key, wave), live }
  }
  type Deletable = Awaited<ReturnType<typeof deletable>>
  const never = new AbortController().signal
  const prune = async (deletables: readonly Deletable[], options: Partial<DeleterOptions> = {}, superseded = never) => {
    const deleter = new Deleter(
      { accountLane: lane, waits, kinds: ground.kinds, clock: systemClock },
      { manager, prunePropagationPolicy: 'background', pruneTimeoutMs: 60_000, ...options },
    )
    const ends: Record<string, string | undefined> = {}
    ground.asked.length = 0
    const onEnd = ({ key }: InventoryEntry, survives: string | undefined) => {
      ends[key.name] = survives
    }
    await deleter.deleteAll(deletables, { onEnd, checkParent: async () => undefined }, superseded, signal)
    return ends
  }
  const make = async (name: string, metadata: object = {}) => {
    await ground.apply(keyOf('ConfigMap', name), configMap(name, {}, { ...marks, ...metadata }), manager)
    return keyOf('ConfigMap', name)
  }

  await t.test('what was applied last goes first', async (t) => {
    const keys = [await make('w0'), await make('w1'), await make('w2')]
    const deletables = await Promise.all(keys.map((key, wave) => deletable(key, wave)))
    t.strictSame(await prune(deletables), { w2: undefined, w1: undefined, w0: undefined })
    t.strictSame(
      ground.writes().map((write) => write.slice(-2)),
      ['w2', 'w1', 'w0'],
    )
    for (const key of keys) t.equal(await ground.get(key), undefined)
  })

  await t.test('what hangs stays, says so, and holds what goes after it', async (t) => {
    const [base, held] = [await make('base'), await make('held', { finalizers })]
    const ends = await prune([await deletable(base, 0), await deletable(held, 1)], { pruneTimeoutMs: 100 })
    t.match(ends, { held: /is being deleted, and not gone after/, base: /is to go before it/ })
    t.ok(await ground.get(base))
    const going = prune([await deletable(held, 1)])
    await ground.merge(held, { metadata: { finalizers: null } })
    t.strictSame(await going, { held: undefined })
  })

  await t.test('a newer commit waits for nothing that hangs, and nothing more is begun', async (t) => {
    const [later, stuck] = [await make('later'), await make('stuck', { finalizers })]
    const deletables = [await deletable(later, 0), await deletable(stuck, 1)]
    const newer = new AbortController()
    ground.onAsk = ({ method }) => {
      if (method === 'DELETE') setImmediate(() => newer.abort(new Error('a newer commit has come')))
    }
    t.strictSame(await prune(deletables, {}, newer.signal), { stuck: 'it is being deleted' })
    ground.onAsk = () => undefined
    t.ok(await ground.get(later))
    await ground.merge(stuck, { metadata: { finalizers: null } })
  })

  await t.test('what of a stage has not been sent is left', async (t) => {
    const names = Array.from({ length: 50 }, (_, at) => `staged-${at}`)
    const keys = await Promise.all(names.map((name) => make(name)))
    const deletables = await Promise.all(keys.map((key) => deletable(key)))
    const newer = new AbortController()
    ground.onAsk = ({ method }) => {
      if (method === 'DELETE') newer.abort(new Error('somebody wishes otherwise'))
    }
    const ends = await prune(deletables, {}, newer.signal)
    ground.onAsk = () => undefined
    const stay = Object.values(ends).filter((why) => why?.startsWith('it stays'))
    t.ok(stay.length >= 18, `${stay.length} are left`)
    t.equal(ground.writes().length, 50 - stay.length)
    const live = await Promise.all(keys.map((key) => ground.get(key)))
    t.equal(live.filter(Boolean).length, stay.length)
  })

  await t.test('what has changed is looked at again', async (t) => {
    const key = await make('touched')
    const before = await deletable(key)
    await ground.merge(key, { data: { a: '1' } })
    t.strictSame(await prune([before]), { touched: undefined })
    t.equal(await ground.get(key), undefined)
  })

  await t.test('of another by now, or another object by now: it is not deleted', async (t) => {
    const key = await make('adopted')
    const before = await deletable(key)
    await ground.merge(key, { metadata: { annotations: { [ownerAnnotation]: '41-7' } } })
    t.match(await prune([before]), { adopted: /owner annotation has changed/ })
    t.ok(await ground.get(key))
    const again = await make('again')
    const old = await deletable(again)
    await prune([old])
    await make('again')
    t.strictSame(await prune([old]), { again: undefined })
    t.ok(await ground.get(again))
  })

  await t.test('a gate: a kind is served before its objects come', async (t) => {
    const [components, options] = [{ waits, lane, clock: systemClock }, { timeoutMs: 60_000 }]
    const key = keyOf('CustomResourceDefinition', 'widgets.example.com', '', 'apiextensions.k8s.io')
    const kind = ground.kinds.find(key)
    if (!kind) throw new Error('no definitions')
    await ground.apply(key, { ...widgetDefinition, metadata: { name: key.name, ...marks } }, manager)
    t.equal(await passGate(components, { kind, key, applied: widgetDefinition }, options, signal), undefined)
    const widgets = await eventually(async () => {
      await ground.readKinds() // discovery lists the kind shortly after its definition reports it as established
      return ground.kinds.find({ group: 'example.com', kind: 'Widget' }) ?? false
    })
    t.match(widgets, { plural: 'widgets', isNamespaced: true })
  })

  await t.test('a gate: a claim that waits for its consumer holds nobody, another one does', async (t) => {
    const [components, options] = [{ waits, lane, clock: systemClock }, { timeoutMs: 300 }]
    const claims = ground.kinds.find({ group: '', kind: 'PersistentVolumeClaim' })
    if (!claims) throw new Error('no claims')
    for (const [name, mode] of [
      ['late', 'WaitForFirstConsumer'],
      ['early', 'Immediate'],
    ] as const) {
      const of = keyOf('StorageClass', name, '', 'storage.k8s.io')
      await ground.create(of, { metadata: { name }, provisioner: 'example.com/none', volumeBindingMode: mode })
      const key = keyOf('PersistentVolumeClaim', name)
      const spec = {
        accessModes: ['ReadWriteOnce'],
        storageClassName: name,
        resources: { requests: { storage: '1Gi' } },
      }
      const object = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, ...marks }, spec }
      await ground.apply(key, object, manager)
    }
    const pass = async (name: string) => {
      const key = keyOf('PersistentVolumeClaim', name)
      return await passGate(components, { kind: claims, key, applied: await ground.get(key) }, options, signal)
    }
    t.equal(await pass('late'), undefined)
    t.match(await pass('early'), /not healthy after 0 s: PVC is not Bound/)
  })
})
