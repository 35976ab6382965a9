import t from 'tap'
import type { GitopsBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** No change of the configuration deletes anything, on a real API server, with a source that prunes on removal. */

const map = (name: string, namespace: string) => `
apiVersion: v1
kind: ConfigMap
metadata: { name: ${name}, namespace: ${namespace} }
data: { value: "1" }
`
const secret = `
apiVersion: v1
kind: Secret
metadata: { name: cs, namespace: shop }
stringData: { value: "1" }
`
const files = { 'prod/a.yaml': map('ca', 'shop'), 'prod/b.yaml': map('cb', 'else'), 'test/s.yaml': secret }
const objects = [keyOf('ConfigMap', 'ca'), keyOf('ConfigMap', 'cb', 'else'), keyOf('Secret', 'cs')]

t.test('changes of the configuration', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'else', 'gitops'])
    await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const source = { id: 'platform/shop', default_namespace: 'shop', on_removal: 'prune' } as const
  const whole = { manifest_projects: [source] }
  const prod = [{ glob: 'prod/**' }]
  const some = [{ api_groups: [''], kinds: ['ConfigMap'] }]
  const state = async (id: string) => {
    const object = await ground.get(keyOf('ConfigMap', `gitops-${id}-sync`, 'gitops'))
    return object && JSON.parse(object.data.status)
  }
  const uids = () => Promise.all(objects.map(async (key) => (await ground.get(key))?.metadata.uid))

  const project = new ProjectKas(7n)
  const { configure, lines, stop } = await startGitops(t, ground, project, whole)
  project.push(files)
  const isSynced = async (count: number, id = '42-7') => {
    const { phase, counts } = (await state(id)) ?? {}
    return phase === 'Synced' && counts.objects === count
  }
  const isRemoving = async (id: string) => (await state(id))?.phase === 'Removing' && (await state(id)).plan !== ''
  await eventually(() => isSynced(objects.length))
  const before = await uids()
  t.ok(before.every(Boolean))

  const changes: [what: string, block: GitopsBlock | undefined, isDone: () => unknown][] = [
    ['no file, or a kas that knows no GitOps', undefined, () => true],
    [
      'one that cannot be read',
      { manifest_projects: 'all' } as never,
      () => lines.some(({ msg }) => msg === 'The sources of GitOps cannot be used'),
    ],
    [
      'a source that cannot be read',
      { manifest_projects: [{ ...source, paths: 'all' } as never] },
      () => lines.some(({ msg }) => msg === 'A source of GitOps cannot be used'),
    ],
    ['a file without sources', {}, () => isRemoving('42-7')],
    ['no sources', { manifest_projects: [] }, () => isRemoving('42-7')],
    [
      'other paths',
      { manifest_projects: [{ ...source, paths: prod }] },
      async () => (await state('42-7')).planned?.includes('Secret shop/cs'),
    ],
    [
      'fewer namespaces',
      { manifest_projects: [{ ...source, namespaces: ['shop'] }] },
      async () => /outside the namespaces/.test((await state('42-7')).problem),
    ],
    [
      'fewer namespaces, of what these want alone',
      { manifest_projects: [{ ...source, namespaces: ['else'], paths: [{ file: 'prod/b.yaml' }] }] },
      async () => isSynced(1),
    ],
    [
      'fewer kinds',
      { manifest_projects: [{ ...source, resource_inclusions: some }] },
      async () => /not among resource_inclusions/.test((await state('42-7')).problem),
    ],
    [
      'fewer kinds, of what these want alone',
      {
        manifest_projects: [{ ...source, resource_exclusions: [{ api_groups: [''], kinds: ['Secret'] }], paths: prod }],
      },
      async () => isSynced(2),
    ],
    [
      'another name, and the old one is gone',
      { manifest_projects: [{ ...source, name: 'web', adopt: ['42-7'] }] },
      async () => isSynced(objects.length, '42-7-web'),
    ],
  ]
  for (const [what, block, isDone] of changes) {
    await t.test(what, async (t) => {
      configure(whole)
      await eventually(() => isSynced(objects.length))
      lines.length = 0
      configure(block)
      await eventually(async () => await isDone())
      t.strictSame(await uids(), before)
    })
  }
  await stop()
  t.strictSame(await uids(), before)
})
