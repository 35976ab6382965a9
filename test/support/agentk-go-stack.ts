import { readFile } from 'node:fs/promises'
import { fromBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { AgentConfigurationSchema } from '../../src/proto/gen/agentcfg_pb.ts'
import { AgentkGo, type AgentkGoEvent } from './agentk-go.ts'
import { ClusterDouble } from './cluster-double.ts'
import { httpsGet } from './https-get.ts'
import type { Identity } from './kubectl-side.ts'
import { Processes } from './processes.ts'
import { Stack } from './stack.ts'
import { agentToken, bearerOf } from './stack-directory.ts'

/** Starts kas as a program, an agent in Go, and an HTTP server in place of its cluster. */
export async function startStackWithAgentkGo(t: Test, scheme: 'grpc' | 'grpcs' | 'ws' | 'wss') {
  const cluster = await ClusterDouble.start(t)
  const stack = await Stack.start(await Processes.start(t), { agentKubeconfig: '', scheme })
  const ca = await readFile(stack.caFile, 'utf8')
  const flags = [`--api-server=${cluster.url}`, `--ca-cert-file=${stack.caFile}`, '--config-backoff=200ms']
  const agent = await AgentkGo.start(t, { kasAddress: stack.agentsUrl, token: agentToken, flags })
  const get = (path: string, identity: Identity = 'agent') =>
    httpsGet(`${stack.kubernetesUrl}${path}`, { ca, token: bearerOf(identity) })
  return { cluster, stack, agent, ca, get }
}

/** Configuration in an event `configuration` of the agent. */
export const configurationOf = ({ bytes }: AgentkGoEvent) =>
  fromBinary(AgentConfigurationSchema, Buffer.from(bytes as string, 'base64'))
