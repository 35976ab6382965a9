import t, { type Test } from 'tap'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { driftStatus } from '../../../../src/agentk/modules/gitops/state/drift-text.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { type Clock, systemClock } from '../../../../src/lib/clock.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { apiClient } from '../../../support/api-client.ts'
import { eventually } from '../../../support/eventually.ts'
import { exitOf } from './exit-of.ts'
import { type FollowedOptions, followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { startMutatingWebhook } from './mutating-webhook.ts'

/**
 * Drift where the API server, or admission, does not let agentk compare or watch, with agentk as a whole: what the row
 * says, and what is written.
 */

const rbac = 'rbac.authorization.k8s.io'
const extensions = 'apiextensions.k8s.io'
const report = { drift: { mode: 'report' } } as const
const atOnce = { drift: { after: '0s' } } as const
const map = (name: string) => keyOf('ConfigMap', name)

t.test('bad input to drift: webhooks, rights, definitions', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  let projects = 840n
  const follow = (t: Test, files: Readonly<Record<string, string>>, options: Omit<FollowedOptions, 'projectId'> = {}) =>
    followSource(t, ground, files, { projectId: projects++, ...options })
  const valueIn = async (name: string) => (await ground.get(map(name)))?.data.value
  const hand = (key: ObjectKey, change: object, manager = 'kubectl-edit') => ground.merge(key, change, manager)

  await t.test('a webhook that refuses dry runs, for weeks: cannot be compared, and never in order', async (t) => {
    const refusal = 'admission here takes no dry run'
    const remove = await startMutatingWebhook(t, ground, {
      name: 'no-dry-run',
      group: '',
      resource: 'configmaps',
      mutate: ({ metadata }, { isDryRun }) => (isDryRun && metadata.labels?.dry === 'no' ? { refusal } : []),
    })
    const labels = { labels: { dry: 'no' } }
    const files = {
      'a.json': mapOf('refused', '1', labels),
      'b.json': mapOf('proven', '1', labels),
      'c.json': mapOf('plain'),
    }
    let offset = 0
    const serverClock: Clock = { ...systemClock, now: () => Date.now() + offset }
    const dry = { ...JSON.parse(mapOf('probe', '1', labels)), metadata: { name: 'probe', ...labels } }
    const probe = '/api/v1/namespaces/shop/configmaps?dryRun=All'
    await eventually(async () => (await ground.client.json('POST', probe, dry)).status === 400)
    const { register, project, scan, becomes, stop } = await follow(t, files, { block: report, serverClock })
    const began = Date.now()
    t.equal(await scan(), 3, 'a comparison that is refused was made')
    const first = await becomes(({ counts }) => counts?.notCompared === 2)
    t.match(first.drifted, [
      { kind: 'not_compared', path: [], manager: '', correctAtMs: 0n, text: new RegExp(refusal) },
      { kind: 'not_compared' },
    ])
    await hand(map('proven'), { data: { value: '9' } })
    const both = await becomes(({ counts }) => counts?.drifted === 1 && counts.notCompared === 1)
    t.match(both.drifted, [{ key: { name: 'proven' }, kind: 'drifted', text: new RegExp(refusal), left: 'mode' }, {}])
    const since = new Set<bigint | undefined>()
    for (const weeks of [1, 2, 6]) {
      offset = weeks * 7 * 86_400_000
      const states = project.states.length
      t.equal(await scan(), 3)
      await hand(map('plain'), { data: { value: `w${weeks}` } }, `kubectl-${weeks}`)
      const later = await becomes(({ counts }) => project.states.length > states && counts?.drifted === 2)
      since.add(later.drifted.find(({ kind }) => kind === 'not_compared')?.sinceMs)
      t.equal(later.counts?.notCompared, 1, `after ${weeks} weeks`)
      t.equal(await exitOf([later]), 1)
      await hand(map('plain'), { data: { value: '1' } }, `kubectl-back-${weeks}`)
      await becomes(({ counts }) => counts?.drifted === 1)
    }
    t.equal(since.size, 1)
    t.ok(Math.abs(Number([...since][0]) - began) < 60_000, 'since the first time, by the API server’s clock')
    const seen = project.states.slice(project.states.indexOf(first))
    t.strictSame(
      seen.filter((state) => driftStatus(state).status === 'False'),
      [],
      'Drifted is never False',
    )
    t.match(await register.metrics(), /^agentk_gitops_not_compared_objects\S* 1$/m)
    await hand(map('proven'), { data: { value: '1' } })
    await remove()
    await eventually(async () => (await ground.client.json('POST', probe, dry)).status === 201)
    t.equal(await scan(), 3)
    const after = await becomes(({ counts, drifted }) => counts?.notCompared === 0 && drifted.length === 0)
    t.equal(driftStatus(after).status, 'False')
    t.equal(await exitOf([after]), 0)
    await stop()
  })

  await t.test('the same with correct: a change that the owners prove is written after its time', async (t) => {
    const remove = await startMutatingWebhook(t, ground, {
      name: 'no-dry-run-at-all',
      group: '',
      resource: 'configmaps',
      mutate: ({ metadata }, { isDryRun }) =>
        isDryRun && metadata.name === 'written' ? { refusal: 'no dry run' } : [],
    })
    const probe = '/api/v1/namespaces/shop/configmaps?dryRun=All'
    const dry = { metadata: { name: 'written' } }
    await eventually(async () => (await ground.client.json('POST', probe, dry)).status === 400)
    const { becomes, project, stop } = await follow(t, { 'a.json': mapOf('written') }, { block: atOnce })
    await hand(map('written'), { data: { value: '9' } })
    await eventually(async () => (await valueIn('written')) === '1')
    const { phase } = await becomes(({ drifted, counts }) => drifted.length === 0 && counts?.drifted === 0)
    t.equal(phase, Phase.SYNCED)
    t.ok(project.states.every(({ drifted }) => drifted.every(({ kind }) => kind === 'drifted')))
    await remove()
    await stop()
  })

  await t.test('an account without list, or without watch: named, and noticed within a minute', async (t) => {
    const clock: Clock = { ...systemClock, after: (ms, action) => systemClock.after(ms / 60, action) } // a minute is a second
    for (const [name, verbs] of [
      ['no-list', ['get', 'create', 'patch', 'update', 'delete']],
      ['no-watch', ['get', 'list', 'create', 'patch', 'update', 'delete']],
    ] as const) {
      const client = await accountClient(t, ground, name, verbs)
      const block = { namespaces: ['shop'], ...report } as const
      const { becomes, stop } = await follow(t, { 'a.json': mapOf(name) }, { block, client, serverClock: clock })
      const unwatched = ['ConfigMap: the API server refuses to list or watch it (403)']
      t.strictSame((await becomes((now) => now.unwatched.length > 0)).unwatched, unwatched, name)
      await hand(map(name), { data: { more: '1' } })
      const added = await becomes((now) => now.drifted.length === 1)
      t.match(added.drifted, [{ path: ['.data.more'], manager: 'kubectl-edit' }], `${name}: a field that is added`)
      await hand(map(name), { data: { more: null } })
      await becomes((now) => now.drifted.length === 0)
      await hand(map(name), { data: { value: '9' } })
      const { drifted } = await becomes((now) => now.drifted.length === 1)
      t.match(drifted, [{ path: ['.data.value'], manager: 'kubectl-edit' }], name)
      await ground.client.json('DELETE', ground.path(map(name)))
      await becomes(({ drifted: [one] }) => one?.deleted || one === undefined)
      await eventually(async () => (await valueIn(name)) === '1') // of a frozen leader, in the first minutes of a term
      await stop()
    }
  })

  await t.test('a definition that loses a version: cannot be compared, also after a restart of agentk', async (t) => {
    const [group, plural] = ['versions.example.com', 'gadgets']
    const definition = keyOf('CustomResourceDefinition', `${plural}.${group}`, '', extensions)
    const define = async (isServed: boolean) => {
      const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }
      const versions = ['v1', 'v2'].map((name, i) => ({ name, served: i === 1 || isServed, storage: i === 0, schema }))
      const names = { plural, kind: 'Gadget' }
      const object = {
        apiVersion: `${extensions}/v1`,
        kind: 'CustomResourceDefinition',
        metadata: { name: definition.name },
        spec: { group, scope: 'Namespaced', names, versions },
      }
      await ground.apply(definition, object, 'setup')
      await eventually(async () => {
        await ground.readKinds()
        const key = { group, kind: 'Gadget' }
        return (ground.kinds.find(key, 'v1') !== undefined) === isServed && ground.kinds.find(key, 'v2') !== undefined
      })
    }
    await define(true)
    const gadget = { apiVersion: `${group}/v1`, kind: 'Gadget', metadata: { name: 'one' }, spec: { a: '1' } }
    const files = { 'a.json': JSON.stringify(gadget), 'b.json': mapOf('beside') }
    const projectId = projects++
    const first = await followSource(t, ground, files, { projectId, block: report })
    await first.stop()
    await define(false)
    first.project.states.length = 0
    const second = await followSource(t, ground, files, { projectId, block: report, project: first.project })
    const lost = await second.becomes(({ counts }) => counts?.notCompared === 1)
    const text = `nobody serves Gadget in version v1 of its group`
    t.match(lost, { phase: Phase.SYNCED, drifted: [{ key: { name: 'one' }, kind: 'not_compared', text }] })
    t.equal(driftStatus(lost).status, 'Unknown')
    t.equal(await exitOf([lost]), 1)
    await hand(map('beside'), { data: { value: '9' } })
    t.match((await second.becomes(({ counts }) => counts?.drifted === 1)).drifted[0], { key: { name: 'beside' } })
    await second.stop()
    await define(true)
    await hand(map('beside'), { data: { value: '1' } })
    first.project.states.length = 0
    const third = await followSource(t, ground, files, { projectId, block: report, project: first.project })
    t.equal(await third.scan(), 2)
    t.match(third.state(), { drifted: [], counts: { drifted: 0, notCompared: 0 } })
    await third.stop()
  })
})

/** Returns a client that acts as an account with these rights to ConfigMaps, and all in the namespace of agentk. */
async function accountClient(t: Test, ground: Ground, name: string, verbs: readonly string[]): Promise<ApiClient> {
  await ground.create(keyOf('ServiceAccount', name, 'gitops'), { metadata: { name } })
  const bind = async (namespace: string, rules: readonly object[]) => {
    await ground.create(keyOf('Role', name, namespace, rbac), { metadata: { name }, rules })
    await ground.create(keyOf('RoleBinding', name, namespace, rbac), {
      metadata: { name },
      roleRef: { apiGroup: rbac, kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace: 'gitops' }],
    })
  }
  await bind('gitops', [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }])
  await bind('shop', [{ apiGroups: [''], resources: ['configmaps'], verbs }])
  const path = `/api/v1/namespaces/gitops/serviceaccounts/${name}/token`
  const { body } = await ground.client.json('POST', path, { spec: { expirationSeconds: 3600 } })
  const { token } = (body as { status: { token: string } }).status
  const { server, caFile } = ground.controlPlane
  const client = apiClient(t, { server, ca: { file: caFile }, token: { text: token } })
  await eventually(async () => (await client.json('GET', '/api/v1/namespaces/gitops/configmaps')).status === 200)
  return client
}
