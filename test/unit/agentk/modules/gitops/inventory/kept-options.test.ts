import t from 'tap'
import { Inventory, storedSources } from '../../../../../../src/agentk/modules/gitops/inventory/inventory.ts'
import { readKeptIds, readKeptOptions } from '../../../../../../src/agentk/modules/gitops/inventory/kept-options.ts'
import { type SourceOptions, sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'

const of = { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }
const signal = new AbortController().signal
const least = sourceOptions({}, of)
const most: SourceOptions = {
  ...sourceOptions(
    {
      id: 'platform/other',
      name: 'web',
      paths: [{ glob: '**/*.yaml' }, { file: 'a.yaml' }],
      ref: { branch: 'main' },
      resource_inclusions: [{ api_groups: ['*'], kinds: ['*'] }],
      resource_exclusions: [{ api_groups: [''], kinds: ['Secret'] }],
      adopt: ['42-9'],
      namespaces: ['shop'],
      access_as: { service_account: { namespace: 'shop', name: 'deployer' } },
      helm: { chart: 'chart', values: ['a.yaml'], release: 'shop', hooks: 'skip' },
      prune_limit: 10,
      environments: ['production'],
      drift: { mode: 'report', ignore: [{ kinds: ['Deployment'], paths: ['.spec.replicas'], managers: ['a*'] }] },
    },
    of,
  ),
  leftOut: ['a link'],
  defaultBranch: 'main',
}

t.test('options are read as they were written, also those of an older and of a newer agentk', async (t) => {
  for (const options of [least, most]) t.strictSame(readKeptOptions(JSON.stringify(options)), options)
  const { drift, ...older } = least
  t.strictSame(readKeptOptions(JSON.stringify(older)), { ...older, drift })
  const newer = { ...most, later: { a: 1 } }
  t.strictSame(readKeptOptions(JSON.stringify(newer)), newer)
})

t.test('options that somebody has changed are none, and the key is named', async (t) => {
  for (const text of ['', 'text', 'null', '7', '"text"', '[]', '{}', '{'.repeat(100_000)]) {
    t.throws(() => readKeptOptions(text), text.slice(0, 20))
    t.throws(() => readKeptIds(text === '[]' ? '{}' : text), text.slice(0, 20))
  }
  for (const key of Object.keys(least)) {
    for (const value of [undefined, null, 7.5, {}, [7], key === 'drift' ? 'text' : { drift: 1 }]) {
      if (key === 'drift' && value === undefined) continue // an older agentk has written none
      const isAllowed = key.endsWith('Ms') && value === 7.5
      const read = () => readKeptOptions(JSON.stringify({ ...least, [key]: value }))
      if (!isAllowed) t.throws(read, { message: new RegExp(`^${key}\\b.* is missing or wrong`) }, `${key}: ${value}`)
    }
  }
  t.strictSame(readKeptIds('["42-7"]'), ['42-7'])
})

t.test('an inventory with such options says where they are; the others are read', async (t) => {
  const map = (id: string, data: Readonly<Record<string, string>>) => ({
    metadata: { name: `gitops-${id}-source` },
    data,
  })
  const edited = map('42-7', { options: '{"id":"42-7"}', adopted: '5' })
  const items = [edited, map('42-8', { options: JSON.stringify({ ...least, id: '42-8' }) })]
  const api = { json: async () => ({ status: 200, body: { items } }) }
  const unreadable: string[] = []
  const stored = await storedSources(
    api,
    { namespace: 'agentk', agentId: 42n },
    (name, error) => unreadable.push(`${name}: ${(error as Error).message}`),
    signal,
  )
  t.strictSame(
    stored.map(({ id }) => id),
    ['42-8'],
  )
  t.strictSame(unreadable, ['gitops-42-7-source: manager is missing or wrong'])
  const inventory = new Inventory(api, { namespace: 'agentk', agentId: 42n, id: '42-7' })
  await inventory.load(signal)
  const where = 'ConfigMap gitops-42-7-source, data'
  t.throws(() => inventory.options, {
    message: `${where}.options: manager is missing or wrong; restore what agentk had written`,
  })
  t.throws(() => inventory.adopted, {
    message: `${where}.adopted: it is not what agentk has written; restore what agentk had written`,
  })
})
