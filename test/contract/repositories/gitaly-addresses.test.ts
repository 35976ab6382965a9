import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { gitalyAgent as agent, startGitalySide } from '../../support/gitaly/gitaly-side.ts'
import { DnsServer } from '../discovery/dns-server.ts'
import { failure } from './repositories-suite.ts'

/** Each form of a Gitaly address that GitLab sends (doc/reference/tunnel-protocol.md 1.20). */

const signal = new AbortController().signal
const unpolled = { repositories: { pollMs: 3_600_000 } }

// wire: gitaly.address.unix
t.test('a Unix socket', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gitaly-socket-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const socket = join(folder, 'gitaly.socket')
  const { repositories, repository, learn } = await startGitalySide(t, { ...unpolled, double: { socket } })
  const commit = await repository.push({ a: '1' })
  for (const address of [`unix:${socket}`, `unix://${socket}`]) {
    learn({ address })
    t.equal(await repositories.head(agent, signal), commit, address)
  }
})

// wire: gitaly.address.tcp, gitaly.address.dns
t.test('TCP, and names that are looked up', async (t) => {
  const { repositories, repository, gitaly, learn } = await startGitalySide(t, unpolled)
  const commit = await repository.push({ a: '1' })
  for (const address of [
    `tcp://127.0.0.1:${gitaly.port}`,
    `tcp://localhost:${gitaly.port}`,
    `dns:localhost:${gitaly.port}`,
    `dns:///127.0.0.1:${gitaly.port}`,
  ]) {
    learn({ address })
    t.equal(await repositories.head(agent, signal), commit, address)
  }
})

t.test('a name that a server of its own looks up', async (t) => {
  const { repositories, repository, gitaly, learn } = await startGitalySide(t, unpolled)
  const commit = await repository.push({ a: '1' })
  const server = await DnsServer.start(t)
  server.answer = ({ name, type }) => (name === 'gitaly.internal' && type === 'A' ? ['127.0.0.1'] : 'nxdomain')
  learn({ address: `dns://${server.address}/gitaly.internal:${gitaly.port}` })
  t.equal(await repositories.head(agent, signal), commit)
  learn({ address: `dns://${server.address}/other.internal:${gitaly.port}` })
  t.match(await failure(repositories.head(agent, signal)), { message: /ENOTFOUND other\.internal$/ })
})

// wire: gitaly.address.tls
t.test('TLS by an authority that is trusted, and by none', async (t) => {
  const authority = await Authority.create('gitaly')
  const own = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const tls = { certificate: own.certificate, key: own.key }
  const trusting = await startGitalySide(t, { ...unpolled, double: { tls }, authority: authority.certificate })
  const commit = await trusting.repository.push({ a: '1' })
  t.equal(await trusting.repositories.head(agent, signal), commit)
  trusting.learn({ address: `tls://127.0.0.1:${trusting.gitaly.port}` })
  t.equal(await trusting.repositories.head(agent, signal), commit)
  const other = await startGitalySide(t, { ...unpolled, double: { tls } })
  const error = await failure(other.repositories.head(agent, signal))
  t.match(error, { code: 'REPOSITORY_FAILED', message: /Gitaly at tls:\/\/localhost:\d+: .*certificate/ })
  other.learn({ address: `tcp://127.0.0.1:${other.gitaly.port}` })
  t.match(await failure(other.repositories.head(agent, signal)), { message: /the connection was lost$/ })
})
