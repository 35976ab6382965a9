import t from 'tap'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { type Answered, allow, askForPreview, countsOf, nameOf, RecordingClient } from './preview-questions.ts'

/** Callers of different rights see different parts of a change, and nothing shows them whether the rest exists. */

const planted = 'planted-secret-value'
const secret = (name: string, data: Record<string, string>, more: object = {}) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'Secret', metadata: { name, ...more }, stringData: data })

/** Bytes of an answer, without the time. */
const bytesOf = ({ text }: Answered) => text.replace(/"atMs":"\d+"/, '')

t.test('callers', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  const client = RecordingClient.start(t, ground)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const core = (...resources: string[]) => ({ apiGroups: [''], resources })
  await allow(ground, 'maps', [core('configmaps', 'namespaces')])
  await allow(ground, 'patcher', [core('namespaces'), { ...core('configmaps', 'services'), verbs: ['get', 'patch'] }])
  await allow(ground, 'reader', [core('configmaps', 'services', 'namespaces')])
  await allow(ground, 'secrets', [core('secrets', 'namespaces')])
  await allow(ground, 'named', [{ ...core('configmaps'), resourceNames: ['a'] }])
  await allow(ground, 'wide', [core('configmaps')], '')
  const files = {
    'a.json': mapOf('a'),
    'b.json': mapOf('b'),
    'token.json': secret(
      'token',
      { password: planted, user: 'shop' },
      { annotations: { 'vendor.example/token': planted } },
    ),
    'service.yaml': '{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}',
  }
  const { methods, id: source, lines } = await followSource(t, ground, files, { projectId: 506n, client })
  let next = 0
  const ask = async (as: string | undefined, changed: Readonly<Record<string, string>>, values = true) => {
    const auditId = `callers-${next++}`
    const answer = await askForPreview(methods(), { ...files, ...changed }, { source, as, auditId, values })
    return { ...answer, calls: client.of(auditId) }
  }
  const other = { 'a.json': mapOf('a', '2'), 'token.json': secret('token', { password: 'new', more: 'x' }) }

  await t.test('what the caller may not get is not compared, and in no other number', async (t) => {
    const { objects, end, text, calls } = await ask('maps', other)
    t.strictSame(objects.map(nameOf), ['changed ConfigMap shop/a'])
    t.strictSame(countsOf(end), { objects: 4, notCompared: 2, changed: 1 })
    t.notMatch(text, /token|Service/)
    t.notOk(
      calls.some((call) => /\/(?:secrets|services)\b/.test(call)),
      calls.join('\n'),
    )
  })

  await t.test('a caller without any right sees numbers of files alone', async (t) => {
    const { objects, end, calls } = await ask('nobody', other)
    t.strictSame([objects.map(nameOf), countsOf(end)], [[], { objects: 4, notCompared: 4 }])
    t.notOk(calls.some((call) => call.startsWith('PATCH')))
  })

  await t.test('a right to some names counts for these', async (t) => {
    const { objects, end } = await ask('named', { ...other, 'b.json': mapOf('b', '2') })
    t.strictSame(objects.map(nameOf), ['changed ConfigMap shop/a'])
    t.equal(end.notCompared, 3)
  })

  await t.test('what leaves and may not be read is not mentioned', async (t) => {
    const { 'token.json': _, ...without } = files
    const auditId = 'leaves'
    const { objects, end } = await askForPreview(methods(), without, { source, as: 'maps', auditId })
    t.strictSame([objects, countsOf(end)], [[], { objects: 3, notCompared: 1 }])
  })

  await t.test('a Secret is shown by the names of its keys', async (t) => {
    const { objects, text } = await ask('secrets', other)
    t.strictSame(objects.map(nameOf), ['changed Secret shop/token'])
    const fields = objects[0]?.field.map(({ kind, path, secretKey, before, after }) => [
      kind,
      path,
      secretKey,
      before,
      after,
    ])
    t.strictSame(fields?.sort(), [
      ['added', '.data…', 'more', undefined, '***'],
      ['changed', '.data…', 'password', '***', '***'],
      ['missing', '.data…', 'user', '***', undefined],
      ['missing', '.metadata.annotations.vendor.example/token', '', '***', undefined],
    ])
    t.notMatch(text, new RegExp(`${planted}|${Buffer.from(planted).toString('base64')}|digest`))
    const names = (await ask('secrets', other, false)).objects[0]?.field
    t.ok(names?.every(({ before, after }) => before === undefined && after === undefined))
  })

  await t.test('texts of refusals are for callers who may patch', async (t) => {
    const bad = { 'service.yaml': files['service.yaml'].replace('80', '99999') }
    const [reading, patching] = [await ask('reader', bad), await ask('patcher', bad)]
    t.strictSame(reading.objects.map(nameOf), ['fails Service shop/web'])
    t.match(reading.objects[0]?.text, /^the API server refuses it/)
    t.match(patching.objects[0]?.text, /spec\.ports\[0\]\.port/)
  })

  await t.test('a namespace that the caller may not get tells nothing, there or not', async (t) => {
    const inside = { 'inside.json': mapOf('inside', '1', { namespace: 'hidden' }) }
    const both = { ...inside, 'hidden.yaml': '{apiVersion: v1, kind: Namespace, metadata: {name: hidden}}' }
    const before = [await ask('wide', inside), await ask('wide', both)].map(bytesOf)
    t.match(before[0], /"unverified":true/)
    await ground.create(keyOf('Namespace', 'hidden', ''), { metadata: { name: 'hidden' } })
    t.strictSame([await ask('wide', inside), await ask('wide', both)].map(bytesOf), before)
  })

  await t.test('an owner that the caller may not get tells nothing, there or not', async (t) => {
    const owner = (uid: string) => ({
      'owned.json': mapOf('owned', '1', {
        ownerReferences: [{ apiVersion: 'v1', kind: 'Secret', name: 'owner', uid }],
      }),
    })
    const before = bytesOf(await ask('maps', owner('11111111-1111-4111-8111-111111111111')))
    t.match(before, /created/)
    await ground.create(keyOf('Secret', 'owner'), { metadata: { name: 'owner', namespace: 'shop' } })
    const { metadata } = await ground.get(keyOf('Secret', 'owner'))
    t.equal(bytesOf(await ask('maps', owner('11111111-1111-4111-8111-111111111111'))), before)
    const right = bytesOf(await ask('maps', owner(metadata.uid)))
    t.equal(right.replace(metadata.uid, '11111111-1111-4111-8111-111111111111'), before)
  })

  await t.test('forms in which a file may hide a Secret', async (t) => {
    const item = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'token' }, data: { password: 'Z3Vlc3M=' } }
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [item] })
    const ofConfigMaps = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMapList', items: [item] })
    const twoKinds =
      'apiVersion: v1\nkind: ConfigMap\nkind: Secret\nmetadata: { name: token }\ndata: { password: Z3Vlc3M= }\n'
    for (const text of [list, ofConfigMaps, twoKinds]) {
      const found = await ask('maps', { 'token.json': text })
      t.notMatch(found.text, new RegExp(`${planted}|${Buffer.from(planted).toString('base64')}`))
      t.notOk(
        found.calls.some((call) => call.includes('/secrets')),
        text,
      )
    }
    const definition = JSON.stringify({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'configmaps.' },
      spec: { group: '', scope: 'Namespaced', names: { plural: 'configmaps', kind: 'Secret' }, versions: [] },
    })
    const renamed = await ask('maps', { ...other, 'definition.json': definition })
    t.notOk(renamed.calls.some((call) => call.includes('/secrets')))
  })

  await t.test('a Secret of each type is tried with its values, and shown without them', async (t) => {
    const types = {
      'kubernetes.io/dockerconfigjson': { '.dockerconfigjson': JSON.stringify({ auths: { planted } }) },
      'kubernetes.io/tls': { 'tls.crt': planted, 'tls.key': planted },
      'kubernetes.io/basic-auth': { username: planted, password: planted },
    }
    for (const [type, stringData] of Object.entries(types)) {
      const of = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'typed' }, type, stringData }
      const found = await ask('secrets', { 'typed.json': JSON.stringify(of) })
      t.strictSame(found.objects.map(nameOf), ['created Secret shop/typed'], type)
      const keys = found.objects[0]?.field.flatMap(({ secretKey }) => (secretKey ? [secretKey] : []))
      t.strictSame(keys?.sort(), Object.keys(stringData).sort())
      t.notMatch(found.text, new RegExp(planted))
    }
  })

  await t.test('each request has the audit id, and no planted value is in the log', (t) => {
    t.ok(client.calls.length > 50)
    t.ok(client.calls.every(({ auditId }) => /^[A-Za-z0-9-]{1,64}$/.test(auditId)))
    t.notMatch(JSON.stringify(lines), new RegExp(planted))
    t.end()
  })
})
