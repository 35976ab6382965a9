import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { Readiness } from '../../../src/kas/observability/readiness.ts'
import { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { createRegistry } from '../../../src/lib/metrics.ts'
import { OpsServer } from '../../../src/lib/ops-server.ts'
import type { Service } from '../../../src/lib/service.ts'
import { startAgentsServer } from '../../support/agents-server.ts'
import { clusterForward, echo } from '../kubernetes-server/fake-cluster.ts'
import { startServer } from '../kubernetes-server/start-server.ts'
import { startRailsServer } from '../rails-server/start-server.ts'

/** A peer that is frozen in the midst of a TLS handshake, at each server that speaks TLS to strangers. */

interface Started {
  readonly port: number
  readonly server: Pick<Service, 'stop'>
}

const log = createLogger({ level: 'silent' })

const servers: Record<string, (t: Test, certificate: CertificateFiles) => Promise<Started>> = {
  agents: (t, certificate) => startAgentsServer(t, { components: { certificate } }),
  kubernetes: async (t, certificate) => {
    const { server, port } = await startServer(clusterForward(echo), { shutdownGraceMs: 600_000 }, certificate)
    t.teardown(() => server.stop())
    return { server, port }
  },
  rails: (t, certificate) => startRailsServer(t, { components: { certificate } }),
  ops: async (t, certificate) => {
    const components = { register: createRegistry(), readiness: new Readiness(), log, certificate }
    const server = new OpsServer(components, { listen: { port: 0, host: '127.0.0.1' }, product: 'test' })
    await server.start()
    t.teardown(() => server.stop())
    return { server, port: (server.address as AddressInfo).port }
  },
}

for (const [name, start] of Object.entries(servers)) {
  t.test(`server ${name} that stops does not wait for it`, { timeout: 10_000 }, async (t) => {
    const { port, server } = await start(t, await certificateFiles(t))
    const [silent] = [await connectTo(t, port), await connectTo(t, port, 'no TLS')]
    const closed = once(silent, 'close')
    await Promise.all([server.stop(new AbortController().signal), closed])
    t.pass('and it is ended')
  })
}

/** Resolves when the server has it: with `bytes`, when the server has answered to them, too. */
async function connectTo(t: Test, port: number, bytes?: string) {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined).resume()
  await once(socket, 'connect')
  if (bytes) {
    socket.write(bytes)
    await once(socket, 'close')
  }
  return socket
}

async function certificateFiles(t: Test): Promise<CertificateFiles> {
  const serving = await (await Authority.create('test')).issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const folder = t.testdir({ 'c.pem': serving.certificate, 'k.pem': serving.key })
  const certificate = new CertificateFiles({ log }, { certificateFile: `${folder}/c.pem`, keyFile: `${folder}/k.pem` })
  await certificate.start()
  t.teardown(() => certificate.stop())
  return certificate
}
