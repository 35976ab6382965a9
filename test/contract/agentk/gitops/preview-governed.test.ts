import t from 'tap'
import { eventually } from '../../../support/eventually.ts'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { askForPreview, changeText, nameOf } from './preview-questions.ts'

/** Objects that others of the same change govern, that are taken over, left to others, or run once. */

const admission = 'admissionregistration.k8s.io'

/** A definition whose objects have these fields in `spec`. */
const gadgets = (...fields: string[]) =>
  JSON.stringify({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'gadgets.example.com' },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: 'gadgets', kind: 'Gadget' },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              properties: {
                spec: {
                  type: 'object',
                  properties: Object.fromEntries(fields.map((name) => [name, { type: 'integer' }])),
                },
              },
            },
          },
        },
      ],
    },
  })
const gadget = (spec: object) =>
  JSON.stringify({ apiVersion: 'example.com/v1', kind: 'Gadget', metadata: { name: 'one' }, spec })

/** A policy that refuses ConfigMaps with this value. */
const policy = (value: string) =>
  JSON.stringify({
    apiVersion: `${admission}/v1`,
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name: 'no-value' },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: {
        resourceRules: [
          { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['configmaps'] },
        ],
      },
      validations: [
        { expression: `!has(object.data) || !('value' in object.data) || object.data.value != '${value}'` },
      ],
    },
  })
const binding = JSON.stringify({
  apiVersion: `${admission}/v1`,
  kind: 'ValidatingAdmissionPolicyBinding',
  metadata: { name: 'no-value' },
  spec: {
    policyName: 'no-value',
    validationActions: ['Deny'],
    matchResources: { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } } },
  },
})
/** A webhook that nobody answers. */
const webhook = (names: string[]) =>
  JSON.stringify({
    apiVersion: `${admission}/v1`,
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'away' },
    webhooks: [
      {
        name: 'away.example.com',
        clientConfig: { url: 'https://127.0.0.1:1/' },
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        failurePolicy: 'Fail',
        objectSelector: { matchExpressions: [{ key: 'hooked', operator: 'In', values: names }] },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*'], resources: ['configmaps'] }],
      },
    ],
  })

t.test('what governs others', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const files = {
    'gadgets.json': gadgets('size'),
    'gadget.json': gadget({ size: 1 }),
    'policy.json': policy('bad'),
    'binding.json': binding,
    'webhook.json': webhook(['yes']),
    'map.json': mapOf('map'),
  }
  const { methods, id: source } = await followSource(t, ground, files, { projectId: 504n })
  const ask = (changed: Readonly<Record<string, string>>) =>
    askForPreview(methods(), { ...files, ...changed }, { source })
  const named = async (changed: Readonly<Record<string, string>>) => (await ask(changed)).objects.map(nameOf).sort()

  await t.test('a field that the definition of the same change brings is not verified', async (t) => {
    t.strictSame(await named({ 'gadget.json': gadget({ size: 1, timeout: 3 }) }), ['fails Gadget shop/one'])
    const both = await ask({
      'gadgets.json': gadgets('size', 'timeout'),
      'gadget.json': gadget({ size: 1, timeout: 3 }),
    })
    t.strictSame(both.objects.map(nameOf).sort(), [
      'changed CustomResourceDefinition gadgets.example.com',
      'changed? Gadget shop/one',
    ])
    const one = both.objects.find(({ key }) => key?.kind === 'Gadget')
    t.strictSame(one?.field.map(changeText), ['added .spec.timeout - -> 3'])
    t.match(one?.text, /definition of its kind changes/)
    t.match(both.end, { failing: 0, unverified: 1 })
  })

  await t.test('an object that a policy refuses today is not verified if the policy changes', async (t) => {
    await eventually(async () => (await named({ 'map.json': mapOf('map', 'bad') }))[0] === 'fails ConfigMap shop/map')
    t.strictSame(await named({ 'map.json': mapOf('map', 'bad'), 'policy.json': policy('other') }), [
      'changed ValidatingAdmissionPolicy no-value',
      'changed? ConfigMap shop/map',
    ])
    const { 'policy.json': _, 'binding.json': __, ...without } = files
    const gone = await askForPreview(methods(), { ...without, 'map.json': mapOf('map', 'bad') }, { source })
    t.strictSame(gone.objects.map(nameOf).sort(), [
      'changed? ConfigMap shop/map',
      'waits ValidatingAdmissionPolicy no-value',
      'waits ValidatingAdmissionPolicyBinding no-value',
    ])
    t.match(gone.objects.find(({ action }) => action === 'waits')?.text, /may be what refuses part of the commit/)
  })

  await t.test('the same holds for the configuration of a webhook', async (t) => {
    const hooked = { 'map.json': mapOf('map', '1', { labels: { hooked: 'yes' } }) }
    t.strictSame(await named(hooked), ['fails ConfigMap shop/map'])
    t.strictSame(await named({ ...hooked, 'webhook.json': webhook(['no']) }), [
      'changed ValidatingWebhookConfiguration away',
      'changed? ConfigMap shop/map',
    ])
  })

  await t.test('an object of others fails, or is adopted with what leaves', async (t) => {
    const data = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'theirs', namespace: 'shop' } }
    await ground.apply(keyOf('ConfigMap', 'theirs'), { ...data, data: { kept: '1', left: '2' } }, 'argocd-controller')
    const theirs = { 'theirs.json': JSON.stringify({ ...data, data: { kept: 'new' } }) }
    t.strictSame(await named(theirs), ['fails ConfigMap shop/theirs'])
  })
})

t.test('what is taken over, left to others, and runs once', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const job = (image: string) =>
    JSON.stringify({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'once' },
      spec: {
        ttlSecondsAfterFinished: 100,
        template: { spec: { restartPolicy: 'Never', containers: [{ name: 'job', image }] } },
      },
    })
  const files = { 'map.json': mapOf('map'), 'scaled.json': mapOf('scaled'), 'job.json': job('a:1') }
  const block = {
    adopt: ['argocd-controller'],
    drift: { mode: 'report', ignore: [{ kinds: ['ConfigMap'], paths: ['.data.value'], managers: ['scaler'] }] },
  } as const
  const { methods, id: source } = await followSource(t, ground, files, { projectId: 505n, block })
  const ask = (changed: Readonly<Record<string, string>>) =>
    askForPreview(methods(), { ...files, ...changed }, { source })

  await t.test('an object is adopted, with what leaves', async (t) => {
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'theirs', namespace: 'shop' } }
    await ground.apply(keyOf('ConfigMap', 'theirs'), { ...object, data: { kept: '1', left: '2' } }, 'argocd-controller')
    const { objects, end } = await ask({ 'theirs.json': JSON.stringify({ ...object, data: { kept: 'new' } }) })
    t.strictSame(objects.map(nameOf), ['adopted ConfigMap shop/theirs'])
    t.strictSame(objects[0]?.field.map(changeText), ['changed .data.kept "1" -> "new"', 'missing .data.left "2" -> -'])
    t.equal(end.adopted, 1)
  })

  await t.test('a value that a rule leaves to others is held back', async (t) => {
    await ground.merge(keyOf('ConfigMap', 'scaled'), { data: { value: '9' } }, 'scaler')
    const { objects } = await ask({ 'scaled.json': mapOf('scaled', '2') })
    t.strictSame(objects.map(nameOf), ['changed ConfigMap shop/scaled'])
    t.strictSame(objects[0]?.field, [])
    t.strictSame(objects[0]?.ignored.map(changeText), ['changed .data.value "9" -> "2"'])
    t.match(objects[0]?.ignored[0], { manager: 'scaler', operation: 'Update', rule: /paths: \[\.data\.value\]/ })
  })

  await t.test('a Job that ran once is not made again, and one with other content is', async (t) => {
    const key = keyOf('Job', 'once', 'shop', 'batch')
    await ground.client.json('DELETE', `${ground.path(key)}?propagationPolicy=Background`)
    t.strictSame((await ask({})).objects.map(nameOf), [])
    t.strictSame((await ask({ 'job.json': job('a:2') })).objects.map(nameOf), ['created Job shop/once'])
  })
})

t.test('fields that others have changed in place', { skip, timeout: 300_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const service = (...ports: { readonly name: string; readonly port: number }[]) =>
    JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: { ports } })
  const files = { 'service.json': service({ name: 'a', port: 80 }) }
  const block = { drift: { mode: 'report' } } as const
  const {
    methods,
    id: source,
    project,
    becomesSynced,
  } = await followSource(t, ground, files, { projectId: 507n, block })
  const ask = (text: string) => askForPreview(methods(), { 'service.json': text }, { source })
  const patch = [{ op: 'replace', path: '/spec/ports/0/port', value: 81 }]
  const path = `${ground.path(keyOf('Service', 'web'))}?fieldManager=kubectl-edit`
  const answer = await ground.client.json('PATCH', path, patch, undefined, {
    contentType: 'application/json-patch+json',
  })
  t.equal(answer.status, 200)
  const two = service({ name: 'a', port: 80 }, { name: 'b', port: 82 })
  const { objects, end } = await ask(two)
  t.strictSame(objects.filter(({ action }) => action !== 'drifted').map(nameOf), ['changed? Service shop/web'])
  t.match(objects[0]?.text, /agentk takes these back first/)
  t.equal(end.failing, 0)
  t.equal((await ground.get(keyOf('Service', 'web'))).spec.ports[0].port, 81, 'nothing was written')
  t.equal((await ask(service({ name: 'a', port: 80 }, { name: 'b', port: 99_999 }))).end.failing, 1)
  project.push({ 'service.json': two })
  await becomesSynced()
})
