import t from 'tap'
import { isActing, requestInfo } from '../../../../src/kubernetes/request/request-info.ts'

const info = (method: string, url: string) => {
  const { pathname, searchParams } = new URL(url, 'http://cluster')
  const names = [...new Set(searchParams.keys())].sort()
  const query = names.map((name): [string, string[]] => [name, searchParams.getAll(name)])
  const { verb, group, resource, subresource, namespace, name } = requestInfo(method, { path: pathname, query })
  return [verb, group, resource ?? '', subresource, namespace, name].join(' ').trim()
}

/** Cases of `TestGetAPIRequestInfo` and of its neighbors in k8s.io/apiserver. */
const cases: readonly (readonly [method: string, url: string, info: string])[] = [
  ['GET', '/api/v1/namespaces', 'list  namespaces'],
  ['GET', '/api/v1/namespaces/other', 'get  namespaces  other other'],
  ['GET', '/api/v1/namespaces/other/pods', 'list  pods  other'],
  ['GET', '/api/v1/namespaces/other/pods/foo', 'get  pods  other foo'],
  ['HEAD', '/api/v1/namespaces/other/pods/foo', 'get  pods  other foo'],
  ['GET', '/api/v1/pods', 'list  pods'],
  ['HEAD', '/api/v1/pods', 'list  pods'],
  ['GET', '/api/v1/namespaces/other/pods/foo/log', 'get  pods log other foo'],
  ['GET', '/api/v1/namespaces/other/pods/foo/proxy/a/b', 'get  pods proxy other foo'],
  ['GET', '/api/v1/proxy/namespaces/other/pods/foo', 'proxy  pods  other foo'],
  ['GET', '/api/v1/proxy/namespaces/other/pods/foo/subpath/x', 'proxy  pods  other foo'],
  ['GET', '/api/v1/proxy/pods/foo', 'proxy  pods   foo'],
  ['POST', '/api/v1/proxy/pods/foo', 'proxy  pods   foo'],
  ['GET', '/api/v1/watch/pods', 'watch  pods'],
  ['GET', '/api/v1/watch/namespaces/other/pods', 'watch  pods  other'],
  ['GET', '/api/v1/watch/namespaces/other/pods/foo', 'watch  pods  other foo'],
  ['GET', '/api/v1/namespaces/other/pods?watch=1', 'watch  pods  other'],
  ['GET', '/api/v1/namespaces/other/pods?watch=true', 'watch  pods  other'],
  ['GET', '/api/v1/namespaces/other/pods?watch=false', 'list  pods  other'],
  ['GET', '/api/v1/namespaces/other/pods/foo?watch=true', 'get  pods  other foo'],
  ['GET', '/api/v1/namespaces/other/pods?fieldSelector=metadata.name%3Dbar', 'list  pods  other bar'],
  ['GET', '/api/v1/namespaces/other/pods?fieldSelector=metadata.name%3D%3Dbar&watch=1', 'watch  pods  other bar'],
  ['GET', '/api/v1/pods?fieldSelector=metadata.name!%3Dbar', 'list  pods'],
  ['GET', '/api/v1/pods?fieldSelector=status.phase%3DRunning,metadata.name%3Dx', 'list  pods   x'],
  ['GET', '/api/v1/pods?fieldSelector=metadata.name%3D../a', 'list  pods'],
  ['PUT', '/api/v1/namespaces/other/finalize', 'update  namespaces finalize other other'],
  ['PUT', '/api/v1/namespaces/other/status', 'update  namespaces status other other'],
  ['PUT', '/api/v1/namespaces/other/pods/foo/status', 'update  pods status other foo'],
  ['PATCH', '/api/v1/namespaces/other/pods/foo', 'patch  pods  other foo'],
  ['POST', '/api/v1/pods', 'create  pods'],
  ['POST', '/api/v1/namespaces/other/pods/foo/exec', 'create  pods exec other foo'],
  ['GET', '/api/v1/namespaces/other/pods/foo/exec?command=sh', 'get  pods exec other foo'],
  ['DELETE', '/api/v1/namespaces/other/pods/foo', 'delete  pods  other foo'],
  ['DELETE', '/api/v1/namespaces/other/pods', 'deletecollection  pods  other'],
  ['DELETE', '/api/v1/nodes', 'deletecollection  nodes'],
  ['GET', '/apis/apps/v1/namespaces/other/deployments/web/scale', 'get apps deployments scale other web'],
  ['GET', '/apis/extensions/v1/pods/', 'list extensions pods'],
  ['OPTIONS', '/api/v1/pods', 'pods'],
  ['GET', '/', 'get'],
  ['GET', '/api', 'get'],
  ['GET', '/api/v1', 'get'],
  ['GET', '/apis', 'get'],
  ['GET', '/apis/apps', 'get'],
  ['GET', '/apis/apps/v1', 'get'],
  ['GET', '/healthz', 'get'],
  ['GET', '/version', 'get'],
  ['POST', '/foo/bar/baz', 'post'],
  ['GET', '/api/v1/watch/', 'get'],
]

t.test('a request as an API server resolves it', async (t) => {
  for (const [method, url, expected] of cases) t.equal(info(method, url), expected, `${method} ${url}`)
})

t.test('paths that are odd, and long', async (t) => {
  t.equal(info('GET', '/api/v1/namespaces//pods'), 'list  pods')
  t.equal(info('GET', '/api/v1/pods//log'), 'list  pods log')
  t.equal(requestInfo('GET', { path: '//api/v1/pods//', query: [] }).resource, 'pods')
  const long = 'x'.repeat(64 * 1024)
  t.equal(requestInfo('GET', { path: `/api/v1/pods/${long}`, query: [] }).name, long)
  t.equal(requestInfo('GET', { path: `/api/v1/${'/'.repeat(64 * 1024)}`, query: [] }).resource, undefined)
})

t.test('what acts on a pod, or passes on to what runs there', async (t) => {
  const isActingAt = (path: string) => isActing(requestInfo('GET', { path, query: [] }))
  for (const name of ['exec', 'attach', 'portforward', 'proxy'])
    t.equal(isActingAt(`/api/v1/namespaces/a/pods/b/${name}`), true, name)
  t.equal(isActingAt('/api/v1/proxy/nodes/n'), true)
  t.equal(isActingAt('/api/v1/namespaces/a/pods/b/log'), false)
  t.equal(isActingAt('/api/v1/namespaces/exec/pods'), false)
})
