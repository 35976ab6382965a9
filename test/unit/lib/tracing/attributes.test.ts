import t from 'tap'
import { Code } from '../../../../src/lib/errors.ts'
import {
  agentAttributes,
  httpMethodAttributes,
  isRpcFailure,
  rpcMethodAttributes,
  rpcStatusAttributes,
  serverAttributes,
  urlServerAttributes,
} from '../../../../src/lib/tracing/attributes.ts'

t.test('methods of HTTP are few, others are one', async (t) => {
  t.strictSame(httpMethodAttributes('PATCH'), { name: 'PATCH', attributes: { 'http.request.method': 'PATCH' } })
  t.strictSame(httpMethodAttributes('PROPFIND'), {
    name: 'HTTP',
    attributes: { 'http.request.method': '_OTHER', 'http.request.method_original': 'PROPFIND' },
  })
})

t.test('a method of gRPC that nobody knows is no name', async (t) => {
  t.strictSame(rpcMethodAttributes('/a.B/C', true), {
    name: 'a.B/C',
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': 'a.B/C' },
  })
  t.strictSame(rpcMethodAttributes('/a.B/C', false), {
    name: 'grpc',
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': '_OTHER', 'rpc.method_original': 'a.B/C' },
  })
})

t.test('statuses by name; who left, and what a server refuses with, is no failure', async (t) => {
  t.strictSame(rpcStatusAttributes(4), { 'rpc.status_code': 'DEADLINE_EXCEEDED' })
  t.strictSame(rpcStatusAttributes(99), { 'rpc.status_code': '99' })
  const failures = (kind: 'server' | 'client') => Object.values(Code).filter((code) => isRpcFailure(kind, code))
  t.strictSame(failures('server'), [2, 4, 12, 13, 14, 15])
  t.strictSame(failures('client'), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])
})

t.test('an agent is a number while that is exact; a port that is not known is not told', async (t) => {
  t.strictSame(agentAttributes(42n), { agent_id: 42 })
  t.strictSame(agentAttributes(2n ** 63n - 1n), { agent_id: '9223372036854775807' })
  t.strictSame(serverAttributes('kas', 0), { 'server.address': 'kas' })
  t.strictSame(urlServerAttributes(new URL('https://[fd00::1]/')), { 'server.address': 'fd00::1', 'server.port': 443 })
})
