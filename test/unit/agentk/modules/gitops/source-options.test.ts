import t from 'tap'
import { readBlock, sourceOptions } from '../../../../../src/agentk/modules/gitops/source-options.ts'
import type { SourceBlock } from '../../../../../src/proto/gitops/schema.ts'
import { sourceDigest } from '../../../../../src/proto/gitops/source-digest.ts'

const of = { agentId: 42n, projectId: 7n, ownProject: 'platform/clusters' }

t.test('defaults', async (t) => {
  t.strictSame(sourceOptions({}, of), {
    id: '42-7',
    manager: 'agentk-42-7',
    project: 'platform/clusters',
    defaultNamespace: 'default',
    paths: [{ glob: '**/*.{yaml,yml,json}' }],
    reconcileTimeoutMs: 3_600_000,
    dryRunStrategy: 'none',
    prune: true,
    pruneTimeoutMs: 3_600_000,
    prunePropagationPolicy: 'foreground',
    inventoryPolicy: 'must_match',
    resourceExclusions: [],
    adopt: [],
    pruneConfirm: ['CustomResourceDefinition', 'Namespace', 'PersistentVolume', 'PersistentVolumeClaim'],
    pruneLimit: { percent: 50 },
    onRemoval: 'keep',
    conflicts: 'force',
    environments: [],
    drift: {
      mode: 'correct',
      afterMs: 300_000,
      scanMs: 21_600_000,
      ignore: [],
      addedBy: ['kubectl*', 'k9s', 'node-fetch', 'Mozilla'],
      removesAdded: false,
    },
  })
  t.strictSame(sourceOptions({ kustomize: { path: 'prod' } }, of).paths, [{ glob: '**/*' }])
})

t.test('every key', async (t) => {
  const block: Required<Omit<SourceBlock, 'kustomize'>> = {
    id: 'platform/shop',
    default_namespace: 'shop',
    paths: [{ glob: 'prod/**' }, { file: 'a.yaml' }],
    reconcile_timeout: '0.5s',
    dry_run_strategy: 'server',
    prune: false,
    prune_timeout: '60s',
    prune_propagation_policy: 'orphan',
    inventory_policy: 'adopt_all',
    ref: { branch: 'main' },
    resource_inclusions: [{ api_groups: ['', 'apps'], kinds: ['*'] }],
    resource_exclusions: [{ api_groups: ['*'], kinds: ['Secret'] }],
    name: 'shop',
    adopt: ['41-7', 'kustomize-controller'],
    namespaces: ['shop'],
    access_as: { service_account: { namespace: 'shop', name: 'deployer' } },
    helm: { chart: 'chart', values: ['values.yaml'], release: 'shop' },
    prune_confirm: ['Secret'],
    prune_limit: 10,
    on_removal: 'prune',
    conflicts: 'fail',
    environments: ['production'],
    drift: {
      mode: 'report',
      after: '0.5s',
      scan: '600s',
      ignore: [{ kinds: ['apps/*'], paths: ['.spec.replicas'], managers: ['scaler'] }],
      added_by: ['k9s'],
    },
  }
  const [read] = readBlock({ manifest_projects: [block] }).sources
  t.strictSame(read, { block, digest: sourceDigest(block) })
  const options = sourceOptions(read?.block as SourceBlock, of)
  t.strictSame(options, {
    id: '42-7-shop',
    manager: 'agentk-42-7-shop',
    project: 'platform/shop',
    defaultNamespace: 'shop',
    paths: block.paths,
    reconcileTimeoutMs: 500,
    dryRunStrategy: 'server',
    prune: false,
    pruneTimeoutMs: 60_000,
    prunePropagationPolicy: 'orphan',
    inventoryPolicy: 'adopt_all',
    ref: block.ref,
    resourceInclusions: block.resource_inclusions,
    resourceExclusions: block.resource_exclusions,
    name: 'shop',
    adopt: block.adopt,
    namespaces: ['shop'],
    accessAs: { serviceAccount: { namespace: 'shop', name: 'deployer' } },
    helm: block.helm,
    pruneConfirm: ['Secret'],
    pruneLimit: { objects: 10 },
    onRemoval: 'prune',
    conflicts: 'fail',
    environments: ['production'],
    drift: {
      mode: 'report',
      afterMs: 500,
      scanMs: 600_000,
      ignore: block.drift.ignore,
      addedBy: ['k9s'],
      removesAdded: true,
    },
  })
  t.strictSame(JSON.parse(JSON.stringify(options)), options, 'JSON carries it')
})

t.test('added_by: what is configured, even the default or nothing, is what is removed', async (t) => {
  const drift = (added_by: string[]) => sourceOptions({ drift: { added_by } }, of).drift
  t.match(drift([]), { addedBy: [], removesAdded: true })
  t.match(drift(['kubectl*']), { addedBy: ['kubectl*'], removesAdded: true })
  t.strictSame(sourceOptions({ drift: {} }, of), sourceOptions({}, of))
})

t.test('a key that this agentk does not know makes its source unusable, and no other', async (t) => {
  const deep = { drift: { mode: 'report', of_a_newer_kas: 1 } }
  const inList = { drift: { ignore: [{ paths: ['.spec'], unless: 'x' }] } }
  const trees = [{ name: 'a' }, { name: 'b', of_a_newer_kas: 1 }, { name: 'c', ...deep }, { name: 'd', ...inList }]
  const { sources, unreadable } = readBlock({ manifest_projects: trees, of_a_newer_kas: 1 })
  t.strictSame(
    sources.map(({ block }) => block.name),
    ['a'],
  )
  const problem = (key: string) => `gitops.manifest_projects${key}: this agentk does not know the key: update agentk`
  t.strictSame(unreadable, [
    { name: 'b', problem: problem('[1].of_a_newer_kas') },
    { name: 'c', problem: problem('[2].drift.of_a_newer_kas') },
    { name: 'd', problem: problem('[3].drift.ignore[0].unless') },
  ])
})

t.test('an empty block names no source', async (t) => {
  t.strictSame(readBlock({}), { sources: [], unreadable: [] })
  t.strictSame(readBlock({ manifest_projects: [] }), { sources: [], unreadable: [] })
})

t.test('a source that is wrong leaves the others; what is empty is absent', async (t) => {
  const empty = { default_namespace: '', paths: [], ref: { branch: '' } }
  const { sources, unreadable } = readBlock({ manifest_projects: [{ name: 'a' }, { id: 'a/b', name: 'B' }, empty] })
  t.strictSame(
    sources.map(({ block }) => block),
    [{ name: 'a' }, empty],
  )
  const problem = 'gitops.manifest_projects[1].name: found "B", allowed: 1 to 32 lower-case letters, digits and hyphens'
  t.strictSame(unreadable, [{ project: 'a/b', name: 'B', problem }])
  const { ref: _, ...options } = sourceOptions(empty, of)
  t.strictSame(options, sourceOptions({}, of))
})

t.test('what is wrong is named', async (t) => {
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{ name: 'Shop' }, /1 to 32 lower-case/],
    [{ name: 'x'.repeat(33) }, /1 to 32/],
    [{ namespaces: [] }, /namespaces/],
    [{ namespaces: ['a/b'] }, /the name of a namespace/],
    [{ reconcile_timeout: '1h' }, /seconds such as/],
    [{ prune_limit: '150%' }, /a share such as/],
    [{ prune_limit: -1 }, /prune_limit/],
    [{ ref: { branch: 'a', tag: 'b' } }, /one of tag, branch, commit/],
    [{ paths: [{}] }, /one of glob, file/],
    [{ kustomize: { path: '../other' } }, /a path inside the repository/],
    [{ helm: { chart: '/etc', release: 'a' } }, /a path inside the repository/],
    [{ kustomize: { path: 'a' }, helm: { chart: 'b', release: 'c' } }, /not both/],
    [{ access_as: { service_account: { namespace: 'a', name: 'b:c' } } }, /the name of a service account/],
    [{ on_removal: 'delete' }, /on_removal/],
  ]
  for (const [source, why] of wrong)
    t.match(readBlock({ manifest_projects: [source] }), { sources: [], unreadable: [{ problem: why }] })
  t.throws(() => readBlock({ manifest_projects: Array(101).fill({}) }), /manifest_projects/)
  t.throws(() => readBlock('text'), /gitops/)
  const long = { ...of, agentId: 10n ** 15n, projectId: 10n ** 15n }
  t.throws(() => sourceOptions({ name: 'x'.repeat(32) }, long), /too long for a label/)
})
