import t from 'tap'
import type { ServedKind } from '../../../../../../src/agentk/modules/views/watch/discovery.ts'
import { chooseKinds, isMetadataEnough } from '../../../../../../src/agentk/modules/views/watch/kind-choice.ts'

function kind(key: string, hasStatus = true): ServedKind {
  const group = key.includes('/') ? key.slice(0, key.indexOf('/')) : ''
  return { key, group, version: 'v1', plural: key.toLowerCase(), isNamespaced: true, hasStatus }
}

const served = [
  'Pod',
  'Event',
  'Endpoints',
  'Secret',
  'example.com/Widget',
  'example.com/Gadget',
  'apps/Deployment',
  'coordination.k8s.io/Lease',
  'events.k8s.io/Event',
  'packages.operators.coreos.com/PackageManifest',
].map((key) => kind(key))

function chosen(follow: { kinds?: string[]; exclude?: string[] }, maxKinds = 300) {
  const isOwn = (group: string) => group !== 'packages.operators.coreos.com'
  const whole = { namespaces: [], kinds: [], exclude: [], ...follow }
  const { followed, tooMany } = chooseKinds(served, whole, { isOwn, maxKinds })
  return { followed: followed.map(({ key }) => key), tooMany: tooMany.map(({ key }) => key) }
}

t.test('which kinds are followed', (t) => {
  const usual = ['Pod', 'apps/Deployment', 'example.com/Widget', 'example.com/Gadget']
  t.strictSame(chosen({}).followed, usual, 'Kubernetes own first')
  t.strictSame(chosen({ kinds: ['*/*'] }).followed, usual, 'a pattern names none')
  t.strictSame(chosen({ kinds: ['*/*', 'Secret', 'Event'] }).followed, ['Event', 'Secret', ...usual])
  t.strictSame(chosen({ kinds: ['example.com/*'] }).followed, ['example.com/Widget', 'example.com/Gadget'])
  t.strictSame(chosen({ kinds: ['*'] }).followed, ['Pod'], 'of the core group')
  t.strictSame(chosen({ exclude: ['example.com/W*', 'Pod'] }).followed, ['apps/Deployment', 'example.com/Gadget'])
  t.strictSame(chosen({ kinds: ['Secret'], exclude: ['Secret'] }).followed, [])
  t.strictSame(chosen({ kinds: ['packages.operators.coreos.com/PackageManifest'] }).followed, [], 'another serves it')
  t.strictSame(chosen({ kinds: ['*/*', 'example.com/Gadget'] }, 2), {
    followed: ['example.com/Gadget', 'Pod'],
    tooMany: ['apps/Deployment', 'example.com/Widget'],
  })
  t.end()
})

t.test('of which nothing but the metadata is asked for', (t) => {
  const wants = (key: string) => key === 'apps/ControllerRevision'
  t.equal(isMetadataEnough(kind('ConfigMap', false), wants), true)
  t.equal(isMetadataEnough(kind('Pod'), wants), false)
  t.equal(isMetadataEnough(kind('apps/ControllerRevision', false), wants), false, 'a rule reads it')
  t.equal(isMetadataEnough(kind('example.com/Widget', false), wants), false, 'it may have a status all the same')
  t.equal(
    isMetadataEnough(kind('Secret'), () => true),
    true,
    'whatever rules say',
  )
  t.end()
})
