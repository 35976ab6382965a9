import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { discoveryDocument } from '../../../dev/api-double/discovery.ts'
import { Authority } from '../../../dev/certificates.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import type { Forward } from '../../../src/call/call.ts'
import { Router } from '../../../src/kas/router/router.ts'
import { defaultSearch } from '../../../src/kas/router/tunnel-search.ts'
import { AwayAgents } from '../../../src/kas/tunnels/away-agents.ts'
import { TunnelRegistry } from '../../../src/kas/tunnels/tunnel-registry.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { decodeHttpRequest } from '../../../src/proto/http/http-over-grpc.ts'
import { Kubectl } from '../../support/kubectl.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { olderKubectl, olderVersion } from '../../support/older-kubectl.ts'
import { Processes } from '../../support/processes.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { startServer } from './start-server.ts'

/** Messages that a user of kubectl reads when kas refuses a call. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const skip = !existsSync(join(assets, 'kubectl')) && 'needs kubectl'

/** kubectl waits `Retry-After` seconds before it repeats: really 5 s and more, here 0 */
const held = { agentId: '42', held: 480, living: 520, watches: 479, retryAfterS: 0 }
const sentence =
  'You hold 480 of the 520 tunnels that agent 42 has here, 479 of them watches, and others wait. Please end some, or try again later'

const pod = {
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { namespace: 'default', name: 'echo' },
  spec: { containers: [{ name: 'main' }] },
  status: { phase: 'Running' },
}

/** Returns a document that kubectl reads before the command itself; undefined: the path is that of the command. */
const documentOf = (path: string) => discoveryDocument(path) ?? (path.endsWith('/pods/echo') ? pod : undefined)

const answer: Cluster = async function* ({ header: { urlPath } }) {
  yield head(200, [['Content-Type', ['application/json']]])
  yield data(JSON.stringify(documentOf(urlPath)))
  yield trailer
}

async function pathOf(messages: AsyncIterable<Uint8Array>): Promise<string> {
  for await (const bytes of messages) {
    const message = decodeHttpRequest(bytes)
    return message.kind === 'header' ? message.header.urlPath : ''
  }
  return ''
}

interface Caller {
  readonly token?: string
  /** folder of the kubectl program */
  readonly folder?: string
}

/** Returns a kubectl whose calls go to `forward`, with an empty discovery cache. */
async function setUp(
  t: Test,
  forward: Forward,
  { token = 'pat:42:good', folder = assets }: Caller = {},
): Promise<Kubectl> {
  const processes = await Processes.start(t)
  const authority = await Authority.create('kubectl')
  const { certificate: cert, key } = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const [certificateFile, keyFile] = [join(processes.folder, 'tls.crt'), join(processes.folder, 'tls.key')]
  await Promise.all([writeFile(certificateFile, cert), writeFile(keyFile, key, { mode: 0o600 })])
  const certificate = new CertificateFiles({ log: createLogger({ level: 'silent' }) }, { certificateFile, keyFile })
  await certificate.start()
  t.teardown(() => certificate.stop())
  const { server, port } = await startServer(forward, {}, certificate)
  t.teardown(() => server.stop(AbortSignal.abort()))
  const kubeconfig = join(processes.folder, 'kubeconfig')
  const url = `https://127.0.0.1:${port}/k8s-proxy`
  const user = { token }
  await writeFile(kubeconfig, kubeconfigText({ server: url, authority: authority.certificate, user }), { mode: 0o600 })
  return new Kubectl({ processes, assets: folder }, { kubeconfig })
}

t.test('kubectl prints why, after its own repeats', { skip, timeout: 120_000 }, async (t) => {
  const refused: string[] = []
  const kubectl = await setUp(t, async (call) => {
    const path = await pathOf(call.messages)
    if (documentOf(path)) return await clusterForward(answer)(call)
    refused.push(path)
    throw new KasError({ code: 'CALLER_OVER_SHARE', ...held })
  })
  const commands = [
    'get pods',
    'get pods --watch',
    'logs --follow echo',
    'create configmap made',
    'exec echo -- cat', // by WebSocket, then by SPDY
    'port-forward echo :80',
  ]
  for (const command of commands) {
    await t.test(command, async (t) => {
      refused.splice(0)
      const { code, stderr } = await kubectl.run(command.split(' '))
      t.not(code, 0)
      t.ok(stderr.includes(sentence), stderr)
      t.ok(refused.length > 1, `refused ${refused.length} times`)
    })
  }
})

// wire: error.find.absent, figure.find
t.test('kubectl says at once since when an agent is away', { skip, timeout: 120_000 }, async (t) => {
  const clock = new ManualClock()
  const tunnels = new TunnelRegistry({ clock })
  const away = new AwayAgents({ tunnels, membership: undefined, clock, wallClock: clock })
  await away.start()
  t.teardown(() => away.stop())
  clock.advance(75_000)
  const asked: string[] = []
  // with the usual wait a call for a missing agent would take 20 s
  const search = { ...defaultSearch, newcomerMs: 1 }
  const { forward } = new Router({ tunnels, away, observer: { routed() {}, timedOut() {} } }, search)
  const kubectl = await setUp(t, async (call) => {
    asked.push(await pathOf(call.messages))
    return await forward(call)
  })
  const commands = ['get pods', 'apply -f -', 'version', 'api-resources', 'explain pods', 'get --raw /api/v1/pods']
  for (const command of commands) {
    await t.test(command, async (t) => {
      asked.splice(0)
      const { code, stderr } = await kubectl.run(command.split(' '), { stdin: JSON.stringify(pod) })
      t.not(code, 0)
      t.match(stderr, /No replica of kas has had a connection of agent 42 for at least 75 s/)
      t.match(stderr, /kubectl -n <namespace of the agent> logs deployment\/agentk/)
      t.ok(asked.length > 0 && asked.length <= 5, asked.join(' '))
    })
  }
})

const older = skip ? { lacks: skip } : await olderKubectl()
const kubectls = {
  'kubectl of today': { skip, folder: assets },
  [`kubectl ${olderVersion}`]: { skip: 'lacks' in older && older.lacks, folder: 'lacks' in older ? '' : older.folder },
}
/** refusals before kas asks the cluster, each with the sentence for the user */
const refusals = {
  'a token that kas does not know': {
    token: 'pat:42:unknown',
    says: 'GitLab Agent Server: Unauthorized: the token is not known or has ended, or the agent does not let you in. kas agents lists those that do',
  },
  'an agent that does not let the job in': {
    token: 'ci:43:good',
    says: 'GitLab Agent Server: Forbidden: agentId is not allowed',
  },
}

// wire: error.discovery.hidden
for (const [program, { skip, folder }] of Object.entries(kubectls)) {
  for (const [name, { token, says }] of Object.entries(refusals)) {
    t.test(`${program} prints the sentence of kas once, on an empty cache: ${name}`, { skip }, async (t) => {
      const kubectl = await setUp(t, () => Promise.reject(new Error('must not be asked')), { token, folder })
      for (const command of ['get pods', 'version', 'apply -f -']) {
        const { code, stderr } = await kubectl.run(command.split(' '), { stdin: JSON.stringify(pod) })
        t.equal(code, 1, command)
        t.equal(stderr.split(`Warning: ${says}\n`).length, 2, `${command}: ${stderr}`)
      }
    })
  }
}
