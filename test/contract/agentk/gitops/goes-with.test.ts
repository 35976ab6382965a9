import t from 'tap'
import { parse } from 'yaml'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { map, namespace, pruned, RowsSide, source } from './rows-side.ts'

/** Deleting a namespace or a definition also deletes objects in it. agentk reports all of these before. */

const group = 'with.example.com'
const definition = (isServed: boolean) => `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: trinkets.${group}, ${pruned} }
spec:
  group: ${group}
  scope: Namespaced
  names: { plural: trinkets, kind: Trinket, singular: trinket }
  versions: [{ name: v1, served: ${isServed}, storage: true, schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } } }]
`
const definitionKey = keyOf('CustomResourceDefinition', `trinkets.${group}`, '', 'apiextensions.k8s.io')

t.test('what goes with others', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const side = new RowsSide(ground, 300n)
  const isGoing = async (name: string) => {
    const found = await ground.get(keyOf('Namespace', name, ''))
    return !found || found.metadata.deletionTimestamp !== undefined
  }

  await t.test('a definition whose kind is not served now stays: nobody can say what is there of it', async (t) => {
    const { project, becomes, row, stop } = await side.start(t, [source])
    project.push({ 'a.yaml': definition(true), 'b.yaml': map('with-crd') })
    await becomes(Phase.SYNCED)
    await ground.readKinds()
    const object = { apiVersion: `${group}/v1`, kind: 'Trinket', metadata: { name: 'theirs', namespace: 'shop' } }
    await ground.create(keyOf('Trinket', 'theirs', 'shop', group), object)
    project.push({ 'a.yaml': definition(false), 'b.yaml': map('with-crd') })
    await becomes(Phase.SYNCED)
    await eventually(async () => {
      await ground.readKinds()
      return ground.kinds.listable.every(({ plural }) => plural !== 'trinkets')
    })
    project.push({ 'b.yaml': map('with-crd') })
    await becomes(Phase.FAILING)
    t.match(row()?.kept, [{ code: 'dependentsNotListed', text: /its kind is not served now/ }])
    t.notOk((await ground.get(definitionKey))?.metadata.deletionTimestamp)
    await stop()
    await ground.client.json('DELETE', ground.path(definitionKey))
  })

  await t.test('a namespace stays while part of the API is not known', async (t) => {
    const { project, becomes, row, stop } = await side.start(t, [source])
    project.push({ 'a.yaml': namespace('with-unknown', pruned), 'b.yaml': map('with-whole') })
    await becomes(Phase.SYNCED)
    const name = 'v1.stale.example.com'
    const service = { name: 'none', namespace: 'shop' }
    const spec = { group: 'stale.example.com', version: 'v1', service, insecureSkipTLSVerify: true }
    const apiService = keyOf('APIService', name, '', 'apiregistration.k8s.io')
    const body = { metadata: { name }, spec: { ...spec, groupPriorityMinimum: 100, versionPriority: 100 } }
    await ground.create(apiService, { apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService', ...body })
    await eventually(async () => {
      await ground.readKinds()
      return !ground.kinds.isWhole
    })
    project.push({ 'b.yaml': map('with-whole') })
    await becomes(Phase.FAILING)
    t.match(row()?.kept, [{ key: { name: 'with-unknown' }, text: /cannot say now of which kinds it has objects/ }])
    t.notOk(await isGoing('with-unknown'))
    await ground.client.json('DELETE', ground.path(apiService))
    await eventually(() => isGoing('with-unknown'))
    await stop()
  })

  await t.test('what an object that stays controls is listed', async (t) => {
    const { project, becomes, stop } = await side.start(t, [source])
    const kind = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole' }
    const role = JSON.stringify({ ...kind, metadata: { name: 'with-controller' }, rules: [] })
    project.push({ 'a.yaml': namespace('with-controlled', pruned), 'b.json': role })
    await becomes(Phase.SYNCED)
    const owner = await ground.get(keyOf('ClusterRole', 'with-controller', '', 'rbac.authorization.k8s.io'))
    const reference = { ...kind, name: 'with-controller', uid: owner?.metadata.uid, controller: true }
    const metadata = { name: 'data', namespace: 'with-controlled', ownerReferences: [reference] }
    await ground.create(keyOf('ConfigMap', 'data', 'with-controlled'), { metadata })
    project.push({ 'b.json': role })
    const { leaving } = await becomes(Phase.APPROVAL)
    t.match(leaving, [{ key: { name: 'with-controlled' }, text: /with it go 1 ConfigMap: ConfigMap data$/ }])
    t.notOk(await isGoing('with-controlled'))
    await stop()
  })

  await t.test('what comes while the rest goes holds it', async (t) => {
    const { project, becomes, row, stop } = await side.start(t, [source])
    const child = keyOf('ConfigMap', 'child', 'with-late')
    const files = { 'a.yaml': namespace('with-late', pruned), 'c.yaml': map('child', 'namespace: with-late') }
    project.push({ ...files, 'b.yaml': map('with-stays') })
    await becomes(Phase.SYNCED)
    await ground.merge(child, { metadata: { finalizers: ['example.com/hold'] } })
    project.push({ 'b.yaml': map('with-stays') })
    await eventually(async () => (await ground.get(child))?.metadata.deletionTimestamp !== undefined)
    const precious = { metadata: { name: 'precious', namespace: 'with-late' } }
    await ground.create(keyOf('Secret', 'precious', 'with-late'), precious)
    await ground.merge(child, { metadata: { finalizers: null } })
    await eventually(async () => (await ground.get(child)) === undefined)
    await eventually(() => row()?.phase === Phase.FAILING || row()?.phase === Phase.APPROVAL)
    t.notOk(await isGoing('with-late'))
    const { leaving } = await becomes(Phase.APPROVAL)
    t.match(leaving, [{ key: { name: 'with-late' }, text: /1 Secret: Secret precious$/ }])
    await stop()
  })

  await t.test('also what comes of a kind that was not there', async (t) => {
    const { project, becomes, row, stop } = await side.start(t, [source])
    const stays = { 'z.yaml': map('with-rest') }
    const child = keyOf('ConfigMap', 'child', 'with-kinds')
    project.push({ 'a.yaml': namespace('with-kinds', pruned), 'c.yaml': map('child', 'namespace: with-kinds') })
    await becomes(Phase.SYNCED)
    project.push({
      'a.yaml': namespace('with-kinds', pruned),
      'c.yaml': map('child', 'namespace: with-kinds'),
      ...stays,
    })
    await becomes(Phase.SYNCED)
    await ground.merge(child, { metadata: { finalizers: ['example.com/hold'] } })
    project.push(stays)
    await eventually(async () => (await ground.get(child))?.metadata.deletionTimestamp !== undefined)
    const late = definition(true).replaceAll(group, 'late.example.com')
    await ground.create(
      keyOf('CustomResourceDefinition', 'trinkets.late.example.com', '', 'apiextensions.k8s.io'),
      parse(late),
    )
    await eventually(async () => {
      await ground.readKinds()
      return ground.kinds.listable.some((kind) => kind.group === 'late.example.com')
    })
    const object = {
      apiVersion: 'late.example.com/v1',
      kind: 'Trinket',
      metadata: { name: 'theirs', namespace: 'with-kinds' },
    }
    await ground.create(keyOf('Trinket', 'theirs', 'with-kinds', 'late.example.com'), object)
    await ground.merge(child, { metadata: { finalizers: null } })
    await eventually(() => row()?.phase === Phase.FAILING || row()?.phase === Phase.APPROVAL)
    t.notOk(await isGoing('with-kinds'))
    await stop()
  })

  await t.test('those that keep one another are counted, and names that are long are cut', async (t) => {
    const stays = { 'z.yaml': map('with-circle-rest') }
    const { project, becomes, stop } = await side.start(t, [source])
    project.push({ 'a.yaml': namespace('with-circle', pruned), ...stays })
    await becomes(Phase.SYNCED)
    const [one, two] = ['one', 'two'].map((name) => keyOf('Secret', name, 'with-circle'))
    if (!one || !two) return
    for (const key of [one, two]) await ground.create(key, { metadata: { name: key.name, namespace: 'with-circle' } })
    for (const [key, other] of [
      [one, two],
      [two, one],
    ] as const) {
      const uid = (await ground.get(other))?.metadata.uid
      const owner = { apiVersion: 'v1', kind: 'Secret', name: other.name, uid, controller: true }
      await ground.merge(key, { metadata: { ownerReferences: [owner] } })
    }
    const rbac = 'rbac.authorization.k8s.io'
    const long = keyOf('Role', '名'.repeat(9000), 'with-circle', rbac)
    await ground.create(long, { metadata: { name: long.name, namespace: 'with-circle' }, rules: [] })
    project.push(stays)
    const { leaving } = await becomes(Phase.APPROVAL)
    t.match(leaving, [{ text: /with it go 1 Role\.rbac\.authorization\.k8s\.io, 2 Secret: 3 more$/ }])
    t.ok(Buffer.byteLength(leaving[0]?.text ?? '') < 16_000)
    await stop()
  })

  await t.test('all of it is counted, and what is of a kind beyond the first hundred as well', async (t) => {
    const { project, becomes, stop } = await side.start(t, [source])
    project.push({ 'a.yaml': namespace('with-many'), 'b.yaml': map('with-beside') })
    await becomes(Phase.SYNCED)
    const metadata = (name: string) => ({ metadata: { name, namespace: 'with-many' } })
    for (let index = 0; index < 101; index++) {
      const name = `${'c'.repeat(200)}-${index}`
      await ground.create(keyOf('ConfigMap', name, 'with-many'), metadata(name))
    }
    await ground.create(keyOf('Secret', 'precious', 'with-many'), metadata('precious'))
    project.push({ 'b.yaml': map('with-beside') })
    const { leaving } = await becomes(Phase.APPROVAL)
    t.match(leaving, [{ text: /with it go 1 Secret, 101 ConfigMap: ConfigMap c{200}-0, / }])
    await stop()
  })

  for (const status of [500, 401]) {
    await t.test(`a list that fails is asked for again: ${status}`, async (t) => {
      const name = `with-failing-${status}`
      let isFailing = false
      const json: ApiClient['json'] = async (method, path, ...rest) => {
        if (isFailing && path.includes(`/namespaces/${name}/secrets`)) return { status, headers: {}, body: {} }
        return ground.client.json(method, path, ...rest)
      }
      const client = new Proxy(ground.client, {
        get: (target, name) => {
          if (name === 'json') return json
          const value = Reflect.get(target, name)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
      const { project, becomes, stop } = await side.start(t, [source], client)
      project.push({ 'a.yaml': namespace(name, pruned), 'b.yaml': map(`${name}-rest`) })
      await becomes(Phase.SYNCED)
      isFailing = true
      project.push({ 'b.yaml': map(`${name}-rest`) })
      const { kept } = await becomes(Phase.FAILING)
      t.match(kept, [{ code: 'dependentsNotListed', text: RegExp(`answered ${status}`) }])
      isFailing = false
      await eventually(() => isGoing(name))
      await stop()
    })
  }
})
