import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import { Readiness } from '../../src/kas/observability/readiness.ts'
import { CertificateFiles } from '../../src/lib/certificate-files.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createRegistry } from '../../src/lib/metrics.ts'
import { OpsServer } from '../../src/lib/ops-server.ts'
import type { Service } from '../../src/lib/service.ts'
import { clusterForward, echo } from '../contract/kubernetes-server/fake-cluster.ts'
import { startServer } from '../contract/kubernetes-server/start-server.ts'
import { startRailsServer } from '../contract/rails-server/start-server.ts'
import { startAgentsServer } from './agents-server.ts'

export interface Started {
  readonly port: number
  readonly server: Pick<Service, 'stop'>
}

const log = createLogger({ level: 'silent' })

/** Servers of kas and agentk with TLS for outside clients, by name. */
export const tlsServers: Readonly<Record<string, (t: Test, certificate: CertificateFiles) => Promise<Started>>> = {
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

export interface ReplaceableCertificate {
  readonly certificate: CertificateFiles
  /** Resolves once another pair is in use. */
  readonly replace: () => Promise<void>
}

export async function certificateFiles(t: Test): Promise<ReplaceableCertificate> {
  const authority = await Authority.create('test')
  const issue = () => authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const folder = await mkdtemp(join(tmpdir(), 'kas-certificate-')) // some servers have the test's own folder
  t.teardown(() => rm(folder, { recursive: true }))
  const write = async () => {
    const { certificate, key } = await issue()
    await Promise.all([writeFile(`${folder}/c.pem`, certificate), writeFile(`${folder}/k.pem`, key)])
  }
  await write()
  const certificate = new CertificateFiles(
    { log },
    { certificateFile: `${folder}/c.pem`, keyFile: `${folder}/k.pem`, settleMs: 1 },
  )
  await certificate.start()
  t.teardown(() => certificate.stop())
  const replace = async () => {
    const changed = new Promise<void>((resolve) => certificate.onChange(() => resolve()))
    await write()
    await changed
  }
  return { certificate, replace }
}
