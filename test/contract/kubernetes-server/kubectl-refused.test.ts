import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { discoveryDocument } from '../../../dev/api-double/discovery.ts'
import { Authority } from '../../../dev/certificates.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import type { Forward } from '../../../src/call/call.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { decodeHttpRequest } from '../../../src/proto/http/http-over-grpc.ts'
import { Kubectl } from '../../support/kubectl.ts'
import { Processes } from '../../support/processes.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { startServer } from './start-server.ts'

/** What the user of kubectl reads who holds more than his share of the agent's tunnels, once kubectl has repeated its call. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const skip = !existsSync(join(assets, 'kubectl')) && 'needs kubectl'

/** kubectl waits for as long as it is told to before each of its repeats: 5 s and more in earnest */
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

/** What kubectl asks for before it does what it is told; undefined: it is that. */
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

t.test('kubectl prints why, after its own repeats', { skip, timeout: 120_000 }, async (t) => {
  const processes = await Processes.start(t)
  const authority = await Authority.create('kubectl')
  const { certificate: cert, key } = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const [certificateFile, keyFile] = [join(processes.folder, 'tls.crt'), join(processes.folder, 'tls.key')]
  await Promise.all([writeFile(certificateFile, cert), writeFile(keyFile, key, { mode: 0o600 })])
  const certificate = new CertificateFiles({ log: createLogger({ level: 'silent' }) }, { certificateFile, keyFile })
  await certificate.start()
  t.teardown(() => certificate.stop())
  const refused: string[] = []
  const forward: Forward = async (call) => {
    const path = await pathOf(call.messages)
    if (documentOf(path)) return await clusterForward(answer)(call)
    refused.push(path)
    throw new KasError({ code: 'CALLER_OVER_SHARE', ...held })
  }
  const { server, port } = await startServer(forward, {}, certificate)
  t.teardown(() => server.stop(AbortSignal.abort()))
  const kubeconfig = join(processes.folder, 'kubeconfig')
  const url = `https://127.0.0.1:${port}/k8s-proxy`
  const user = { token: 'pat:42:good' }
  await writeFile(kubeconfig, kubeconfigText({ server: url, authority: authority.certificate, user }), { mode: 0o600 })
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig })
  const commands = [
    'get pods',
    'get pods --watch',
    'logs --follow echo',
    'create configmap made',
    'exec echo -- cat', // by WebSocket, and by SPDY
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
