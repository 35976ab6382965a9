import t from 'tap'
import { keyName, keyText, placeKey } from '../../../src/kubernetes/key.ts'

const web = { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' }
const shop = { group: '', kind: 'Namespace', namespace: '', name: 'shop' }
const tls = { group: 'cert-manager.io', kind: 'Certificate', namespace: 'shop', name: 'tls' }

t.test('a key has four parts, whichever of them are empty', async (t) => {
  t.equal(keyText(web), 'apps/Deployment/shop/web')
  t.equal(keyText(shop), '/Namespace//shop')
  t.not(keyText({ ...shop, namespace: 'a', name: 'b' }), keyText({ ...shop, group: 'a', name: 'b' }))
})

t.test('people read the kind, then where it is', async (t) => {
  t.equal(keyName(web), 'Deployment.apps shop/web')
  t.equal(keyName(shop), 'Namespace shop')
  t.equal(keyName(tls), 'Certificate.cert-manager.io shop/tls')
})

t.test('what is in no namespace is another than what has its name there', async (t) => {
  t.not(placeKey('Pod', '', 'a'), placeKey('Pod', 'a', ''))
  t.not(placeKey('apps/Deployment', 'a', 'b'), placeKey('Deployment', 'a', 'b'))
})
