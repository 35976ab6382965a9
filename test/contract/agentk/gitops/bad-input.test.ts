import t, { type Test } from 'tap'
import { driftStatus } from '../../../../src/agentk/modules/gitops/state/drift-text.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { hasControls } from '../../../../src/lib/printable.ts'
import { eventually } from '../../../support/eventually.ts'
import { DriftSide } from './drift-side.ts'
import { type FollowedOptions, followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'

/**
 * Bad input to drift, with agentk as a whole, a kas and a real API server: what the row says, and what is written.
 * drift-refused.test.ts has what a comparison alone answers, with more input; bad-clusters.test.ts has what the API
 * server refuses.
 */

const rbac = 'rbac.authorization.k8s.io'
const extensions = 'apiextensions.k8s.io'
const report = { drift: { mode: 'report' } } as const
const atOnce = { drift: { after: '0s' } } as const
const map = (name: string) => keyOf('ConfigMap', name)

t.test('bad input to drift: owners, holds, names', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const side = new DriftSide(ground)
  let projects = 800n
  const follow = (t: Test, files: Readonly<Record<string, string>>, options: Omit<FollowedOptions, 'projectId'> = {}) =>
    followSource(t, ground, files, { projectId: projects++, ...options })
  const valueIn = async (name: string) => (await ground.get(map(name)))?.data.value
  const owners = async (name: string): Promise<readonly string[]> =>
    ((await ground.get(map(name))).metadata.managedFields ?? []).map(
      ({ manager, operation }: { manager: string; operation: string }) => `${manager} ${operation}`,
    )
  const hand = (key: ObjectKey, change: object, manager = 'kubectl-edit') => ground.merge(key, change, manager)
  const erased = { metadata: { managedFields: [{}] } }

  await t.test(
    'managedFields erased: agentk takes its fields back, and a change beside that is by nobody',
    async (t) => {
      const corrected = await follow(t, { 'a.json': mapOf('erased') }, { block: atOnce })
      const own = `agentk-${corrected.id} Apply`
      t.strictSame(await owners('erased'), [own])
      await hand(map('erased'), erased)
      await eventually(async () => (await owners('erased')).includes(own))
      t.equal(await valueIn('erased'), '1')
      await corrected.becomes(({ drifted, counts }) => drifted.length === 0 && counts?.drifted === 0)
      t.ok(
        corrected.project.states.every(({ drifted }) => drifted.length === 0),
        'the values never differed',
      )
      await corrected.stop()
      const reported = await follow(t, { 'a.json': mapOf('erased-too') }, { block: report })
      await hand(map('erased-too'), { ...erased, data: { value: '9' } })
      const { drifted } = await reported.becomes((now) => now.drifted.length === 1)
      t.match(drifted, [{ kind: 'drifted', path: ['.data.value'], manager: '', changedAtMs: 0n, left: 'mode' }])
      await reported.stop()
    },
  )

  await t.test('managedFields forged: a change in the name of agentk counts as a frozen leader’s', async (t) => {
    const { id, becomes, project, stop } = await follow(t, { 'a.json': mapOf('forged') }, { block: report })
    const manager = `agentk-${id}`
    const { metadata } = (await ground.get(map('forged'))) as { metadata: Record<string, unknown> }
    const { labels, annotations } = metadata
    const late = (value: string, marks: object = annotations as object) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'forged', labels, annotations: marks },
      data: { value },
    })
    for (const [value, marks] of [
      ['8', undefined],
      ['7', { ...(annotations as object), 'agent.gitlab.com/digest': 'of an earlier commit' }],
    ] as const) {
      await side.nextSecond()
      await ground.apply(map('forged'), late(value, marks), manager)
      await eventually(async () => (await valueIn('forged')) === '1')
      await becomes(({ drifted, counts }) => drifted.length === 0 && counts?.drifted === 0)
    }
    const named = project.states.flatMap(({ drifted }) => drifted.map((one) => one.manager))
    t.notOk(
      named.some((one) => one !== ''),
      'its own manager is never blamed',
    )
    await stop()
  })

  await t.test('managedFields with 30 managers: twenty fields are named, the others are counted', async (t) => {
    const { becomes, stop } = await follow(t, { 'a.json': mapOf('many') }, { block: report })
    for (let i = 0; i < 30; i++) {
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'many' }, data: { [`k${i}`]: '1' } }
      await ground.apply(map('many'), object, `kubectl-${i}`)
    }
    const { drifted } = await becomes(({ drifted: [one] }) => (one?.path.length ?? 0) + (one?.morePaths ?? 0) === 30)
    t.match(drifted, [{ kind: 'drifted', path: { length: 20 }, morePaths: 10, manager: /^kubectl-\d+$/ }])
    await stop()
  })

  await t.test('managedFields with a field that is no field: the change itself is named', async (t) => {
    const { becomes, stop } = await follow(t, { 'a.json': mapOf('no-field') }, { block: report })
    await hand(map('no-field'), { data: { value: '9' } })
    const { managedFields } = (await ground.get(map('no-field'))).metadata
    const [entry] = managedFields
    const odd = [{ 'f:data': { 'f:none': {} } }, { 'f:none': { 'k:{"a":1}': {}, 'i:4': {}, 'v:7': {} } }]
    const entries = odd.map((fieldsV1, i) => ({ ...entry, manager: `kubectl-${i}`, operation: 'Update', fieldsV1 }))
    await hand(map('no-field'), { metadata: { managedFields: [...managedFields, ...entries] } })
    t.match(await owners('no-field'), [
      /^agentk-\S+ Apply$/,
      'kubectl-0 Update',
      'kubectl-1 Update',
      'kubectl-edit Update',
    ])
    const { drifted } = await becomes((now) => now.drifted.length === 1)
    t.match(drifted, [{ path: ['.data.value'], morePaths: 0, manager: 'kubectl-edit' }])
    await stop()
  })

  await t.test('a hold of 100 years, with no time, or that is over: the object is set back as usual', async (t) => {
    const { project, stop } = await follow(t, { 'a.json': mapOf('hold') }, { block: atOnce })
    const years = new Date(Date.now() + 100 * 365 * 86_400_000).toISOString()
    const texts = [years, '+275760-09-13T00:00:00Z', 'soon', '', '7d', 'NaN', '\u001b[31m', '2020-01-01T00:00:00Z']
    for (const [i, until] of texts.entries()) {
      const annotations = { 'agent.gitlab.com/correct-after': until }
      const manager = `kubectl-${i}` // one that is corrected three times would win
      await hand(map('hold'), { metadata: { annotations }, data: { value: String(i + 2) } }, manager)
      await eventually(async () => (await valueIn('hold')) === '1')
    }
    const left = project.states.flatMap(({ drifted }) => drifted.map((one) => one.left))
    t.notOk(left.includes('hold'))
    await stop()
  })

  await t.test('terminal escapes in names, fields and managers: nothing that is shown has one', async (t) => {
    const red = '\u001b[31m'
    const group = 'escapes.example.com'
    const definition = keyOf('CustomResourceDefinition', `sheets.${group}`, '', extensions)
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }
    await ground.apply(
      definition,
      {
        apiVersion: `${extensions}/v1`,
        kind: 'CustomResourceDefinition',
        metadata: { name: definition.name },
        spec: {
          group,
          scope: 'Namespaced',
          names: { plural: 'sheets', kind: 'Sheet' },
          versions: [{ name: 'v1', served: true, storage: true, schema }],
        },
      },
      'setup',
    )
    await eventually(async () => {
      await ground.readKinds()
      return ground.kinds.find({ group, kind: 'Sheet' }) !== undefined
    })
    const sheet = { apiVersion: `${group}/v1`, kind: 'Sheet', metadata: { name: 'one' }, spec: { [`a${red}`]: '1' } }
    const role = { apiVersion: `${rbac}/v1`, kind: 'Role', metadata: { name: `two${red}` }, rules: [] }
    const files = { 'a.json': JSON.stringify(sheet), 'b.json': JSON.stringify(role) }
    const { id, becomes, lines, project, stop } = await follow(t, files, { block: report })
    const key = keyOf('Sheet', 'one', 'shop', group)
    await hand(key, { spec: { [`a${red}`]: '2', 'b\u0007\u202e': '3' } })
    const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }]
    await hand(keyOf('Role', `two${red}`, 'shop', rbac), { rules })
    const forged = await ground.client.json(
      'PATCH',
      `${ground.path(key)}?fieldManager=${encodeURIComponent(`kubectl${red}`)}`,
      { spec: { c: '4' } },
      undefined,
      { contentType: 'application/merge-patch+json' },
    )
    t.equal(forged.status, 422, 'the API server takes no such manager')
    const { drifted } = await becomes((now) => now.drifted.length === 2)
    const [one] = drifted.filter(({ key: of }) => of?.kind === 'Sheet')
    t.equal(one?.path.length, 2)
    const texts = [
      ...drifted.flatMap(({ path, manager }) => [...path, manager]),
      ...lines.map((line) => String(line.msg)),
    ]
    t.strictSame(texts.filter(hasControls), [], 'paths and managers of the row')
    for (const state of project.states) t.notOk(hasControls(driftStatus(state).message), 'the condition')
    await eventually(async () => {
      const { body } = await ground.client.json('GET', '/api/v1/namespaces/gitops/events')
      const events = (body as { items: { involvedObject: { name: string }; reason: string; message: string }[] }).items
      const own = events.filter(
        ({ involvedObject, reason }) => involvedObject.name.includes(id) && reason === 'Drifted',
      )
      for (const { message } of own) t.notOk(hasControls(message), `the Event: ${JSON.stringify(message)}`)
      return own.length === 2
    })
    await stop()
  })
})
