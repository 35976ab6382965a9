import { webcrypto } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createSecureContext, createServer } from 'node:tls'
import t, { type Test } from 'tap'
import { loadX509 } from '../../../../src/kas/peers/replica-identity.ts'
import { checkServedChain } from '../../../../src/lib/doctor/served-chain.ts'

/** A server with a certificate of an intermediate authority. It sends that authority's certificate or omits it. */

const dayMs = 86_400_000
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

interface Issued {
  readonly pem: string
  readonly name: string
  readonly keys: webcrypto.CryptoKeyPair
}

interface Wanted {
  readonly by?: Issued
  readonly isAuthority?: boolean
  readonly days?: number
}

async function issue(name: string, { by, isAuthority = false, days = 100 }: Wanted): Promise<Issued> {
  const keys = (await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair
  const certificate = await x509.X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: `CN=${by?.name ?? name}`,
    notBefore: new Date(Date.now() - 200 * dayMs),
    notAfter: new Date(Date.now() + (days + 0.5) * dayMs),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: (by?.keys ?? keys).privateKey,
    extensions: [
      new x509.BasicConstraintsExtension(isAuthority, undefined, true),
      new x509.SubjectAlternativeNameExtension([{ type: 'ip', value: '127.0.0.1' }]),
    ],
  })
  return { pem: `${certificate.toString('pem')}\n`, name, keys }
}

async function keyOf({ keys }: Issued): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  return `-----BEGIN PRIVATE KEY-----\n${der}\n-----END PRIVATE KEY-----\n`
}

const x509 = await loadX509()
const root = await issue('root', { isAuthority: true })
const intermediate = await issue('intermediate', { by: root, isAuthority: true })

/** @param ca - trusted authorities */
async function look(t: Test, server: Issued, { sent = '', ca = root.pem }: { sent?: string; ca?: string } = {}) {
  const listening = createServer({ cert: server.pem + sent, key: await keyOf(server) }, (socket) => {
    socket.on('error', () => undefined)
    socket.end()
  })
  listening.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.teardown(() => listening.close())
  const { port } = listening.address() as AddressInfo
  const asked = { host: '127.0.0.1', port, secureContext: createSecureContext({ ca }) }
  return await checkServedChain(asked, { keep: 'the.file', now: Date.now(), timeoutMs: 5000 })
}

t.test('a chain that is whole', async (t) => {
  const found = await look(t, await issue('server', { by: intermediate }), { sent: intermediate.pem })
  t.match(found, { state: 'ok', text: '100 days are left of what the server sends, up to "CN=root"' })
})

t.test('a chain without its intermediate authority: it is named', async (t) => {
  const found = await look(t, await issue('server', { by: intermediate }))
  t.match(found, {
    state: 'failed',
    text: 'the server sends 1 of a chain, and "CN=intermediate", by which the last is signed, is not trusted here',
    advice: /into the\.file; if it is an intermediate one, into the chain that the server sends/,
  })
})

t.test('an authority that is not trusted: it is named', async (t) => {
  const other = await issue('other', { isAuthority: true })
  const found = await look(t, await issue('server', { by: intermediate }), { sent: intermediate.pem, ca: other.pem })
  t.match(found, { state: 'failed', text: /sends 2 of a chain, and "CN=root"/ })
})

t.test('one that has ended, and one that will', async (t) => {
  t.match(await look(t, await issue('server', { by: root, days: -2 })), {
    state: 'failed',
    text: /^"CN=server" has ended at /,
    advice: /renew/,
  })
  t.match(await look(t, await issue('server', { by: root, days: 3 })), { state: 'note', text: /^3 days are left/ })
})

t.test('nobody there: no certificate is seen', async (t) => {
  const asked = { host: '127.0.0.1', port: 1, secureContext: createSecureContext({}) }
  t.match(await checkServedChain(asked, { keep: 'the.file', now: Date.now(), timeoutMs: 5000 }), { state: 'skipped' })
})
