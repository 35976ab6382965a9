import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { Authority } from '../../../dev/certificates.ts'

t.test('an authority and what it issues', async (t) => {
  const authority = await Authority.create('test authority', { lifeMs: 60_000 })
  const ca = new X509Certificate(authority.certificate)
  t.ok(ca.ca)
  const serving = await authority.issueServing({ dns: ['localhost', 'kas.example'], ip: ['127.0.0.1', '::1'] })
  const shown = new X509Certificate(serving.certificate)
  t.ok(shown.checkIssued(ca) && shown.verify(ca.publicKey), 'issued by the authority')
  t.ok(shown.checkHost('kas.example') && shown.checkIP('127.0.0.1') && shown.checkIP('::1'))
  t.notOk(shown.checkHost('other.example'))
  t.ok(shown.checkPrivateKey((await import('node:crypto')).createPrivateKey(serving.key)), 'its own key')
  const client = await authority.issueClient({ commonName: 'ada', organizations: ['system:masters', 'a, b=c'] })
  t.same(new X509Certificate(client.certificate).subject.split('\n'), ['CN=ada', 'O=system:masters', 'O=a\\, b=c'])
  const other = new X509Certificate((await Authority.create('test authority')).certificate)
  t.notOk(shown.verify(other.publicKey), 'another authority of the same name is another')
})
