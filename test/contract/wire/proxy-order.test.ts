import t from 'tap'
import { startServer } from '../kubernetes-server/start-server.ts'

/** If a request has several faults, kas reports the first one of this order (doc/reference/tunnel-protocol.md 6.1). */

const foreign = { Origin: 'https://evil.example.com' }
const unknown = { Authorization: 'Bearer ci:43:unknown' }
const preflight = { Origin: 'https://gitlab.example.com', 'Access-Control-Request-Method': 'GET' }
const cases = [
  ['a foreign page before its preflight', 'OPTIONS', '/none', { ...preflight, ...foreign }, 403],
  [
    'a preflight of a foreign page before the credentials in it',
    'OPTIONS',
    '/none',
    { ...preflight, ...foreign, ...unknown },
    403,
  ],
  ['a foreign page before the prefix', 'GET', '/none', foreign, 403],
  [
    'an Authorization header before its foreign page, the prefix before both',
    'GET',
    '/none',
    { ...foreign, ...unknown },
    400,
  ],
  ['a preflight before the prefix and before credentials', 'OPTIONS', '/none', preflight, 200],
  ['the prefix before the credentials of an OPTIONS that is no preflight', 'OPTIONS', '/none', {}, 400],
  ['these before the agent', 'OPTIONS', '/k8s-proxy/api', {}, 401],
  ['the prefix before credentials', 'GET', '/none', unknown, 400],
  ['credentials before the agent', 'GET', '/k8s-proxy/api', unknown, 401],
  ['the agent before its tunnel', 'GET', '/k8s-proxy/api', { Authorization: 'Bearer ci:43:good' }, 403],
] as const

// wire: 8154.order
for (const [name, method, path, headers, status] of cases) {
  t.test(name, async (t) => {
    const { server, port } = await startServer(() => Promise.reject(new Error('must not be asked')))
    t.teardown(() => server.stop(AbortSignal.abort()))
    t.equal((await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })).status, status)
  })
}
