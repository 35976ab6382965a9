import t from 'tap'
import { nextStepToApiServer } from '../../../../src/agentk/cluster/next-step.ts'
import { parseKasAddress } from '../../../../src/agentk/tunnels/kas-address.ts'
import { nextStepOfRefusal, nextStepToKas, proxyPrefix } from '../../../../src/agentk/tunnels/next-step.ts'
import { KasError } from '../../../../src/lib/errors.ts'

/** Cases that real sockets do not show in a test. The others are in test/contract/agentk/first-hour.test.ts. */

const address = parseKasAddress('wss://kas.example.com/-/kubernetes-agent/')
const failed = (code: string, more: object = {}) => Object.assign(new Error(code), { code, ...more })
const answered = (httpStatus: number) => new KasError({ code: 'UNREACHABLE', detail: 'x', httpStatus })

const byProxy = (httpStatus?: number) =>
  new KasError({ code: 'UNREACHABLE', detail: `${proxyPrefix}p:1 x`, ...(httpStatus && { httpStatus }) })

const toKas: [error: unknown, step: RegExp | undefined][] = [
  [failed('CERT_NOT_YET_VALID'), /^Check the clock of this machine, .* -connect kas.example.com:443 /],
  [failed('SELF_SIGNED_CERT_IN_CHAIN'), /--kas-ca-cert-file$/],
  [failed('ENOTFOUND'), /^The name kas.example.com is not known here/],
  [failed('EAI_AGAIN'), /^The DNS of this machine does not answer for kas.example.com/],
  [failed('ETIMEDOUT'), /^There is no way to kas.example.com:443: .* HTTPS_PROXY/],
  [answered(407), /in HTTPS_PROXY, or name kas in NO_PROXY$/],
  [byProxy(407), /in HTTPS_PROXY, or name kas in NO_PROXY$/],
  [byProxy(403), /^The proxy that HTTPS_PROXY names does not let agentk through/],
  [byProxy(502), /^The proxy that HTTPS_PROXY names does not reach kas/],
  [byProxy(), /^Check the proxy that HTTPS_PROXY names/],
  [answered(401), /--kas-header\. If .* port 8154\), name that for agents \(8150\)$/],
  [answered(418), undefined],
  [failed('ECONNRESET'), undefined],
  [new KasError({ code: 'UNREACHABLE', detail: 'no connection in 30 s' }), undefined],
  [new Error('something else'), undefined],
  [new DOMException('late', 'TimeoutError'), undefined],
  ['not even an error', undefined],
]
for (const [error, step] of toKas) {
  t.test(`on the way to kas: ${error}`, async (t) => {
    const told = nextStepToKas(error, address)
    if (step) t.match(told, step)
    else t.equal(told, undefined)
  })
}

t.test('a call that kas refuses', async (t) => {
  t.match(nextStepOfRefusal(new KasError({ code: 'METHOD_UNKNOWN', method: 'x' })), /port of kas for agents \(8150\)/)
  t.equal(nextStepOfRefusal(new KasError({ code: 'SHUTTING_DOWN' })), undefined)
  t.equal(nextStepOfRefusal(new Error('something else')), undefined)
})

t.test('on the way to the API server', async (t) => {
  const server = new URL('https://10.0.0.1')
  const path = '/var/run/secrets/kubernetes.io/serviceaccount/token'
  t.match(nextStepToApiServer(failed('ENOENT', { path }), server), /do not set automountServiceAccountToken to false/)
  t.equal(nextStepToApiServer(failed('ENOENT', { path: '/home/me/token' }), server), undefined)
  t.match(
    nextStepToApiServer(failed('UND_ERR_CONNECT_TIMEOUT'), server),
    /^There is no way to 10.0.0.1: .*NetworkPolicy/,
  )
  const away = new KasError({ code: 'UNREACHABLE', detail: 'away since' }, { cause: failed('ECONNREFUSED') })
  t.match(nextStepToApiServer(away, server), /^Nothing listens at 10.0.0.1/, 'of what is behind it')
  t.equal(nextStepToApiServer(new Error('something else'), server), undefined)
})
