import t from 'tap'
import { failureText, isDenied, retryAfterMs } from '../../../../../src/membership/discovery/kubernetes/failure.ts'

const refusal = (code: number, body?: unknown, headers: Record<string, string> = { authorization: 'Bearer s3cret' }) =>
  Object.assign(new Error(`HTTP-Code: ${code} Headers: ${JSON.stringify(headers)}`), { code, body, headers })

t.test('what is told of a failure', async (t) => {
  const status = { kind: 'Status', message: 'slices are forbidden' }
  const table: [error: unknown, text: string][] = [
    [refusal(403, JSON.stringify(status)), 'HTTP 403: slices are forbidden'],
    [refusal(403, status), 'HTTP 403: slices are forbidden'],
    [refusal(500, '<html>'), 'HTTP 500'],
    [refusal(401), 'HTTP 401'],
    [Object.assign(new Error('Gone'), { statusCode: 410 }), 'HTTP 410'],
    [
      new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 10.0.0.1:443') }),
      'connect ECONNREFUSED 10.0.0.1:443',
    ],
    [new TypeError('terminated', { cause: new Error('') }), 'terminated'],
    [Object.assign(new Error('no file'), { code: 'ENOENT' }), 'no file'],
    ['odd', 'odd'],
  ]
  for (const [error, text] of table) t.equal(failureText(error), text)
})

t.test('what sends it to the other kind', async (t) => {
  for (const code of [403, 404]) t.ok(isDenied(refusal(code)))
  for (const code of [401, 410, 429, 500]) t.notOk(isDenied(refusal(code)))
  t.notOk(isDenied(new Error('closed')))
})

t.test('how long it asks to wait', async (t) => {
  t.equal(retryAfterMs(refusal(429, '', { 'retry-after': '2' })), 2_000)
  for (const value of ['', '-1', 'Wed, 21 Oct 2026 07:28:00 GMT']) {
    t.equal(retryAfterMs(refusal(429, '', { 'retry-after': value })), 0, value)
  }
  t.equal(retryAfterMs(new Error('closed')), 0)
})
