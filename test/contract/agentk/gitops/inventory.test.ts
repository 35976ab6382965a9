import t from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import type { JsonApi } from '../../../../src/agentk/modules/gitops/inventory/config-maps.ts'
import {
  Inventory,
  type InventoryOptions,
  storedSources,
} from '../../../../src/agentk/modules/gitops/inventory/inventory.ts'
import { stockInventory } from '../../../../src/agentk/modules/gitops/inventory/known-entries.ts'
import { maxShardEntries } from '../../../../src/agentk/modules/gitops/inventory/shards.ts'
import type { InventoryEntry } from '../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText } from '../../../../src/kubernetes/key.ts'
import { adminClient } from '../../../support/api-client.ts'
import { sharedControlPlane } from '../../../support/control-plane/shared-control-plane.ts'

/** Inventories in ConfigMaps, on a real API server. */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

const namespace = 'default'
const maps = `/api/v1/namespaces/${namespace}/configmaps`

function entry(name: string, more: Partial<InventoryEntry> = {}): InventoryEntry {
  const key = { group: 'apps', kind: 'Deployment', namespace: 'shop', name }
  const uid = '01234567-89ab-cdef-0123-456789abcdef'
  const [digest, fields] = ['d'.repeat(64), 'f'.repeat(64)]
  return { key, version: 'v1', uid, wave: 0, digest, fields, state: 'applied', reason: '', ...more }
}
const many = (count: number, more: Partial<InventoryEntry> = {}) =>
  Array.from({ length: count }, (_, at) => entry(`web-${at}`, more))
const keyed = (entries: readonly InventoryEntry[]) => new Map(entries.map((one) => [keyText(one.key), one]))
const sorted = (entries: ReadonlyMap<string, InventoryEntry>) => [...entries].sort(([a], [b]) => (a < b ? -1 : 1))

t.test('inventories of a real API server', { skip, timeout: 120_000 }, async (t) => {
  const controlPlane = await sharedControlPlane(t)
  const { admin } = controlPlane
  const client = adminClient(t, controlPlane)
  const { signal } = new AbortController()

  const conflict = { spec: { httpStatus: 409 } } as unknown as Error
  let agents = 40
  const source = () => {
    const agentId = BigInt(agents++)
    return { namespace, agentId, id: `${agentId}-7` }
  }
  /** Records writes. The answer to the write number `failing`, counted from 1, is lost. */
  const counted = (failing = 0) => {
    const writes: string[] = []
    const api: JsonApi = {
      json: async (method, path, ...rest) => {
        if (method === 'GET') return client.json(method, path, ...rest)
        writes.push(`${method} ${path.slice(maps.length + 1)}`)
        if (writes.length !== failing) return client.json(method, path, ...rest)
        await client.json(method, path, ...rest)
        throw new Error('the connection was lost')
      },
    }
    return { api, writes }
  }
  const namesOf = async (id: string) => {
    const { items } = await admin.get(`${maps}?labelSelector=agent.gitlab.com/gitops-source%3D${id}`)
    return items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)
  }

  await t.test('what was saved is loaded, and written again only where it changed', async (t) => {
    const of = source()
    const { api, writes } = counted()
    const inventory = new Inventory(api, of)
    t.strictSame(await inventory.load(signal), new Map())
    await inventory.save([entry('a'), entry('b', { state: 'failed', reason: 'said "no"\nü' })], signal)
    const reader = new Inventory(api, of)
    t.strictSame(
      sorted(await reader.load(signal)),
      sorted(keyed([entry('a'), entry('b', { state: 'failed', reason: 'said "no"\nü' })])),
    )
    t.strictSame(writes.splice(0), ['POST '])
    await reader.save([entry('b', { state: 'failed', reason: 'said "no"\nü' }), entry('a')], signal)
    t.strictSame(writes, [], 'nothing has changed')
    await reader.save([entry('a')], signal)
    t.strictSame(writes.splice(0), [`PUT gitops-${of.id}-all`])
    await reader.save([], signal)
    t.strictSame(await new Inventory(api, of).load(signal), new Map())
  })

  await t.test('the commit is kept with the entries, and costs a write only where none has changed', async (t) => {
    const of = source()
    const { api, writes } = counted()
    const inventory = new Inventory(api, of)
    await inventory.load(signal)
    t.equal(inventory.commit, '')
    await inventory.save([entry('a')], signal, 'c1')
    await inventory.save([entry('a'), entry('b')], signal)
    t.equal(inventory.commit, 'c1', 'a round that applied no commit keeps the one before')
    await inventory.save([entry('a')], signal, 'c2')
    t.strictSame(writes.splice(0), ['POST ', `PUT gitops-${of.id}-all`, `PUT gitops-${of.id}-all`])
    await inventory.save([entry('a')], signal, 'c3')
    await inventory.save([entry('a')], signal, 'c3')
    t.strictSame(writes.splice(0), [`PUT gitops-${of.id}-all`])
    await inventory.save(many(2 * maxShardEntries), signal, 'c4')
    const reader = new Inventory(api, of)
    await reader.load(signal)
    t.equal(reader.commit, 'c4')
    writes.splice(0)
    await reader.save(many(2 * maxShardEntries), signal, 'c5')
    t.equal(writes.length, 1, 'of many shards one has it')
    await inventory.load(signal)
    t.equal(inventory.commit, 'c5')
  })

  await t.test('who saves over another has an error, and nothing is lost', async (t) => {
    const of = source()
    const [one, other] = [new Inventory(client, of), new Inventory(client, of)]
    await one.load(signal)
    await other.load(signal)
    await one.save([entry('a')], signal)
    await t.rejects(other.save([entry('b')], signal), conflict)
    await t.rejects(other.save([entry('b')], signal), /after it has been loaded/)
    t.strictSame([...(await other.load(signal)).keys()], ['apps/Deployment/shop/a'])
    await other.save([entry('a'), entry('b')], signal)
    await t.rejects(one.save([entry('c')], signal), conflict)
    t.equal((await one.load(signal)).size, 2)
    t.equal((await new Inventory(client, source()).load(signal)).size, 0, 'another source has its own')
  })

  await t.test('10,000 entries are divided, and put together again', async (t) => {
    const of = source()
    const inventory = new Inventory(client, of)
    await inventory.load(signal)
    await inventory.save(many(10_000, { reason: 'x'.repeat(300) }), signal)
    t.equal((await namesOf(of.id)).length, 16)
    const reader = new Inventory(client, of)
    t.strictSame(sorted(await reader.load(signal)), sorted(keyed(many(10_000, { reason: 'x'.repeat(300) }))))
    await reader.save([entry('web-0')], signal)
    t.strictSame(await namesOf(of.id), [`gitops-${of.id}-all`])
    t.strictSame([...(await inventory.load(signal)).keys()], ['apps/Deployment/shop/web-0'])
  })

  await t.test('a division that is interrupted at any write is finished by the next', async (t) => {
    const before = many(maxShardEntries)
    const after = [...many(maxShardEntries, { digest: 'new' }), entry('late')]
    const sizes: number[] = []
    for (let failing = 1; failing <= 17; failing++) {
      const of = source()
      const first = new Inventory(client, of)
      await first.load(signal)
      await first.save(before, signal)
      const killed = new Inventory(counted(failing).api, of)
      await killed.load(signal)
      await t.rejects(killed.save(after, signal), /the connection was lost/)
      const next = new Inventory(client, of)
      const found = await next.load(signal)
      for (const { key } of before) if (!found.has(keyText(key))) t.fail(`forgotten: ${keyText(key)}`)
      sizes.push([...found.values()].filter(({ digest }) => digest === 'new').length)
      await next.save(after, signal)
      t.strictSame(sorted(await next.load(signal)), sorted(keyed(after)))
      t.equal((await namesOf(of.id)).length, 16)
      await next.remove(signal)
    }
    t.ok((sizes[0] as number) < (sizes[8] as number), 'the writes before it count')
    t.equal(sizes.at(-1), maxShardEntries, 'the last of them removes what was not divided')
  })

  const unreadable: string[] = []
  const stored = (of: InventoryOptions) => storedSources(client, of, (name) => void unreadable.push(name), signal)

  await t.test("ConfigMaps of other names with an inventory's labels are none of it", async (t) => {
    const of = source()
    const options = sourceOptions({}, { agentId: of.agentId, projectId: 7n, ownProject: 'a/b' })
    const inventory = new Inventory(client, { ...of, id: options.id })
    await inventory.load(signal)
    await inventory.saveOptions(options, [], signal)
    await inventory.save([entry('a')], signal)
    const labels = {
      'agent.gitlab.com/gitops-source': options.id,
      'agent.gitlab.com/gitops-agent': String(of.agentId),
    }
    const make = (name: string, text: string) =>
      admin.request(maps, {
        method: 'POST',
        contentType: 'application/json',
        body: { metadata: { name, labels }, data: { options: text } },
      })
    await make(`other-${of.agentId}`, JSON.stringify({ ...options, onRemoval: 'prune' }))
    await make(`gitops-${of.agentId}-9-source`, JSON.stringify(options))
    t.strictSame(await stored(of), [options])
    t.equal((await inventory.load(signal)).size, 1)
    await make(`gitops-${of.agentId}-8-source`, 'x')
    t.strictSame([await stored(of), unreadable], [[options], [`gitops-${of.agentId}-8-source`]])
    await inventory.remove(signal)
  })

  await t.test('options that an older agentk has kept say nothing about drift: its defaults count', async (t) => {
    const of = source()
    const options = sourceOptions({}, { agentId: of.agentId, projectId: 7n, ownProject: 'a/b' })
    const { drift, ...older } = options
    const inventory = new Inventory(client, { ...of, id: options.id })
    await inventory.load(signal)
    await inventory.saveOptions(older as typeof options, [], signal)
    await inventory.load(signal)
    t.strictSame(inventory.options?.drift, drift)
    t.strictSame((await stored(of))[0]?.drift, drift)
  })

  await t.test('options stay beside the entries', async (t) => {
    const of = source()
    const options = sourceOptions({ on_removal: 'prune' }, { agentId: of.agentId, projectId: 7n, ownProject: 'a/b' })
    const { api, writes } = counted()
    const inventory = new Inventory(api, of)
    await inventory.load(signal)
    await inventory.saveOptions(options, [], signal)
    await inventory.save([entry('a')], signal)
    t.strictSame(await stored(of), [options])
    await inventory.saveOptions(options, [], signal)
    t.equal(writes.length, 2, 'the same options are not written again')
    const reader = new Inventory(api, of)
    t.equal((await reader.load(signal)).size, 1)
    await reader.saveOptions({ ...options, onRemoval: 'keep' }, ['41-7'], signal)
    t.match(await stored(of), [{ onRemoval: 'keep' }])
    await inventory.load(signal)
    t.strictSame(inventory.adopted, ['41-7'])
    await reader.remove(signal)
    t.strictSame([await namesOf(of.id), await stored(of)], [[], []])
  })

  await t.test('a shard that cannot be read is an error, never an empty inventory', async (t) => {
    const of = source()
    const inventory = new Inventory(client, of)
    await inventory.load(signal)
    await inventory.save([entry('a')], signal)
    const name = `gitops-${of.id}-all`
    await admin.request(`${maps}/${name}`, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { data: { entries: '{}' } },
    })
    await t.rejects(inventory.load(signal), /no entry of an inventory/)
    await t.rejects(inventory.save([], signal), /after it has been loaded/)
    const refusing: JsonApi = { json: async () => ({ status: 403, body: { message: 'not yours' } }) }
    await t.rejects(new Inventory(refusing, of).load(signal), /the API server answered 403: not yours/)
  })

  await t.test('the stock inventory is read', async (t) => {
    const labels = { 'cli-utils.sigs.k8s.io/inventory-id': '42-9' }
    const data = { shop_web_apps_Deployment: '', _shop__Namespace: '{"actuation":"Succeeded"}', other: '' }
    await admin.create(maps, { metadata: { name: 'inventory-42-9', labels }, data })
    t.strictSame((await stockInventory(client, { namespace, id: '42-9' }, signal)).map(keyText).sort(), [
      '/Namespace//shop',
      'apps/Deployment/shop/web',
    ])
    t.strictSame(await stockInventory(client, { namespace, id: '42-10' }, signal), [])
    await admin.create(maps, { metadata: { name: 'inventory-42-9-other', labels }, data: { a_b_c_D: '' } })
    t.equal((await stockInventory(client, { namespace, id: '42-9' }, signal)).length, 2, 'of one ConfigMap')
  })
})
