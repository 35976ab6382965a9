import t from 'tap'
import { liveObjectOf } from '../../../../src/agentk/modules/gitops/live/live-object.ts'
import { eventually } from '../../../support/eventually.ts'
import { anyIdentity } from '../../../support/identities.ts'
import { type AppliedObject, DriftSide, full, id, manager } from './drift-side.ts'
import { configMap, Ground, keyOf, skip } from './ground.ts'

/** Comparison on a real API server where it is refused, and where the object or its owners are not as usual. */

const admission = 'admissionregistration.k8s.io'
t.test('a comparison that is refused, or of odd objects', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  await ground.create(keyOf('Namespace', 'shop', ''), { metadata: { name: 'shop' } })
  const side = new DriftSide(ground)

  await t.test('a dry run that is refused', async (t) => {
    const rule = (resource: string) => ({
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['*'],
      resources: [resource],
    })
    const hook = keyOf('ValidatingWebhookConfiguration', 'dead', '', admission)
    const selected = { labels: { asked: 'webhook' } }
    const hooked = await side.applyMap('refused-1', { a: '1' }, selected)
    await side.edit(hooked.key, { data: { a: '9' } })
    await ground.create(hook, {
      metadata: { name: 'dead' },
      webhooks: [
        {
          name: 'dead.example.com',
          admissionReviewVersions: ['v1'],
          sideEffects: 'NoneOnDryRun',
          timeoutSeconds: 1,
          clientConfig: { url: 'https://127.0.0.1:1/' },
          objectSelector: { matchLabels: selected.labels },
          rules: [rule('configmaps')],
        },
      ],
    })
    const refused = /^notComparable: webhook: .*failed calling webhook "dead\.example\.com"/
    await eventually(async () => refused.test((await side.drift(hooked))[0] ?? ''))
    t.strictSame(await side.reasons(hooked), ['hash'], 'the owners prove the change')
    await ground.client.json('DELETE', ground.path(hook))

    const selector = await side.applyDeployment('refused-2')
    const immutable = {
      ...selector,
      object: full('refused-2', { spec: { selector: { matchLabels: { app: 'other' } } } }),
    }
    t.match(await side.drift(immutable), [/^notComparable: immutable: .*field is immutable/])

    const account = { namespace: 'shop', name: 'none' }
    const headers = anyIdentity.accountHeaders(account)
    if (!headers) throw new Error('the account has no headers')
    side.lane = ground.lanes.lane('scan', headers)
    t.match(await side.drift(hooked), [/^notComparable: denied: .*cannot get/])
    const roles = (kind: string) => keyOf(kind, 'drift', 'shop', 'rbac.authorization.k8s.io')
    await ground.create(roles('Role'), {
      metadata: { name: 'drift' },
      rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }],
    })
    await ground.create(roles('RoleBinding'), {
      metadata: { name: 'drift' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'drift' },
      subjects: [{ kind: 'ServiceAccount', name: 'none', namespace: 'shop' }],
    })
    await eventually(async () => /denied: .*cannot patch/.test((await side.drift(hooked))[0] ?? ''))
    side.lane = ground.lanes.lane('scan')
  })

  await t.test('a definition that loses a field, then is gone', async (t) => {
    const definition = keyOf('CustomResourceDefinition', 'things.drift.example.com', '', 'apiextensions.k8s.io')
    const define = (properties: object) =>
      ground.apply(
        definition,
        {
          apiVersion: 'apiextensions.k8s.io/v1',
          kind: 'CustomResourceDefinition',
          metadata: { name: definition.name },
          spec: {
            group: 'drift.example.com',
            scope: 'Namespaced',
            names: { plural: 'things', kind: 'Thing' },
            versions: [
              {
                name: 'v1',
                served: true,
                storage: true,
                schema: { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties } } } },
              },
            ],
          },
        },
        'setup',
      )
    const map = {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['n'],
      items: { type: 'object', required: ['n'], properties: { n: { type: 'string' }, v: { type: 'string' } } },
    }
    const free = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
    const set = { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } }
    const list = { type: 'array', items: { type: 'string' } }
    await define({ a: { type: 'string' }, map, set, list, free })
    await eventually(async () => {
      await ground.readKinds()
      return ground.kinds.find({ group: 'drift.example.com', kind: 'Thing' }) !== undefined
    })
    const key = keyOf('Thing', 'thing', 'shop', 'drift.example.com')
    const spec = {
      a: '1',
      map: ['p', 'q'].map((n) => ({ n, v: n })),
      set: ['x', 'y'],
      list: ['x', 'y'],
      free: { deep: { y: 1, z: [1, 2] } },
    }
    const object = {
      apiVersion: 'drift.example.com/v1',
      kind: 'Thing',
      metadata: { name: 'thing', namespace: 'shop' },
      spec,
    }
    const applied = await eventually(() => side.apply(key, object)) // its schema comes a little later than the kind
    t.strictSame(await side.drift(applied), ['inOrder'])
    await side.put(key, 'first', (live) => {
      live.spec.map.reverse()
      live.spec.set = ['z', 'y']
      live.spec.list.push('z')
      live.spec.free.deep = { y: 2, z: [2, 1], q: 1 }
    })
    t.strictSame((await side.drift(applied)).toSorted(), [
      'changed .spec.free.deep.y 1 -> 2 by first',
      'changed .spec.list ["x","y"] -> ["x","y","z"] by first',
      'missing .spec.set[="x"] "x" -> - by unknown',
      'reordered .spec.free.deep.z [1,2] -> [2,1] by first',
      'reordered .spec.map [{"n":"p"},{"n":"q"}] -> [{"n":"q"},{"n":"p"}] by unknown',
    ])
    // anybody who may write it can nest as deep as the API server takes
    const deep = Array.from({ length: 4000 }).reduce<object>((inner) => ({ x: inner }), {})
    await side.patch(key, 'merge', 'k9s', { spec: { free: { mine: deep } } })
    t.match(await side.drift(applied), [/^notComparable: invalid: its maps and lists are nested in more than 1000/])
    t.match(await side.judge(applied), { kind: 'suspect' })
    await side.patch(key, 'merge', 'k9s', { spec: { free: { mine: null } } })
    await define({ map, set, list, free })
    await eventually(async () =>
      /^notComparable: invalid: .*field not declared in schema/.test((await side.drift(applied))[0] ?? ''),
    )
    await ground.client.json('DELETE', ground.path(definition))
    await eventually(
      async () => (await side.drift(applied))[0] === 'notComparable: absent: the API server answered 404',
    )
  })

  await t.test('a Secret: its values and keys are in no text', async (t) => {
    const key = keyOf('Secret', 'secret')
    const base64 = (text: string) => Buffer.from(text).toString('base64')
    const object = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'secret', namespace: 'shop', annotations: { 'vendor.example/token': 'hunter1' } },
      data: { 'git-key': base64('hunter1'), 'gone-key': base64('hunter1') },
    }
    const applied = await side.apply(key, object)
    await side.nextSecond()
    await side.patch(key, 'merge', 'kubectl-edit', {
      metadata: { annotations: { 'vendor.example/token': 'hunter2' }, labels: { team: 'x' } },
      data: { 'git-key': base64('hunter2'), 'gone-key': null, 'added-key': base64('hunter2') },
    })
    const found = await side.explain(applied)
    const listed = 'differences' in found ? found.differences.listed : []
    t.strictSame(
      listed.map(({ kind, path, before, after, secretKey }) => [kind, path, before, after, secretKey]).sort(),
      [
        ['added', '.data…', undefined, '***', 'added-key'],
        ['changed', '.data…', '***', '***', 'git-key'],
        ['changed', '.metadata.annotations.vendor.example/token', '***', '***', undefined],
        ['missing', '.data…', '***', undefined, 'gone-key'],
      ],
    )
    const text = JSON.stringify({ ...found, differences: listed.map(({ secretKey: _, ...others }) => others) })
    t.notMatch(text, /hunter|-key|aHVudGVy/)
    // a refusal
    const typed = {
      ...object,
      type: 'kubernetes.io/dockerconfigjson',
      data: { '.dockerconfigjson': base64('hunter3') },
    }
    const other = { ...applied, object: { ...typed, metadata: { name: 'secret', namespace: 'shop' } } }
    const refused = await side.explain(other)
    t.match(refused, { kind: 'notComparable' })
    t.notMatch(JSON.stringify(refused), /hunter|aHVudGVy|dockerconfigjson/)
    const fresh = { ...other, key: keyOf('Secret', 'fresh') }
    const made = {
      ...fresh,
      object: {
        ...typed,
        metadata: { name: 'fresh', namespace: 'shop' },
        data: { '.dockerconfigjson': base64('{"hunter3') },
      },
    }
    await ground.create(made.key, {
      metadata: { name: 'fresh' },
      type: typed.type,
      data: { '.dockerconfigjson': base64('{}') },
    })
    const invalid = await side.explain(made)
    t.match(invalid, { kind: 'notComparable', problem: { text: /data\[…\]: Invalid value/ } })
    t.notMatch(JSON.stringify(invalid), /hunter|aHVudGVy|dockerconfigjson/)
  })

  await t.test('owners that were erased, and thirty managers', async (t) => {
    const erased = await side.applyMap('erased')
    await side.patch(erased.key, 'merge', 'first', { metadata: { managedFields: [{}] } })
    t.strictSame(await side.reasons(erased), ['erased'])
    t.match(await side.explain(erased), { kind: 'inOrder', hasLostFields: true })
    await side.edit(erased.key, { data: { a: '9' } })
    t.strictSame(await side.drift(erased), ['changed .data.a "1" -> "9" by unknown'])
    const many = await side.applyMap('many')
    for (let i = 0; i < 30; i++) {
      await ground.apply(many.key, configMap('many', { [`k${i}`]: '1' }), `kubectl-${i}`)
    }
    const found = await side.explain(many)
    t.match(found, { kind: 'drifted', differences: { more: 10 } })
    t.match('differences' in found && found.differences.listed[0], {
      kind: 'added',
      path: /^\.data\.k\d+$/,
      by: { manager: /^kubectl-/ },
    })
  })

  await t.test('bad input: forged owners', async (t) => {
    const forge = async (applied: AppliedObject, entries: (own: object[]) => unknown[]) => {
      const own = (await ground.get(applied.key)).metadata.managedFields
      const body = [{ op: 'replace', path: '/metadata/managedFields', value: entries(own) }]
      const options = { contentType: 'application/json-patch+json' }
      const path = `${ground.path(applied.key)}?fieldManager=x`
      return (await ground.client.json('PATCH', path, body, undefined, options)).status
    }
    const entry = (fieldsV1: unknown, by = 'kubectl') => ({
      manager: by,
      operation: 'Update',
      apiVersion: 'v1',
      fieldsType: 'FieldsV1',
      time: '2026-06-01T00:00:00Z',
      fieldsV1,
    })
    for (const [i, fields] of [
      { 'f:data': { 'f:none': {} } },
      { 'x:unknown': {} },
      { 'f:data': { 'k:no json': {} } },
      { 'f:data': { 'k:{"a":1}': {}, 'i:4': {}, 'v:7': {} } },
      { 'f:data': 5 },
      { 'f:data': null },
      'text',
    ].entries()) {
      const applied = await side.applyMap(`bad-${i}`)
      await side.edit(applied.key, { data: { a: '9' } }, 'first')
      const status = await forge(applied, (own) => [...own, entry(fields)])
      t.comment(`${JSON.stringify(fields)}: ${status}`)
      t.strictSame(await side.drift(applied), ['changed .data.a "1" -> "9" by first'], JSON.stringify(fields))
    }
    const claimed = await side.applyMap('claimed')
    await side.edit(claimed.key, { data: { a: '9' } }, 'first')
    await forge(claimed, (own) => own.filter((one) => JSON.stringify(one).includes(manager)))
    t.strictSame(await side.drift(claimed), ['changed .data.a "1" -> "9" by unknown'])
    t.equal(liveObjectOf(await ground.get(claimed.key), manager).owner, id)
    // the API server takes any time for a new name: `findingOf` decides which of them a change can have
    for (const [i, time] of ['9999-12-31T23:59:59Z', '1969-01-01T00:00:00Z'].entries()) {
      const timed = await side.applyMap(`timed-${i}`)
      await side.edit(timed.key, { data: { a: '9' } }, 'first')
      const renamed = (one: object) =>
        JSON.stringify(one).includes('"first"') ? { ...one, manager: 'second', time } : one
      await forge(timed, (own) => own.map(renamed))
      t.match(await side.explain(timed), { differences: { listed: [{ by: { manager: 'second', time } }] } })
    }
  })
})
