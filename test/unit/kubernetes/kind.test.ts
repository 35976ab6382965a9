import t from 'tap'
import { apiVersionOf, kindKey, parseApiVersion, parseKindKey } from '../../../src/kubernetes/kind.ts'

t.test('a version is written as objects name it, and read again', async (t) => {
  for (const [group, version, text] of [
    ['', 'v1', 'v1'],
    ['apps', 'v1', 'apps/v1'],
    ['source.toolkit.fluxcd.io', 'v1beta2', 'source.toolkit.fluxcd.io/v1beta2'],
  ] as const) {
    t.equal(apiVersionOf({ group, version }), text)
    t.strictSame(parseApiVersion(text), { group, version })
  }
})

t.test('a kind of the core group has no group before it', async (t) => {
  t.equal(kindKey('', 'Pod'), 'Pod')
  t.equal(kindKey('apps', 'Deployment'), 'apps/Deployment')
  for (const [group, kind] of [
    ['', 'Pod'],
    ['apps', 'Deployment'],
  ] as const) {
    t.strictSame(parseKindKey(kindKey(group, kind)), { group, kind })
  }
})
