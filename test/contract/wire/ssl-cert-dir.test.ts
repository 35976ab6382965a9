import { execFile } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { Authority } from '../../../dev/certificates.ts'

/** Omnibus names its folder of authorities only through the environment (doc/reference/gitlab-contract.md 6.3). */

const source = pathToFileURL(join(import.meta.dirname, '../../../src/lib/trusted-authorities.ts'))
const program = (port: number) => `
import { connect } from 'node:tls'
import { trustedContext } from '${source}'
const secureContext = await trustedContext(undefined, 'gitlab.ca_certificate_file')
const socket = connect({ port: ${port}, host: '127.0.0.1', servername: 'gitlab.test', secureContext })
socket.on('secureConnect', () => socket.end(() => console.log('trusted')))
socket.on('error', ({ code }) => console.log(code))
`

// wire: environment.SSL_CERT_DIR
t.test('authorities of SSL_CERT_DIR are trusted', async (t) => {
  const authority = await Authority.create('of the system')
  const { certificate, key } = await authority.issueServing({ dns: ['gitlab.test'], ip: [] })
  const server = createServer({ cert: certificate, key }, (socket) => socket.end())
  server.on('tlsClientError', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const folder = t.testdir({ 'authority.pem': authority.certificate })
  const ask = async (env: Record<string, string>) => {
    const args = ['--input-type=module', '--eval', program((server.address() as AddressInfo).port)]
    return (await promisify(execFile)(process.execPath, args, { env, timeout: 20_000 })).stdout.trim()
  }
  t.equal(await ask({ SSL_CERT_DIR: folder }), 'trusted')
  t.match(await ask({}), /CERT|SIGNATURE|ISSUER/)
})
