import t from 'tap'
import { grpcObserver } from '../../../src/kas/observability/grpc-observer.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { createGrpcServerMetrics, createRegistry } from '../../../src/lib/metrics.ts'
import type { ServerStream } from '../../../src/proto/grpc/server-stream.ts'

// wire: metric.grpc_server_handled_total, metric.grpc_server_msg_sent_total
t.test('calls of served methods are counted, others make no labels', async (t) => {
  const register = createRegistry()
  const observer = grpcObserver(createGrpcServerMetrics(register), { '/a.B/C': 'unary' })
  const stream = (method: string) => ({ method, counts: { received: 1, sent: 2 } }) as ServerStream
  observer.started(stream('/a.B/C'))
  observer.finished(stream('/a.B/C'), undefined)
  observer.started(stream('/a.B/C'))
  observer.finished(stream('/a.B/C'), new KasError({ code: 'FORBIDDEN' }))
  observer.started(stream('/made/up'))
  observer.finished(stream('/made/up'), new KasError({ code: 'METHOD_UNKNOWN', method: '/made/up' }))
  const text = await register.metrics()
  t.match(text, /^grpc_server_handled_total\{.*grpc_code="OK"\} 1$/m)
  t.match(text, /^grpc_server_handled_total\{.*grpc_code="PermissionDenied"\} 1$/m)
  t.match(text, /^grpc_server_msg_sent_total\{.*\} 4$/m)
  t.notMatch(text, 'made')
})
