import { once } from 'node:events'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { agentkProgram } from '../../dev/start/local-programs.ts'
import { files } from '../../dev/start/settings.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { AgentkGo } from '../../test/support/agentk-go.ts'
import { FakeAgent } from '../../test/support/fake-agent.ts'
import type { Ground } from './ground.ts'

/** A fresh agent of the ground's cluster. */
export interface FreshAgent {
  stop(): Promise<void>
}

/** Starts our agentk, with home, standby and PINGs. */
export async function startAgentk({ inputs, kubeconfig }: Ground): Promise<FreshAgent> {
  const program = agentkProgram(inputs, { kubeconfig })
  await program.start()
  return { stop: () => program.stop() }
}

/** Starts an agent in Go that behaves as a stock agent does, back-off included. */
export async function startAgentkGo({ inputs, api, agentToken, agentsUrl }: Ground): Promise<FreshAgent> {
  const teardowns: (() => unknown)[] = []
  const ca = join(inputs.folder, files.authority)
  const flags = [`--ca-cert-file=${ca}`, `--api-server=${api.url}`, `--api-ca=${ca}`, `--api-token=${api.token}`]
  await AgentkGo.start(
    { teardown: (handler) => teardowns.push(handler) },
    { kasAddress: agentsUrl, token: agentToken, flags },
  )
  return {
    stop: async () => {
      for (const teardown of teardowns) await teardown()
    },
  }
}

const idleTunnels = 2

/**
 * Idle tunnels of the stock protocol at one replica, and no agent that would reconnect.
 *
 * @param warmUp - makes calls, so that kas has its caches: `calls` of them are answered, with nonsense
 */
export async function startStockTunnels(
  ground: Ground,
  agentsPort: number,
  warmUp: { readonly calls: number; run(): Promise<unknown> },
): Promise<FreshAgent> {
  const socket: TLSSocket = connect({
    port: agentsPort,
    host: '127.0.0.1',
    ca: ground.authority,
    ALPNProtocols: ['h2'],
  })
  await once(socket, 'secureConnect')
  const agent = new FakeAgent(socket, { authorization: [`Bearer ${ground.agentToken}`] })
  for (let i = 0; i < warmUp.calls; i++) void agent.open([kubernetesApiMethod]).serveEcho()
  await ground.holder('stock')
  await warmUp.run()
  for (let i = 0; i < idleTunnels; i++) agent.open([kubernetesApiMethod])
  return { stop: async () => agent.close() }
}
