import t from 'tap'
import { readBlock } from '../../../../src/agentk/modules/gitops/source-options.ts'
import { parseAgentConfiguration } from '../../../../src/kas/agent-config/agent-config-file.ts'
import { moduleSchemas } from '../../../../src/kas/module-schemas.ts'
import { olderSourceSchema } from '../../../support/older-source-schema.ts'

/**
 * Values of each key of a source. kas accepts the values that agentk accepts, and those that agentk accepted before.
 */

const long = (length: number, letter = 'a') => letter.repeat(length)
const some = <T>(count: number, value: T) => Array.from({ length: count }, () => value)
const rule = { api_groups: ['apps'], kinds: ['Deployment'] }
const helm = { chart: 'charts/web', release: 'web' }

const values: Readonly<Record<string, { readonly taken: readonly unknown[]; readonly refused: readonly unknown[] }>> = {
  id: { taken: ['a/b', 'group/sub/project', long(1024)], refused: ['', 7, true, [], {}, long(1025)] },
  default_namespace: {
    taken: ['', 'shop', 'a-b', '0', long(63)],
    refused: ['Shop', 'a.b', 'a_b', '-a', 'a-', long(64), 7, false, ['shop']],
  },
  paths: {
    taken: [[], [{ glob: '**' }], [{ file: 'a.yaml' }], [{ glob: 'a' }, { file: 'b' }], some(100, { glob: 'a' })],
    refused: [
      '**',
      {},
      [{}],
      [{ glob: '' }],
      [{ glob: 'a', file: 'b' }],
      ['a'],
      [{ glob: 7 }],
      some(101, { glob: 'a' }),
    ],
  },
  reconcile_timeout: {
    taken: ['0s', '300s', '1.5s', '999999999s'],
    refused: ['1h', '300', 300, '', '-1s', '1e3s', 's'],
  },
  dry_run_strategy: { taken: ['none', 'client', 'server'], refused: ['', 'None', true, false, 'both'] },
  prune: { taken: [true, false], refused: ['true', 'no', 1, 0, {}] },
  prune_timeout: { taken: ['60s', '0.25s'], refused: ['5m', 5, '1s2s', ' 1s'] },
  prune_propagation_policy: { taken: ['orphan', 'background', 'foreground'], refused: ['Orphan', '', true] },
  inventory_policy: {
    taken: ['must_match', 'adopt_if_no_inventory', 'adopt_all'],
    refused: ['adopt', 'MUST_MATCH', '', 0],
  },
  ref: {
    taken: [{ branch: 'main' }, { tag: 'v1' }, { commit: long(40) }, { branch: '' }, { branch: long(1024) }],
    refused: [{}, 'main', { branch: 'a', tag: 'b' }, { branch: 7 }, { head: 'a' }, [], { branch: long(1025) }],
  },
  resource_inclusions: {
    taken: [[rule], [{ api_groups: [''], kinds: ['*'] }], some(100, rule)],
    refused: [
      [],
      {},
      [{ kinds: ['a'] }],
      [{ api_groups: [''] }],
      [{ api_groups: [], kinds: ['a'] }],
      [{ api_groups: [''], kinds: [] }],
      [{ api_groups: [''], kinds: [''] }],
      [{ api_groups: '', kinds: 'a' }],
      some(101, rule),
    ],
  },
  resource_exclusions: {
    taken: [[rule, rule]],
    refused: [[], [{}], 'Secret', [{ api_groups: [long(254)], kinds: ['a'] }]],
  },
  name: {
    taken: ['shop', 'a-b', '0', '-', long(32)],
    refused: ['', 'Shop', 'a.b', 'a_b', 'a b', long(33), 7, false],
  },
  adopt: {
    taken: [['41-7'], ['kustomize-controller', 'helm'], [long(128)], some(100, '41-7')],
    refused: [[], '41-7', [''], [7], [long(129)], some(101, '41-7')],
  },
  namespaces: {
    taken: [['shop'], ['a', 'b-c'], some(20, 'shop')],
    refused: [[], 'shop', ['Shop'], ['a.b'], ['a/b'], [''], [long(64)], some(21, 'shop')],
  },
  access_as: {
    taken: [
      { service_account: { namespace: 'shop', name: 'deployer' } },
      { service_account: { namespace: 'a', name: 'system.deployer' } },
      { service_account: { namespace: 'a', name: long(253) } },
    ],
    refused: [
      {},
      { service_account: {} },
      { service_account: { namespace: 'a' } },
      { service_account: { namespace: 'a.b', name: 'c' } },
      { service_account: { namespace: 'a', name: 'b:c' } },
      { service_account: { namespace: 'a', name: '' } },
      { service_account: { namespace: 'a', name: long(254) } },
      { user: 'a' },
      'deployer',
    ],
  },
  kustomize: {
    taken: [{ path: 'prod' }, { path: 'a/b' }, { path: '.' }],
    refused: [
      {},
      { path: '' },
      { path: '/prod' },
      { path: '..' },
      { path: 'a/../b' },
      { path: 7 },
      'prod',
      { folder: 'a' },
    ],
  },
  helm: {
    taken: [
      helm,
      { ...helm, values: ['values.yaml'] },
      { ...helm, release: long(53) },
      { ...helm, values: some(100, 'a') },
    ],
    refused: [
      {},
      { chart: 'a' },
      { release: 'a' },
      { ...helm, chart: '/etc' },
      { ...helm, chart: '' },
      { ...helm, values: [] },
      { ...helm, values: 'a' },
      { ...helm, values: ['../a'] },
      { ...helm, values: some(101, 'a') },
      { ...helm, release: 'Web' },
      { ...helm, release: 'a_b' },
      { ...helm, release: '-a' },
      { ...helm, release: long(54) },
    ],
  },
  prune_confirm: {
    taken: [[], ['Secret'], ['CustomResourceDefinition', 'Namespace'], some(100, 'A')],
    refused: ['Secret', [''], [7], {}, some(101, 'A'), [long(254)]],
  },
  prune_limit: {
    taken: ['50%', '0%', '100%', 0, 7, 10_000],
    refused: ['101%', '50', '', '-1%', -1, 1.5, true, [], 2 ** 60],
  },
  on_removal: { taken: ['keep', 'prune'], refused: ['delete', '', false] },
  conflicts: { taken: ['force', 'fail'], refused: ['Force', '', true] },
  environments: {
    taken: [['production'], ['a/b', 'c'], some(100, 'a')],
    refused: [[], 'production', [''], [7], some(101, 'a'), [long(254)]],
  },
  drift: {
    taken: [
      {},
      { mode: 'correct' },
      { mode: 'report', after: '0s', scan: '300s' },
      { mode: 'none', after: '604800s', scan: '604800s' },
      { after: '0.5s' },
      { ignore: [] },
      { ignore: [{ paths: ['.spec.replicas', '/spec/replicas', ''] }] },
      { ignore: [{ managers: ['vpa-*'] }] },
      { ignore: [{ kinds: ['Deployment', 'apps/*', '/Secret', '*'], paths: ['.spec'], managers: ['a'] }] },
      { ignore: some(50, { managers: ['a'] }) },
      { added_by: [] },
      { added_by: ['kubectl*', 'k9s'] },
      { added_by: [long(128)] },
    ],
    refused: [
      '',
      'correct',
      true,
      [],
      { mode: 'Correct' },
      { mode: '' },
      { mode: true },
      { after: 300 },
      { after: '5m' },
      { after: '-1s' },
      { after: '604801s' },
      { scan: '299s' },
      { scan: '604800.1s' },
      { scan: '0s' },
      { ignore: {} },
      { ignore: ['.spec'] },
      { ignore: [{}] },
      { ignore: [{ kinds: ['Deployment'] }] },
      { ignore: [{ paths: [] }] },
      { ignore: [{ managers: [] }] },
      { ignore: [{ kinds: [], paths: ['.spec'] }] },
      { ignore: [{ paths: '.spec' }] },
      { ignore: [{ paths: [7] }] },
      { ignore: [{ paths: ['spec'] }] },
      { ignore: [{ paths: ['.spec', '.spec.containers[].image'] }] },
      { ignore: [{ paths: [`.${long(1024)}`] }] },
      { ignore: [{ managers: [''] }] },
      { ignore: [{ managers: [long(129)] }] },
      { ignore: [{ kinds: [''], paths: ['.spec'] }] },
      { ignore: [{ kinds: ['apps/v1/Deployment'], paths: ['.spec'] }] },
      { ignore: [{ kinds: ['apps/'], paths: ['.spec'] }] },
      { ignore: [{ kinds: ['a b'], paths: ['.spec'] }] },
      { ignore: some(51, { managers: ['a'] }) },
      { ignore: some(20, { paths: [`.${long(500)}`] }) },
      { added_by: 'kubectl*' },
      { added_by: [''] },
      { added_by: some(101, 'a') },
    ],
  },
}

const answersOf = (source: Readonly<Record<string, unknown>>) => {
  const block = { manifest_projects: [source] }
  const isTaken = (read: () => unknown) => {
    try {
      read()
      return true
    } catch {
      return false
    }
  }
  return {
    kas: isTaken(() =>
      parseAgentConfiguration('config.yaml', Buffer.from(JSON.stringify({ gitops: block })), moduleSchemas.list),
    ),
    agentk: readBlock(block).unreadable.length === 0,
    older: olderSourceSchema.safeParse(source).success,
  }
}

let count = 0
for (const [key, { taken, refused }] of Object.entries(values)) {
  t.test(key, async (t) => {
    for (const value of taken) {
      const text = JSON.stringify(value).slice(0, 100)
      t.strictSame(answersOf({ [key]: value }), { kas: true, agentk: true, older: true }, `${text} is taken by all`)
    }
    for (const value of refused) {
      const { kas, agentk } = answersOf({ [key]: value })
      t.strictSame({ kas, agentk }, { kas: false, agentk: false }, `${JSON.stringify(value).slice(0, 100)} by none`)
    }
  })
  count += taken.length + refused.length
}

t.test('of all sources: those without a drift of their own have it, whole', async (t) => {
  const read = (gitops: object) => {
    const text = JSON.stringify({ gitops })
    const { blocks } = parseAgentConfiguration('config.yaml', Buffer.from(text), moduleSchemas.list)
    return JSON.parse(blocks.get('gitops') ?? '') as object
  }
  const common = { mode: 'report', ignore: [{ paths: ['.spec.replicas'] }] }
  const own = { after: '60s' }
  const sources = [{ name: 'a' }, { name: 'b', drift: own }, { name: 'c', drift: {} }]
  const shared = read({ drift: common, manifest_projects: sources })
  t.strictSame(shared, {
    drift: common,
    manifest_projects: [
      { drift: common, name: 'a' },
      { drift: own, name: 'b' },
      { drift: {}, name: 'c' },
    ],
  })
  t.match(readBlock(shared).sources, [
    { block: { drift: common } },
    { block: { drift: own } },
    { block: { drift: {} } },
  ])
  t.strictSame(read({ drift: common }), { drift: common })
  t.strictSame(read({ manifest_projects: [{ name: 'a' }] }), { manifest_projects: [{ name: 'a' }] })
  for (const value of values.drift?.refused ?? []) {
    t.throws(() => read({ drift: value, manifest_projects: [{}] }), JSON.stringify(value).slice(0, 100))
  }
  t.throws(() => read({ drift: common, manifest_projects: [{ name: 'A' }] }), /manifest_projects\[0\]\.name/)
})

t.test('both renderers, a key that nobody knows, a source that is none', async (t) => {
  const nobody = { kas: false, agentk: false }
  t.match(answersOf({ helm, kustomize: { path: 'a' } }), nobody)
  t.match(answersOf({ namspaces: ['a'] }), nobody, 'a newer kas may know it: agentk leaves the source alone')
  t.match(answersOf({ helm: { ...helm, namespace: 'a' } }), nobody)
  t.match(answersOf({ drift: { after: '1s', befor: '1s' } }), nobody)
  t.match(answersOf({ drift: { ignore: [{ path: ['.spec'], managers: ['a'] }] } }), nobody)
  const { unreadable } = readBlock({ manifest_projects: ['a', null, 7] })
  t.equal(unreadable.length, 3)
})

t.ok(count >= 200, `${count} values`)
