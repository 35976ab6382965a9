import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'
import type { AgentMethod } from '../../src/kas/agent-method.ts'
import type { AgentsServerOptions } from '../../src/kas/servers/agents/agents-server.ts'
import { CertificateFiles } from '../../src/lib/certificate-files.ts'
import type { KasError } from '../../src/lib/errors.ts'
import { createLogger } from '../../src/lib/log.ts'
import { ConfigurationRequestSchema, ConfigurationResponseSchema } from '../../src/proto/gen/agent_configuration_pb.ts'
import {
  type RegisterRequest,
  RegisterRequestSchema,
  RegisterResponseSchema,
} from '../../src/proto/gen/agent_registrar_pb.ts'
import { readOne } from '../../src/proto/unary.ts'
import { AgentkGo } from './agentk-go.ts'
import { type AgentsDirectory, oneAgent, startAgentsServer } from './agents-server.ts'
import { anyRate } from './method-rate.ts'

export const schemes = ['grpc', 'grpcs', 'ws', 'wss'] as const
export type Scheme = (typeof schemes)[number]

export const configurationCommit = 'a'.repeat(40)
const goodToken = 'good'

/** A directory with one known agent; while `failure` is set, each call throws it. */
export interface SwitchedDirectory extends AgentsDirectory {
  failure: KasError | undefined
}

function switchedDirectory(): SwitchedDirectory {
  const directory = oneAgent()
  return {
    ...directory,
    failure: undefined,
    async agentByToken(token, signal) {
      if (this.failure) throw this.failure
      return directory.agentByToken(token, signal)
    },
  }
}

/** Starts all of 8150 over one scheme, with the smallest set of modules that an agent accepts. */
export async function startAgentsKas(t: Test, scheme: Scheme, options: Partial<AgentsServerOptions> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'agents-kas-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const secure = scheme === 'grpcs' || scheme === 'wss'
  const certificate = secure ? { certificate: await certificates(t, folder) } : {}
  const directory = switchedDirectory()
  const registered: RegisterRequest[] = []
  const {
    server,
    delivered: forward,
    port,
  } = await startAgentsServer(t, {
    components: { directory, methods: methodsOf(registered), ...certificate },
    options: { websocket: scheme === 'ws' || scheme === 'wss', ...options },
  })
  const startAgent = (flags: readonly string[] = [], as: { token?: string; scheme?: Scheme } = {}) => {
    const dialled = as.scheme ?? scheme
    return AgentkGo.start(t, {
      kasAddress: `${dialled}://127.0.0.1:${port}${dialled.startsWith('ws') ? '/-/kubernetes-agent/' : ''}`,
      token: as.token ?? goodToken,
      flags: secure ? [`--ca-cert-file=${join(folder, 'ca.pem')}`, ...flags] : flags,
    })
  }
  return { server, directory, forward, registered, port, startAgent }
}

async function certificates(t: Test, folder: string): Promise<CertificateFiles> {
  const authority = await Authority.create('agents')
  const { certificate, key } = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const paths = { certificateFile: join(folder, 'tls.pem'), keyFile: join(folder, 'tls-key.pem') }
  await writeFile(join(folder, 'ca.pem'), authority.certificate)
  await writeFile(paths.certificateFile, certificate)
  await writeFile(paths.keyFile, key)
  const files = new CertificateFiles({ log: createLogger({ level: 'silent' }) }, paths)
  await files.start()
  t.teardown(() => files.stop())
  return files
}

function methodsOf(registered: RegisterRequest[]): Record<string, AgentMethod> {
  return {
    '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register': {
      type: 'unary',
      patient: false,
      rate: anyRate,
      async serve(call) {
        registered.push(await readOne(RegisterRequestSchema, call.messages))
        await call.send(toBinary(RegisterResponseSchema, create(RegisterResponseSchema)))
      },
    },
    '/gitlab.agent.agent_configuration.rpc.AgentConfiguration/GetConfiguration': {
      type: 'server_stream',
      patient: true,
      rate: anyRate,
      async serve(call) {
        const { id, project } = call.agent
        await readOne(ConfigurationRequestSchema, call.messages)
        const configuration = { agentId: id, projectId: project.id, gitlabExternalUrl: 'http://127.0.0.1' }
        const response = create(ConfigurationResponseSchema, { commitId: configurationCommit, configuration })
        void call.send(toBinary(ConfigurationResponseSchema, response))
        const over = AbortSignal.any([call.retired, call.signal])
        if (!over.aborted) await new Promise((resolve) => over.addEventListener('abort', resolve, { once: true }))
      },
    },
  }
}
