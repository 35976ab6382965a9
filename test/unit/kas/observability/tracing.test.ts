import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseKasConfig } from '../../../../src/kas/config/kas-config.ts'
import { OtlpToken } from '../../../../src/kas/observability/otlp-token.ts'
import { collectorUrl, createTracing } from '../../../../src/kas/observability/tracing.ts'
import { capturedLog } from '../../../support/captured-log.ts'

const create = (tracing: string) => {
  const { config } = parseKasConfig('kas.yaml', `directory: { file: /d.yaml }\nobservability: { ${tracing} }`)
  return createTracing(capturedLog().log, { config, version: { version: '1.0.0', commit: 'x' }, product: 'gitlab-kas' })
}

t.test('off without its block, which needs the endpoint', async (t) => {
  t.equal(await create(''), undefined)
  t.throws(() => parseKasConfig('kas.yaml', 'directory: { file: /d }\nobservability: { tracing: {} }'), {
    code: 'SETTINGS_INVALID',
    message: /observability\.tracing\.otlp_endpoint/,
  })
  const grpc = 'directory: { file: /d }\nobservability: { tracing: { otlp_endpoint: "grpc://collector:4317" } }'
  t.throws(() => parseKasConfig('kas.yaml', grpc), { message: /a URL that begins with http:\/\/ or https:\/\// })
})

t.test('the endpoint is taken as upstream takes it', async (t) => {
  t.equal(collectorUrl('http://collector:4318'), 'http://collector:4318/v1/traces')
  t.equal(collectorUrl('http://collector:4318/'), 'http://collector:4318/')
  t.equal(collectorUrl('https://user:pass@collector/some/path?a=b#c'), 'https://collector/some/path')
})

const tokenFile = (t: Test, content: string) => join(t.testdir({ token: content }), 'token')

t.test('a token says by its form which header it goes in', async (t) => {
  const file = tokenFile(t, ' some-token\n')
  const token = await OtlpToken.read(file)
  t.strictSame(await token.headers(), { Authorization: 'Bearer some-token' })
  writeFileSync(file, 'glpat-of-gitlab')
  t.strictSame(await token.headers(), { 'Private-Token': 'glpat-of-gitlab' }, 'the file is read again')
  for (const content of ['', 'two words', 'umläut']) {
    writeFileSync(file, content)
    t.strictSame(await token.headers(), { 'Private-Token': 'glpat-of-gitlab' }, 'the last good one counts')
  }
})

t.test('files that cannot be used stop the start, and are not quoted', async (t) => {
  const endpoint = 'otlp_endpoint: "https://collector"'
  for (const [content, text] of [
    ['\n', /otlp_token_secret_file: found no token/],
    ['two secrets', /otlp_token_secret_file: found no token/],
  ] as const) {
    const file = tokenFile(t, content)
    const failed = create(`tracing: { ${endpoint}, otlp_token_secret_file: ${file} }`)
    const error = await failed.then(String, (thrown: Error) => thrown)
    t.match(error, { code: 'SETTINGS_INVALID', message: text })
    t.notMatch(String(error), 'secrets')
  }
  await t.rejects(create(`tracing: { ${endpoint}, otlp_token_secret_file: /absent }`), {
    message: /otlp_token_secret_file: cannot be read: ENOENT/,
  })
  await t.rejects(create(`tracing: { ${endpoint}, otlp_ca_certificate_file: /absent }`), {
    message: /observability\.tracing\.otlp_ca_certificate_file: cannot be read: ENOENT/,
  })
})
