import type { AddressInfo } from 'node:net'
import { Registry } from 'prom-client'
import type { Forward } from '../../../src/call/call.ts'
import type { Directory, JobGrant, UserGrant } from '../../../src/kas/directory/directory.ts'
import {
  KubernetesServer,
  type KubernetesServerComponents,
  type KubernetesServerOptions,
} from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import type { CertificateFiles } from '../../../src/lib/certificate-files.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { noTracer } from '../../../src/lib/tracing/tracer.ts'

/** The server with functions as `Forward` and directory. */

export const agentId = 42n
export const good = 'Authorization: Bearer ci:42:good'

const job: JobGrant = {
  accessAs: { as: 'agent' },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
  job: { id: 900n },
  pipeline: { id: 90n },
  project: { id: 3n, groups: [] },
}
const user: UserGrant = { accessAs: { as: 'agent' }, configProjectId: 1n, user: { id: 5n, username: 'ada' } }

/**
 * Tokens and cookies. `good` acts as the agent. `as-job` and `as-user` are impersonated. `long` has a long name.
 * `refused` is refused, though its user is known. `broken` throws an unexpected error.
 */
export const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
  async grantJob(agent, token, _signal, { onKnown } = {}) {
    if (token === 'broken') throw new TypeError('secret detail')
    if (!['good', 'as-job', 'refused'].includes(token)) throw new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })
    onKnown?.({ user: job.user, job: { id: job.job.id, pipelineId: job.pipeline.id, projectId: job.project.id } })
    if (agent !== agentId || token === 'refused') throw new KasError({ code: 'AGENT_NOT_ALLOWED' })
    return token === 'good' ? job : { ...job, accessAs: { as: 'ci_job' } }
  },
  async grantUser(_agent, { key }, _signal, { onKnown } = {}) {
    if (['good', 'as-user', 'long', 'refused'].includes(key)) onKnown?.({ user: user.user })
    const as = { as: 'user', projects: [], groups: [] } as const
    if (key === 'long') return { ...user, user: { id: 5n, username: 'u'.repeat(20_000) }, accessAs: as }
    if (key !== 'good' && key !== 'as-user') throw new KasError({ code: 'USER_UNAUTHORIZED' })
    return key === 'good' ? user : { ...user, accessAs: as }
  },
}

/** Knows the user bob with the token `bob`, in addition to the user of `directory`. */
export const directoryWithBob: typeof directory = {
  ...directory,
  async grantUser(agent, token, ...rest) {
    if (token.key !== 'bob') return await directory.grantUser(agent, token, ...rest)
    return { ...user, user: { id: 6n, username: 'bob' } }
  },
}

export function createKubernetesServer(
  forward: Forward,
  options: Partial<KubernetesServerOptions> = {},
  certificate?: CertificateFiles,
  components: Partial<KubernetesServerComponents> = {},
) {
  const log: string[] = []
  const logger = createLogger({ level: 'debug', destination: { write: (line) => log.push(line) } })
  const register = new Registry()
  const server = new KubernetesServer(
    {
      forward,
      directory,
      localDirectory: undefined,
      register,
      log: logger,
      tracer: noTracer,
      ...(certificate ? { certificate } : {}),
      ...components,
    },
    {
      listen: { host: '127.0.0.1', port: 0 },
      urlPathPrefix: '/k8s-proxy/',
      listenGraceMs: 0,
      shutdownGraceMs: 0,
      product: 'gitlab-kas/v1.2.3/abc',
      externalUrl: 'https://gitlab.example.com',
      ...options,
    },
  )
  return { server, register, log }
}

export interface StartedServer {
  readonly server: KubernetesServer
  readonly port: number
  readonly log: string[]
  /** Returns the value of the first metric with this label value (an outcome or error code); -1: there is none. */
  count(labelValue: string): Promise<number>
}

export async function startServer(...init: Parameters<typeof createKubernetesServer>): Promise<StartedServer> {
  const { server, register, log } = createKubernetesServer(...init)
  await server.start()
  const count = async (labelValue: string) => {
    const line = (await register.metrics()).split('\n').find((one) => one.includes(`="${labelValue}"`))
    return line === undefined ? -1 : Number(line.slice(line.lastIndexOf(' ')))
  }
  return { server, port: (server.address as AddressInfo).port, log, count }
}
