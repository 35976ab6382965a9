import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import t from 'tap'
import { loadX509 } from '../../../../dev/certificates.ts'
import { createReplicaIdentity } from '../../../../src/kas/peers/replica-identity.ts'

t.test('a replica signs a certificate of its own key, which another library reads as well', async (t) => {
  const identity = createReplicaIdentity()
  const certificate = new X509Certificate(identity.certificatePem)
  t.ok(certificate.verify(certificate.publicKey), 'signed by itself')
  t.ok(certificate.checkPrivateKey(createPrivateKey(identity.keyPem)))
  const spki = certificate.publicKey.export({ type: 'spki', format: 'der' })
  t.equal(identity.publicKeyHash, createHash('sha256').update(spki).digest('hex'))
  const { X509Certificate: Read } = await loadX509()
  const { subject, issuer, notBefore, notAfter, rawData } = new Read(identity.certificatePem)
  t.match({ subject, issuer }, { subject: 'CN=kas replica', issuer: 'CN=kas replica' })
  t.strictSame([notBefore, notAfter].map(Number), [Date.UTC(2020, 0, 1), Date.UTC(2049, 11, 31)])
  t.strictSame(Buffer.from(rawData), certificate.raw, 'to the last byte')
})

t.test('each has a key and a number of its own', async (t) => {
  const made = Array.from({ length: 300 }, () => createReplicaIdentity())
  t.equal(new Set(made.map(({ publicKeyHash }) => publicKeyHash)).size, made.length)
  const numbers = made.map(({ certificatePem }) => new X509Certificate(certificatePem).serialNumber)
  t.equal(new Set(numbers).size, made.length)
  t.strictSame(
    numbers.filter((number) => !/^[4-7][0-9A-F]{15}$/.test(number)),
    [],
    'positive, of eight bytes',
  )
})
