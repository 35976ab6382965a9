import t from 'tap'
import { parseTarget } from '../../../../dev/api-double/request-target.ts'

const read = (path: string) => {
  const target = parseTarget(new URL(path, 'https://api'))
  return target && [target.resource.name, target.namespace, target.name, target.subresource]
}

t.test('paths that name something', async (t) => {
  t.same(read('/api/v1/pods'), ['pods', undefined, undefined, undefined])
  t.same(read('/api/v1/namespaces'), ['namespaces', undefined, undefined, undefined])
  t.same(read('/api/v1/namespaces/demo'), ['namespaces', undefined, 'demo', undefined])
  t.same(read('/api/v1/namespaces/demo/pods'), ['pods', 'demo', undefined, undefined])
  t.same(read('/api/v1/namespaces/demo/pods/clock/log?follow=true'), ['pods', 'demo', 'clock', 'log'])
  t.same(read('/apis/coordination.k8s.io/v1/namespaces/demo/leases/x%2Dy'), ['leases', 'demo', 'x-y', undefined])
})

t.test('paths that name nothing', async (t) => {
  const paths = [
    '/',
    '/api',
    '/api/v1',
    '/api/v2/pods',
    '/api/v1/secrets',
    '/apis/apps/v1/statefulsets',
    '/api/v1/pods/clock',
  ]
  const more = ['/api/v1/namespaces/demo/pods/clock/log/more', '/api/v1/namespaces/demo/namespaces', '/api/v1/%E0%A4%A']
  for (const path of [...paths, ...more]) t.equal(read(path), undefined, path)
})
