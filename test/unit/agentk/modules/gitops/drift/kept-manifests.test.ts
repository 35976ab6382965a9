import t from 'tap'
import { KeptManifests } from '../../../../../../src/agentk/modules/gitops/drift/kept-manifests.ts'
import { SharedBytes } from '../../../../../../src/agentk/modules/gitops/files/kept-files.ts'
import { keptManifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'

const key = (name: string) => ({ group: '', kind: 'ConfigMap', namespace: 'shop', name })
const manifest = (name: string, text = name) => {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { text } }
  return { key: key(name), version: 'v1', object, digest: `d-${name}`, file: 'a.yaml', line: 3 }
}

t.test('each manifest is read as it was kept, from any block', async (t) => {
  const kept = new KeptManifests(new SharedBytes(1e9, () => 1))
  const all = Array.from({ length: 1000 }, (_, i) => manifest(`m${i}`, 'x'.repeat(800)))
  await kept.keep(all)
  for (const i of [0, 327, 328, 999]) t.strictSame(await kept.read(keyText(key(`m${i}`))), all[i])
  t.equal(await kept.read(keyText(key('another'))), undefined)
})

t.test('hostile texts stay in their line', async (t) => {
  const kept = new KeptManifests(new SharedBytes(1e9, () => 1))
  const texts = ['a\nb', '"}\n{"', '\u2028', '\u0000', '👍', '']
  const all = texts.map((text, i) => manifest(`m${i}`, text))
  await kept.keep(all)
  for (const [i, one] of all.entries()) t.strictSame(await kept.read(keyText(key(`m${i}`))), one)
})

t.test('a manifest that keeps its bytes is not parsed', async (t) => {
  const kept = new KeptManifests(new SharedBytes(1e9, () => 1))
  const { object, ...about } = manifest('bytes')
  const one = keptManifest(about, Buffer.from(JSON.stringify(object)))
  await kept.keep([one])
  t.strictSame(await kept.read(keyText(key('bytes'))), { ...about, object })
})

t.test('without room none are kept, and the room is given back', async (t) => {
  const room = new SharedBytes(50, () => 1000)
  const kept = new KeptManifests(room)
  await kept.keep([manifest('large', 'abcdefghij'.repeat(100))])
  t.equal(await kept.read(keyText(key('large'))), undefined)
  t.ok(room.set({}, 50), 'nothing is counted')
})

t.test('the last of two at once counts', async (t) => {
  const kept = new KeptManifests(new SharedBytes(1e9, () => 1))
  await Promise.all([kept.keep([manifest('old')]), kept.keep([manifest('new')])])
  t.equal(await kept.read(keyText(key('old'))), undefined)
  t.match(await kept.read(keyText(key('new'))), { digest: 'd-new' })
  kept.release()
  t.equal(await kept.read(keyText(key('new'))), undefined)
})
