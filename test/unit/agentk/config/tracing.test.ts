import t from 'tap'
import { createTracing, readTracing } from '../../../../src/agentk/config/tracing.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const url = 'http://collector:4318'

t.test('the standard variables say whether and where', async (t) => {
  for (const [env, settings] of [
    [{}, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url }, { url: `${url}/v1/traces` }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/some/` }, { url: `${url}/some/v1/traces` }],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/own` }, { url: `${url}/own` }],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://other', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/own` },
      { url: `${url}/own` },
    ],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_SDK_DISABLED: 'true' }, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_TRACES_EXPORTER: 'none' }, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_TRACES_EXPORTER: 'otlp' }, { url: `${url}/v1/traces` }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }, { url: `${url}/v1/traces` }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, { problem: /not by grpc/ }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' }, { problem: /no URL/ }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url }, { serviceName: 'gitlab-agent', exportMs: undefined }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_SERVICE_NAME: 'mine' }, { serviceName: 'mine' }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_TIMEOUT: '100' }, { exportMs: 100 }],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_TIMEOUT: '1', OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '2' },
      { exportMs: 2 },
    ],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_TIMEOUT: '0' }, { problem: /time-out/ }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_TIMEOUT: '10s' }, { problem: /time-out/ }],
  ] as const) {
    const found = readTracing(env)
    if (settings === undefined) t.equal(found, undefined, JSON.stringify(env))
    else t.match(found, settings, JSON.stringify(env))
  }
})

t.test('what cannot be used is told, and stops nothing', async (t) => {
  const { log, lines } = capturedLog()
  const pod = { namespace: 'agentk', name: 'agentk-0' }
  const version = { version: '1.0.0', commit: 'test' }
  t.equal(await createTracing(log, { config: { pod }, version }), undefined)
  t.equal(lines.length, 0)
  t.equal(await createTracing(log, { config: { pod, tracing: { problem: 'no' } }, version }), undefined)
  t.match(lines, [{ level: 'warn', msg: 'Nothing is traced', reason: 'no' }])
})
