import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { create } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { nextStepToApiServer } from '../../../src/agentk/cluster/next-step.ts'
import { Configuration, getConfigurationMethod } from '../../../src/agentk/configuration/configuration.ts'
import { LeaseClient } from '../../../src/agentk/election/lease-client.ts'
import { askKubernetesVersion } from '../../../src/agentk/modules/registrar/module.ts'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { KasSessions } from '../../../src/agentk/tunnels/kas-sessions.ts'
import { dialKas, type TransportOptions } from '../../../src/agentk/tunnels/transport.ts'
import { type ErrorSpec, KasError } from '../../../src/lib/errors.ts'
import type { ClusterSettings } from '../../../src/lib/kubeconfig.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { AgentMetaSchema } from '../../../src/proto/gen/entity_pb.ts'
import { apiClient } from '../../support/api-client.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { kasOf, startSessions } from './agent-side.ts'
import { listen } from './api-server.ts'
import { FakeKas, listenAs } from './fake-kas.ts'

/** Faults in the first hour of an agentk, on real sockets: the log lines of agentk, and their number. */

const authority = await Authority.create('kas')
const expired = await Authority.create('kas', { lifeMs: -1 })
const names = { dns: ['kas.test'], ip: ['127.0.0.1'] }
const serving = ({ certificate, key }: { certificate: string; key: string }) => ({ cert: certificate, key })
const valid = serving(await authority.issueServing(names))
const otherName = serving(await authority.issueServing({ dns: ['other.test'], ip: [] }))
const outdated = serving(await expired.issueServing(names))

type Listener = Parameters<typeof listen>[0] & { close(): unknown; closeAllConnections?(): void }
const answering = (status: number) => (_: unknown, response: { writeHead(code: number): { end(): void } }) =>
  void response.writeHead(status).end()
/** answers as kas and GitLab's kas do at 8154 and 8151 */
const otherPort = (status: number) => () =>
  createHttpServer((_, response) => void response.writeHead(status, { Server: 'gitlab-kas/v17.0.0/abc' }).end())
const web = (status: number) => () => createHttpServer(answering(status))
const secureWeb = (certificate: object, status: number) => () => createHttpsServer(certificate, answering(status))
const deaf = (certificate: object) => () =>
  createTlsServer({ ...certificate, ALPNProtocols: ['h2'] }, (socket) => socket.on('error', () => undefined).resume())
/** answers as Go's TLS servers do */
const askingForTls = () =>
  createTcpServer((socket) => {
    socket.on('error', () => undefined).once('data', () => socket.end('HTTP/1.0 400 No\r\n\r\n'))
  })

/** @returns port of the server */
async function start(t: Test, make: () => Listener): Promise<number> {
  const server = make()
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections?.()
    server.close()
  })
  return port
}

async function freePort(): Promise<number> {
  const server = createTcpServer()
  const port = await listen(server)
  server.close()
  await once(server, 'close')
  return port
}

interface Line {
  readonly msg: string
  readonly next_step?: string
}

/** Returns a log with its lines, and the next steps in them. */
function watchedLog() {
  const lines: Line[] = []
  const write = (text: string) => void lines.push(JSON.parse(text))
  const steps = () => lines.flatMap(({ next_step: step }) => (step === undefined ? [] : [step]))
  return { log: createLogger({ level: 'debug', destination: { write } }), lines, steps }
}

const caFile = (t: Test, pem: string) => `${t.testdir({ 'ca.pem': pem })}/ca.pem`
type More = (t: Test) => Partial<TransportOptions>
const trusting: More = (t) => ({ caFile: caFile(t, authority.certificate) })

const kasRows: [situation: string, form: string, make: (() => Listener) | undefined, step: RegExp, more?: More][] = [
  ['kas does not run', 'wss', undefined, /^Nothing listens at 127.0.0.1:\d+: check host and port of --kas-address/],
  ['a CA of its own', 'wss', secureWeb(valid, 404), /authority that signed .* 127.0.0.1:\d+: --kas-ca-cert-file$/],
  ['a CA of its own', 'grpcs', deaf(valid), /authority that signed .* 127.0.0.1:\d+: --kas-ca-cert-file$/],
  ['another name', 'wss', secureWeb(otherName, 404), /name it by --kas-tls-server-name$/, trusting],
  [
    'a certificate that has expired, or a wrong clock',
    'wss',
    secureWeb(outdated, 404),
    /^Check the clock of this machine, and the dates of the certificate: openssl s_client -connect 127/,
    (t) => ({ caFile: caFile(t, expired.certificate) }),
  ],
  ['wss:// at a port without TLS', 'wss', web(404), /^No TLS is spoken at .*: try ws:\/\/ in --kas-address/],
  ['grpcs:// at a port without TLS', 'grpcs', web(404), /^No TLS is spoken at .*: try grpc:\/\/ in --kas-address/],
  ['ws:// at a port with TLS', 'ws', secureWeb(valid, 404), /does not understand ws:\/\/: try wss:\/\//],
  ['ws:// at a port with TLS of Go', 'ws', askingForTls, /may want TLS: try wss:\/\//],
  ['grpc:// at a port with TLS', 'grpc', deaf(valid), /does not understand grpc:\/\/: try grpcs:\/\/, wss:\/\//],
  ['grpc:// at a port of HTTP', 'grpc', web(404), /does not understand grpc:\/\/: .* or ws:\/\//],
  ['grpcs:// at a port of HTTPS', 'grpcs', secureWeb(valid, 404), /^No HTTP\/2 is spoken at .*: try wss:/, trusting],
  [
    'a wrong path',
    'ws',
    web(404),
    /^No kas is at \/ of 127.0.0.1:\d+: with GitLab the path is \/-\/kubernetes-agent\//,
  ],
  ['an address that leads elsewhere', 'ws', web(301), /give --kas-address in full, with TLS and the slash at its end/],
  ['a proxy that refuses', 'ws', web(403), /--kas-header/],
  ["kas' port for kubectl", 'ws', otherPort(401), /^Name the port of kas for agents \(8150\) .*: 8154 is for kubectl/],
  ["kas' port for metrics", 'ws', otherPort(404), /^Name the port of kas for agents \(8150\) .*, 8151 for metrics$/],
  [
    "kas' place for kubectl behind a front",
    'ws',
    web(401),
    /--kas-header\. If .* \(k8s-proxy, port 8154\), name that for agents \(8150\)$/,
  ],
  ['a proxy that does not reach kas', 'ws', web(502), /does not reach kas: check that kas runs/],
]

for (const [situation, form, make, step, more] of kasRows) {
  t.test(`${situation} (${form}): the next step is told once`, async (t) => {
    const port = make ? await start(t, make) : await freePort()
    const address = parseKasAddress(`${form}://127.0.0.1:${port}`)
    const transport = {
      address,
      headers: [],
      userAgent: 'test',
      authorization: () => 'Bearer x',
      env: {},
      ...more?.(t),
    }
    const { log, lines, steps } = watchedLog()
    const clock = new ManualClock()
    let dials = 0
    const dial = (signal: AbortSignal) => {
      dials += 1
      return dialKas(transport, signal)
    }
    const sessions = new KasSessions({ dial, log, clock, random: () => 0.5 }, { address, userAgent: 'test' })
    await sessions.start()
    t.teardown(() => sessions.stop())
    await eventually(() => steps().length > 0)
    t.match(steps()[0], step)
    t.notMatch(JSON.stringify(lines), /use-system-ca/, 'no advice of Node')
    while (dials < 3) await clock.pass(100)
    t.equal(steps().length, 1, 'not with each retry')
  })
}

const refusals: [situation: string, refusal: ErrorSpec, step: RegExp][] = [
  ['a wrong token', { code: 'UNAUTHENTICATED' }, /--token-file or AGENTK_TOKEN is the whole token of this agent/],
  ['a token that is refused', { code: 'FORBIDDEN' }, /may not be used: ask whoever runs GitLab/],
  ['an agent that was deleted', { code: 'AGENT_NOT_FOUND' }, /register it again, and give agentk its new token/],
]
for (const [situation, refusal, step] of refusals) {
  t.test(`${situation}: the next step is told once`, async (t) => {
    const kas = new FakeKas()
    let asked = 0
    kas.handlers.set(getConfigurationMethod, async () => {
      asked += 1
      throw new KasError(refusal)
    })
    const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
    const { log, lines, steps } = watchedLog()
    const clock = new ManualClock()
    const components = { kas: kasOf(sessions), log, clock, random: () => 0 }
    const configuration = new Configuration(components, { meta: create(AgentMetaSchema) })
    await configuration.start()
    t.teardown(() => configuration.stop())
    await eventually(() => lines.length === 1)
    t.match(lines, [{ msg: 'GetConfiguration failed', next_step: step }])
    while (asked < 3) await clock.pass(1000)
    await eventually(() => lines.length === 3)
    t.equal(steps().length, 1, 'not with each retry')
  })
}

const apiRows: [
  situation: string,
  scheme: string,
  make: (() => Listener) | undefined,
  step: RegExp,
  settings?: Partial<ClusterSettings>,
][] = [
  ['it does not run', 'https', undefined, /^Nothing listens at 127.0.0.1:\d+: check that the API server runs/],
  ['another authority', 'https', secureWeb(valid, 200), /^Give agentk the authority of the API server .*ca.crt of the/],
  [
    'another name',
    'https',
    secureWeb(otherName, 200),
    /name it by --tls-server-name$/,
    { ca: { text: authority.certificate } },
  ],
  ['a wrong clock', 'https', secureWeb(outdated, 200), /^Check the clock/, { ca: { text: expired.certificate } }],
  ['https:// at a port without TLS', 'https', web(200), /^No TLS is spoken at 127/],
  ['http:// at a port with TLS', 'http', secureWeb(valid, 200), /may want TLS: try https:\/\//],
  ['http:// at a port with TLS of Go', 'http', askingForTls, /may want TLS: try https:\/\//],
  ['a wrong token', 'http', web(401), /does not know who agentk is: check the token or client certificate/],
  ['no role', 'http', web(403), /bind its user or service account to a role, such as system:discovery/],
  ['something else', 'http', web(404), /is no API server: check server in the kubeconfig, or --server/],
]
for (const [situation, scheme, make, step, settings] of apiRows) {
  t.test(`the API server, ${situation}: the next step`, async (t) => {
    const port = make ? await start(t, make) : await freePort()
    const server = `${scheme}://127.0.0.1:${port}`
    const client = apiClient(t, { server, ...settings }, { dialPatienceMs: 0 })
    const error = await askKubernetesVersion(client, new AbortController().signal).catch((thrown: unknown) => thrown)
    t.match(nextStepToApiServer(error, client.access.server), step)
  })
}

const leaseRows: [status: number, step: RegExp | undefined][] = [
  [404, /^The cluster has no Namespace nowhere: set POD_NAMESPACE to one that it has, or make it: kubectl create/],
  [403, /^Let the account of agentk get, create and update leases in the Namespace nowhere; .* names agent-42-lock$/],
  [500, undefined],
]
for (const [status, step] of leaseRows) {
  t.test(`the Lease is answered with ${status}: the next step`, async (t) => {
    const port = await start(t, web(status))
    const leases = new LeaseClient(apiClient(t, { server: `http://127.0.0.1:${port}` }), { namespace: 'nowhere' })
    const record = { holder: 'a', durationSeconds: 15, acquireTime: '', renewTime: '', transitions: 0 }
    const write = leases.write('agent-42-lock', record, undefined, new AbortController().signal)
    const error = await write.catch((thrown: unknown) => thrown)
    if (step) t.match(leases.nextStep(error, 'agent-42-lock'), step)
    else t.equal(leases.nextStep(error, 'agent-42-lock'), undefined)
  })
}
