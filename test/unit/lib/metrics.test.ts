import t from 'tap'
import { createRouterMetrics } from '../../../src/kas/router/router-metrics.ts'
import {
  createAgentMetrics,
  createBuildMetrics,
  createGrpcServerMetrics,
  createRegistry,
} from '../../../src/lib/metrics.ts'

// wire: metric.k8s_api_proxy_routing_duration_seconds, metric.k8s_api_proxy_routing_timeout_total
// wire: metric.agent_server_rate_exceeded_total, metric.connected_agents_count, metric.gitlab_build_info
t.test('the names of upstream', async (t) => {
  const register = createRegistry()
  createBuildMetrics(register, { version: '1.0.0', commit: 'abc' })
  let agents = 3
  createAgentMetrics(register, () => agents).rateExceeded()
  const router = createRouterMetrics(register)
  router.routed('success', 0.002)
  router.routed('aborted', 20)
  router.timedOut()
  const text = await register.metrics()
  t.match(text, /^gitlab_build_info\{version="v1\.0\.0",built="unknown",commit="abc"\} 1$/m)
  t.match(text, /^connected_agents_count 3$/m)
  t.match(text, /^agent_server_rate_exceeded_total 1$/m)
  t.match(text, /^k8s_api_proxy_routing_timeout_total 1$/m)
  t.match(text, /^k8s_api_proxy_routing_duration_seconds_count\{status="success"\} 1$/m)
  t.match(text, /^k8s_api_proxy_routing_duration_seconds_sum\{status="aborted"\} 20$/m)
  const buckets = [
    ...text.matchAll(/^k8s_api_proxy_routing_duration_seconds_bucket\{le="([^"]+)",status="success"\}/gm),
  ]
  t.strictSame(
    buckets.map(([, le]) => le),
    ['0.001', '0.004', '0.016', '0.064', '0.256', '1.024', '4.096', '16.384', '+Inf'],
  )
  agents = 0
  t.match(await register.metrics(), /^connected_agents_count 0$/m, 'asked at each scrape')
})

// wire: metric.grpc_server_requests_in_flight, metric.grpc_server_started_total, metric.grpc_server_handled_total
// wire: metric.grpc_server_msg_received_total
t.test('gRPC calls from their start to their end', async (t) => {
  const register = createRegistry()
  const method = createGrpcServerMetrics(register).method('/pkg.Service/Method', 'bidi_stream')
  method.started()
  const service = 'grpc_service="pkg.Service",grpc_method="Method"'
  const labels = `${service},grpc_type="bidi_stream"`
  const during = await register.metrics()
  t.match(during, `grpc_server_started_total{${labels}} 1\n`)
  t.match(during, `grpc_server_requests_in_flight{${service}} 1\n`)
  method.ended(4, { received: 2, sent: 1 })
  for (const code of [0, 1, 16, 99]) {
    method.started()
    method.ended(code, { received: 0, sent: 0 })
  }
  const after = await register.metrics()
  t.match(after, `grpc_server_started_total{${labels}} 5\n`)
  t.match(after, `grpc_server_msg_received_total{${labels}} 2\n`)
  t.match(after, `grpc_server_msg_sent_total{${labels}} 1\n`)
  t.match(after, `grpc_server_requests_in_flight{${service}} 0\n`)
  for (const code of ['OK', 'Canceled', 'DeadlineExceeded', 'Unauthenticated', 'Unknown']) {
    t.match(after, `grpc_server_handled_total{${labels},grpc_code="${code}"} 1\n`)
  }
})
