import t from 'tap'
import { askedStream } from '../../../../src/kubernetes/request/asked-stream.ts'

const asked = (path: string, query: Record<string, string> = {}, method = 'GET') =>
  askedStream(method, { path, query: Object.entries(query).map(([name, value]) => [name, [value]]) })

t.test('a watch, however it is asked for', async (t) => {
  for (const watch of ['1', 'true', 'T', 'yes', '']) t.equal(asked('/api/v1/pods', { watch }), 'watch', watch)
  t.equal(asked('/apis/apps/v1/watch/namespaces/a/deployments'), 'watch')
  t.equal(asked('/api/v1/watch/pods', { follow: '1' }), 'watch')
})

t.test('a log that is followed', async (t) => {
  t.equal(asked('/api/v1/namespaces/a/pods/b/log', { follow: 'true' }), 'log')
  t.equal(asked('/api/v1/namespaces/a/pods/b/log'), undefined)
  t.equal(asked('/api/v1/namespaces/a/pods/b/log', { follow: 'false' }), undefined)
  t.equal(asked('/api/v1/pods', { follow: 'true' }), undefined)
})

t.test('what has an end', async (t) => {
  for (const watch of ['0', 'false', 'FALSE']) t.equal(asked('/api/v1/pods', { watch }), undefined, watch)
  t.equal(asked('/api/v1/pods'), undefined)
  t.equal(asked('/api/v1/namespaces/watch/pods'), undefined)
  t.equal(asked('/version', { watch: '1' }), undefined)
  t.equal(asked('/api/v1/pods', { watch: '1' }, 'POST'), undefined)
})

t.test('what a service, a pod or a node answers by /proxy is neither, whatever it is asked', async (t) => {
  const service = '/api/v1/namespaces/a/services/https:x:443/proxy'
  for (const path of [
    service,
    `${service}/`,
    `${service}/log`,
    '/api/v1/nodes/n/proxy/log',
    '/api/v1/namespaces/a/pods/p/proxy/',
  ])
    t.equal(asked(path, { watch: '1', follow: 'true' }), undefined, path)
  t.equal(asked('/api/v1/namespaces/proxy/pods', { watch: '1' }), 'watch')
})
