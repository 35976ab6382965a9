import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { ApiClient } from '../../../src/agentk/cluster/api-client.ts'
import { upgradeToApi } from '../../../src/agentk/cluster/api-upgrade.ts'
import type { ClusterSettings } from '../../../src/lib/kubeconfig.ts'
import { apiClient } from '../../support/api-client.ts'
import { listen } from './api-server.ts'

/** Credentials that are replaced while agentk runs, as the API server sees them. */

t.test('requests that are refused together with a token of before are all repeated with the newer one', async (t) => {
  const file = join(t.testdir({ token: 'old' }), 'token')
  let valid = 'Bearer old'
  const refused: ServerResponse[] = []
  const server = createServer((request, response) => {
    if (request.headers.authorization === valid) return void response.end('"welcome"')
    refused.push(response)
    if (refused.length < 20) return
    for (const each of refused) each.writeHead(401).end() // once all have arrived
  })
  const client = await connect(t, server, 'http', { token: { file } })
  t.equal((await client.json('GET', '/')).status, 200)
  valid = 'Bearer newer'
  writeFileSync(file, 'newer')
  const answers = await Promise.all(Array.from({ length: 20 }, () => client.json('GET', '/')))
  t.same([...new Set(answers.map(({ status }) => status))], [200])
  t.equal(refused.length, 20)
})

t.test('a token file that is emptied before it is written: the last token goes on', async (t) => {
  const file = join(t.testdir({ token: 'first' }), 'token')
  const seen: (string | undefined)[] = []
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.end('"welcome"')
  })
  const client = await connect(t, server, 'http', { token: { file } })
  await client.json('GET', '/')
  for (const text of ['', '\n']) {
    writeFileSync(file, text)
    client.access.refresh()
    await client.json('GET', '/')
  }
  writeFileSync(file, 'second')
  client.access.refresh()
  await client.json('GET', '/')
  t.same(seen, ['Bearer first', 'Bearer first', 'Bearer first', 'Bearer second'])
})

t.test('a token file that is empty from the beginning: no request is sent as nobody', async (t) => {
  const file = join(t.testdir({ token: '' }), 'token')
  const seen: (string | undefined)[] = []
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.end('"welcome"')
  })
  const client = await connect(t, server, 'http', { token: { file } })
  await t.rejects(client.json('GET', '/'), { message: `${file} is empty` })
  await t.rejects(upgradeToApi(client, { method: 'GET', path: '/', headers: [] }, new AbortController().signal), {
    message: `${file} is empty`,
  })
  t.same(seen, [])
  writeFileSync(file, 'first')
  await client.json('GET', '/')
  t.same(seen, ['Bearer first'], 'and it is looked at again at once')
})

t.test('a newer client certificate is used at once, and what runs goes on', async (t) => {
  const authority = await Authority.create('cluster')
  const first = await authority.issueClient({ commonName: 'first' })
  const second = await authority.issueClient({ commonName: 'second' })
  const folder = t.testdir({ 'user.crt': first.certificate, 'user.key': first.key })
  const { certificate: cert, key } = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const server = createTlsServer({ cert, key, ca: authority.certificate, requestCert: true, rejectUnauthorized: true })
  const held = Promise.withResolvers<ServerResponse>()
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const user = (request.socket as TLSSocket).getPeerCertificate().subject.CN
    if (request.url === '/held') {
      response.write(`"${user}`)
      held.resolve(response)
    } else response.end(JSON.stringify(user))
  })
  const certificate = { file: join(folder, 'user.crt') }
  const keyFile = { file: join(folder, 'user.key') }
  const settings = { ca: { text: authority.certificate }, certificate, key: keyFile }
  const client = await connect(t, server, 'https', settings)
  t.equal((await client.json('GET', '/')).body, 'first')
  const running = client.json('GET', '/held')
  const heldResponse = await held.promise

  writeFileSync(certificate.file, second.certificate)
  client.access.refresh()
  t.equal((await client.json('GET', '/')).body, 'first', 'half of a pair is not used')
  writeFileSync(keyFile.file, second.key)
  client.access.refresh()
  t.equal((await client.json('GET', '/')).body, 'second')
  heldResponse.end('"')
  t.equal((await running).body, 'first')
})

async function connect(
  t: Test,
  server: ReturnType<typeof createServer>,
  scheme: string,
  settings: Partial<ClusterSettings>,
): Promise<ApiClient> {
  const port = await listen(server)
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return apiClient(t, { server: `${scheme}://127.0.0.1:${port}`, ...settings })
}
