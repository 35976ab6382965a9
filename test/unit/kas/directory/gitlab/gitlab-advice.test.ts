import t from 'tap'
import { gitlabAdvice, isElsewhere } from '../../../../../src/kas/directory/gitlab/gitlab-advice.ts'
import { statusError } from '../../../../../src/kas/directory/gitlab/read-answer.ts'
import { KasError } from '../../../../../src/lib/errors.ts'

const path = '/api/v4/x'
const unreachable = (code: string) =>
  new KasError(
    { code: 'GITLAB_UNREACHABLE', path, detail: code, headArrived: false },
    { cause: Object.assign(new Error(code), { code }) },
  )
const answered = (status: number, mediaType: string, body: string) =>
  statusError({ status, mediaType, body: Buffer.from(body) }, path)

t.test('what to look at, by how a connection failed', async (t) => {
  for (const [code, hint] of [
    ['CERT_NOT_YET_VALID', /compare the clock of this machine/],
    ['CERT_HAS_EXPIRED', /compare the clock of this machine/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', /a name that GitLab's certificate has not/],
    ['SELF_SIGNED_CERT_IN_CHAIN', /set gitlab\.ca_certificate_file/],
    ['CERT_SIGNATURE_FAILURE', /set gitlab\.ca_certificate_file/],
    ['EPROTO', /speak http where gitlab\.address says https/],
    ['ECONNRESET', /speak https where gitlab\.address says http/],
    ['ETIMEDOUT', /firewalls/],
  ] as const) {
    t.match(gitlabAdvice(unreachable(code)), hint, code)
  }
  t.equal(gitlabAdvice(unreachable('toString')), undefined)
})

t.test('a proxy that wants a password, for https and for http', async (t) => {
  for (const message of ['Proxy response (407) !== 200 when HTTP Tunneling', 'Proxy Authentication Required (407)']) {
    const spec = { code: 'GITLAB_UNREACHABLE', path, detail: message, headArrived: false } as const
    const advice = gitlabAdvice(new KasError(spec, { cause: new Error(message) }))
    t.match(advice, /HTTPS_PROXY \(HTTP_PROXY for http\) wants a user and a password/, message)
  }
})

t.test('what GitLab itself says is no sign of another address', async (t) => {
  for (const error of [
    answered(400, 'application/json', '{"error":"access_key is missing"}'),
    answered(400, 'text/html', '<title>400 Bad Request</title>'),
    answered(404, 'application/json', '{"message":"404 Not Found"}'),
    answered(502, 'text/html', '<title>502</title>'),
  ]) {
    t.notOk(isElsewhere(error))
    t.equal(gitlabAdvice(error), undefined)
  }
  t.ok(isElsewhere(answered(400, 'text/plain', 'Client sent an HTTP request to an HTTPS server.\n')))
  t.ok(isElsewhere(answered(302, 'text/html', '')))
})

t.test('of a page that is told no more than its title, cut', async (t) => {
  const { spec } = answered(500, 'text/html', `<title>${'x'.repeat(5000)}`)
  if (spec.code !== 'GITLAB_STATUS') throw new Error(spec.code)
  t.equal(spec.told?.length, 200)
})
