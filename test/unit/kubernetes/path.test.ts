import t from 'tap'
import { builtIn } from '../../../src/kubernetes/kind.ts'
import { collectionPath, groupPath, objectPath, versionPath, withQuery } from '../../../src/kubernetes/path.ts'

const deployments = { group: 'apps', version: 'v1', plural: 'deployments', isNamespaced: true }
const nodes = { group: '', version: 'v1', plural: 'nodes', isNamespaced: false }

t.test('the core group has a root of its own', async (t) => {
  t.equal(groupPath(''), '/api')
  t.equal(groupPath('apps'), '/apis/apps')
  t.equal(versionPath({ group: '', version: 'v1' }), '/api/v1')
  t.equal(versionPath(deployments), '/apis/apps/v1')
})

t.test('a collection is of a namespace, or of all', async (t) => {
  t.equal(collectionPath(deployments, 'shop'), '/apis/apps/v1/namespaces/shop/deployments')
  t.equal(collectionPath(deployments), '/apis/apps/v1/deployments')
  t.equal(collectionPath(deployments, ''), '/apis/apps/v1/deployments')
  t.equal(collectionPath(builtIn.configMaps, 'shop'), '/api/v1/namespaces/shop/configmaps')
})

t.test('what is in no namespace is found without one', async (t) => {
  t.equal(collectionPath(nodes, 'shop'), '/api/v1/nodes')
  t.equal(objectPath(nodes, { namespace: 'shop', name: 'n1' }), '/api/v1/nodes/n1')
  const name = 'widgets.example.com'
  t.equal(
    objectPath(builtIn.customResourceDefinitions, { name }),
    '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com',
  )
})

t.test('an object has its subresources below it', async (t) => {
  const place = { namespace: 'shop', name: 'api' }
  t.equal(objectPath(deployments, place), '/apis/apps/v1/namespaces/shop/deployments/api')
  t.equal(
    objectPath(deployments, { ...place, subresource: 'status' }),
    '/apis/apps/v1/namespaces/shop/deployments/api/status',
  )
})

t.test('a name stays in its segment, whatever it holds but dots alone', async (t) => {
  for (const bad of ['../../secrets/x', 'a?watch=1', 'a#b', 'a%2fb', 'a b', 'ü']) {
    const path = objectPath({ group: bad, version: bad, plural: bad }, { namespace: bad, name: bad, subresource: bad })
    const { pathname, search, hash } = new URL(path, 'http://server')
    t.strictSame({ pathname, search, hash }, { pathname: path, search: '', hash: '' }, bad)
    const decoded = path.split('/').slice(2).map(decodeURIComponent)
    t.strictSame(decoded, [bad, bad, 'namespaces', bad, bad, bad, bad])
  }
  t.equal(objectPath(nodes, { name: 'system:node' }), '/api/v1/nodes/system%3Anode', 'the API server decodes it')
})

t.test('a query is written in its order, without what is not given', async (t) => {
  const query = { labelSelector: 'a=b,c in (d, e)', limit: 500, force: false, continue: '', fieldSelector: undefined }
  const path = withQuery('/api/v1/pods', query)
  t.equal(path, '/api/v1/pods?labelSelector=a%3Db%2Cc%20in%20(d%2C%20e)&limit=500&force=false')
  t.strictSame([...new URL(path, 'http://server').searchParams.values()], ['a=b,c in (d, e)', '500', 'false'])
  t.equal(withQuery('/api/v1/pods', { continue: '' }), '/api/v1/pods')
  t.equal(withQuery('/api/v1/pods?limit=1', { watch: true }), '/api/v1/pods?limit=1&watch=true', 'another is before it')
})
